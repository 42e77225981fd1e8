"""Communication runs beside kernels: calls on streams of their own, kernels in an order that leaves time to hide them.

List scheduling: time passes as predicted, and whenever a stream is free the task starts that has the longest way to the
end of the step behind it. What is never done:

    calls of a communicator change their order
    a kernel that waits for a call is put before one that an earlier listed call needs: so ranks whose kernels take
    other times than predicted still cannot wait for one another in a circle
    the peak of the graph's own memory grows beyond what it was, or ascend_rt.memoryCap: neither that at the predicted
    times nor the planned one
    the predicted step gets longer

Where an order of kernels would break the last two it is undone: kernels stay in the order they were queued in, and only
calls move. If that breaks them as well, nothing moves.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ..costs import Cost
from ..graph import Graph
from ..memory.options import MemoryOptions
from ..memory.plan import plan_memory
from ..nodes import Collective, Copy, Node, Role
from ..timeline import Timeline, simulate
from ..tying import Needs, needs_of, tasks_of, tied
from .terms import Terms


class Tried(NamedTuple):
    """A graph, what is predicted for it, and the peak of its own memory."""

    graph: Graph
    timeline: Timeline
    peak: int


def overlap(graph: Graph, terms: Terms) -> Graph:
    """Move calls to streams of their own, and kernels so that calls are hidden."""
    if not any(node.communicator for node in graph.nodes):
        return graph
    before, cap = _tried(graph, terms), terms.options.value("ascend_rt.memoryCap")
    most = max(before.peak, cap)
    orders = (False,) if terms.options.value("ge.topoSortingMode") == "3" else (True, False)
    for moves_kernels in orders:
        after = _tried(_scheduled(graph, terms, moves_kernels, most), terms)
        is_faster = after.timeline.step_us < before.timeline.step_us * (1 - 1e-6)
        if is_faster and after.peak <= most and _planned_peak(after.graph) <= max(_planned_peak(graph), cap):
            return graph.replace(_did(before, after, moves_kernels), nodes=after.graph.nodes)
    return graph


def _planned_peak(graph: Graph) -> int:
    """The bytes that the graph's own buffers take: whatever times tasks take, so more than are in use at the predicted
    ones where streams are free to run apart."""
    return plan_memory(graph, MemoryOptions(effort=0)).peak


def peak_nbytes(graph: Graph, timeline: Timeline) -> int:
    """The most bytes of buffers of the graph's own that are in use at once, by the predicted times."""
    spans: dict[str, tuple[float, float]] = {}
    for node in graph.nodes:
        slot = timeline.slots[node.id]
        for name in {span.buffer for span in (*node.reads, *node.writes)}:
            start, end = spans.get(name, (slot.start, slot.end))
            spans[name] = (min(start, slot.start), max(end, slot.end))
    own = {name: buffer.nbytes for name, buffer in graph.buffers.items() if buffer.role is Role.INTERMEDIATE}
    changes = [(spans[name][0], nbytes) for name, nbytes in own.items() if name in spans]
    changes += [(spans[name][1], -nbytes) for name, nbytes in own.items() if name in spans]
    peak = live = 0
    for _, change in sorted(changes):
        live += change
        peak = max(peak, live)
    return peak


def _tried(graph: Graph, terms: Terms) -> Tried:
    timeline = simulate(graph, terms.costs)
    return Tried(graph, timeline, peak_nbytes(graph, timeline))


def _did(before: Tried, after: Tried, moves_kernels: bool) -> str:
    calls = len(after.timeline.calls)
    events = len(after.graph.of_kind("record"))
    kernels = "kernels moved too" if moves_kernels else "kernels in their order"
    return (
        f"overlap: {calls} calls on streams of their own with {events} events, {kernels}; exposed communication "
        f"{before.timeline.exposed_us:.0f} -> {after.timeline.exposed_us:.0f} us, step "
        f"{before.timeline.step_us:.0f} -> {after.timeline.step_us:.0f} us"
    )


# ---- scheduling ----


def _scheduled(graph: Graph, terms: Terms, moves_kernels: bool, most_nbytes: int) -> Graph:
    tasks = _on_streams(tasks_of(graph), terms.options.value("ge.streamMaxParallelNum"))
    costs = {node.id: terms.costs.of(node, graph.groups) for node in tasks}
    own = {name: buffer.nbytes for name, buffer in graph.buffers.items() if buffer.role is Role.INTERMEDIATE}
    memory = _Memory(tasks, own, most_nbytes)
    listed = _Schedule(tasks, costs, memory, moves_kernels).listed
    return graph.replace("scheduled", nodes=tied(graph, listed))


def _on_streams(tasks: Sequence[Node], most: int | None) -> list[Node]:
    """Calls on streams of their own: one for the collectives of each communicator, and one for its transfers from each
    stream, which might wait for something else. Copies that pack and unpack a call go with it."""
    streams: dict[tuple[str, int | None], int] = {}
    beside = 1 + max((node.stream for node in tasks if node.communicator is None), default=0)
    packs = {node.line: node.communicator for node in tasks if node.name.startswith("all_reduce of ")}
    moved = []
    for node in tasks:
        is_pack = isinstance(node.task, Copy) and node.name in ("pack", "unpack")
        name = packs.get(node.line) if is_pack else node.communicator
        if name is None:
            moved.append(node)
            continue
        key = (name, None if is_pack or isinstance(node.task, Collective) else node.stream)
        number = streams.setdefault(key, len(streams))
        moved.append(replace(node, stream=beside + (number if most is None else number % most)))
    return moved


class _Memory:
    """Bytes of the graph's own buffers while tasks are listed: each from its first task to its last."""

    def __init__(self, tasks: Sequence[Node], own: Mapping[str, int], most: int) -> None:
        self._own, self._most = own, most
        self._uses = {node.id: {s.buffer for s in (*node.reads, *node.writes)} & own.keys() for node in tasks}
        self._left: dict[str, int] = dict.fromkeys(own, 0)
        for names in self._uses.values():
            for name in names:
                self._left[name] += 1
        self._live: set[str] = set()
        self._nbytes = 0

    def fits(self, id: int) -> bool:
        """Whether there is room for what a task uses."""
        return self._nbytes + sum(self._own[name] for name in self._uses[id] - self._live) <= self._most

    def list(self, id: int) -> None:
        for name in self._uses[id]:
            if name not in self._live:
                self._live.add(name)
                self._nbytes += self._own[name]
            self._left[name] -= 1
            if not self._left[name]:
                self._live.discard(name)
                self._nbytes -= self._own[name]


class _Schedule:
    """Lists the tasks one by one, each on its stream, as time passes."""

    def __init__(self, tasks: Sequence[Node], costs: Mapping[int, Cost], memory: _Memory, moves_kernels: bool) -> None:
        self.listed: list[Node] = []
        self._costs, self._memory, self._moves_kernels = costs, memory, moves_kernels
        self._tasks = {node.id: node for node in tasks}
        self._place = {node.id: place for place, node in enumerate(tasks)}
        self._needs = needs_of(tasks)
        self._ways = _longest_ways(tasks, self._needs, costs)
        self._last_call = _last_calls(tasks, self._needs)
        self._calls = deque(node.id for node in tasks if node.communicator is not None)
        self._end: dict[int, float] = {}
        self._free = dict.fromkeys((node.stream for node in tasks), 0.0)
        queues: dict[int, list[int]] = {stream: [] for stream in self._free}
        for node in tasks:
            queues[node.stream].append(node.id)
        with_calls = {node.stream for node in tasks if node.communicator is not None}
        self._call_queues = [queue for stream, queue in queues.items() if stream in with_calls]
        self._kernel_queues = [queue for stream, queue in queues.items() if stream not in with_calls]
        while len(self._end) < len(tasks):
            self._list_calls()
            self._list_a_kernel()

    def _list_calls(self) -> None:
        """All of the streams of calls whose needs are listed; these streams keep their order."""
        begun = -1
        while begun < len(self._end):
            begun = len(self._end)
            for queue in self._call_queues:
                while queue and self._is_ready(queue[0]):
                    self._list(queue.pop(0))

    def _list_a_kernel(self) -> None:
        """Of those that can begin first, and for which there is room, that with the longest way to the end."""
        while self._calls and self._calls[0] in self._end:
            self._calls.popleft()
        first_call = self._place[self._calls[0]] if self._calls else len(self._place)
        found: dict[int, list[int]] = {}
        for queue in self._kernel_queues:
            for id in queue if self._moves_kernels else queue[:1]:
                if self._is_ready(id) and self._last_call[id] < first_call:
                    found[id] = queue
        if not found:
            return
        fitting = [id for id in found if self._memory.fits(id)] or list(found)
        starts = {id: self._start(id) for id in fitting}
        first = min(starts.values())
        best = min((id for id in fitting if starts[id] <= first), key=lambda id: (-self._ways[id], self._place[id]))
        found[best].remove(best)
        self._list(best)

    def _is_ready(self, id: int) -> bool:
        return self._needs[id] <= self._end.keys()

    def _start(self, id: int) -> float:
        return max([self._free[self._tasks[id].stream], *(self._end[before] for before in self._needs[id])])

    def _list(self, id: int) -> None:
        node = self._tasks[id]
        self._end[id] = self._free[node.stream] = self._start(id) + self._costs[id].alone_us
        self._memory.list(id)
        self.listed.append(node)


def _last_calls(tasks: Sequence[Node], needs: Needs) -> dict[int, int]:
    """By id: the place of the last call that a task waits for, directly or through others; -1: none."""
    places: dict[int, int] = {}
    last: dict[int, int] = {}
    for place, node in enumerate(tasks):
        if node.communicator is not None:
            places[node.id] = place
        last[node.id] = max((max(last[id], places.get(id, -1)) for id in needs[node.id]), default=-1)
    return last


def _longest_ways(tasks: Sequence[Node], needs: Needs, costs: Mapping[int, Cost]) -> dict[int, float]:
    """By id: microseconds of the longest chain from the begin of a task to the end of the step."""
    ways = {node.id: costs[node.id].alone_us for node in tasks}
    for node in reversed(tasks):
        for before in needs[node.id]:
            ways[before] = max(ways[before], costs[before].alone_us + ways[node.id])
    return ways
