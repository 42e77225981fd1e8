"""A graph as tasks of the core: made once, launched as often as wanted.

Streams of the graph other than the one on which it is launched run on streams beside that one, which all graphs
launched there share: a graph costs none of its own, and two graphs on one stream never run at the same time anyway. A
stream beside hands what fails on it over to the stream that was launched on.
"""

import ctypes
import functools
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .. import settings as settings_module
from ..acl import device as local
from ..acl.external_event import OPEN
from ..acl.stream import Stream, as_task
from ..core import _core
from ..hccl.recorded import Place, add_collective, add_meeting, add_split, add_transfer, call_of
from .dag import Dag
from .gates import copy_rows, gate_of, gates_of
from .memory.stream_memory import Resident, is_quiet, memory_for
from .nodes import Collective, Copy, Kernel, Memset, Node, Record, Span, Transfer, View, Wait
from .placement import Array, address_of, array_of, dtype_named


class Prepared:
    """The tasks of a graph. DeviceMemoryError: there is no room for what it needs.

    stream: on which it is launched first, if somebody knows.
    """

    def __init__(self, graph: Resident, stream: Stream | None = None) -> None:
        arrays, self.placed = memory_for(graph, local.current().memory, stream)
        self._memory: dict[str, Array] = {**graph.memory, **arrays}
        self._was_launched = False
        self._communicators = graph.communicators
        self._columns = {stream: column for column, stream in enumerate(graph.streams)}
        self._marks = _Marks(graph, self._columns)
        self._core = _core.Graph(len(self._columns), self._marks.count)
        self._gates = gates_of(graph)
        self._waits = list(filter(None, (gate_of(node.task) for node in graph.nodes)))
        for gate in set(self._gates.values()):
            weakref.finalize(self, gate.forget, id(self)).atexit = False
        self._places: dict[int, tuple[int, int]] = {}
        """by node: its stream, and which of the tasks there it is"""
        self._launched_on: weakref.WeakSet[Stream] = weakref.WeakSet()
        self._add(graph)

    @property
    def streams(self) -> int:
        """How many it runs on, that on which it is launched included."""
        return len(self._columns)

    @property
    def events(self) -> int:
        """How many points of streams others wait for."""
        return self._marks.count

    @property
    def tasks(self) -> int:
        """How many its streams run in a launch, with those that tie the streams together."""
        return self._core.tasks

    def launch(self, stream: Stream, keep: Any = None) -> None:
        """Queue all of it; `keep` is kept alive until it is done."""
        if self._waits:
            keep = keep, [gate.queue() for gate in self._waits]
        self._core.launch((stream, *streams_beside(stream, self.streams - 1)), keep)
        self._launched_on.add(stream)
        self._was_launched = True

    @property
    def waits_for_a_stream(self) -> bool:
        """Whether it was made before anybody knew where it is launched, and would lie elsewhere then."""
        return self.placed.may_turn and self.placed.plan is not None and not self._was_launched

    def streams_under_way(self) -> list[Stream]:
        """Where launches may be that are not over: none if all are."""
        if not self._core.is_under_way(tuple(one for on in self._launched_on for one in (on, *on.beside))):
            self._launched_on.clear()
        return [stream for stream in self._launched_on if not is_quiet(stream)]

    def replace(self, nodes: Iterable[Node], memory: Mapping[str, Array], unused: Iterable[str] = ()) -> None:
        """Nodes in the place of those with their ids, for launches from here on; memory: where buffers lie that are new
        or elsewhere now; unused: those that no node has any more.

        DeviceMemoryError: there is no room for what they need, and some may have been replaced."""
        self._memory.update(memory)
        for name in unused:
            self._memory.pop(name, None)
        for node in nodes:
            self._add_node(node, (self._places[node.id], node.line))

    def meet_by(self, graph: Dag) -> None:
        """Launches from here on begin with the meetings of these agreements, which are as many as before."""
        for place, agreement in enumerate(graph.agreements or ()):
            add_meeting(self._core, ((0, place), f"graph {graph.name!r}"), *agreement)

    def _add(self, graph: Dag) -> None:
        for agreement in graph.agreements or ():
            add_meeting(self._core, (0, f"graph {graph.name!r}"), *agreement)
        for mark in self._marks.at_start:
            self._core.record(0, graph.name, mark)
        for column, mark in self._marks.starts.items():
            self._core.wait(column, graph.name, mark)
        for node in graph.nodes:
            place = self._columns[node.stream], node.line
            for mark in self._marks.before.get(node.id, ()):
                self._core.wait(*place, mark)
            self._places[node.id] = place[0], self._core.length(place[0])
            self._add_node(node, place)
            if node.id in self._marks.behind:
                self._core.record(*place, self._marks.behind[node.id])
        for column, mark in self._marks.ends.items():
            self._core.hand_over(column, graph.name, mark)
            self._core.join(0, graph.name, mark)

    def _add_node(self, node: Node, place: Place) -> None:
        task = node.task
        if isinstance(task, Record):
            self._core.record(self._columns[node.stream], node.line, self._marks.events[task.event])
        elif isinstance(task, Wait):
            self._core.wait(self._columns[node.stream], node.line, self._marks.events[task.event])
        elif isinstance(task, Kernel):
            self._add_kernel(node, task, place)
        elif isinstance(task, Collective):
            self._add_collective(task, place)
        elif isinstance(task, Transfer):
            messages = [(receives, peer, self._array(view)) for receives, peer, view in task.messages]
            add_transfer(self._core, place, self._communicators[task.communicator], task.call, messages)
        elif isinstance(task, Copy):
            self._add_copy(node, task, place)
        else:
            self._add_fill(node, task, place)

    def _add_copy(self, node: Node, task: Copy, place: Place) -> None:
        memory = self._memory[task.to.buffer], self._memory[task.source.buffer]
        to, source = self._address(task.to), self._address(task.source)
        rows = to, task.to_pitch, source, task.source_pitch, task.nbytes, task.rows
        if node.id in self._gates:
            self._add_behind_gate(node, place, memory, functools.partial(copy_rows, *rows))
        else:
            self._core.copy(*place, memory, *rows)

    def _add_fill(self, node: Node, task: Memset, place: Place) -> None:
        memory, to = self._memory[task.to.buffer], self._address(task.to)
        if node.id in self._gates:
            fill = functools.partial(ctypes.memset, to, task.value, task.to.nbytes)
            self._add_behind_gate(node, place, [memory], fill)
        else:
            self._core.fill(*place, memory, to, task.value, task.to.nbytes)

    def _add_kernel(self, node: Node, task: Kernel, place: Place) -> None:
        memory = [self._memory[buffer] for buffer in node.buffers]
        arguments, keywords = self._values(task.arguments), self._values(dict(task.keywords))
        call = functools.partial(task.function, *arguments, **keywords)
        if node.id in self._gates:
            self._add_behind_gate(node, place, memory, call)
            return
        if gate := gate_of(task):
            word, timeout_ns = gate.event.word, Stream.longest_wait_ns(settings_module.read())
            self._core.wait_value(*place, word, address_of(word), OPEN, timeout_ns)
        self._core.function(*place, memory, as_task(task.function, call, (None, 0), []))

    def _add_behind_gate(
        self, node: Node, place: Place, memory: Sequence[Array], call: "functools.partial[Any]"
    ) -> None:
        """A task that may be updated while a launch waits before it."""
        held = self._gates[node.id].hold((id(self), node.id), call)
        self._core.function(*place, memory, as_task(call.func, held, (None, 0), []))

    def _add_collective(self, task: Collective, place: Place) -> None:
        communicator, nothing = self._communicators[task.communicator], np.empty(0, dtype_named(task.dtype))
        x = nothing if task.x is None else self._array(task.x)
        out = x if task.out == task.x else nothing if task.out is None else self._array(task.out)
        if task.split is None:
            call = call_of(task.call, task.op, task.root, task.count, x, out)
            add_collective(self._core, place, communicator, call)
        else:
            table = np.array(task.split, np.uint64).tobytes()
            add_split(self._core, place, communicator, task.call, task.op, x, out, table)

    def _array(self, view: View) -> Array:
        if view.count == 0:
            return np.empty(view.shape, dtype_named(view.dtype))
        return array_of(view, self._memory[view.buffer])

    def _address(self, span: Span) -> int:
        return address_of(self._memory[span.buffer]) + span.start

    def _values(self, value: Any) -> Any:
        """The value with the array in the place of each View."""
        if isinstance(value, View):
            return self._array(value)
        if type(value) in (tuple, list):
            return type(value)(self._values(part) for part in value)
        if type(value) is dict:
            return {key: self._values(part) for key, part in value.items()}
        return value


class _Marks:
    """The points that streams wait for, by number: events, control edges, and where streams beside begin and end."""

    def __init__(self, graph: Dag, columns: dict[int, int]) -> None:
        self._numbers: Iterator[int] = iter(range(1 << 31))
        self.count = 0
        self.events = {node.task.event: self._next() for node in graph.nodes if isinstance(node.task, Record)}
        self.behind: dict[int, int] = {}
        """by node: a mark that is recorded when it is done"""
        self.before: dict[int, list[int]] = {}
        """by node: marks that it waits for"""
        self._tie_control_edges(graph)
        beside = [stream for stream in columns if stream]
        first = {stream: next(node for node in graph.nodes if node.stream == stream) for stream in beside}
        waiting = {stream for stream, node in first.items() if isinstance(node.task, Wait) or node.id in self.before}
        self.starts = {columns[stream]: self._next() for stream in beside if stream not in waiting}
        self.at_start: Sequence[int] = list(self.starts.values())
        self.ends = {columns[stream]: self._next() for stream in beside}

    def _next(self) -> int:
        self.count += 1
        return self.count - 1

    def _tie_control_edges(self, graph: Dag) -> None:
        for node in graph.nodes:
            for before in node.after:
                if graph.by_id[before].stream != node.stream:
                    if before not in self.behind:
                        self.behind[before] = self._next()
                    self.before.setdefault(node.id, []).append(self.behind[before])


def streams_beside(stream: Stream, count: int) -> list[Stream]:
    """So many streams that belong to a stream: the same for all graphs that are launched there."""
    while len(stream.beside) < count:
        stream.beside.append(Stream(goes_on_after_failure=stream.goes_on_after_failure))
    beside = stream.beside[:count]
    for one in beside:
        if one.is_idle():
            one.take_failure()  # of work that was dropped: told to who dropped it
        if one.goes_on_after_failure != stream.goes_on_after_failure:
            one.set_goes_on_after_failure(stream.goes_on_after_failure)
    return beside
