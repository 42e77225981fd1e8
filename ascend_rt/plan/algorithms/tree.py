"""Binomial tree: ceil(log2 N) rounds in which the ranks that have it all, or are yet to be folded, double or halve.

n bytes in each round: wins for small data among many ranks. As a broadcast it is what HCCL calls H-D_R.
"""

from collections.abc import Sequence

from ..builder import Builder
from ..phases import Group, Slots, Where, phase, whole
from .nb import distances


@phase("broadcast", "tree", whole)
def broadcast(p: Builder, group: Group, root: int, chunks: Sequence[int], held: Where, kept: Where) -> None:
    """Everybody reached serves one more in each round: ceil(log2 N) rounds of n bytes."""
    me, n = (group.index(p.rank) - root) % len(group), len(group)
    for distance in distances(n):
        if distance <= me < 2 * distance:
            for chunk in chunks:
                p.copy(kept(p.rank, chunk), held(group[(root + me - distance) % n], chunk))
        p.round()


phase("broadcast", "H-D_R", whole)(broadcast)


@phase("reduce", "tree", whole)
def reduce(p: Builder, group: Group, root: int, chunks: Sequence[int], held: Where, kept: Where) -> None:
    """In each round half of those who are left fold in the other half's sums: ceil(log2 N) rounds of n bytes."""
    me, n = (group.index(p.rank) - root) % len(group), len(group)
    for distance in distances(n):
        if me % (2 * distance) == 0 and me + distance < n:
            # The other rank has folded something before if there was a rank to its right.
            partial = kept if distance > 1 and me + distance + 1 < n else held
            own = kept if distance > 1 else held
            for chunk in chunks:
                source = partial(group[(root + me + distance) % n], chunk)
                p.fold(kept(p.rank, chunk), own(p.rank, chunk), source)
        p.round()


@phase("gather", "tree")
def gather(p: Builder, group: Group, root: int, slots: Slots, held: Where, kept: Where) -> None:
    """In each round half of those who are left load what the other half has: ceil(log2 N) rounds, n(N-1)/N bytes."""
    me, n = (group.index(p.rank) - root) % len(group), len(group)
    for distance in distances(n):
        if me % (2 * distance) == 0:
            for ahead in range(me + distance, min(me + 2 * distance, n)):
                for chunk in slots[(root + ahead) % n]:
                    p.copy(kept(p.rank, chunk), held(group[(root + me + distance) % n], chunk))
        p.round()
