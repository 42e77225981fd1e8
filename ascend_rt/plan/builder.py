"""What algorithms write with: data steps in rounds. Who waits for whom follows from the data (tokens.py).

An algorithm is run once for each rank and says what that rank moves in each round. A round may use what any rank did in
the rounds before it, and two ranks must not use the same chunk in one round if one of them writes it. Rounds are only a
way of telling what comes after what: no rank waits for a round to be over, but for what its next step needs.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .language import Buffer, Copy, DataStep, PlanError, Reduce, Ref, Step, everyone


class After(NamedTuple):
    """What follows waits for all that `peer` does in the rounds before, whether it uses it or not."""

    peer: int


class Item(NamedTuple):
    """One thing that a rank does, in which (phase, round)."""

    when: tuple[int, int]
    does: DataStep | After


class Builder:
    """The `p` of an algorithm: who I am, how to name chunks, and the steps as methods."""

    def __init__(self, rank: int, size: int, root: int) -> None:
        self.rank = rank
        self.size = size
        self.root = root
        self.ranks = range(size)
        self.chunks = 1
        self.items: list[Item] = []
        self.head: tuple[Step, ...] = ()
        self.tail: tuple[Step, ...] = ()
        self._phase = 0
        self._round = 0

    # ---- chunks ----

    def cut(self, chunks: int) -> None:
        """Cut each block into `chunks` chunks: before any step, the same on all ranks."""
        if self.items or self.head:
            raise PlanError(f"rank {self.rank}: cut({chunks}) after the first step: expected before")
        self.chunks = chunks

    @property
    def scratch_used(self) -> int:
        """How many chunks of scratch the steps so far ask every rank for."""
        steps = (item.does for item in self.items if isinstance(item.does, DataStep))
        refs = (ref for step in steps for ref in (*step.dsts, *step.srcs) if ref.buffer is Buffer.SCRATCH)
        return max((ref.chunk + 1 for ref in refs), default=0)

    def chunk(self, index: int, block: int = 0) -> int:
        """Flat number of chunk `index` of block `block`."""
        return block * self.chunks + index

    def inp(self, rank: int, chunk: int = 0) -> Ref:
        return Ref(rank, Buffer.IN, chunk)

    def out(self, rank: int, chunk: int = 0) -> Ref:
        return Ref(rank, Buffer.OUT, chunk)

    def scratch(self, rank: int, chunk: int = 0) -> Ref:
        return Ref(rank, Buffer.SCRATCH, chunk)

    # ---- steps ----

    def copy(self, dst: Ref, src: Ref, n: int = 1) -> None:
        """Move n chunks; nothing if they are where they shall be."""
        if dst != src:
            self._add(Copy(dst, src, n))

    def reduce(self, dsts: Iterable[Ref], srcs: Iterable[Ref], n: int = 1) -> None:
        self._add(Reduce(tuple(dsts), tuple(srcs), n))

    def fold(self, dst: Ref, *srcs: Ref) -> None:
        """Fold chunks of several ranks, in the order of the ranks; of one rank, move it."""
        if len(srcs) == 1:
            self.copy(dst, srcs[0])
        else:
            self.reduce([dst], sorted(srcs))

    def after(self, peer: int) -> None:
        """Before going on, wait for all that `peer` does in the rounds before this one. For pace, not for data."""
        self._add(After(peer))

    # ---- when ----

    def enter(self) -> None:
        """Everyone is here: buffers are ready, the ranks agree on the call. First in every plan."""
        self.head = everyone(self.rank, self.size)

    def round(self) -> None:
        """The next round: it may use what all ranks did in the rounds before."""
        self._round += 1

    def phase(self) -> None:
        """The next phase: its first round comes after the last one of the phase before, on whichever rank."""
        self._phase += 1
        self._round = 0

    def meanwhile(self) -> None:
        """Back to the first round of the phase: what follows goes on beside what was said of it so far."""
        self._round = 0

    def leave(self) -> None:
        """Nobody touches my buffers any more. Last in every plan of a collective with data."""
        self.tail = everyone(self.rank, self.size)

    def _add(self, does: DataStep | After) -> None:
        now = (self._phase, self._round)
        if self.items and self.items[-1].when == now and (longer := _joined(self.items[-1].does, does)):
            self.items.pop()
            does = longer
        self.items.append(Item(now, does))


def _joined(first: DataStep | After, second: DataStep | After) -> DataStep | None:
    """Two steps as one, if the second goes on in all places where the first ends. Scratch is moved chunk by chunk."""
    if isinstance(first, Copy) and isinstance(second, Copy):
        goes_on = _go_on(first.n, (first.dst, first.src), (second.dst, second.src))
        return Copy(first.dst, first.src, first.n + second.n) if goes_on else None
    if isinstance(first, Reduce) and isinstance(second, Reduce) and len(first.dsts) == len(second.dsts):
        goes_on = _go_on(first.n, (*first.dsts, *first.srcs), (*second.dsts, *second.srcs))
        return Reduce(first.dsts, first.srcs, first.n + second.n) if goes_on else None
    return None


def _go_on(n: int, first: Sequence[Ref], second: Sequence[Ref]) -> bool:
    return len(first) == len(second) and all(
        a.buffer is not Buffer.SCRATCH and b == a._replace(chunk=a.chunk + n)
        for a, b in zip(first, second, strict=True)
    )
