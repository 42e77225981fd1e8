"""One call in the place of several: the tasks that change.

Members that lie side by side, in whatever order, are one array already. Buffers that the graph is still to place are
made one buffer, so that they will. Anything else is packed: copied to a scratch buffer of the graph's, and from there
to where the results belong. The call is of as many elements as its members together, whatever the memory of a rank is
like; which of them is first, second... in it has to be the same on all ranks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..nodes import Group, Node, View
from ..tying import call_order, data_needs, in_order
from .bucket_memory import Draft, Packing, are_side_by_side, call_of, joined, packed


def fuse(draft: Draft, members: Sequence[Node], group: Group) -> tuple[Draft, int]:
    """The draft with one call in the place of several, which lie in it in this order, and the bytes that are copied."""
    members = draft.as_they_are(members)
    is_side_by_side = are_side_by_side(draft, members)
    if is_side_by_side:
        draft, members = joined(draft, members)
    packing = packed(draft, members, group, only_split=is_side_by_side)
    return _replaced(draft, members, _call(draft, members, packing.views), packing), packing.nbytes


def _replaced(draft: Draft, members: Sequence[Node], call: Node, packing: Packing) -> Draft:
    """With the call in the place of the last member, and its copies around it."""
    before, behind = packing.before, packing.behind
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
    return Draft(in_order(tasks, needs, places), packing.buffers, draft.next_id + len(added), draft.placed)


def _mapped(needed: "set[int] | tuple[int, ...]", of_member: Mapping[int, set[int]]) -> set[int]:
    return set[int]().union(*(of_member.get(id, {id}) for id in needed))


def _call(draft: Draft, members: Sequence[Node], views: Mapping[str, View]) -> Node:
    """The call of all members, queued where the last one was. views: of sides that do not begin where the first one's
    does."""
    ids = {member.id for member in members}
    last = [node for node in draft.tasks if node.id in ids][-1]
    first, count = call_of(members[0]), sum(call_of(member).count for member in members)
    x, out = (
        views.get(side) or (given and replace(given, shape=(count,)))
        for side, given in (("x", first.x), ("out", first.out))
    )
    task = replace(call_of(last), count=count, x=x, out=out, fusion=0, fusion_id=-1)
    after = tuple(sorted({id for member in members for id in member.after}))
    reads = (x.span,) if x is not None and last.reads else ()
    writes = (out.span,) if out is not None and last.writes else ()
    return Node(draft.next_id, f"{task.call} of {len(members)}", last.stream, task, reads, writes, after, last.line)
