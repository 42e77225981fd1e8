"""Which calls of a graph may become one, and what all ranks know of them.

Who may be in one bucket: calls of one kind, communicator, element type, fusion_id, reduction and root whose `fusion` is
not 0, and of which none, by way of other tasks, is needed for another one. Reductions are sums (and averages, which GE
has not). Nor may another call come to stand behind the bucket by that: the order of calls is the same on all ranks, and
stays so.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import NamedTuple

from ...plan.collectives import COLLECTIVES
from ..buckets import Gradients, TimeOf
from ..costs import nbytes_of
from ..graph import Graph
from ..nodes import Collective, Node
from ..tying import Needs, data_needs, tasks_of
from .agreement import Facts
from .bucket_memory import Draft, blocks_copied, neighbours
from .content import Call, Tasks, is_flat
from .terms import Terms

FUSED = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")
REDUCTIONS = ("sum", "avg")


class Label(NamedTuple):
    """What all members of a bucket have in common; GE: type-group-id-dtype-reduction, with the root before the last."""

    call: str
    communicator: str
    fusion_id: int
    dtype: str
    op: str
    root: int = 0

    @staticmethod
    def of(task: Collective) -> "Label":
        spec = COLLECTIVES[task.call]
        op = task.op if spec.reduces else "NA"
        return Label(task.call, task.communicator, task.fusion_id, task.dtype, op, task.root if spec.rooted else 0)

    def __str__(self) -> str:
        root = [self.root] if COLLECTIVES[self.call].rooted else []
        return "-".join(map(str, (*self[:4], *root, self.op)))


@dataclass(frozen=True)
class Candidates:
    """The calls of a label, in order, and what all ranks know of them.

    places: those of which one lies right behind the other in memory, on all ranks, have successive numbers
    """

    nodes: Sequence[Node]
    gradients: Gradients
    places: Sequence[int]

    def laid_out(self, start: int, last: int) -> list[Node]:
        """The members of a bucket in the order in which they lie in it: the same on all ranks."""
        return [self.nodes[number] for number in sorted(range(start, last + 1), key=self.places.__getitem__)]


def candidates_of(graph: Graph, terms: Terms, is_fused: Callable[[Label], bool]) -> dict[Label, Candidates]:
    """The calls that may be fused, where there are several of a label. is_fused: whether a label is of interest.

    ValueError (EI0003): ranks have marked a call differently.
    """
    found: dict[Label, list[Node]] = {}
    for name, calls in sorted(Tasks(graph).calls().items()):
        facts = terms.agree(name, _marks(calls))
        _check_marks(graph, name, calls, facts)
        for call in calls:
            if f"{call.number} may" in facts and is_fused(label := Label.of(call.task)):
                found.setdefault(label, []).append(call.node)
    several = {label: nodes for label, nodes in found.items() if len(nodes) > 1}
    return _with_facts(graph, several, terms) if several else {}


def _marks(calls: Sequence[Call]) -> Facts:
    """How each call is marked, and whether it may be in a bucket at all."""
    facts = {f"{call.number} of {_mark(call)}": 1.0 for call in calls} | {str(call.number): 1.0 for call in calls}
    return facts | {f"{call.number} may": 1.0 for call in calls if _may_be_fused(call)}


def _mark(call: Call) -> tuple[int, int]:
    return call.task.fusion, call.task.fusion_id


def _may_be_fused(call: Call) -> bool:
    task = call.task
    if task.call not in FUSED or task.fusion == 0 or task.split is not None:
        return False
    used = [task.x] if task.call == "reduce" and not call.node.writes else [task.x, task.out]
    return is_flat(*used) and (task.op in REDUCTIONS or not COLLECTIVES[task.call].reduces)


def _check_marks(graph: Graph, name: str, calls: Sequence[Call], facts: Facts) -> None:
    """A call that has other marks elsewhere would go to other buckets there. ValueError, on all ranks."""
    for call in calls:
        mark = _mark(call)
        if str(call.number) in facts and f"{call.number} of {mark}" not in facts:
            has = f"fusion {mark[0]}, fusion_id {mark[1]} on rank {graph.groups[name].rank}, and others elsewhere"
            raise ValueError(f"EI0003: call {call.number} of {name!r} has {has}; expected the same: {call.node}")


def _with_facts(graph: Graph, found: Mapping[Label, Sequence[Node]], terms: Terms) -> dict[Label, Candidates]:
    """What this rank knows of the candidates, agreed over the ranks of their communicators."""
    draft, needs = Draft.of(graph), data_needs(tasks_of(graph))
    behind = {label: neighbours(draft, nodes) for label, nodes in found.items()}
    told: dict[str, Facts] = {}
    for label, nodes in found.items():
        ready, first = _ready(graph, nodes, needs, terms), _first(draft.tasks, nodes, needs)
        facts = told.setdefault(label.communicator, {})
        for number in range(len(nodes)):
            facts |= {f"{label} {number} ready": ready[number], f"{label} {number} first": first[number]}
        facts |= {f"{label} {number} then {other}": 1.0 for number, other in behind[label].items()}
    agreed = {name: terms.agree(name, told[name]) for name in sorted(told)}
    return {
        label: _agreed(graph, label, nodes, behind[label], agreed[label.communicator], terms)
        for label, nodes in found.items()
    }


def _agreed(
    graph: Graph, label: Label, nodes: Sequence[Node], behind: Mapping[int, int], facts: Facts, terms: Terms
) -> Candidates:
    """Candidates by the facts of all ranks. A rank that has fewer is in error, which the check of all graphs finds."""
    nodes = [node for number, node in enumerate(nodes) if f"{label} {number} ready" in facts]
    numbers = range(len(nodes))
    ready, first = ([facts[f"{label} {number} {word}"] for number in numbers] for word in ("ready", "first"))
    nbytes = [nbytes_of(node) for node in nodes]
    behind = {number: other for number, other in behind.items() if f"{label} {number} then {other}" in facts}
    places = _places(len(nodes), behind)
    time_of = _time_of(graph, label, nbytes, places, terms)
    return Candidates(nodes, Gradients(nbytes, ready, [int(number) for number in first], time_of), places)


def _time_of(graph: Graph, label: Label, nbytes: Sequence[int], places: Sequence[int], terms: Terms) -> TimeOf:
    """What the call of a bucket takes, with its copies."""
    bytes_before, group = [0, *accumulate(nbytes)], graph.groups[label.communicator]

    @cache  # the same buckets are weighed at several speeds
    def time_of(start: int, last: int) -> float:
        total, lie = bytes_before[last + 1] - bytes_before[start], places[start : last + 1]
        alone_us = terms.costs.call(label.call, total, group, label.root).alone_us
        if start == last:
            return alone_us
        copied = blocks_copied(label.call, group.size, max(lie) - min(lie) == last - start)
        tasks = len(copied) * (last - start + 1)
        return alone_us + terms.costs.copied_us(sum(copied) * total) + tasks * terms.costs.task_us

    return time_of


def _places(count: int, behind: Mapping[int, int]) -> list[int]:
    """By number, a place of its own: the places of those that lie one behind another are successive, no others are."""
    places: dict[int, int] = {}
    free, followers = 0, set(behind.values())
    for number in sorted(range(count), key=lambda number: (number in followers, number)):
        at: int | None = number
        while at is not None and at not in places:
            places[at] = free
            free, at = free + 1, behind.get(at)
        free += 1
    return [places[number] for number in range(count)]


def _ready(graph: Graph, nodes: Sequence[Node], needs: Needs, terms: Terms) -> list[float]:
    """When each may begin if everything that it needs, and the ones before it, is done as soon as it can
    be, and nothing else."""
    by_id = graph.by_id
    done: set[int] = set()
    clock, ready = 0.0, []
    for node in nodes:
        waiting = [id for id in needs[node.id] if id not in done]
        while waiting:
            id = waiting.pop()
            if id not in done:
                done.add(id)
                clock += terms.costs.of(by_id[id], graph.groups).alone_us
                waiting.extend(needs[id] - done)
        ready.append(clock)
    return ready


def _first(tasks: Sequence[Node], nodes: Sequence[Node], needs: Needs) -> list[int]:
    """Of each candidate, the lowest number with which it may share a bucket.

    What comes behind a member and before the last one moves behind the bucket; that must not be a call.
    """
    place = {node.id: number for number, node in enumerate(tasks)}
    limits = [_first_call_behind(tasks[place[node.id] :], needs) for node in nodes]
    first: list[int] = []
    lowest = 0
    for number, node in enumerate(nodes):
        while any(limit is not None and place[limit] <= place[node.id] for limit in limits[lowest:number]):
            lowest += 1
        first.append(lowest)
    return first


def _first_call_behind(tasks: Sequence[Node], needs: Needs) -> int | None:
    """The first of the tasks that is a call and needs the first of them; its id."""
    behind = {tasks[0].id}
    for node in tasks[1:]:
        if not needs[node.id].isdisjoint(behind):
            if node.communicator is not None:
                return node.id
            behind.add(node.id)
    return None
