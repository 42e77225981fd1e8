"""Communication runs beside kernels: calls on streams of their own, kernels in an order that leaves time to hide them.

List scheduling: time passes as predicted, and whenever a stream is free the task starts that has the longest way to the
end of the step behind it. What is never done:

    calls of a communicator change their order
    a kernel that waits for a call is put before one that an earlier listed call needs: so ranks whose kernels take
    other times than predicted still cannot wait for one another in a circle
    the peak of the graph's own memory grows beyond what it was, or ascend_rt.memoryCap: neither that at the predicted
    times nor the planned one
    the predicted step gets longer

Where that would break the last two, kernels leave their order less and wait for what frees the memory they need
(list_schedule.py), or keep their order: of these ways the fastest is taken that keeps within the peak. If none does,
nothing moves.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from ..graph import Graph
from ..memory.options import MemoryOptions
from ..memory.plan import plan_memory
from ..nodes import Collective, Copy, Node, Role
from ..timeline import Timeline, simulate
from ..tying import tasks_of, tied
from .list_schedule import Memory, Schedule
from .terms import Terms

ANY, NEXT = 1 << 30, 1
"""from how many of the next kernels of a stream one is taken: from all, or always the next"""
REACHES, ATTEMPTS = (16, 4, 2), 2
"""What is tried where the peak forbids ANY, and how often. Planned are parts of buffers, and not always as tightly as
the bound lets: a second schedule keeps to as much less as the plan of the first went beyond."""


class Way(NamedTuple):
    """How a schedule is made."""

    reach: int
    most: int | None = None
    """bytes for which kernels wait; None: they wait for nothing but what they use"""


class Tried(NamedTuple):
    """A graph, what is predicted for it, and the peak of its own memory."""

    graph: Graph
    timeline: Timeline
    peak: int


class Bounds(NamedTuple):
    """What a schedule must keep to."""

    step_us: float
    peak: int
    planned: int

    def excess(self, tried: Tried) -> float:
        """Its peak, as a part of what it may be: that at the predicted times, and the planned one if that is fine."""
        beyond = tried.peak / self.peak
        return beyond if beyond > 1 else max(beyond, _planned_peak(tried.graph) / self.planned)


def overlap(graph: Graph, terms: Terms) -> Graph:
    """Move calls to streams of their own, and kernels so that calls are hidden."""
    if not any(node.communicator for node in graph.nodes):
        return graph
    before, cap = _tried(graph, terms), terms.options.value("ascend_rt.memoryCap")
    us = before.timeline.step_us * (1 - 1e-6)
    bounds = Bounds(us, max(before.peak, cap, 1), max(_planned_peak(graph), cap, 1))
    found = min(_ways(graph, terms, bounds), key=lambda each: each[1].timeline.step_us, default=None)
    return graph if found is None else graph.replace(_did(before, *found), nodes=found[1].graph.nodes)


def _ways(graph: Graph, terms: Terms, bounds: Bounds) -> Iterator[tuple[Way, Tried]]:
    """Some that keep to the bounds: the one without fences alone, if that does."""
    keeps_order = terms.options.value("ge.topoSortingMode") == "3"
    free = Way(NEXT if keeps_order else ANY)
    after = _tried(_scheduled(graph, terms, free, bounds.peak), terms)
    is_faster = after.timeline.step_us < bounds.step_us
    if is_faster and bounds.excess(after) <= 1:
        yield free, after
        return
    if is_faster:
        attempts = (_fenced(graph, terms, bounds, reach) for reach in ((NEXT,) if keeps_order else REACHES))
        yield from islice((found for found in attempts if found is not None), 1)
    if not keeps_order:
        after = _tried(_scheduled(graph, terms, Way(NEXT), bounds.peak), terms)
        if after.timeline.step_us < bounds.step_us and bounds.excess(after) <= 1:
            yield Way(NEXT), after


def _fenced(graph: Graph, terms: Terms, bounds: Bounds, reach: int) -> tuple[Way, Tried] | None:
    """The first of some attempts that keeps to the bounds, with less memory each time."""
    most = bounds.peak
    for _ in range(ATTEMPTS):
        way = Way(reach, most)
        after = _tried(_scheduled(graph, terms, way, bounds.peak), terms)
        if after.timeline.step_us >= bounds.step_us:
            return None
        excess = bounds.excess(after)
        if excess <= 1:
            return way, after
        most = int(most / excess)
    return None


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


def _did(before: Tried, way: Way, after: Tried) -> str:
    calls = len(after.timeline.calls)
    events = len(after.graph.of_kind("record"))
    kernels = "kernels in their order" if way.reach == NEXT else "kernels moved too"
    fences = "" if way.most is None else ", some of which wait for memory"
    return (
        f"overlap: {calls} calls on streams of their own with {events} events, {kernels}{fences}; exposed "
        f"communication {before.timeline.exposed_us:.0f} -> {after.timeline.exposed_us:.0f} us, step "
        f"{before.timeline.step_us:.0f} -> {after.timeline.step_us:.0f} us"
    )


# ---- scheduling ----


def _scheduled(graph: Graph, terms: Terms, way: Way, most_nbytes: int) -> Graph:
    tasks = _on_streams(tasks_of(graph), terms.options.value("ge.streamMaxParallelNum"))
    costs = {node.id: terms.costs.of(node, graph.groups) for node in tasks}
    own = {name: buffer.nbytes for name, buffer in graph.buffers.items() if buffer.role is Role.INTERMEDIATE}
    memory = Memory(tasks, own, most_nbytes if way.most is None else way.most)
    schedule = Schedule(tasks, costs, memory, reach=way.reach, has_fences=way.most is not None)
    return graph.replace("scheduled", nodes=tied(graph, schedule.listed))


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
