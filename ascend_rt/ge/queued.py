"""What is queued on a recorded stream, taken down: as functions that make tasks once all memory has its name.

While it lasts only addresses are known: two arrays may turn out to be of one allocation.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..acl import device as local
from ..acl.handles import Live
from ..acl.recording import Launch
from ..acl.stream import Stream
from ..hccl.types import OP_NAMES, dtype_name
from .fusion import current_mark
from .nodes import Buffer, Collective, Copy, Kernel, Memset, Message, Node, Role, Span, Task, Transfer, View
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


class Taker:
    """Takes down kernels, copies, collectives and messages. Whoever has one says where they go: `_queue`."""

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self._queued: list[Queued] = []
        self._communicators: dict[str, Communicator] = {}

    def _queue(self, stream: Stream, name: str, make: Callable[[Pieces], Uses]) -> None:
        raise NotImplementedError

    def kernel(self, stream: Stream, launched: Launch) -> None:
        function, arguments, keywords, reads, writes = launched
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

    def collective(self, stream: Stream, communicator: "Communicator", call: "Call") -> None:
        spec, place = call.spec, (communicator.rank, communicator.size, call.root)
        has_x, has_out = spec.blocks_in.on(*place) > 0, spec.blocks_out.on(*place) > 0
        if spec.name == "broadcast":
            has_x, has_out = communicator.rank == call.root, communicator.rank != call.root
        op, fusion = OP_NAMES[call.op], current_mark()

        def make(pieces: Pieces) -> Uses:
            x, out = (pieces.view(array) if array.nbytes else None for array in (call.x, call.out))
            task = Collective(
                spec.name, communicator.name, dtype_name(call.dtype), call.count, op, call.root, x, out, None, *fusion
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

    # ---- helping ----

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
                if self._pieces.has_own(x):
                    name = getattr(function, "__qualname__", repr(function))
                    raise ValueError(f"{name} uses an array of ge.empty that it was not given; pass it as an argument")


def first_uses(nodes: Iterable[Node]) -> dict[str, Role]:
    """By buffer: INPUT where it is read before it is written, otherwise OUTPUT."""
    roles: dict[str, Role] = {}
    for node in nodes:
        for role, spans in ((Role.INPUT, node.reads), (Role.OUTPUT, node.writes)):
            for span in spans:
                roles.setdefault(span.buffer, role)
    return roles


def buffer_of(piece: Piece, role: Role) -> Buffer:
    """The buffer that a piece is, which has its name by now."""
    address = None if piece.is_own else piece.address
    on_device = piece.is_own or _is_on_device(piece.address)
    return Buffer(piece.name, piece.nbytes, piece.dtype, piece.shape, role, address, on_device)


def _is_on_device(address: int) -> bool:
    segments = [device.memory.segment for device in local.opened()]
    return any(segment.base <= address < segment.base + segment.nbytes for segment in segments)


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
    for live in _blocks(keep):
        if live.address <= address and address + nbytes <= live.address + live.nbytes:
            return Piece(live.address, live.nbytes, live)
    return Piece(address, nbytes, keep)


def _blocks(keep: Any) -> Iterator[Live]:
    if isinstance(keep, Live):
        yield keep
    elif isinstance(keep, tuple):
        for part in keep:
            yield from _blocks(part)


def _empty_view(x: Array) -> View:
    return View("", 0, x.dtype.name, x.shape, None, x.itemsize)
