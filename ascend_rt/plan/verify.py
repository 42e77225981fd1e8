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
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from .language import Buffer, Copy, DataStep, PlanError, Post, Reduce, Step, Wait
from .layout import Call, Layout, Span
from .symbolic import run, union


class RaceError(PlanError):
    """Two ranks use the same element, one of them writes it, and nothing says who comes first."""


class DataError(PlanError):
    """Something else than the collective demands is read, folded or left in the end."""


def prove(*calls: Call) -> None:
    """Prove calls that follow one another on one communicator. Raises a PlanError saying what is wrong, and where."""
    for call in calls:
        _agree(call)
    _Proof(calls).run()


def _agree(call: Call) -> None:
    """All ranks must talk about the same chunks; the native core compares fingerprints for that."""
    first = call.plans[0]
    for rank, plan in enumerate(call.plans):
        given = (plan.collective, plan.rank, plan.size, plan.root, plan.chunks, plan.scratch)
        expected = (first.collective, rank, call.size, first.root, first.chunks, first.scratch)
        if given != expected:
            what = "(collective, rank, size, root, chunks, scratch)"
            raise PlanError(f"{call}: plan of rank {rank}: {what} is {given}: expected {expected}")


class _Caller(NamedTuple):
    """A rank's program just before a call of a collective and just after it."""

    entering: bool


class _Value(NamedTuple):
    """Data of the ranks in `mask`, of element `address + shift` of their IN."""

    mask: int
    shift: int

    def __str__(self) -> str:
        ranks = [rank for rank in range(self.mask.bit_length()) if self.mask >> rank & 1]
        return f"contributions of ranks {ranks}, shift {self.shift}"


class _Access(NamedTuple):
    rank: int
    time: int
    position: int


class _Accesses:
    """Happens-before by vector clocks, and the accesses to each cell that later ones must come after."""

    def __init__(self, size: int, cells: int, where: Callable[[int, int], str]) -> None:
        self.clock = [[int(peer == rank) for peer in range(size)] for rank in range(size)]
        self._tokens: dict[tuple[int, int], deque[list[int]]] = {}
        self._writer: list[_Access | None] = [None] * cells
        self._readers: list[dict[int, _Access]] = [{} for _ in range(cells)]
        self._where = where

    def post(self, rank: int, peer: int) -> None:
        self._tokens.setdefault((rank, peer), deque()).append(self.clock[rank].copy())
        self.clock[rank][rank] += 1

    def wait(self, rank: int, peer: int) -> None:
        token = self._tokens[peer, rank].popleft()
        self.clock[rank] = [max(pair) for pair in zip(self.clock[rank], token, strict=True)]

    def read(self, rank: int, position: int, cells: Iterable[int]) -> None:
        now = _Access(rank, self.clock[rank][rank], position)
        for cell in cells:
            self._must_follow(self._writer[cell], now, "reads what was written")
            self._readers[cell][rank] = now

    def write(self, rank: int, position: int, cells: Iterable[int]) -> None:
        now = _Access(rank, self.clock[rank][rank], position)
        for cell in cells:
            self._must_follow(self._writer[cell], now, "writes what was written")
            for reader in self._readers[cell].values():
                self._must_follow(reader, now, "writes what was read")
            self._writer[cell], self._readers[cell] = now, {}

    def _must_follow(self, earlier: _Access | None, now: _Access, does: str) -> None:
        if earlier is not None and self.clock[now.rank][earlier.rank] < earlier.time:
            here, there = self._where(now.rank, now.position), self._where(earlier.rank, earlier.position)
            raise RaceError(f"{here}: {does} by\n  {there},\n  and nothing makes one wait for the other")


class _Proof:
    """The one run: the steps of all ranks, their effect on the data, and what the callers find."""

    def __init__(self, calls: Sequence[Call]) -> None:
        size = calls[0].size
        self._calls = calls
        self._layout = Layout(calls)
        self._data: list[_Value | None] = [None] * self._layout.cells
        self._accesses = _Accesses(size, self._layout.cells, self._where)
        self._entered = [[0] * size for _ in calls]  # the time at which each rank entered each call
        self._programs: list[list[Step | _Caller]] = [[] for _ in range(size)]
        self._places: list[list[tuple[int, int]]] = [[] for _ in range(size)]  # program position -> (call, step)
        for number, call in enumerate(calls):
            for program, places, plan in zip(self._programs, self._places, call.plans, strict=True):
                program += [_Caller(entering=True), *plan.steps, _Caller(entering=False)]
                places += [(number, step) for step in range(-1, len(plan.steps) + 1)]

    def run(self) -> None:
        for rank, position in run(self._programs, self._where):
            match self._programs[rank][position]:
                case Post(peer):
                    self._accesses.post(rank, peer)
                case Wait(peer):
                    self._accesses.wait(rank, peer)
                case _Caller(entering=True):
                    self._enter(rank, position)
                case _Caller(entering=False):
                    self._leave(rank, position)
                case Copy() | Reduce() as step:
                    self._move(rank, position, step)

    def _move(self, rank: int, position: int, step: DataStep) -> None:
        dsts, srcs = self._layout.spans(self._places[rank][position][0], step)
        if isinstance(step, Copy) and dsts == srcs:
            return  # a copy onto itself is no access
        for dst in dsts:
            if any(dst.overlaps(other) and dst != other for other in (*dsts, *srcs)):
                raise DataError(f"{self._where(rank, position)}: expected ranges that are disjoint or the same")
        for src in srcs:
            self._accesses.read(rank, position, self._layout.within(src))
        within_scratch = all(ref.buffer is Buffer.SCRATCH for ref in (*step.dsts, *step.srcs))
        fold = self._fold_all if within_scratch else self._fold
        try:
            stored = {cell: fold(cell, dst, srcs) for dst in dsts for cell in self._layout.within(dst)}
        except DataError as error:
            raise DataError(f"{self._where(rank, position)}: {error}") from None
        for dst in dsts:
            self._accesses.write(rank, position, self._layout.within(dst))
        for cell, value in stored.items():
            self._data[cell] = value

    def _fold_all(self, cell: int, dst: Span, srcs: Sequence[Span]) -> _Value | None:
        """The same from scratch to scratch, where all of a chunk is moved: behind the data, what cannot be folded.

        That is nothing; whoever puts it into OUT is told.
        """
        try:
            return self._fold(cell, dst, srcs)
        except DataError:
            return None

    def _fold(self, cell: int, dst: Span, srcs: Sequence[Span]) -> _Value:
        """What `cell` of `dst` gets from the sources."""
        start, stop = (address - dst.start for address in self._layout.cell(cell))
        values = [self._held(Span(src.start + start, src.start + stop)) for src in srcs]
        shifts = {value.shift + src.start - dst.start for value, src in zip(values, srcs, strict=True)}
        if len(shifts) > 1:
            raise DataError(f"expected the same element of all sources, got {_listed(values)}")
        masks = [value.mask for value in values]
        if sum(mask.bit_count() for mask in masks) != union(masks).bit_count():
            raise DataError(f"expected each contribution once, got {_listed(values)}")
        if len(masks) == len(self._programs) and masks != sorted(masks):
            raise DataError(f"expected all contributions in rank order, got {_listed(values)}")
        return _Value(union(masks), shifts.pop())

    def _held(self, span: Span) -> _Value:
        """What all of `span` holds."""
        values = {self._data[cell] for cell in self._layout.within(span)}
        if len(values) > 1 or None in values:
            raise DataError(f"expected one value in all of the source, got {_listed(values)}")
        value = values.pop()
        assert value is not None
        return value

    def _enter(self, rank: int, position: int) -> None:
        """The caller fills IN and spoils OUT."""
        number = self._places[rank][position][0]
        self._entered[number][rank] = self._accesses.clock[rank][rank]
        for buffer, value in ((Buffer.OUT, None), (Buffer.IN, self._given(number, rank))):
            cells = self._layout.within(self._layout.buffer(number, rank, buffer))
            self._accesses.write(rank, position, cells)
            for cell in cells:
                self._data[cell] = value

    def _leave(self, rank: int, position: int) -> None:
        """The caller checks OUT, and IN where OUT does not lie on it, and uses both for something else."""
        number = self._places[rank][position][0]
        clock = self._accesses.clock[rank]
        early = [peer for peer, time in enumerate(self._entered[number]) if not 0 < time <= clock[peer]]
        if early and self._calls[number].spec.synchronises:
            raise DataError(f"{self._where(rank, position)}: left before ranks {early} had entered")
        into, out = (self._layout.buffer(number, rank, buffer) for buffer in (Buffer.IN, Buffer.OUT))
        wanted = {cell: ("IN", self._given(number, rank)) for cell in self._layout.within(into)}
        for cell in self._layout.within(out):
            wanted[cell] = ("OUT", self._wanted(number, rank, self._layout.cell(cell).start - out.start))
        self._accesses.write(rank, position, wanted)
        for cell, (buffer, value) in wanted.items():
            if self._data[cell] != value:
                found = f"{buffer} holds {self._data[cell] or 'nothing'}"
                raise DataError(f"{self._where(rank, position)}: {found}: expected {value}")

    def _given(self, number: int, rank: int) -> _Value:
        return _Value(1 << rank, -self._layout.buffer(number, rank, Buffer.IN).start)

    def _wanted(self, number: int, rank: int, offset: int) -> _Value:
        """What OUT of `rank` must hold `offset` elements from its start."""
        call = self._calls[number]
        block = call.block_at(rank, Buffer.OUT, offset)
        content = call.spec.result(rank, block, call.size, call.root)
        out = self._layout.buffer(number, rank, Buffer.OUT).start
        begins = call.block_start(rank, Buffer.OUT, block)
        given = call.block_start(content.ranks[0], Buffer.IN, content.block) if content.ranks else 0
        return _Value(union(1 << peer for peer in content.ranks), given - begins - out)

    def _where(self, rank: int, position: int) -> str:
        number, step = self._places[rank][position]
        item = self._programs[rank][position]
        if isinstance(item, _Caller):
            place = f"its program {'before' if item.entering else 'after'} the call"
        else:
            place = f"step {step}, {item}"
        return f"call {number} ({self._calls[number]}), rank {rank}, {place}"


def _listed(values: Iterable[_Value | None]) -> str:
    return "; ".join("nothing" if value is None else str(value) for value in values)
