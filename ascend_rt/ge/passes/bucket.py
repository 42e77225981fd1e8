"""One all-reduce in the place of several: the memory of a bucket, and the tasks that change.

Members that lie side by side are one array already. Buffers that the graph is still to place are made one buffer, so
that they will. Anything else is packed: copied to a scratch buffer of the graph's, reduced there, and copied to where
the results belong. The call is of as many elements as its members together, whatever the memory of a rank is like.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from ..graph import Graph
from ..nodes import Buffer, Collective, Copy, Node, Role, Span, View
from ..tying import call_order, data_needs, in_order, tasks_of
from .moving import Place, moved
from .rewriting import unused_name


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


def are_side_by_side(draft: Draft, members: Sequence[Node]) -> bool:
    """Whether a bucket of these all-reduces needs no copies."""
    sides = [[_collective(member).x for member in members], [_collective(member).out for member in members]]
    return _same_form(members) and all(_can_be_one(draft, views) for views in sides)


def fuse(draft: Draft, members: Sequence[Node]) -> tuple[Draft, bool]:
    """The draft with one call in the place of several, and whether it packs them."""
    members = [node for node in draft.tasks if node.id in {member.id for member in members}]
    if not are_side_by_side(draft, members):
        return _replaced(draft, members, *_packed(draft, members)), True
    for side in ("x", "out"):
        draft = _joined(draft, members, side)
    by_id = {node.id: node for node in draft.tasks}
    members = [by_id[member.id] for member in members]
    first = _collective(members[0])
    assert first.x is not None and first.out is not None
    call = _call(members, draft.next_id, first.x, first.out)
    return _replaced(draft, members, [], call, [], draft.buffers), False


def _replaced(
    draft: Draft,
    members: Sequence[Node],
    before: Sequence[Node],
    call: Node,
    behind: Sequence[Node],
    buffers: dict[str, Buffer],
) -> Draft:
    """With the call in the place of the last member. `before` and `behind`: copies of each member, or none."""
    needs = data_needs(draft.tasks)
    of_member = {member.id: {call.id, *(copy.id for copy in behind)} for member in members}
    own = {member.id: needs.pop(member.id) for member in members}
    needs = {id: _mapped(needed, of_member) for id, needed in needs.items()}
    needs[call.id] = set[int]().union(*own.values(), [copy.id for copy in before])
    for member, copy in zip(members, before, strict=False):
        needs[copy.id] = own[member.id]
    for member, copy in zip(members, behind, strict=False):
        needs[copy.id] = own[member.id] | {call.id}
    places: dict[int, float] = {node.id: place for place, node in enumerate(draft.tasks)}
    last = places[members[-1].id]
    added = [*before, call, *behind]
    places |= {node.id: last + number / (len(added) + 1) for number, node in enumerate(added)}
    tasks = [node for node in draft.tasks if node.id not in of_member] + added
    tasks.sort(key=lambda node: places[node.id])
    tasks = [replace(node, after=tuple(sorted(_mapped(node.after, of_member)))) for node in tasks]
    for earlier, later in call_order(tasks):
        needs[later].add(earlier)
    return Draft(in_order(tasks, needs, places), buffers, draft.next_id + len(added), draft.placed)


def _mapped(needed: "set[int] | tuple[int, ...]", of_member: Mapping[int, set[int]]) -> set[int]:
    return set[int]().union(*(of_member.get(id, {id}) for id in needed))


# ---- memory ----


def _same_form(members: Sequence[Node]) -> bool:
    """Whether all are in place, or none is."""
    return len({_collective(member).x == _collective(member).out for member in members}) == 1


def _can_be_one(draft: Draft, views: Sequence[View | None]) -> bool:
    """Whether these views are one array, or will be once their buffers are joined."""
    given = [view for view in views if view is not None and view.strides is None]
    if len(given) < len(views):
        return False
    if all(a.buffer == b.buffer and a.span.stop == b.start for a, b in pairwise(given)):
        return True
    return all(map(draft.can_move, given)) and len({view.buffer for view in given}) == len(given)


def _joined(draft: Draft, members: Sequence[Node], side: str) -> Draft:
    """With one buffer in the place of those of x, or of out, if they are several. No gaps: the call would reduce them,
    and other ranks, whose memory is side by side already, have none."""
    ids = {member.id for member in members}
    views: list[View] = [getattr(node.task, side) for node in draft.tasks if node.id in ids]
    if len({view.buffer for view in views}) == 1:
        return draft
    places, start = {}, 0
    name = unused_name(draft.buffers, "bucket")
    for view in views:
        places[view.buffer] = Place(name, start)
        start += view.span.nbytes
    whole = Buffer(name, start, views[0].dtype, (start // views[0].itemsize,))
    buffers = {key: buffer for key, buffer in draft.buffers.items() if key not in places} | {name: whole}
    return draft._replace(tasks=[moved(node, places) for node in draft.tasks], buffers=buffers)


def _packed(draft: Draft, members: Sequence[Node]) -> tuple[list[Node], Node, list[Node], dict[str, Buffer]]:
    """Copies to scratch, the call there, copies to where the results belong, and the buffers with the scratch."""
    name, start, id = unused_name(draft.buffers, "packed"), 0, draft.next_id + 1
    to, back = [], []
    for member in members:
        x, out = _collective(member).x, _collective(member).out
        assert x is not None and out is not None
        scratch = Span(name, start, x.span.nbytes)
        to.append(_copy(id, "pack", member, scratch, x.span))
        back.append(_copy(id + 1, "unpack", member, out.span, scratch))
        start, id = scratch.stop, id + 2
    assert x is not None
    view = View(name, 0, x.dtype, (start // x.itemsize,), None, x.itemsize)
    buffers = draft.buffers | {name: Buffer(name, start, x.dtype, view.shape)}
    return to, _call(members, draft.next_id, view, view), back, buffers


def _copy(id: int, name: str, member: Node, to: Span, source: Span) -> Node:
    return Node(id, name, member.stream, Copy(to, source, to.nbytes), (source,), (to,), (), member.line)


def _call(members: Sequence[Node], id: int, x: View, out: View) -> Node:
    """The all-reduce of all members, of which x and out are where the first lies."""
    last = members[-1]
    count = sum(_collective(member).count for member in members)
    x, out = (replace(view, shape=(count,)) for view in (x, out))
    task = replace(_collective(last), count=count, x=x, out=out, fusion=0, fusion_id=-1)
    after = tuple(sorted({id for member in members for id in member.after}))
    name = f"all_reduce of {len(members)}"
    return Node(id, name, last.stream, task, (x.span,), (out.span,), after, last.line)


def _collective(node: Node) -> Collective:
    assert isinstance(node.task, Collective)
    return node.task
