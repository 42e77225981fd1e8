"""The memory of a proof: where the buffers of some calls lie, cut into cells.

One flat address space counts elements: per rank its scratch, used by every call, then the IN and OUT of each call,
overlapping where the rank calls in place. A cell is a stretch of elements that no chunk boundary divides, so whatever
happens to one element of a cell happens to all of them.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
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
    sent      elements that each rank sends to each, `sent[from][to]`, if blocks differ in count: then every chunk must
              be a whole block, and `count` is not used
    """

    plans: tuple[Plan, ...]
    count: int
    align: int = 1
    in_place: frozenset[int] = frozenset()
    sent: tuple[tuple[int, ...], ...] | None = None

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

    def blocks(self, rank: int, buffer: Buffer) -> list[int]:
        """Elements of each block of IN or OUT of `rank`."""
        owner = self.spec.blocks_in if buffer is Buffer.IN else self.spec.blocks_out
        numbers = range(owner.on(rank, self.size, self.root))
        if self.sent is None:
            return [self.count for _ in numbers]
        if buffer is Buffer.IN:
            return [self.sent[rank][block] for block in numbers]
        contents = (self.spec.result(rank, block, self.size, self.root) for block in numbers)
        return [self.sent[content.ranks[0]][content.block] for content in contents]

    def length(self, rank: int, buffer: Buffer) -> int:
        """Elements of IN or OUT of `rank`."""
        if self.sent is not None:
            return sum(self.blocks(rank, buffer))
        owner = self.spec.blocks_in if buffer is Buffer.IN else self.spec.blocks_out
        return owner.on(rank, self.size, self.root) * self.count

    def block_start(self, rank: int, buffer: Buffer, block: int) -> int:
        """Where a block begins in its buffer: they lie one behind another."""
        return sum(self.blocks(rank, buffer)[:block]) if self.sent is not None else block * self.count

    def block_at(self, rank: int, buffer: Buffer, offset: int) -> int:
        """The block in which an element of a buffer lies."""
        if self.sent is None:
            return offset // self.count
        ends = list(accumulate(self.blocks(rank, buffer)))
        return bisect_right(ends, offset)

    def __str__(self) -> str:
        name = (
            f"{self.spec.name}/{self.plans[0].algorithm} of {self.size} ranks, count {self.count}, align {self.align}"
        )
        name = name if self.sent is None else f"{name}, blocks {self.sent}"
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
        base = self._base[call, rank, buffer]
        return Span(base, base + owner.length(rank, buffer))

    def spans(self, call: int, step: DataStep) -> tuple[list[Span], list[Span]]:
        """Where the destinations and the sources of a step lie.

        Their length is that of its chunks of IN or OUT; from scratch to scratch, all of a chunk of scratch.
        """
        measure = next((ref for ref in (*step.dsts, *step.srcs) if ref.buffer is not Buffer.SCRATCH), None)
        start, stop = (0, self._calls[call].stride) if measure is None else self._chunk(call, measure, step.n)
        length = stop - start
        return [self._at(call, ref, length) for ref in step.dsts], [self._at(call, ref, length) for ref in step.srcs]

    def within(self, span: Span) -> range:
        """The cells that lie in or reach into `span`."""
        if span.start == span.stop:
            return range(0)
        return range(bisect_right(self._cuts_sorted, span.start) - 1, bisect_left(self._cuts_sorted, span.stop))

    def cell(self, number: int) -> Span:
        return Span(self._cuts_sorted[number], self._cuts_sorted[number + 1])

    def _chunk(self, call: int, ref: Ref, n: int) -> tuple[int, int]:
        owner = self._calls[call]
        if owner.sent is None:
            return chunk_span(ref.chunk, n, owner.count, owner.chunks, owner.align)
        starts = (owner.block_start(ref.rank, ref.buffer, block) for block in (ref.chunk, ref.chunk + n))
        return next(starts), next(starts)

    def _at(self, call: int, ref: Ref, length: int) -> Span:
        if ref.buffer is Buffer.SCRATCH:
            offset = ref.chunk * self._calls[call].stride
        else:
            offset = self._chunk(call, ref, 1)[0]
        start = self._base[call, ref.rank, ref.buffer] + offset
        return Span(start, start + length)

    def _place(self, number: int, rank: int, start: int) -> int:
        """Choose addresses for IN and OUT of a call from `start` on; return where the next memory may begin."""
        call = self._calls[number]
        lengths = [call.length(rank, buffer) for buffer in (Buffer.IN, Buffer.OUT)]
        first_in, first_out = 0, lengths[0]
        if rank in call.in_place and all(lengths):
            inner, outer = call.spec.in_place.first_blocks(rank)
            # The smaller buffer is a block of the larger one.
            first_in, first_out = call.block_start(rank, Buffer.OUT, inner), call.block_start(rank, Buffer.IN, outer)
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
            yield base
            for block, count in enumerate(call.blocks(rank, buffer)):
                first = base + call.block_start(rank, buffer, block)
                yield from (first + start for start in (starts if call.sent is None else (0, count)))
        lengths = {stop - start for start, stop in pairwise(starts)}
        for chunk in range(call.plans[0].scratch):
            start = self._base[number, rank, Buffer.SCRATCH] + chunk * call.stride
            yield from (start + length for length in {0, call.stride} | lengths)
