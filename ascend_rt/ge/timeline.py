"""When each task of a graph runs, predicted: the step time, and how much of communication kernels do not hide.

    timeline = simulate(graph, costs)
    timeline.step_us, timeline.exposed_us, timeline.slots[node.id]
    print(report(graph, before, after))          exposed time of each call before and after a pass, and what limits it

One rank is simulated, as if all ranks were alike: a collective begins when this rank has reached it. Streams run their
tasks in order; tasks that are worked on at the same time share the rank's cores; calls whose groups have a pair of
ranks in common take that pair's links one after another.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

from .costs import FREE, Cost, Costs
from .graph import Graph
from .nodes import Group, Node, Record, Wait
from .order import Order
from .tying import call_order

_EPSILON = 1e-9


class Slot(NamedTuple):
    """When a task runs, in microseconds from the launch."""

    start: float
    end: float
    behind: int | None
    """the task that it was waiting for last: what it needs, or what held its stream or its link; None: nothing"""


@dataclass(frozen=True)
class Timeline:
    """A step, predicted. Nodes by id."""

    slots: Mapping[int, Slot]
    calls: tuple[int, ...]
    """collectives and transfers, in the order in which they were listed"""
    step_us: float
    without_calls: Callable[[], "Timeline"]
    """the same with calls that take no time"""

    @cached_property
    def compute_us(self) -> float:
        """The step if communication took no time."""
        return self.without_calls().step_us

    @property
    def exposed_us(self) -> float:
        """What communication adds to the step."""
        return self.step_us - self.compute_us

    def exposed(self) -> dict[int, float]:
        """Of each call, the microseconds in which it runs and nothing else but calls does."""
        calls = set(self.calls)
        busy = _union([(slot.start, slot.end) for id, slot in self.slots.items() if id not in calls])
        return {id: _outside(self.slots[id], busy) for id in self.calls}


def simulate(graph: Graph, costs: Costs) -> Timeline:
    """Predict a launch of the graph."""
    by_id = {node.id: costs.of(node, graph.groups) for node in graph.nodes}
    return run(graph.nodes, by_id, graph.groups, costs.cores)


def run(nodes: Sequence[Node], costs: Mapping[int, Cost], groups: Mapping[str, Group], cores: float = 1.0) -> Timeline:
    """Predict what nodes of such costs do in this order of their streams."""
    slots = _Run(nodes, costs, groups, cores).slots
    calls = tuple(node.id for node in nodes if node.communicator is not None)
    free = {**costs, **dict.fromkeys(calls, FREE)}
    step_us = max((slot.end for slot in slots.values()), default=0.0)
    return Timeline(slots, calls, step_us, lambda: run(nodes, free, groups, cores))


def report(graph: Graph, before: Timeline, after: Timeline) -> str:
    """A table of the calls of `graph`, to which `after` belongs: exposed time before and after, and what limits it.

    A call that `before` has not, since a pass made it, has no time before.
    """
    names = {node.id: node for node in graph.nodes}
    was, now = before.exposed(), after.exposed()
    rows = [("call", "begins us", "lasts us", "exposed us before", "after", "limited by")]
    for id in after.calls:
        slot = after.slots[id]
        then = f"{was[id]:.1f}" if id in was else "-"
        times = (f"{slot.start:.1f}", f"{slot.end - slot.start:.1f}", then, f"{now[id]:.1f}")
        rows.append((f"{id} {names[id].name}", *times, _limit(names, after, id)))
    step = f"step {before.step_us:.1f} -> {after.step_us:.1f} us"
    total = f"{step}, exposed {before.exposed_us:.1f} -> {after.exposed_us:.1f} us"
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join([total, *("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)])


def _limit(names: Mapping[int, Node], timeline: Timeline, id: int) -> str:
    """Why a call is not hidden more."""
    slot = timeline.slots[id]
    if timeline.exposed()[id] < _EPSILON:
        return "hidden"
    if slot.behind is None:
        return "begins with the step"
    behind = names[slot.behind]
    if behind.communicator is not None:
        return f"{behind.id} {behind.name} goes first"
    return f"{behind.id} {behind.name} is done only then" + ("" if behind.line == "" else f" ({behind.line})")


class _Run:
    """The simulation: what runs, and what is ready, from one change to the next."""

    def __init__(
        self, nodes: Sequence[Node], costs: Mapping[int, Cost], groups: Mapping[str, Group], cores: float
    ) -> None:
        self.slots: dict[int, Slot] = {}
        self._nodes = {node.id: node for node in nodes}
        self._costs, self._cores = costs, cores
        self._links = {node.id: _pairs(groups[node.communicator]) for node in nodes if node.communicator}
        self._place = {node.id: place for place, node in enumerate(nodes)}
        self._missing = dict.fromkeys(self._nodes, 0)
        self._wanted_by: dict[int, list[int]] = {id: [] for id in self._nodes}
        for before, after in dict.fromkeys([(e.before, e.after) for e in Order(nodes).edges] + call_order(nodes)):
            self._missing[after] += 1
            self._wanted_by[before].append(after)
        self._now = 0.0
        self._ready = [id for id, count in self._missing.items() if not count]
        self._behind: dict[int, int | None] = dict.fromkeys(self._ready)
        self._left: dict[int, float] = {}
        """microseconds of work of what runs; 0 where only a link is waited for"""
        self._start: dict[int, float] = {}
        self._held: dict[tuple[int, int], int] = {}
        """by pair of ranks whose links are taken: the call that has them"""
        self._begin_ready()
        while self._left:
            self._go_on()

    def _begin_ready(self) -> None:
        """Begins what is ready and, if it is a call, finds its links free."""
        waiting = []
        for id in sorted(self._ready, key=self._place.__getitem__):
            holder = next((self._held[pair] for pair in self._links.get(id, ()) if pair in self._held), None)
            if holder is not None:
                self._behind[id] = holder
                waiting.append(id)
                continue
            self._held.update(dict.fromkeys(self._links.get(id, ()), id))
            self._start[id], self._left[id] = self._now, self._costs[id].work_us
        self._ready = waiting

    def _go_on(self) -> None:
        """To the next moment at which the work or the link of something is over."""
        working = [id for id, left in self._left.items() if left > _EPSILON]
        rate = min(1.0, self._cores / len(working)) if working else 1.0
        ends = [self._now + self._left[id] / rate for id in working]
        idle = [id for id in self._left if id not in set(working)]
        moment = min(ends + [max(self._now, self._until(id)) for id in idle])
        for id in working:
            self._left[id] -= (moment - self._now) * rate
        self._now = moment
        over = [id for id, left in self._left.items() if left <= _EPSILON and self._until(id) <= moment + _EPSILON]
        for id in over:
            self._finish(id)
        self._begin_ready()

    def _until(self, id: int) -> float:
        return self._start[id] + self._costs[id].least_us

    def _finish(self, id: int) -> None:
        del self._left[id]
        self.slots[id] = Slot(self._start[id], self._now, self._behind[id])
        for pair in self._links.get(id, ()):
            del self._held[pair]
        hidden = isinstance(self._nodes[id].task, Record | Wait)
        for after in self._wanted_by[id]:
            self._missing[after] -= 1
            if not self._missing[after]:
                self._behind[after] = self._behind[id] if hidden else id
                self._ready.append(after)


def _pairs(group: Group) -> tuple[tuple[int, int], ...]:
    return tuple(combinations(sorted(group.world_ranks), 2))


def _union(intervals: list[tuple[float, float]]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        elif end > start:
            merged.append((start, end))
    return merged


def _outside(slot: Slot, busy: Sequence[tuple[float, float]]) -> float:
    """Microseconds of a slot that none of these intervals, which are apart, covers."""
    return slot.end - slot.start - sum(max(0.0, min(slot.end, end) - max(slot.start, start)) for start, end in busy)
