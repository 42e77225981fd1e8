"""The memory of a proof: where the buffers of some calls lie, cut into cells.

One flat address space counts elements: per rank its scratch, used by every call, then the IN and OUT of each call,
overlapping where the rank calls in place. A cell is a stretch of elements that no chunk boundary divides, so whatever
happens to one element of a cell happens to all of them.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from .chunks import chunk_span, chunk_start, scratch_stride
from .collectives import Collective
from .language import Buffer, DataStep, Plan, Ref


@dataclass(frozen=True)
class Call:
    """One collective as all ranks call it.

    plans     of all ranks
    count     elements per block
    align     elements to whose multiples chunks are aligned
    in_place  the ranks that pass IN and OUT in the overlapping form of the collective
    """

    plans: tuple[Plan, ...]
    count: int
    align: int = 1
    in_place: frozenset[int] = frozenset()

    @property
    def spec(self) -> Collective:
        return self.plans[0].spec

    @property
    def size(self) -> int:
        return len(self.plans)

    @property
    def root(self) -> int:
        return self.plans[0].root

    @property
    def chunks(self) -> int:
        return self.plans[0].chunks

    @property
    def stride(self) -> int:
        return scratch_stride(self.count, self.chunks, self.align)

    def __str__(self) -> str:
        name = (
            f"{self.spec.name}/{self.plans[0].algorithm} of {self.size} ranks, count {self.count}, align {self.align}"
        )
        return f"{name}, in place on {sorted(self.in_place)}" if self.in_place else name


class Span(NamedTuple):
    """Elements start..stop-1 of the address space."""

    start: int
    stop: int

    def overlaps(self, other: "Span") -> bool:
        return max(self.start, other.start) < min(self.stop, other.stop)


class Layout:
    """Addresses of all buffers of a sequence of calls on one communicator."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self._calls = calls
        self._base: dict[tuple[int, int, Buffer], int] = {}
        scratch = max(call.plans[0].scratch * call.stride for call in calls)
        cuts: set[int] = set()
        end = 0
        for rank in range(calls[0].size):
            scratch_base, end = end, end + scratch
            for number in range(len(calls)):
                self._base[number, rank, Buffer.SCRATCH] = scratch_base
                end = self._place(number, rank, end)
                cuts.update(self._cuts(number, rank))
        self._cuts_sorted = sorted(cuts)

    @property
    def cells(self) -> int:
        return len(self._cuts_sorted)

    def buffer(self, call: int, rank: int, buffer: Buffer) -> Span:
        """All of IN or OUT of `rank` in call number `call`."""
        owner = self._calls[call]
        blocks = owner.spec.blocks_in if buffer is Buffer.IN else owner.spec.blocks_out
        base = self._base[call, rank, buffer]
        return Span(base, base + blocks.on(rank, owner.size, owner.root) * owner.count)

    def spans(self, call: int, step: DataStep) -> tuple[list[Span], list[Span]]:
        """Where the destinations and the sources of a step lie. Their length is that of its chunks of IN or OUT."""
        place = next(ref.chunk for ref in (*step.dsts, *step.srcs) if ref.buffer is not Buffer.SCRATCH)
        start, stop = self._chunk(call, place, step.n)
        length = stop - start
        return [self._at(call, ref, length) for ref in step.dsts], [self._at(call, ref, length) for ref in step.srcs]

    def within(self, span: Span) -> range:
        """The cells that lie in or reach into `span`."""
        if span.start == span.stop:
            return range(0)
        return range(bisect_right(self._cuts_sorted, span.start) - 1, bisect_left(self._cuts_sorted, span.stop))

    def cell(self, number: int) -> Span:
        return Span(self._cuts_sorted[number], self._cuts_sorted[number + 1])

    def _chunk(self, call: int, chunk: int, n: int) -> tuple[int, int]:
        owner = self._calls[call]
        return chunk_span(chunk, n, owner.count, owner.chunks, owner.align)

    def _at(self, call: int, ref: Ref, length: int) -> Span:
        if ref.buffer is Buffer.SCRATCH:
            offset = ref.chunk * self._calls[call].stride
        else:
            offset = self._chunk(call, ref.chunk, 1)[0]
        start = self._base[call, ref.rank, ref.buffer] + offset
        return Span(start, start + length)

    def _place(self, number: int, rank: int, start: int) -> int:
        """Choose addresses for IN and OUT of a call from `start` on; return where the next memory may begin."""
        call = self._calls[number]
        both = call.spec.blocks_in, call.spec.blocks_out
        lengths = [blocks.on(rank, call.size, call.root) * call.count for blocks in both]
        first_in, first_out = 0, lengths[0]
        if rank in call.in_place and all(lengths):
            first_in, first_out = (block * call.count for block in call.spec.in_place.first_blocks(rank))
        self._base[number, rank, Buffer.IN] = start + first_in
        self._base[number, rank, Buffer.OUT] = start + first_out
        return start + sum(lengths)

    def _cuts(self, number: int, rank: int) -> Iterator[int]:
        """Every address at which a chunk of this rank begins or ends in this call."""
        call = self._calls[number]
        starts = [chunk_start(chunk, call.count, call.chunks, call.align) for chunk in range(call.chunks + 1)]
        for buffer in (Buffer.IN, Buffer.OUT):
            base, end = self.buffer(number, rank, buffer)
            yield end
            for block in range(base, end, call.count or 1):
                yield from (block + start for start in starts)
        lengths = {stop - start for start, stop in pairwise(starts)}
        for chunk in range(call.plans[0].scratch):
            start = self._base[number, rank, Buffer.SCRATCH] + chunk * call.stride
            yield from (start + length for length in {0, call.stride} | lengths)
