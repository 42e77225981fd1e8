"""One all-reduce in the place of several: the memory of a bucket, and the tasks that change.

Members that lie side by side, in whatever order, are one array already. Buffers that the graph is still to place are
made one buffer, so that they will. Anything else is packed: copied to a scratch buffer of the graph's, reduced there,
and copied to where the results belong. The call is of as many elements as its members together, whatever the memory of
a rank is like; which of them is first, second... in it has to be the same on all ranks.
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


def neighbours(draft: Draft, members: Sequence[Node]) -> dict[int, int]:
    """By number of an all-reduce, the number of the one whose memory lies right behind, or will: of several that use
    the same memory one after another the nearest. Those that can be laid anywhere lie in the order of their numbers."""
    found: dict[int, int] = {}
    by_start: dict[Span, list[int]] = {}
    for number, node in enumerate(members):
        for span in _spans(node):
            by_start.setdefault(span._replace(nbytes=0), []).append(number)
    for number, node in enumerate(members):
        ends = [Span(span.buffer, span.stop, 0) for span in _spans(node)]
        near = {other for end in ends for other in by_start.get(end, ())} | {number + 1} - {len(members)}
        behind = [other for other in near - {number} if are_side_by_side(draft, [node, members[other]])]
        if behind:
            found[number] = min(behind, key=lambda other: (abs(other - number), other))
    return found


def _spans(member: Node) -> list[Span]:
    return [view.span for view in (_collective(member).x, _collective(member).out) if view is not None]


def are_side_by_side(draft: Draft, members: Sequence[Node]) -> bool:
    """Whether a bucket of these all-reduces, which lie in it in this order, needs no copies."""
    sides = [[_collective(member).x for member in members], [_collective(member).out for member in members]]
    return _same_form(members) and all(_can_be_one(draft, views) for views in sides)


def fuse(draft: Draft, members: Sequence[Node]) -> tuple[Draft, bool]:
    """The draft with one call in the place of several, which lie in it in this order, and whether it packs them."""
    members = _as_they_are(draft, members)
    if not are_side_by_side(draft, members):
        return _replaced(draft, members, *_packed(draft, members)), True
    for side in ("x", "out"):
        draft = _joined(draft, members, side)
        members = _as_they_are(draft, members)
    first = _collective(members[0])
    assert first.x is not None and first.out is not None
    call = _call(draft, members, first.x, first.out)
    return _replaced(draft, members, [], call, [], draft.buffers), False


def _as_they_are(draft: Draft, members: Sequence[Node]) -> list[Node]:
    """Nodes by id: other buckets have moved the memory of some."""
    by_id = {node.id: node for node in draft.tasks}
    return [by_id[member.id] for member in members]


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
    last = max(places[member.id] for member in members)
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
    views: list[View] = [getattr(member.task, side) for member in members]
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
    return to, _call(draft, members, view, view), back, buffers


def _copy(id: int, name: str, member: Node, to: Span, source: Span) -> Node:
    return Node(id, name, member.stream, Copy(to, source, to.nbytes), (source,), (to,), (), member.line)


def _call(draft: Draft, members: Sequence[Node], x: View, out: View) -> Node:
    """The all-reduce of all members, queued where the last one was; x and out are where the first one lies."""
    ids = {member.id for member in members}
    last = [node for node in draft.tasks if node.id in ids][-1]
    count = sum(_collective(member).count for member in members)
    x, out = (replace(view, shape=(count,)) for view in (x, out))
    task = replace(_collective(last), count=count, x=x, out=out, fusion=0, fusion_id=-1)
    after = tuple(sorted({id for member in members for id in member.after}))
    name = f"all_reduce of {len(members)}"
    return Node(draft.next_id, name, last.stream, task, (x.span,), (out.span,), after, last.line)


def _collective(node: Node) -> Collective:
    assert isinstance(node.task, Collective)
    return node.task
