"""Where the arrays of a bucket lie: side by side already, in one buffer that is still to be placed, or in scratch.

A side of a call is its x or its out. It is flat if it is one block, such as both of an all-reduce. Of flat sides the
bucket has those of its members one behind another. Of a side with a block for each rank it has not: there the blocks
of all members for a rank lie together. So that side of an all-gather or a reduce-scatter is always packed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from ...plan.collectives import COLLECTIVES, Blocks
from ..graph import Graph
from ..nodes import Buffer, Collective, Copy, Group, Node, Role, Span, View
from ..tying import tasks_of
from .moving import Place, moved
from .rewriting import unused_name

SIDES = ("x", "out")


class Draft(NamedTuple):
    """A graph that a pass is changing: tasks without events, buffers, the first free id, buffers that have memory."""

    tasks: list[Node]
    buffers: dict[str, Buffer]
    next_id: int
    placed: frozenset[str]

    @staticmethod
    def of(graph: Graph) -> "Draft":
        return Draft(tasks_of(graph), graph.buffers, graph.next_id, frozenset(graph.memory))

    def can_move(self, view: View) -> bool:
        """Whether the view is all of a buffer that is still to be placed."""
        buffer = self.buffers[view.buffer]
        is_own = buffer.role is Role.INTERMEDIATE and buffer.on_device
        return is_own and buffer.name not in self.placed and view.start == 0 and view.span.nbytes == buffer.nbytes

    def as_they_are(self, members: Sequence[Node]) -> list[Node]:
        """Nodes by id: other buckets have moved the memory of some."""
        by_id = {node.id: node for node in self.tasks}
        return [by_id[member.id] for member in members]


@dataclass(frozen=True)
class Packing:
    """Copies of each member to scratch and from it, where the bucket lies there, and the buffers with the scratch."""

    before: Sequence[Node]
    behind: Sequence[Node]
    views: dict[str, View]
    """by side"""
    buffers: dict[str, Buffer]

    @property
    def nbytes(self) -> int:
        """What is copied."""
        tasks = [node.task for node in (*self.before, *self.behind)]
        return sum(task.nbytes * task.rows for task in tasks if isinstance(task, Copy))


def neighbours(draft: Draft, members: Sequence[Node]) -> dict[int, int]:
    """By number of a call, the number of the one whose flat sides lie right behind its, or will: of several that use
    the same memory one after another the nearest. Those that can be laid anywhere lie in the order of their numbers."""
    found: dict[int, int] = {}
    by_start: dict[Span, list[int]] = {}
    for number, node in enumerate(members):
        for span in _flat_spans(node):
            by_start.setdefault(span._replace(nbytes=0), []).append(number)
    for number, node in enumerate(members):
        ends = [Span(span.buffer, span.stop, 0) for span in _flat_spans(node)]
        near = {other for end in ends for other in by_start.get(end, ())} | {number + 1} - {len(members)}
        behind = [other for other in near - {number} if are_side_by_side(draft, [node, members[other]])]
        if behind:
            found[number] = min(behind, key=lambda other: (abs(other - number), other))
    return found


def are_side_by_side(draft: Draft, members: Sequence[Node]) -> bool:
    """Whether the flat sides of a bucket of these calls, which lie in it in this order, need no copies."""
    sides = [[_view(member, side) for member in members] for side in _flat_sides(call_of(members[0]).call)]
    in_place = {call_of(member).x == call_of(member).out for member in members}
    return len(in_place) == 1 and all(_can_be_one(draft, views) for views in sides)


def blocks_copied(call: str, size: int, is_side_by_side: bool) -> list[int]:
    """Of each side that is packed, its blocks, on the rank that has most to copy."""
    sides = SIDES[1:] if call == "broadcast" else SIDES  # of which the root copies the one, others the other
    packed = [_blocks(call, side) for side in sides if not is_side_by_side or side not in _flat_sides(call)]
    return [blocks.number(size) for blocks in packed]


def joined(draft: Draft, members: Sequence[Node]) -> tuple[Draft, list[Node]]:
    """With one buffer in the place of those of each flat side, if they are several; and the members there."""
    for side in _flat_sides(call_of(members[0]).call):
        draft = _joined(draft, members, side)
        members = draft.as_they_are(members)
    return draft, list(members)


def packed(draft: Draft, members: Sequence[Node], group: Group, *, only_split: bool) -> Packing:
    """Scratch for the sides with a block for each rank, or for all sides. A side of one block beside one of all ranks'
    blocks is this rank's block of it."""
    call = call_of(members[0]).call
    sides = [side for side in SIDES if _view(members[0], side) is not None]
    sides = [side for side in sides if not only_split or side not in _flat_sides(call)]
    blocks = {side: _blocks(call, side).number(group.size) for side in sides}
    total, most = sum(map(_nbytes, members)), max(blocks.values(), default=0)
    if not sides:
        return Packing((), (), {}, draft.buffers)
    name, copies, views = unused_name(draft.buffers, "packed"), dict[str, list[Node]](), {}
    for side in sides:
        first = 0 if blocks[side] == most else group.rank * total
        views[side] = _scratch_view(name, members[0], first, blocks[side] * total)
        id = draft.next_id + 1 + sum(map(len, copies.values()))
        copies[side] = _copies(id, members, side, Span(name, first, blocks[side] * total), blocks[side])
    view = _scratch_view(name, members[0], 0, most * total)
    buffers = draft.buffers | {name: Buffer(name, most * total, view.dtype, view.shape)}
    return Packing(copies.get("x", []), copies.get("out", []), views, buffers)


def call_of(node: Node) -> Collective:
    """The task of a node that is a call."""
    assert isinstance(node.task, Collective)
    return node.task


def _blocks(call: str, side: str) -> Blocks:
    spec = COLLECTIVES[call]
    return spec.blocks_in if side == "x" else spec.blocks_out


def _flat_sides(call: str) -> list[str]:
    return [side for side in SIDES if not _blocks(call, side).per_rank]


def _view(member: Node, side: str) -> View | None:
    task = call_of(member)
    return task.x if side == "x" else task.out


def _flat_spans(member: Node) -> list[Span]:
    views = [_view(member, side) for side in _flat_sides(call_of(member).call)]
    return [view.span for view in views if view is not None]


def _nbytes(member: Node) -> int:
    """Of one block."""
    task = call_of(member)
    view = task.x or task.out
    return task.count * view.itemsize if view is not None else 0


def _can_be_one(draft: Draft, views: Sequence[View | None]) -> bool:
    """Whether these views are one array, or will be once their buffers are joined, or are none on this rank."""
    given = [view for view in views if view is not None]
    if len(given) < len(views):
        return not given
    if all(a.buffer == b.buffer and a.span.stop == b.start for a, b in pairwise(given)):
        return True
    return all(map(draft.can_move, given)) and len({view.buffer for view in given}) == len(given)


def _joined(draft: Draft, members: Sequence[Node], side: str) -> Draft:
    """With one buffer in the place of those of x, or of out, if they are several. No gaps: the call would reduce them,
    and other ranks, whose memory is side by side already, have none."""
    views = [view for member in members if (view := _view(member, side)) is not None]
    if len({view.buffer for view in views}) <= 1:
        return draft
    places, start = {}, 0
    name = unused_name(draft.buffers, "bucket")
    for view in views:
        places[view.buffer] = Place(name, start)
        start += view.span.nbytes
    whole = Buffer(name, start, views[0].dtype, (start // views[0].itemsize,))
    buffers = {key: buffer for key, buffer in draft.buffers.items() if key not in places} | {name: whole}
    return draft._replace(tasks=[moved(node, places) for node in draft.tasks], buffers=buffers)


def _scratch_view(name: str, like: Node, start: int, nbytes: int) -> View:
    view = call_of(like).x or call_of(like).out
    assert view is not None
    return replace(view, buffer=name, start=start, shape=(nbytes // view.itemsize,))


def _copies(id: int, members: Sequence[Node], side: str, scratch: Span, rows: int) -> list[Node]:
    """Of the members of which this rank uses the side: from x to scratch, or from scratch to out, row by row."""
    copies: list[Node] = []
    start, pitch = scratch.start, scratch.nbytes // rows
    for member in members:
        view, nbytes = _view(member, side), _nbytes(member)
        assert view is not None
        row = Span(scratch.buffer, start, (rows - 1) * pitch + nbytes)
        if side == "x" and member.reads:
            copies.append(_copy(id + len(copies), "pack", member, _rows(row, view.span, nbytes, rows, pitch, nbytes)))
        if side == "out" and member.writes:
            copies.append(_copy(id + len(copies), "unpack", member, _rows(view.span, row, nbytes, rows, nbytes, pitch)))
        start += nbytes
    return copies


def _rows(to: Span, source: Span, nbytes: int, rows: int, to_pitch: int, source_pitch: int) -> Copy:
    return Copy(to, source, nbytes, rows, to_pitch, source_pitch) if rows > 1 else Copy(to, source, nbytes)


def _copy(id: int, name: str, member: Node, task: Copy) -> Node:
    return Node(id, name, member.stream, task, (task.source,), (task.to,), (), member.line)
