"""Takes down what is queued on captured streams, and makes a graph of it when the capture ends.

While it lasts only addresses are known: two arrays may turn out to be of one allocation. So each task is kept as a
function that makes its node once all memory has its name.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..acl import device as local
from ..acl import recording
from ..acl.errors import (
    ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED,
    ACL_ERROR_RT_STREAM_UNJOINED,
    AclError,
)
from ..acl.event import Event
from ..acl.handles import Live
from ..acl.recording import Mode, RecordedMark
from ..acl.stream import Stream
from ..diag.call_site import call_site
from ..hccl.types import OP_NAMES, dtype_name
from .graph import Graph, Group
from .nodes import (
    Buffer,
    Collective,
    Copy,
    Kernel,
    Memset,
    Message,
    Node,
    Record,
    Role,
    Span,
    Task,
    Transfer,
    View,
    Wait,
)
from .placement import Array, Piece, Pieces, bounds, is_viewable, piece_of

if TYPE_CHECKING:
    from ..hccl.arguments import Call
    from ..hccl.communicator import Communicator


class Uses(NamedTuple):
    """A task, and the bytes that it uses."""

    task: Task
    reads: Sequence[Span] = ()
    writes: Sequence[Span] = ()


class Queued(NamedTuple):
    """A task as it was queued."""

    stream: int
    name: str
    line: str
    make: Callable[[Pieces], Uses]


class Recorder:
    """One capture: acl.recording.Recorder."""

    def __init__(self, origin: Stream, mode: Mode, name: str) -> None:
        self.mode, self.thread, self.origin, self.name = mode, threading.get_ident(), origin, name
        self.line = call_site()
        self.streams: dict[Stream, int] = {}
        self.why_invalid = ""
        self._queued: list[Queued] = []
        self._pieces = Pieces()
        self._marks: list[tuple[Event, RecordedMark]] = []
        self._communicators: dict[str, Communicator] = {}

    # ---- what is queued ----

    def kernel(
        self,
        stream: Stream,
        function: Callable[..., object],
        arguments: Sequence[Any],
        keywords: Mapping[str, Any],
        reads: Sequence[Any] | None,
        writes: Sequence[Any] | None,
    ) -> None:
        given = list(_arrays((arguments, keywords)))
        if reads is None and writes is None:
            is_opaque = not given
            read, written = given, [x for x in given if x.flags.writeable]
        else:
            is_opaque = False
            read, written = list(reads or ()), list(writes or ())
        self._refuse_hidden(function)
        self._meet(*given, *read, *written)

        def make(pieces: Pieces) -> Uses:
            values = _with_views(tuple(arguments), pieces), _with_views(dict(keywords), pieces)
            spans = [dict.fromkeys(_span(pieces, x) for x in arrays if x.nbytes) for arrays in (read, written)]
            return Uses(Kernel(function, *values, is_opaque), *map(list, spans))

        self._queue(stream, getattr(function, "__qualname__", type(function).__name__), make)

    def copy(
        self, stream: Stream, to: int, to_pitch: int, source: int, source_pitch: int, nbytes: int, rows: int, keep: Any
    ) -> None:
        lengths = [(rows - 1) * pitch + nbytes if rows else 0 for pitch in (to_pitch, source_pitch)]
        for address, length in zip((to, source), lengths, strict=True):
            self._pieces.add(_piece_at(address, length, keep))

        def make(pieces: Pieces) -> Uses:
            written, read = pieces.span(to, lengths[0]), pieces.span(source, lengths[1])
            return Uses(Copy(written, read, nbytes, rows, to_pitch, source_pitch), [read], [written])

        if nbytes and rows:
            self._queue(stream, "copy", make)

    def fill(self, stream: Stream, to: int, value: int, nbytes: int, keep: Any) -> None:
        self._pieces.add(_piece_at(to, nbytes, keep))

        def make(pieces: Pieces) -> Uses:
            written = pieces.span(to, nbytes)
            return Uses(Memset(written, value), writes=[written])

        if nbytes:
            self._queue(stream, "memset", make)

    def record(self, stream: Stream, event: Event) -> RecordedMark:
        mark = RecordedMark(self, len(self._marks))
        self._marks.append((event, mark))
        self._queue(stream, "record", lambda pieces: Uses(Record(mark.number)))
        return mark

    def wait(self, stream: Stream, mark: RecordedMark) -> None:
        self._queue(stream, "wait", lambda pieces: Uses(Wait(mark.number)))

    def join(self, stream: Stream, mark: RecordedMark) -> None:
        self.take(stream)
        self.wait(stream, mark)

    def collective(self, stream: Stream, communicator: "Communicator", call: "Call") -> None:
        spec, place = call.spec, (communicator.rank, communicator.size, call.root)
        has_x, has_out = spec.blocks_in.on(*place) > 0, spec.blocks_out.on(*place) > 0
        if spec.name == "broadcast":
            has_x, has_out = communicator.rank == call.root, communicator.rank != call.root
        op = OP_NAMES[call.op]

        def make(pieces: Pieces) -> Uses:
            x, out = (pieces.view(array) if array.nbytes else None for array in (call.x, call.out))
            task = Collective(
                spec.name, communicator.name, dtype_name(call.dtype), call.count, op, call.root, x, out
            )
            return Uses(task, *([view.span] if has and view else [] for has, view in ((has_x, x), (has_out, out))))

        self._call(stream, communicator, spec.name, (call.x, call.out), make)

    def split(
        self,
        stream: Stream,
        communicator: "Communicator",
        name: str,
        kind: tuple[int, int],
        x: Array,
        out: Array,
        table: bytes,
    ) -> None:
        rows = np.frombuffer(table, np.uint64).reshape(4, -1).tolist()

        def make(pieces: Pieces) -> Uses:
            read, written = (pieces.view(array) if array.nbytes else None for array in (x, out))
            split = tuple(tuple(row) for row in rows)
            task = Collective(
                name, communicator.name, dtype_name(kind[0]), 0, OP_NAMES[kind[1]], 0, read, written, split
            )
            return Uses(task, *([view.span] if view else [] for view in (read, written)))

        self._call(stream, communicator, name, (x, out), make)

    def transfer(
        self,
        stream: Stream,
        communicator: "Communicator",
        name: str,
        items: Sequence[tuple[int, int, int, int, Array]],
    ) -> None:
        def make(pieces: Pieces) -> Uses:
            messages = tuple(
                Message(bool(side), peer, pieces.view(x) if x.nbytes else _empty_view(x))
                for side, peer, _, _, x in items
            )
            spans = [[message.view.span for message in messages if message.receives == way] for way in (False, True)]
            return Uses(Transfer(name, communicator.name, messages), *([s for s in way if s.nbytes] for way in spans))

        self._call(stream, communicator, name, [item[4] for item in items], make)

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
        """What was queued. AclError: the capture was invalidated (507903), or a stream was not joined (107025)."""
        if self.why_invalid:
            text = f"the capture that began at {self.line} is not valid any more: {self.why_invalid}"
            raise AclError(
                ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, f"ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED (507903): {text}"
            )
        self._name_pieces()
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
        return graph

    def _name_pieces(self) -> None:
        taken = {piece.name for piece in self._pieces}
        names = (name for number in range(1 << 62) if (name := f"b{number}") not in taken)
        for piece in self._pieces:
            piece.name = piece.name or next(names)

    def _buffers(self, nodes: Sequence[Node]) -> dict[str, Buffer]:
        roles: dict[str, Role] = {}
        written = {span.buffer for node in nodes for span in node.writes}
        for node in nodes:
            for role, spans in ((Role.INPUT, node.reads), (Role.OUTPUT, node.writes)):
                for span in spans:
                    roles.setdefault(span.buffer, role)
        for piece in self._pieces:
            if piece.is_own:
                roles[piece.name] = Role.INTERMEDIATE
            elif piece.is_read_only and piece.name not in written:
                roles[piece.name] = Role.CONSTANT
        return {
            piece.name: Buffer(
                piece.name,
                piece.nbytes,
                piece.dtype,
                piece.shape,
                roles.get(piece.name, Role.INPUT),
                None if piece.is_own else piece.address,
                piece.is_own or _is_on_device(piece.address),
            )
            for piece in self._pieces
        }

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

    # ---- helping ----

    def _queue(self, stream: Stream, name: str, make: Callable[[Pieces], Uses]) -> None:
        self._queued.append(Queued(self.streams[stream], name, call_site(), make))

    def _call(
        self,
        stream: Stream,
        communicator: "Communicator",
        name: str,
        arrays: Sequence[Array],
        make: Callable[[Pieces], Uses],
    ) -> None:
        known = self._communicators.setdefault(communicator.name, communicator)
        if known is not communicator:
            raise ValueError(f"two communicators of this capture are called {communicator.name!r}; expected one")
        self._meet(*arrays)
        self._queue(stream, name, make)

    def _meet(self, *arrays: Array) -> None:
        for x in arrays:
            self._pieces.add(piece_of(x))

    def _refuse_hidden(self, function: Callable[..., object]) -> None:
        """Memory of the graph's own is placed later, so that a function cannot have got hold of it before."""
        for cell in getattr(function, "__closure__", None) or ():
            for x in _arrays(cell.cell_contents):
                if any(piece.is_own and piece.address <= bounds(x)[0] < piece.end for piece in self._pieces):
                    name = getattr(function, "__qualname__", repr(function))
                    raise ValueError(f"{name} uses an array of ge.empty that it was not given; pass it as an argument")


def _arrays(value: Any) -> Iterator[Array]:
    """All arrays in a value, in tuples, lists and dicts too."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _arrays(part)
    elif isinstance(value, dict):
        for part in value.values():
            yield from _arrays(part)


def _with_views(value: Any, pieces: Pieces) -> Any:
    """The value with a View in the place of every array that can be made again."""
    if is_viewable(value):
        return pieces.view(value)
    if type(value) in (tuple, list):
        return type(value)(_with_views(part, pieces) for part in value)
    if type(value) is dict:
        return {key: _with_views(part, pieces) for key, part in value.items()}
    return value


def _span(pieces: Pieces, x: Array) -> Span:
    low, high = bounds(x)
    return pieces.span(low, high - low)


def _piece_at(address: int, nbytes: int, keep: Any) -> Piece:
    """The block that an address lies in, if it is among what is kept alive for it; otherwise just the bytes."""
    for live in keep if isinstance(keep, tuple) and not isinstance(keep, Live) else (keep,):
        if isinstance(live, Live) and live.address <= address and address + nbytes <= live.address + live.nbytes:
            return Piece(live.address, live.nbytes, live)
    return Piece(address, nbytes, keep)


def _empty_view(x: Array) -> View:
    return View("", 0, x.dtype.name, x.shape, None, x.itemsize)


def _is_on_device(address: int) -> bool:
    segments = [device.memory.segment for device in local.opened()]
    return any(segment.base <= address < segment.base + segment.nbytes for segment in segments)
