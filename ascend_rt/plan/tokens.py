"""Who must wait for whom: posts and waits, placed where the data of an algorithm's rounds ask for them, nowhere else.

What a rank does in one round is a move. The moves of all ranks are walked round by round. One that reads a chunk comes
after the move that stored it; one that stores comes after all that used the chunk before. Where such an earlier move is
another rank's, and is not known to be over through tokens placed already (vector clocks tell), that rank posts right
after it and this one waits right before its own. So no token can be left out, and none deadlocks: all point from an
earlier round to a later one.

A rank may pass IN and OUT in place. Both ways are looked at: chunks of IN and OUT as apart, and as the caller's one
memory, in which a copy onto itself is no access.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from .builder import After, Builder, Item
from .collectives import Collective, InPlace
from .language import Buffer, Copy, DataStep, PlanError, Post, Ref, Step, Wait

Cell = tuple[int, int, int]
"""(rank, buffer or 3 for both in one, chunk)."""

_IN_ONE = 3


def with_tokens(spec: Collective, builders: Sequence[Builder]) -> list[tuple[Step, ...]]:
    """The steps of all ranks, which have run one algorithm with a builder each."""
    if len({item.when for p in builders for item in p.items}) > 1:
        bodies = _Placing(spec, builders).bodies()
    else:
        bodies = [tuple(item.does for item in p.items if not isinstance(item.does, After)) for p in builders]
    return [(*p.head, *body, *p.tail) for p, body in zip(builders, bodies, strict=True)]


class _Placing:
    """The one walk. A rank's moves are numbered; clocks count those that are known to be over."""

    def __init__(self, spec: Collective, builders: Sequence[Builder]) -> None:
        self._spec, self._builders = spec, builders
        self._moves = [_moves(p.items) for p in builders]
        self._posts: list[dict[int, list[int]]] = [{} for _ in builders]  # move -> to whom
        self._waits: list[dict[int, list[int]]] = [{} for _ in builders]  # move -> for whom
        self._clocks: list[list[list[int]]] = [[] for _ in builders]  # after each move
        self._begins = [[self._begin(p.rank, buffer) for buffer in Buffer] for p in builders]
        self._writer: dict[Cell, tuple[int, int]] = {}
        self._readers: dict[Cell, dict[int, int]] = {}

    def bodies(self) -> list[tuple[Step, ...]]:
        for now in sorted({move[0].when for moves in self._moves for move in moves}):
            over = [len(clocks) for clocks in self._clocks]
            for rank, moves in enumerate(self._moves):
                number = over[rank]
                if number < len(moves) and moves[number][0].when == now:
                    self._place(rank, number, over)
        return [tuple(self._body(rank)) for rank in range(len(self._moves))]

    def _place(self, rank: int, number: int, over: Sequence[int]) -> None:
        """One move, when as many moves of each rank as `over` says are those of earlier rounds."""
        needed: dict[int, int] = {}
        for item in self._moves[rank][number]:
            if isinstance(item.does, After):
                if over[item.does.peer]:
                    needed[item.does.peer] = over[item.does.peer] - 1
                continue
            for peer, theirs in self._touch(rank, number, item.does):
                if theirs >= over[peer]:
                    raise PlanError(f"rank {rank}, {item.does}: rank {peer} uses the same chunk in the same round")
                needed[peer] = max(theirs, needed.get(peer, 0))
        self._clocks[rank].append(self._wait(rank, number, needed))

    def _touch(self, rank: int, number: int, step: DataStep) -> list[tuple[int, int]]:
        """The moves of other ranks that the step must come after; it is done then."""
        earlier: set[tuple[int, int]] = set()
        reads, writes = self._cells(step, step.srcs), self._cells(step, step.dsts)
        for cell in (*reads, *writes):
            if cell in self._writer:
                earlier.add(self._writer[cell])
        for cell in writes:
            earlier.update(self._readers.pop(cell, {}).items())
            self._writer[cell] = (rank, number)
        for cell in reads:
            self._readers.setdefault(cell, {})[rank] = number
        return [(peer, theirs) for peer, theirs in earlier if peer != rank]

    def _wait(self, rank: int, number: int, needed: dict[int, int]) -> list[int]:
        """The clock after a move, with tokens for what is not known to be over, nor through another of the tokens."""
        clock = list(self._clocks[rank][-1]) if self._clocks[rank] else [0] * len(self._builders)
        unknown = {peer: theirs for peer, theirs in needed.items() if clock[peer] <= theirs}
        for peer, theirs in unknown.items():
            told = (self._clocks[other][move][peer] for other, move in unknown.items() if other != peer)
            if any(count > theirs for count in told):
                continue
            self._posts[peer].setdefault(theirs, []).append(rank)
            self._waits[rank].setdefault(number, []).append(peer)
            clock = list(map(max, clock, self._clocks[peer][theirs]))
        clock[rank] = number + 1
        return clock

    def _cells(self, step: DataStep, refs: Sequence[Ref]) -> list[Cell]:
        cells = [(rank, int(buffer), each) for rank, buffer, chunk in refs for each in range(chunk, chunk + step.n)]
        if isinstance(step, Copy) and self._in_one(step.dst) == self._in_one(step.src):
            return cells
        for first in filter(None, map(self._in_one, refs)):
            cells += [(first[0], _IN_ONE, each) for each in range(first[2], first[2] + step.n)]
        return cells

    def _in_one(self, ref: Ref) -> Cell | None:
        """Where a chunk lies in the one memory of an in-place call; None if that changes nothing."""
        begin = self._begins[ref.rank][ref.buffer]
        return None if begin is None else (ref.rank, _IN_ONE, begin + ref.chunk)

    def _begin(self, rank: int, buffer: Buffer) -> int | None:
        """The place of a buffer's first chunk in the one memory of an in-place call, likewise."""
        size, root, spec = len(self._builders), self._builders[0].root, self._spec
        both = spec.blocks_in.on(rank, size, root) and spec.blocks_out.on(rank, size, root)
        if buffer is Buffer.SCRATCH or spec.in_place is InPlace.NONE or not both:
            return None
        return spec.in_place.first_blocks(rank)[buffer] * self._builders[0].chunks

    def _body(self, rank: int) -> Iterator[Step]:
        for number, move in enumerate(self._moves[rank]):
            yield from map(Wait, self._waits[rank].get(number, ()))
            yield from (item.does for item in move if not isinstance(item.does, After))
            yield from map(Post, self._posts[rank].get(number, ()))


def _moves(items: Sequence[Item]) -> list[list[Item]]:
    ordered = sorted(items, key=attrgetter("when"))
    return [list(move) for _, move in groupby(ordered, key=attrgetter("when"))]
