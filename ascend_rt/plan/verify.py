"""The proof of plans: right data, no race, no deadlock, no token left, for calls that follow one another.

Plans have no choice in them (see symbolic.py), so one run of all ranks shows what every run does. While it goes on, two
things are kept for each cell of memory (see layout.py):

    data    which ranks' contributions it holds (a bit mask) and of which element, as the distance from its own address;
            None when nothing was stored yet
    access  who wrote it last and who has read it since, each with the vector clock of that moment

The vector clocks carry happens-before: a Post hands over the poster's clock and ticks, the Wait that takes it merges.
An access is right if every earlier access that it conflicts with happened before it; then this holds for every timing.

The caller is part of the proof. Before its plan a rank's program fills IN and scribbles over OUT, after the plan it
reads and overwrites both. Without that, nobody inside a mesh plan ever writes IN, and a dropped Wait or a missing leave
would pass. What is wrong only across calls (a token left over, scratch used again while it is still read) is found by
proving sequences of calls, which share scratch and tokens.

What each element of OUT must hold in the end comes from collectives.py. IN must hold what the caller put there, save
where OUT lies on it. A Reduce that sees all contributions one by one must fold them in rank order, so that every
algorithm that folds once gives the same bits.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .language import Buffer, Copy, DataStep, PlanError, Post, Reduce, Step, Wait
from .layout import Call, Layout, Span
from .symbolic import run


class RaceError(PlanError):
    """Two ranks use the same element, one of them writes it, and nothing says who comes first."""


class DataError(PlanError):
    """Something else than the collective demands is read, folded or left in the end."""


class _Caller(NamedTuple):
    """A rank's program just before a call of a collective and just after it."""

    entering: bool


class _Value(NamedTuple):
    """Data of the ranks in `mask`, of element `address + shift` of their IN."""

    mask: int
    shift: int


class _Access(NamedTuple):
    rank: int
    time: int
    position: int


@dataclass(slots=True)
class _Cell:
    value: _Value | None
    writer: _Access | None
    readers: dict[int, _Access]


def prove(*calls: Call) -> None:
    """Prove calls that follow one another on one communicator. Raises a PlanError saying what is wrong, and where."""
    for call in calls:
        _agree(call)
    _Proof(calls).run()


def _agree(call: Call) -> None:
    """All ranks must talk about the same chunks; the native core compares the fingerprints instead."""
    first = call.plans[0]
    for rank, plan in enumerate(call.plans):
        given = (plan.collective, plan.rank, plan.size, plan.root, plan.chunks, plan.scratch)
        expected = (first.collective, rank, call.size, first.root, first.chunks, first.scratch)
        if given != expected:
            raise PlanError(
                f"{call}: rank {rank}: (collective, rank, size, root, chunks, scratch) is {given}: {expected=}"
            )


class _Proof:
    def __init__(self, calls: Sequence[Call]) -> None:
        size = calls[0].size
        self._calls = calls
        self._layout = Layout(calls)
        self._memory = [_Cell(None, None, {}) for _ in range(self._layout.cells)]
        self._clock = [[int(peer == rank) for peer in range(size)] for rank in range(size)]
        self._tokens: dict[tuple[int, int], deque[list[int]]] = {}
        self._entered: dict[int, list[int]] = {number: [0] * size for number in range(len(calls))}
        self._programs: list[list[Step | _Caller]] = [[] for _ in range(size)]
        self._call_of: list[list[tuple[int, int]]] = [[] for _ in range(size)]  # program position -> (call, step)
        for number, call in enumerate(calls):
            for program, places, plan in zip(self._programs, self._call_of, call.plans, strict=True):
                program += [_Caller(entering=True), *plan.steps, _Caller(entering=False)]
                places += [(number, step) for step in range(-1, len(plan.steps) + 1)]

    def run(self) -> None:
        for rank, position in run(self._programs, self._where):
            match self._programs[rank][position]:
                case Post(peer):
                    self._tokens.setdefault((rank, peer), deque()).append(self._clock[rank].copy())
                    self._clock[rank][rank] += 1
                case Wait(peer):
                    token = self._tokens[peer, rank].popleft()
                    self._clock[rank] = [max(pair) for pair in zip(self._clock[rank], token, strict=True)]
                case _Caller(entering=True):
                    self._enter(rank, position)
                case _Caller(entering=False):
                    self._leave(rank, position)
                case Copy() | Reduce() as step:
                    self._move(rank, position, step)

    # What a step does to the data.

    def _move(self, rank: int, position: int, step: DataStep) -> None:
        dsts, srcs = self._layout.spans(self._call_of[rank][position][0], step)
        if isinstance(step, Copy) and dsts == srcs:
            return  # a copy onto itself is no access
        for dst in dsts:
            if any(dst.overlaps(other) and dst != other for other in (*dsts, *srcs)):
                raise DataError(f"{self._where(rank, position)}: expected ranges that are disjoint or the same")
        for src in srcs:
            self._read(rank, position, src)
        stores = [
            (cell, self._fold(rank, position, cell, dst, srcs)) for dst in dsts for cell in self._layout.within(dst)
        ]
        for dst in dsts:
            self._write(rank, position, dst)
        for cell, value in stores:
            self._memory[cell].value = value

    def _fold(self, rank: int, position: int, cell: int, dst: Span, srcs: Sequence[Span]) -> _Value:
        """What `cell` of `dst` gets from the sources."""
        start, stop = self._layout.cell(cell)
        values = [
            self._value(rank, position, Span(start - dst.start + src.start, stop - dst.start + src.start))
            for src in srcs
        ]
        shifts = {value.shift + src.start - dst.start for value, src in zip(values, srcs, strict=True)}
        if len(shifts) > 1:
            raise DataError(f"{self._where(rank, position)}: expected the same element from all sources")
        union = 0
        for value in values:
            if union & value.mask:
                raise DataError(f"{self._where(rank, position)}: expected each contribution once, got masks {values}")
            union |= value.mask
        everybody = (1 << len(self._clock)) - 1
        masks = [value.mask for value in values]
        if union == everybody and len(masks) == len(self._clock) and masks != sorted(masks):
            raise DataError(
                f"{self._where(rank, position)}: expected all contributions in rank order, got masks {masks}"
            )
        return _Value(union, shifts.pop())

    def _value(self, rank: int, position: int, span: Span) -> _Value:
        values = {self._memory[cell].value for cell in self._layout.within(span)}
        if len(values) > 1 or None in values:
            raise DataError(f"{self._where(rank, position)}: expected data of one kind, got {values}")
        value = values.pop()
        assert value is not None
        return value

    # What the caller does before and after, and what it finds.

    def _enter(self, rank: int, position: int) -> None:
        number = self._call_of[rank][position][0]
        self._entered[number][rank] = self._clock[rank][rank]
        for buffer, value in ((Buffer.OUT, None), (Buffer.IN, self._given(number, rank))):
            span = self._layout.buffer(number, rank, buffer)
            self._write(rank, position, span)
            for cell in self._layout.within(span):
                self._memory[cell].value = value

    def _leave(self, rank: int, position: int) -> None:
        number = self._call_of[rank][position][0]
        call = self._calls[number]
        early = [peer for peer, time in enumerate(self._entered[number]) if not 0 < time <= self._clock[rank][peer]]
        if call.spec.synchronises and early:
            raise DataError(f"{self._where(rank, position)}: left before ranks {early} had entered")
        into, out = (self._layout.buffer(number, rank, buffer) for buffer in (Buffer.IN, Buffer.OUT))
        for span in (into, out):
            self._write(rank, position, span)
        for cell in self._layout.within(into):
            if not out.overlaps(self._layout.cell(cell)):
                self._expect(rank, position, cell, self._given(number, rank), "IN")
        for cell in self._layout.within(out):
            self._expect(
                rank, position, cell, self._wanted(number, rank, self._layout.cell(cell).start - out.start), "OUT"
            )

    def _given(self, number: int, rank: int) -> _Value:
        return _Value(1 << rank, -self._layout.buffer(number, rank, Buffer.IN).start)

    def _wanted(self, number: int, rank: int, offset: int) -> _Value:
        """What OUT of `rank` must hold `offset` elements from its start."""
        call = self._calls[number]
        block = offset // call.count
        content = call.spec.result(rank, block, call.size, call.plans[0].root)
        out = self._layout.buffer(number, rank, Buffer.OUT).start
        return _Value(sum(1 << peer for peer in content.ranks), (content.block - block) * call.count - out)

    def _expect(self, rank: int, position: int, cell: int, wanted: _Value, buffer: str) -> None:
        found = self._memory[cell].value
        if found != wanted:
            raise DataError(f"{self._where(rank, position)}: {buffer} holds {found}: expected {wanted}")

    # Who may touch what when.

    def _read(self, rank: int, position: int, span: Span) -> None:
        now = _Access(rank, self._clock[rank][rank], position)
        for number in self._layout.within(span):
            cell = self._memory[number]
            self._ordered(now, cell.writer, "reads", "wrote")
            cell.readers[rank] = now

    def _write(self, rank: int, position: int, span: Span) -> None:
        now = _Access(rank, self._clock[rank][rank], position)
        for number in self._layout.within(span):
            cell = self._memory[number]
            self._ordered(now, cell.writer, "writes", "wrote")
            for reader in cell.readers.values():
                self._ordered(now, reader, "writes", "read")
            cell.writer, cell.readers = now, {}

    def _ordered(self, now: _Access, earlier: _Access | None, does: str, did: str) -> None:
        if earlier is not None and self._clock[now.rank][earlier.rank] < earlier.time:
            here, there = self._where(now.rank, now.position), self._where(earlier.rank, earlier.position)
            raise RaceError(f"{here}: {does} what was {did} by\n  {there}\n  and nothing makes one wait for the other")

    def _where(self, rank: int, position: int) -> str:
        number, step = self._call_of[rank][position]
        call = self._calls[number]
        item = self._programs[rank][position]
        if isinstance(item, _Caller):
            return f"call {number} ({call}), rank {rank}, its program {'before' if item.entering else 'after'} the call"
        return f"call {number} ({call}), rank {rank}, step {step}, {item}"
