"""Takes down what is queued on captured streams, and makes a graph of it when the capture ends."""

import threading
from collections.abc import Callable, Sequence

from ..acl import recording
from ..acl.errors import (
    ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED,
    ACL_ERROR_RT_STREAM_UNJOINED,
    AclError,
)
from ..acl.event import Event
from ..acl.external_event import Gate
from ..acl.recording import Launch, Mode, RecordedMark
from ..acl.stream import Stream
from ..diag.call_site import call_site
from .graph import Graph
from .nodes import Buffer, Group, Node, Record, Role, Wait
from .placement import Array, Pieces, piece_of
from .queued import Queued, Taker, Uses, buffer_of, first_uses
from .task_groups import OpenGroups, TaskGroup, TaskGroups


class Recorder(Taker):
    """One capture: acl.recording.Recorder."""

    def __init__(self, origin: Stream, mode: Mode, name: str) -> None:
        super().__init__(Pieces())
        self.mode, self.thread, self.origin, self.name = mode, threading.get_ident(), origin, name
        self.line = call_site()
        self.streams: dict[Stream, int] = {}
        self.why_invalid = ""
        self._marks: list[tuple[Event, RecordedMark]] = []
        self._task_groups = OpenGroups()

    def begin_group(self, stream: Stream) -> TaskGroup:
        """Tasks queued on a stream from here on are of one group. AclError (107033): one is open there."""
        return self._task_groups.begin(stream, self.streams[stream])

    def end_group(self, stream: Stream) -> TaskGroup:
        """The group of a stream is complete. AclError (107033): none is open there."""
        return self._task_groups.end(stream, self.streams[stream])

    def record(self, stream: Stream, event: Event) -> RecordedMark:
        self._check_no_group(stream, "recorded")
        mark = RecordedMark(self, len(self._marks))
        self._marks.append((event, mark))
        self._queue(stream, "record", lambda pieces: Uses(Record(mark.number)))
        return mark

    def wait(self, stream: Stream, mark: RecordedMark) -> None:
        self._check_no_group(stream, "waited for")
        self._queue(stream, "wait", lambda pieces: Uses(Wait(mark.number)))

    def gate(self, stream: Stream, gate: Gate) -> None:
        self._check_no_group(stream, "waited for")
        self.kernel(stream, Launch(gate.wait, (), {}, None, None))

    def join(self, stream: Stream, mark: RecordedMark) -> None:
        self.take(stream)
        self.wait(stream, mark)

    def own(self, x: Array, name: str) -> None:
        """An array that is the graph's: it has no memory of its own until the graph is placed."""
        piece = piece_of(x)
        piece.is_own, piece.name = True, name
        piece.dtype, piece.shape = x.dtype.name, x.shape
        self._pieces.add(piece)

    def invalidate(self, why: str) -> None:
        self.why_invalid = self.why_invalid or why

    def take(self, stream: Stream) -> None:
        """A stream is part of the capture from here on."""
        self.streams[stream] = len(self.streams)
        recording.enter(stream, self)

    # ---- the end ----

    def end(self) -> None:
        """All streams are left. Events that they have recorded are as if never recorded."""
        for stream in self.streams:
            recording.leave(stream)
        recording.end(self)
        for event, mark in self._marks:
            if event._mark is mark:
                event.move_to(None)

    def graph(self) -> Graph:
        """What was queued. AclError: the capture was invalidated (507903), a task group is open (107033), or a stream
        was not joined (107025)."""
        if self.why_invalid:
            text = f"the capture that began at {self.line} is not valid any more: {self.why_invalid}"
            raise AclError(
                ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, f"ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED (507903): {text}"
            )
        self._task_groups.check_ended(self.line)
        self._pieces.name_all()
        made = [(queued, queued.make(self._pieces)) for queued in self._queued]
        nodes = [
            Node(id, queued.name, queued.stream, uses.task, tuple(uses.reads), tuple(uses.writes), (), queued.line)
            for id, (queued, uses) in enumerate(made)
        ]
        groups = {
            name: Group(name, of.rank, of.size, tuple(of.world_ranks)) for name, of in self._communicators.items()
        }
        memory = {piece.name: piece.array() for piece in self._pieces if not piece.is_own}
        graph = Graph(
            nodes,
            self._buffers(nodes),
            groups,
            name=self.name,
            memory=memory,
            communicators=self._communicators,
        )
        graph.check()
        self._check_joined(graph)
        if self._task_groups.all:
            graph.task_groups = TaskGroups(self._task_groups.all, self._pieces)
        return graph

    def _buffers(self, nodes: Sequence[Node]) -> dict[str, Buffer]:
        roles = first_uses(nodes)
        written = {span.buffer for node in nodes for span in node.writes}
        for piece in self._pieces:
            if piece.is_own:
                roles[piece.name] = Role.INTERMEDIATE
            elif piece.is_read_only and piece.name not in written:
                roles[piece.name] = Role.CONSTANT
        return {piece.name: buffer_of(piece, roles.get(piece.name, Role.INPUT)) for piece in self._pieces}

    def _check_joined(self, graph: Graph) -> None:
        last = {node.stream: node for node in graph.nodes}
        end = last.get(0)
        loose = [
            node for stream, node in last.items() if stream and (end is None or not graph.order.before(node.id, end.id))
        ]
        if loose:
            lines = ", ".join(f"stream {node.stream} (its last task: {node.kind} at {node.line})" for node in loose)
            text = (
                f"the capture that began at {self.line} ended while {lines} was not joined: record an event behind "
                "that task and have the stream on which the capture began wait for it"
            )
            raise AclError(ACL_ERROR_RT_STREAM_UNJOINED, f"ACL_ERROR_RT_STREAM_UNJOINED (107025): {text}")

    def _queue(self, stream: Stream, name: str, make: Callable[[Pieces], Uses]) -> None:
        number = self.streams[stream]
        try:
            self._task_groups.add(stream, number, name, len(self._queued))
        except AclError as error:
            self.invalidate(str(error))
            raise
        self._queued.append(Queued(number, name, call_site(), make))

    def _check_no_group(self, stream: Stream, what: str) -> None:
        try:
            self._task_groups.check_no_event(stream, what)
        except AclError as error:
            self.invalidate(str(error))
            raise
