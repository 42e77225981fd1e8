"""What an algorithm costs, counted from its rounds and from its plans.

HCCL's cost formulas (alpha per step, beta per byte of a link, gamma per byte folded) assume that every pair of ranks
has a link of its own, that all links run at once and that all ranks take their steps together. `as_written` counts so,
and agrees with the formulas but for these:

    mesh       all-reduce takes one round instead of two (one Reduce loads the shares and stores the result), reduce as
               well, and so does broadcast: everybody loads n bytes from the root, instead of 2n/N after a scatter
    ring       broadcast and reduce go in pieces that follow one another: one of them would take the (N-1) n of HCCL
    H-D_R      all-gather by a number of ranks that is no power of two: a rank does not get its own block back

`cost` counts what the plans ask for: there a rank waits only for what it needs, so a chain may be shorter than the
rounds it was written in. Entering and leaving come on top: one round each, for every algorithm.
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from .collectives import COLLECTIVES
from .language import DataStep, Groups, Option, Plan, Post, Reduce, Wait
from .registry import build_all, listing, parameters, write_all
from .symbolic import run


@dataclass(frozen=True)
class Written:
    """Cost of the rounds as they were written, taken together by all ranks; bytes as fractions of n.

    rounds   in which anything goes from rank to rank
    moved    sum over the rounds of what the busiest rank loads from others and stores to them
    touched  sum over the rounds of what the busiest rank loads and stores, of its own memory as well
    folded   sum over the rounds of what the busiest rank folds
    """

    rounds: int
    moved: Fraction
    touched: Fraction
    folded: Fraction


@dataclass(frozen=True)
class Cost:
    """Cost of one collective. The last four are fractions of n, the bytes of the larger of IN and OUT.

    rounds  longest chain of transfers between ranks of which each waits for the one before
    posts   by the busiest rank, besides enter and leave
    steps   that move data, of the busiest rank
    moved   loaded from and stored to other ranks by the busiest rank
    link    carried from one rank's memory to another's by the busiest direction between two ranks
    path    moved between ranks along the longest chain of steps of which each comes after the one before
    folded  by the busiest rank: everything after the first source of a Reduce
    """

    rounds: int
    posts: int
    steps: int
    moved: Fraction
    link: Fraction
    path: Fraction
    folded: Fraction


def cost(collective: str, algorithm: str, size: int, root: int = 0, **options: Option) -> Cost:
    """The cost of an algorithm at `size` ranks, for a count that its chunks divide evenly."""
    return _Count(build_all(collective, algorithm, size, root, **options)).total()


@lru_cache(maxsize=1024)
def as_written(collective: str, algorithm: str, size: int, root: int = 0, **options: Option) -> Written:
    """The cost of an algorithm's rounds at `size` ranks, for a count that its chunks divide evenly."""
    builders = write_all(collective, algorithm, size, root, **options)
    chunk = _chunk(collective, size, builders[0].chunks)
    moved, touched, folded = _Rounds(size, chunk), _Rounds(size, chunk), _Rounds(size, chunk)
    for p in builders:
        for when, does in p.items:
            if isinstance(does, DataStep):
                moved.add(when, p.rank, len(links_of(p.rank, does)) * does.n)
                touched.add(when, p.rank, (len(does.srcs) + len(does.dsts)) * does.n)
                folded.add(when, p.rank, (len(does.srcs) - 1) * does.n)
    return Written(moved.number(), moved.by_the_busiest(), touched.by_the_busiest(), folded.by_the_busiest())


class _Rounds:
    """Chunks that each rank handles in each round."""

    def __init__(self, size: int, chunk: Fraction) -> None:
        self._size, self._chunk = size, chunk
        self._chunks: dict[tuple[int, int], list[int]] = {}

    def add(self, when: tuple[int, int], rank: int, chunks: int) -> None:
        self._chunks.setdefault(when, [0] * self._size)[rank] += chunks

    def number(self) -> int:
        """Rounds with any."""
        return sum(any(ranks) for ranks in self._chunks.values())

    def by_the_busiest(self) -> Fraction:
        return sum(map(max, self._chunks.values())) * self._chunk


def table(size: int) -> str:
    """The costs of all algorithms at `size` ranks, to be read by people; those for several servers on two of them."""
    two: Groups = (tuple(range(size // 2)), tuple(range(size // 2, size)))
    lines = [f"{'N = ' + str(size):16}{'':14}rounds  posts  steps    moved     link     path   folded"]
    for collective, algorithm in listing():
        options: dict[str, Option] = {"servers": two} if "servers" in parameters(collective, algorithm) else {}
        c = cost(collective, algorithm, size, 0, **options)
        parts = "".join(f"{float(part):7.3f} n" for part in (c.moved, c.link, c.path, c.folded))
        lines.append(f"{collective:16}{algorithm:14}{c.rounds:6}{c.posts:7}{c.steps:7}{parts}")
    return "\n".join(lines)


class _Count:
    """One run of the plans' bodies, counting."""

    def __init__(self, plans: Sequence[Plan]) -> None:
        size = len(plans)
        self._chunk = _chunk(plans[0].collective, size, plans[0].chunks)
        self._links: defaultdict[tuple[int, int], Fraction] = defaultdict(Fraction)
        self._moved = [Fraction(0)] * size
        self._folded = [Fraction(0)] * size
        self._path = [Fraction(0)] * size
        self._before = [0] * size  # rounds that were over when the rank began its present one
        self._rounds = [0] * size
        self._bodies = [plan.body for plan in plans]
        tokens: dict[tuple[int, int], deque[tuple[int, Fraction]]] = {}
        for rank, number in run(self._bodies):
            match self._bodies[rank][number]:
                case Post(peer):
                    tokens.setdefault((rank, peer), deque()).append((self._rounds[rank], self._path[rank]))
                case Wait(peer):
                    rounds, path = tokens[peer, rank].popleft()
                    self._before[rank] = max(self._before[rank], rounds)
                    self._rounds[rank] = max(self._rounds[rank], rounds)
                    self._path[rank] = max(self._path[rank], path)
                case step:
                    self._add(rank, step)

    def _add(self, rank: int, step: DataStep) -> None:
        amount = step.n * self._chunk
        for link in links_of(rank, step):
            self._links[link] += amount
            self._moved[rank] += amount
            self._path[rank] += amount
            self._rounds[rank] = max(self._rounds[rank], self._before[rank] + 1)
        if isinstance(step, Reduce):
            self._folded[rank] += (len(step.srcs) - 1) * amount

    def total(self) -> Cost:
        return Cost(
            rounds=max(self._rounds),
            posts=max(sum(isinstance(step, Post) for step in body) for body in self._bodies),
            steps=max(sum(isinstance(step, DataStep) for step in body) for body in self._bodies),
            moved=max(self._moved),
            link=max(self._links.values(), default=Fraction(0)),
            path=max(self._path),
            folded=max(self._folded),
        )


def _chunk(collective: str, size: int, chunks: int) -> Fraction:
    """A chunk as a part of the larger buffer."""
    return Fraction(1, max(COLLECTIVES[collective].blocks(size), 1) * chunks)


def links_of(rank: int, step: DataStep) -> list[tuple[int, int]]:
    """From whose memory to whose the step of a rank carries, once for each chunk that it loads or stores."""
    loads = [(src.rank, rank) for src in step.srcs if src.rank != rank]
    return loads + [(rank, dst.rank) for dst in step.dsts if dst.rank != rank]
