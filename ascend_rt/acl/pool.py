"""MemoryPool: device memory in the order of streams, for programs that allocate in every step.

    pool = MemoryPool(memory)                  memory: a DeviceMemory, as of acl.device.current().memory
    x = pool.empty(1000, stream=s)             for what is queued on s from here on
    pool.free(x)                               what is queued on s from here on may have its bytes; nobody waits
    pool.statistics()                          in use, reserved, peaks, fragmentation, who holds most

An array of rt.empty is freed when nothing refers to it, and a queued task refers to its arrays until it has run. So
memory that the program is done with lies idle until the stream has come so far. A pool gives it to the next task of the
same stream at once, since that runs later anyway; to other streams when the stream has come so far. An array that is
not freed goes back when it is collected.

The pool takes device memory in segments and keeps them. Sizes as in torch's caching allocator: small arrays share
segments of 2 MiB, larger ones of 20 MiB, the largest have one of their own.
"""

import math
from collections import Counter, deque
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..core import _core
from ..diag.call_site import call_site
from .errors import DeviceMemoryError
from .event import Event
from .memory import Array, DeviceMemory, Shape
from .stream import Stream

ALIGNMENT = 512
MIB = 1 << 20
SMALL, SMALL_SEGMENT, LARGE, LARGE_SEGMENT, STEP = MIB, 2 * MIB, 10 * MIB, 20 * MIB, 2 * MIB


class Statistics(NamedTuple):
    """Bytes of a pool."""

    in_use: int
    """of arrays that are neither freed nor collected"""
    reserved: int
    """of segments, which nobody else can have"""
    peak_in_use: int
    peak_reserved: int
    fragmentation: float
    """the part of what is idle that does not lie in the largest idle piece: 0 if one piece could have it all"""
    sources: tuple[tuple[str, int], ...]
    """lines of the program by the bytes in use that they asked for, the largest first"""

    def __str__(self) -> str:
        lines = [
            f"in use {self.in_use:,} (peak {self.peak_in_use:,}), reserved {self.reserved:,} (peak "
            f"{self.peak_reserved:,}) bytes, fragmentation {self.fragmentation:.0%}"
        ]
        return "\n".join([*lines, *(f"  {nbytes:>16,} bytes  {line}" for line, nbytes in self.sources)])


@dataclass(eq=False)
class _Idle:
    """Bytes of a segment that no array has. Free for `stream`; for others when the events are complete."""

    segment: _core.Block
    start: int
    nbytes: int
    stream: Stream | None = None
    events: tuple[Event, ...] = ()

    def is_free_for(self, stream: Stream | None) -> bool:
        return (stream is not None and self.stream is stream) or all(event.query() for event in self.events)


class _Lease:
    """Bytes that an array has; NumPy takes it for an array of bytes, which keeps it alive."""

    def __init__(self, pool: "MemoryPool", idle: _Idle, stream: Stream | None, line: str) -> None:
        self.pool, self.bytes, self.stream, self.line = pool, idle, stream, line
        self.others: list[Stream] = []
        self.returned = False
        address = idle.segment.address + idle.start
        self.__array_interface__ = {"version": 3, "data": (address, False), "shape": (idle.nbytes,), "typestr": "|u1"}

    def __del__(self) -> None:
        self.pool._collected.append(self)  # in whatever thread, in the middle of whatever: sorted in later


class MemoryPool:
    """For one thread at a time; arrays may be collected in any."""

    def __init__(self, memory: DeviceMemory) -> None:
        self._memory = memory
        self._segments: dict[int, tuple[_core.Block, int]] = {}
        self._idle: list[_Idle] = []
        self._collected: deque[_Lease] = deque()
        self._in_use, self._peak_in_use, self._reserved, self._peak_reserved = 0, 0, 0, 0
        self._sources: Counter[str] = Counter()

    def empty(self, shape: Shape, dtype: npt.DTypeLike = np.float32, *, stream: Stream | None = None) -> Array:
        """An array of undefined values, for what is queued on `stream` from here on; None: for anybody, at once.

        Blocks nobody. DeviceMemoryError (207001) when there is no room, with the statistics of the pool.
        """
        dimensions = (shape,) if isinstance(shape, int) else tuple(shape)
        kind = np.dtype(dtype)
        wanted = math.prod(dimensions) * kind.itemsize
        nbytes = -(-max(wanted, 1) // ALIGNMENT) * ALIGNMENT
        self._sort_in()
        idle = self._take(nbytes, stream) or self._reserve(nbytes, stream)
        lease = _Lease(self, idle, stream, call_site())
        self._in_use += nbytes
        self._peak_in_use = max(self._peak_in_use, self._in_use)
        self._sources[lease.line] += nbytes
        return np.asarray(lease)[:wanted].view(kind).reshape(dimensions)

    def free(self, x: Array) -> None:
        """What is queued on the array's stream from here on may have its bytes; the program uses it no more.

        Blocks nobody. ValueError: no array of this pool, or freed before.
        """
        lease = self._lease(x)
        streams = [stream for stream in (lease.stream, *lease.others) if stream is not None]
        owner = lease.stream if not lease.others else None
        self._give_back(lease, owner, tuple(stream.record() for stream in streams))

    def used_on(self, x: Array, stream: Stream) -> None:
        """The array is also used by what is queued on another stream: when it is freed, both have to have come so far.
        ValueError: no array of this pool, or freed."""
        self._lease(x).others.append(stream)

    def statistics(self, sources: int = 8) -> Statistics:
        """What it holds now, with so many lines of the program."""
        self._sort_in()
        self._join()
        idle = [piece.nbytes for piece in self._idle]
        scattered = 1 - max(idle) / sum(idle) if idle else 0.0
        top = tuple((line, nbytes) for line, nbytes in self._sources.most_common(sources) if nbytes)
        return Statistics(self._in_use, self._reserved, self._peak_in_use, self._peak_reserved, scattered, top)

    def defragment(self) -> int:
        """Gives segments of which nothing is in use back to the device, which joins them; the bytes of them.

        Arrays are never moved: peers and queued tasks know their addresses. Blocks nobody: what streams have not come
        past yet stays.
        """
        self._sort_in()
        self._join()
        given_back = 0
        for piece in list(self._idle):
            _, nbytes = self._segments[piece.segment.address]
            if piece.nbytes == nbytes and piece.is_free_for(None):
                self._idle.remove(piece)
                del self._segments[piece.segment.address]
                given_back += nbytes
        self._reserved -= given_back
        return given_back

    # ---- pieces ----

    def _lease(self, x: Array) -> _Lease:
        base: Any = x
        while isinstance(base, np.ndarray):
            base = base.base
        if not isinstance(base, _Lease) or base.pool is not self:
            raise ValueError("no array of this pool; expected one that its empty() has returned, or a view of one")
        if base.returned:
            raise ValueError(f"the array of {base.line} has been freed before")
        return base

    def _sort_in(self) -> None:
        while self._collected:
            lease = self._collected.popleft()
            if not lease.returned:  # its own tasks have run, but perhaps not those that had the bytes before
                self._give_back(lease, lease.bytes.stream, lease.bytes.events)

    def _give_back(self, lease: _Lease, stream: Stream | None, events: tuple[Event, ...]) -> None:
        lease.returned = True
        piece = lease.bytes
        self._in_use -= piece.nbytes
        self._sources[lease.line] -= piece.nbytes
        self._idle.append(_Idle(piece.segment, piece.start, piece.nbytes, stream, events))

    def _take(self, nbytes: int, stream: Stream | None) -> _Idle | None:
        """The smallest piece that is large enough, cut to size."""
        self._join()
        fitting = [piece for piece in self._idle if piece.nbytes >= nbytes and piece.is_free_for(stream)]
        if not fitting:
            return None
        piece = min(fitting, key=lambda piece: piece.nbytes)
        self._idle.remove(piece)
        if piece.nbytes > nbytes:
            rest = _Idle(piece.segment, piece.start + nbytes, piece.nbytes - nbytes, piece.stream, piece.events)
            self._idle.append(rest)
        return _Idle(piece.segment, piece.start, nbytes, piece.stream, piece.events)

    def _join(self) -> None:
        """Makes one piece of neighbours that are free for the same."""
        for piece in self._idle:
            if piece.events and piece.is_free_for(None):
                piece.stream, piece.events = None, ()
        joined: list[_Idle] = []
        for piece in sorted(self._idle, key=lambda piece: (piece.segment.address, piece.start)):
            last = joined[-1] if joined else None
            behind = last is not None and last.segment is piece.segment and last.start + last.nbytes == piece.start
            if last is not None and behind and last.stream is piece.stream and (piece.stream or not piece.events):
                last.nbytes += piece.nbytes
                last.events = (*last.events, *piece.events)
            else:
                joined.append(piece)
        self._idle = joined

    def _reserve(self, nbytes: int, stream: Stream | None) -> _Idle:
        size = SMALL_SEGMENT if nbytes <= SMALL else LARGE_SEGMENT if nbytes < LARGE else -(-nbytes // STEP) * STEP
        try:
            segment = self._memory.allocate(size)
        except DeviceMemoryError:
            if not self.defragment() and size == nbytes:
                raise
            size = nbytes
            try:
                segment = self._memory.allocate(size)
            except DeviceMemoryError as error:
                raise DeviceMemoryError(f"{error}\nThe pool that asked: {self.statistics()}") from None
        self._segments[segment.address] = segment, size
        self._reserved += size
        self._peak_reserved = max(self._peak_reserved, self._reserved)
        self._idle.append(_Idle(segment, 0, size))
        piece = self._take(nbytes, stream)
        assert piece is not None
        return piece
