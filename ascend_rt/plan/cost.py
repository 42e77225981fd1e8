"""What an algorithm costs, counted from its plans.

HCCL's cost formulas (alpha per step, beta per byte of a link, gamma per byte folded) assume that every pair of ranks
has a link of its own and that all links run at once. Ours are loads and stores of the other rank's memory, so there is
one more number: what a rank moves in all. Where the formulas coincide and where they do not:

    alpha   `rounds`. The same for the rings and for mesh reduce-scatter and all-gather. Mesh all-reduce takes 1 instead
            of 2 (one Reduce loads the shares and stores the result), mesh broadcast 1 instead of 2 (no scatter first).
    beta    `link` for the mesh, `path` for the rings. The same but for broadcast: by mesh everybody loads the n bytes
            of the root, n instead of 2n/N; by ring the pieces overlap, and only one piece takes the (N-1) n of HCCL.
    gamma   `folded`. The same.

Entering and leaving come on top: one round each, for every algorithm.
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from .language import DataStep, Plan, Post, Reduce, Wait
from .registry import build_all, listing
from .symbolic import run


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


def cost(collective: str, algorithm: str, size: int, root: int = 0, **options: int) -> Cost:
    """The cost of an algorithm at `size` ranks, for a count that its chunks divide evenly."""
    return _Count(build_all(collective, algorithm, size, root, **options)).total()


def table(size: int) -> str:
    """The costs of all algorithms at `size` ranks, to be read by people."""
    lines = [f"{'N = ' + str(size):16}{'':10}rounds  posts  steps    moved     link     path   folded"]
    for collective, algorithm in listing():
        c = cost(collective, algorithm, size)
        parts = "".join(f"{float(part):7.3f} n" for part in (c.moved, c.link, c.path, c.folded))
        lines.append(f"{collective:16}{algorithm:10}{c.rounds:6}{c.posts:7}{c.steps:7}{parts}")
    return "\n".join(lines)


class _Count:
    """One run of the plans' bodies, counting."""

    def __init__(self, plans: Sequence[Plan]) -> None:
        size, spec = len(plans), plans[0].spec
        blocks = max(spec.blocks_in.number(size), spec.blocks_out.number(size), 1)
        self._chunk = Fraction(1, blocks * plans[0].chunks)
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
        loads = [(src.rank, rank) for src in step.srcs if src.rank != rank]
        stores = [(rank, dst.rank) for dst in step.dsts if dst.rank != rank]
        for link in loads + stores:
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
