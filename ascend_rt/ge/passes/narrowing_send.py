"""A cast to a smaller type goes before the message whose content it is the only reader of: the sender casts, to a
buffer of the graph's own, and half of the bytes or less are sent. The bits are the same.

Both sides change, so both have to say that they can; others know nothing of the message.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from ...hccl.types import NUMBER_OF_DTYPE, NUMBER_OF_ML_DTYPE
from ..graph import Graph
from ..nodes import Group, Message, Node, Transfer, View
from ..placement import dtype_named
from .agreement import Facts
from .casts import Cast, cast_before, only_cast, scratch
from .content import Tasks, flat, is_flat
from .rewriting import rewritten
from .terms import Terms

DTYPES = (*(dtype.name for dtype in NUMBER_OF_DTYPE), *NUMBER_OF_ML_DTYPE)


class Side(NamedTuple):
    """What a rank has of a message."""

    place: int
    """of the transfer, among the tasks"""
    node: Node
    item: int
    """of the transfer's messages"""
    message: Message
    name: str
    """the same on both sides"""


def narrow_messages(graph: Graph, terms: Terms) -> Graph:
    """Move narrowing casts to the senders of messages."""
    tasks = Tasks(graph)
    casts: dict[Side, Cast] = {}
    narrow: dict[Side, str] = {}
    for (name, *pair), sides in sorted(_by_pair(tasks, graph).items()):
        (peer,) = {*pair} - {_job_rank(graph.groups[name])}
        casts |= {side: cast for side in sides if (cast := _cast_behind(tasks, side)) is not None}
        own: Facts = {f"{side.name} to {dtype}": 1.0 for side in sides for dtype in _possible(side, casts.get(side))}
        facts = terms.agree(name, own, peer)
        for side in sides:
            found = (dtype for dtype in _possible(side, casts.get(side)) if f"{side.name} to {dtype}" in facts)
            if (dtype := next(found, None)) is not None:
                narrow[side] = dtype
    return _narrowed(graph, terms, narrow, casts)


# ---- who ----


def _by_pair(tasks: Tasks, graph: Graph) -> dict[tuple[str, int, int], list[Side]]:
    """The messages with other ranks, by communicator and both ranks of the job: sorted by that, all ranks agree pair by
    pair, and none waits for another in a circle."""
    found: dict[tuple[str, int, int], list[Side]] = {}
    for place, node in enumerate(tasks.listed):
        if not isinstance(node.task, Transfer):
            continue
        group = graph.groups[node.task.communicator]
        for item, message in enumerate(node.task.messages):
            if message.peer != group.rank:
                low, high = sorted((_job_rank(group), group.world_ranks[message.peer]))
                sides = found.setdefault((group.name, low, high), [])
                sides.append(Side(place, node, item, message, _name(group, message, sides)))
    return found


def _name(group: Group, message: Message, earlier: list[Side]) -> str:
    ends = (message.peer, group.rank) if message.receives else (group.rank, message.peer)
    number = sum(side.message.receives == message.receives for side in earlier)
    return f"message {number} from {ends[0]} to {ends[1]}, {message.view.count} x {message.view.dtype}"


def _job_rank(group: Group) -> int:
    return group.world_ranks[group.rank]


def _possible(side: Side, cast: Cast | None) -> Iterator[str]:
    """The types to which this rank could cast a message before it is sent."""
    view = side.message.view
    if side.message.receives:
        yield from () if cast is None else (cast.out.dtype,)
    elif is_flat(view):
        yield from (dtype for dtype in DTYPES if dtype_named(dtype).itemsize < view.itemsize)


def _cast_behind(tasks: Tasks, side: Side) -> Cast | None:
    """The cast of what is received, if that is all that happens to it and its memory is free from there on."""
    view = side.message.view
    return only_cast(tasks, side.place, view) if side.message.receives and view.count and is_flat(view) else None


# ---- how ----


def _narrowed(graph: Graph, terms: Terms, narrow: dict[Side, str], casts: dict[Side, Cast]) -> Graph:
    instead: dict[int, list[Node]] = {}
    buffers, next_id = dict(graph.buffers), graph.next_id
    for side, dtype in narrow.items():
        *before, node = instead.get(side.node.id, [side.node])
        if side.message.receives:
            instead[casts[side].node.id] = []
            view = flat(casts[side].out)
        else:
            view = scratch(buffers, side.message.view, dtype)
            cast = Node(next_id, "copyto", node.stream, node.task, line=node.line)
            before.append(cast_before(node, cast, view, side.message.view))
            next_id += 1
        instead[side.node.id] = [*before, _with(node, side.item, view)]
    did = f"narrowing_cast_send: {len(narrow)} messages are cast by their senders"
    return rewritten(graph, instead, terms, did, buffers)


def _with(node: Node, item: int, view: View) -> Node:
    """The transfer with another array in one of its messages."""
    assert isinstance(node.task, Transfer)
    messages = list(node.task.messages)
    messages[item] = messages[item]._replace(view=view)
    spans = [
        tuple(message.view.span for message in messages if message.receives == way and message.view.count)
        for way in (False, True)
    ]
    return replace(node, task=replace(node.task, messages=tuple(messages)), reads=spans[0], writes=spans[1])
