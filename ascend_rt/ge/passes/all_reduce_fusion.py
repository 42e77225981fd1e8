"""All-reduces of several gradients become one, by GE's rules or where that is fastest.

Who may be in one bucket: sums (and averages, which GE has not) of one communicator, element type and fusion_id whose
`fusion` is not 0, and of which none, by way of other tasks, is needed for another one. Nor may another call come to
stand behind the bucket by that: the order of calls is the same on all ranks, and stays so.

Which are: those of fusion 2 and of one fusion_id are one bucket. Those of fusion 1 go by the strategy that was set for
their communicator by hccl.split.api; else by comm_fusion or ascend_rt.fusion of the options: "rules" are GE's 96.54 %
and 3.46 % of the bytes; "auto" are the buckets with which communication ends earliest, or all in one, or none, by the
predicted step.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from ..buckets import Fastest, Gradients, Indices, Strategy, allowed, runs
from ..graph import Graph
from ..nodes import Node
from ..timeline import simulate
from ..tying import Needs, data_needs, tasks_of, tied
from .agreement import Facts
from .bucket import Draft, fuse, neighbours
from .content import Call, Tasks
from .overlap import overlap
from .terms import Terms

REDUCTIONS = ("sum", "avg")
ONE = Indices(())
Buckets = Mapping["Label", Sequence[int]]
"""The last gradient of each bucket"""


class Label(NamedTuple):
    """What all members of a bucket have in common; GE: type-group-id-dtype-reduction."""

    call: str
    communicator: str
    fusion_id: int
    dtype: str
    op: str

    def __str__(self) -> str:
        return "-".join(map(str, self))


@dataclass(frozen=True)
class Candidates:
    """The all-reduces of a label, in order, and what all ranks know of them.

    places: those of which one lies right behind the other in memory, on all ranks, have successive numbers
    """

    nodes: Sequence[Node]
    gradients: Gradients
    places: Sequence[int]

    def laid_out(self, start: int, last: int) -> list[Node]:
        """The members of a bucket in the order in which they lie in it: the same on all ranks."""
        return [self.nodes[number] for number in sorted(range(start, last + 1), key=self.places.__getitem__)]


class Copied(NamedTuple):
    """Buckets, those of them that are packed, and the bytes of all and of these."""

    buckets: int = 0
    packed: int = 0
    nbytes: int = 0
    packed_nbytes: int = 0

    def plus(self, nbytes: int, packs: bool) -> "Copied":
        """With one more bucket."""
        return Copied(self.buckets + 1, self.packed + packs, self.nbytes + nbytes, self.packed_nbytes + packs * nbytes)

    def __str__(self) -> str:
        copies = f"{2 * self.packed_nbytes} bytes are copied, {2 * (self.nbytes - self.packed_nbytes)} need not be"
        return f"{self.packed} of {self.buckets} buckets are packed: {copies}"


def fuse_all_reduces(graph: Graph, terms: Terms) -> Graph:
    """Fuse the all-reduces of a graph. ValueError (EI0003): ranks have marked a call differently."""
    found = {label: nodes for label, nodes in _by_label(graph, terms).items() if len(nodes) > 1}
    if not found:
        return graph
    candidates = _with_facts(graph, found, terms)
    buckets: Buckets = {label: _cut(label, candidates[label], terms) for label in found}
    if _is_auto(terms):
        buckets = _fastest_step(graph, candidates, buckets, terms)
    return _apply(graph, candidates, buckets, terms)


# ---- who ----


def _by_label(graph: Graph, terms: Terms) -> dict[Label, list[Node]]:
    found: dict[Label, list[Node]] = {}
    for name, calls in sorted(Tasks(graph).calls().items()):
        marks = {call.number: (call.task.fusion, call.task.fusion_id) for call in calls}
        _check_marks(graph, name, calls, terms.agree(name, _marked(marks)))
        for call in calls:
            task = call.task
            is_whole = task.x is not None and task.out is not None
            if task.call == "all_reduce" and is_whole and task.fusion and task.op in REDUCTIONS:
                label = Label(task.call, name, task.fusion_id, task.dtype, task.op)
                found.setdefault(label, []).append(call.node)
    return found


def _marked(marks: Mapping[int, tuple[int, int]]) -> Facts:
    facts = {f"{number} of {mark}": 1.0 for number, mark in marks.items()}
    return facts | {str(number): 1.0 for number in marks}


def _check_marks(graph: Graph, name: str, calls: Sequence[Call], facts: Facts) -> None:
    """A call that has other marks elsewhere would go to other buckets there. ValueError, on all ranks."""
    for call in calls:
        mark = call.task.fusion, call.task.fusion_id
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
    nbytes = [node.reads[0].nbytes for node in nodes]
    bytes_before = [0, *accumulate(nbytes)]
    behind = {number: other for number, other in behind.items() if f"{label} {number} then {other}" in facts}
    places = _places(len(nodes), behind)
    group = graph.groups[label.communicator]

    def time_of(start: int, last: int) -> float:
        total = bytes_before[last + 1] - bytes_before[start]
        lie = places[start : last + 1]
        packs = max(lie) - min(lie) > last - start
        copies = 2 * terms.costs.copied_us(total) + 2 * (last - start + 1) * terms.costs.task_us if packs else 0.0
        return terms.costs.call(label.call, total, group).alone_us + copies

    return Candidates(nodes, Gradients(nbytes, ready, [int(number) for number in first], time_of), places)


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
    """When each is there to be reduced if everything that it needs, and the ones before it, is done as soon as it can
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


# ---- which ----


def _is_auto(terms: Terms) -> bool:
    return isinstance(terms.options.fusion, Fastest)


def _strategy(label: Label, terms: Terms) -> Strategy:
    if label.fusion_id >= 0:
        return ONE
    return terms.options.split_strategies.get(label.communicator, terms.options.fusion)


def _cut(label: Label, candidates: Candidates, terms: Terms) -> list[int]:
    """Buckets by the strategy, cut where they must be, and taken apart where packing costs more than it saves."""
    gradients = candidates.gradients
    last = allowed(_strategy(label, terms).last(gradients), gradients)
    kept: list[int] = []
    for start, end in runs(last):
        alone = sum(gradients.time_of(number, number) for number in range(start, end + 1))
        kept += [end] if gradients.time_of(start, end) <= alone else range(start, end + 1)
    return kept


def _fastest_step(graph: Graph, candidates: Mapping[Label, Candidates], buckets: Buckets, terms: Terms) -> Buckets:
    """For the labels without a strategy of their own: the buckets as they are, one, or none, by the predicted step."""
    chosen = dict(buckets)
    for name in sorted({label.communicator for label in buckets}):
        labels = [label for label in buckets if label.communicator == name and _is_fastest(label, terms)]
        if not labels:
            continue
        choices: list[Buckets] = [
            chosen,
            chosen | {label: allowed([], candidates[label].gradients) for label in labels},
            chosen | {label: list(range(len(candidates[label].nodes))) for label in labels},
        ]
        own = {str(number): _step_us(graph, candidates, choice, terms) for number, choice in enumerate(choices)}
        steps = terms.agree(name, own)
        chosen = dict(choices[int(min(steps, key=lambda number: (steps[number], number)))])
    return chosen


def _is_fastest(label: Label, terms: Terms) -> bool:
    return isinstance(_strategy(label, terms), Fastest)


def _step_us(graph: Graph, candidates: Mapping[Label, Candidates], buckets: Buckets, terms: Terms) -> float:
    """The predicted step, overlapped."""
    draft, _ = _fused(graph, candidates, buckets)
    tried = graph.replace("tried", nodes=tied(graph, draft.tasks), buffers=draft.buffers)
    return simulate(overlap(tried, terms) if terms.options.is_on("overlap") else tried, terms.costs).step_us


# ---- how ----


def _fused(graph: Graph, candidates: Mapping[Label, Candidates], buckets: Buckets) -> tuple[Draft, Copied]:
    """The draft with all buckets, and how much of that is copied."""
    draft, copied = Draft.of(graph), Copied()
    for label, last in buckets.items():
        for start, end in runs(last):
            if end > start:
                draft, packs = fuse(draft, candidates[label].laid_out(start, end))
                copied = copied.plus(sum(candidates[label].gradients.nbytes[start : end + 1]), packs)
    return draft, copied


def _apply(graph: Graph, candidates: Mapping[Label, Candidates], buckets: Buckets, terms: Terms) -> Graph:
    draft, copied = _fused(graph, candidates, buckets)
    if not copied.buckets:
        return graph
    calls = sum(len(each.nodes) for each in candidates.values())
    left = sum(len(last) for last in buckets.values())
    before, after = (sum(_times(candidates, each)) for each in (_none(candidates), buckets))
    lists = "; ".join(f"{label}: {_segments(last)}" for label, last in buckets.items())
    did = (
        f"all_reduce_fusion: {calls} all-reduces became {left} ({lists}); {copied}; "
        f"communication {before:.0f} -> {after:.0f} us"
    )
    return graph.replace(did, nodes=tied(graph, draft.tasks), buffers=draft.buffers)


def _none(candidates: Mapping[Label, Candidates]) -> Buckets:
    return {label: range(len(each.nodes)) for label, each in candidates.items()}


def _times(candidates: Mapping[Label, Candidates], buckets: Buckets) -> Iterator[float]:
    for label, last in buckets.items():
        yield from (candidates[label].gradients.time_of(*run) for run in runs(last))


def _segments(last: Sequence[int]) -> str:
    """As HCCL's log has them: [0,107] [108,159]."""
    return " ".join(f"[{start},{end}]" for start, end in runs(last))
