"""The block of device memory in which the graphs that are launched on one stream take turns.

What is queued on a stream is done in order, on the streams beside it too: of two graphs that are launched there, one is
over when the other begins. And what a launch leaves in buffers of a graph's own is undefined. So these buffers of all
of them lie in one block, of the largest, without anybody asking for it, and no launch waits for more than before.

    other streams              have blocks of their own: a launch there may run beside this one
    a graph that is launched   on a second stream as well gets a block of its own then, and keeps it
    a larger graph             brings a larger block, to which the others move; launches under way keep what they have
    memory that was asked for  (ge.allocate, ge.share, ge.load) is used by the graphs that it was asked for alone, as
                               are blocks with buffers that the program may look at: MemoryOptions.takes_turns
"""

import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ...acl.memory import DeviceMemory
from ...acl.stream import Stream
from ..dag import Dag
from .options import MemoryOptions
from .plan import Bytes, MemoryPlan, SomeDag, plan_memory, reserve, room


@dataclass(frozen=True)
class Placed:
    """Where the buffers lie that a graph had no memory for when it was launched.

    names      of those that are planned
    plan       by which they lie in a block
    turns      whose block that is; None: one of the graph's own
    may_turn   whether it could be that of a stream
    """

    names: frozenset[str] = frozenset()
    plan: "MemoryPlan[Resident] | None" = None
    turns: "StreamMemory | None" = None
    may_turn: bool = False

    def moved(self, block: Bytes) -> dict[str, Bytes]:
        """Their bytes in another block."""
        assert self.plan is not None
        return {name: array for name, array in self.plan.memory(block).items() if name in self.names}


class Resident(Dag):
    """What is asked of a graph whose own buffers lie in the block of a stream; Graph answers."""

    @property
    def placed(self) -> Placed | None:
        """None: it has no tasks yet."""
        raise NotImplementedError

    def move(self, memory: Mapping[str, npt.NDArray[Any]]) -> None:
        """Have buffers lie elsewhere in the tasks of launches from here on."""
        raise NotImplementedError

    def forget_tasks(self) -> None:
        """The next launch makes them anew."""
        raise NotImplementedError

    def streams_under_way(self) -> list[Stream]:
        """The streams on which it was launched and is not over."""
        raise NotImplementedError


class StreamMemory:
    """The block of one stream, which lives as long as one of the graphs that use it."""

    def __init__(self, stream: Stream, memory: DeviceMemory) -> None:
        self.memory = memory
        self._stream = weakref.ref(stream)
        self._graphs: weakref.WeakSet[Resident] = weakref.WeakSet()
        self._block: weakref.ref[Bytes] | None = None
        self._aborts = stream.aborts

    @property
    def stream(self) -> Stream | None:
        """None: nobody has it any more."""
        return self._stream()

    @property
    def nbytes(self) -> int:
        block = self._held()
        return 0 if block is None else block.nbytes

    def place(self, plan: MemoryPlan[Resident]) -> tuple[MemoryPlan[Resident], Bytes]:
        """A block for a graph, and the plan by which it fits in there: the one that is given, or a better one.

        GraphMemoryError: there is no room, and nothing has been allocated or moved.
        """
        self.settle()
        block = self._held()
        if block is None or block.nbytes < plan.peak:
            del block
            plan, block = self._grown(plan)
        self._graphs.add(plan.graph)
        return plan, block

    def leave(self, graph: Resident) -> None:
        """A graph does not take turns any more."""
        self._graphs.discard(graph)

    def settle(self) -> None:
        """Before a launch: where what was queued was dropped, a stream beside may still be in the middle of a graph;
        then that has the old block for itself."""
        stream = self._stream()
        if stream is None or stream.aborts == self._aborts:
            return
        block = self._held()
        if block is not None and not is_quiet(stream):
            self._move_to(self.memory.empty((block.nbytes,), np.uint8))
        self._aborts = stream.aborts

    def _held(self) -> Bytes | None:
        return None if self._block is None else self._block()

    def _grown(self, plan: MemoryPlan[Resident]) -> tuple[MemoryPlan[Resident], Bytes]:
        """A larger block. If there is no room for both, and nothing is under way, the old one is given back first."""
        others = [graph for graph, _ in self._placed()]
        under_way = [stream for graph in others for stream in graph.streams_under_way()]
        if not under_way and plan.peak > room(self.memory):
            for graph in others:
                graph.forget_tasks()
        plan = fitting(plan, self.memory)
        block = reserve(plan, self.memory)
        self._move_to(block)
        return plan, block

    def _move_to(self, block: Bytes) -> None:
        self._block = weakref.ref(block)
        for graph, placed in self._placed():
            graph.move(placed.moved(block))

    def _placed(self) -> Iterator[tuple[Resident, Placed]]:
        """The graphs that have tasks."""
        yield from ((graph, placed) for graph in list(self._graphs) if (placed := graph.placed) is not None)


_by_stream: "weakref.WeakKeyDictionary[Stream, StreamMemory]" = weakref.WeakKeyDictionary()


def memory_for(graph: Resident, memory: DeviceMemory, stream: Stream | None = None) -> tuple[dict[str, Bytes], Placed]:
    """Device memory for the buffers of a graph that have none: planned, quickly unless that takes more than there is.

    stream: on which it is launched; None: nobody knows, and it has a block of its own. GraphMemoryError (EL0004),
    before anything is allocated or moved: there is not so much.
    """
    missing = [name for name in graph.buffers if name not in graph.memory]
    if not missing:
        return {}, Placed()
    options = graph.memory_options or MemoryOptions()
    plan = plan_memory(graph, replace(options, effort=0))
    turns, held = None, {}
    if plan.peak:
        turns = _turns_on(stream, memory) if options.takes_turns else None
        plan, block = _own_block(plan, memory) if turns is None else turns.place(plan)
        held = plan.memory(block)
    arrays = {
        name: held[name] if name in held else memory.empty((graph.buffers[name].nbytes,), np.uint8) for name in missing
    }
    placed = Placed(frozenset(held.keys() & arrays.keys()), plan if plan.peak else None, turns, options.takes_turns)
    return arrays, placed


def have_own_block(graph: Resident, placed: Placed) -> Placed:
    """A graph takes no turns from here on; where it lies then. GraphMemoryError: there is no room, and nothing is
    changed."""
    assert placed.plan is not None and placed.turns is not None
    block = reserve(placed.plan, placed.turns.memory)
    graph.streams_under_way()  # launches that are over give back what they have held
    graph.move(placed.moved(block))
    placed.turns.leave(graph)
    return replace(placed, turns=None)


def is_quiet(stream: Stream) -> bool:
    """Whether nothing is queued on a stream and those beside it."""
    return all(one.is_idle() for one in (stream, *stream.beside))


def fitting(plan: MemoryPlan[SomeDag], memory: DeviceMemory) -> MemoryPlan[SomeDag]:
    """The plan; a better one if it takes more than there is."""
    return plan if plan.peak <= room(memory) else plan_memory(plan.graph)


def _own_block(plan: MemoryPlan[SomeDag], memory: DeviceMemory) -> tuple[MemoryPlan[SomeDag], Bytes]:
    plan = fitting(plan, memory)
    return plan, reserve(plan, memory)


def _turns_on(stream: Stream | None, memory: DeviceMemory) -> StreamMemory | None:
    if stream is None:
        return None
    turns = _by_stream.setdefault(stream, StreamMemory(stream, memory))
    return turns if turns.memory is memory else None
