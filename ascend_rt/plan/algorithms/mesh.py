"""Mesh: every rank takes what it needs from where it is, all at once.

One round, no posts. Wins wherever every pair of ranks has an equally good way to each other, as in shared memory, and
folds all contributions at once, in rank order, with one rounding. Ranks begin with their own part and go round, so that
no two read the same memory at the same time.
"""

from collections.abc import Iterator

from ..builder import Builder
from ..phases import Group, Slots, Where, phase
from ..registry import algorithm


@algorithm("all_reduce", "mesh")
def all_reduce(p: Builder) -> None:
    """Rank r folds chunk r of everybody and stores the result to everybody: 2n(N-1)/N bytes from and to the others."""
    p.cut(p.size)
    mine = p.chunk(p.rank)
    p.enter()
    p.reduce([p.out(r, mine) for r in p.ranks], [p.inp(r, mine) for r in p.ranks])
    p.leave()


@algorithm("reduce", "mesh")
def reduce(p: Builder) -> None:
    """Rank r folds chunk r of everybody and stores the result to the root: n(N-1)/N bytes loaded and n/N stored."""
    p.cut(p.size)
    mine = p.chunk(p.rank)
    p.enter()
    p.reduce([p.out(p.root, mine)], [p.inp(r, mine) for r in p.ranks])
    p.leave()


@algorithm("broadcast", "mesh")
def broadcast(p: Builder) -> None:
    """Everybody loads n bytes from the root: in shared memory they come from the cache after the first reader."""
    p.enter()
    p.copy(p.out(p.rank), p.inp(p.root))
    p.leave()


@algorithm("all_to_all", "mesh")
def all_to_all(p: Builder) -> None:
    """Everybody loads its block from everybody: n(N-1)/N bytes from the others."""
    p.enter()
    for owner in round_from(p.ranks, p.rank):
        p.copy(p.out(p.rank, owner), p.inp(owner, p.rank))
    p.leave()


@algorithm("barrier", "mesh")
def barrier(p: Builder) -> None:
    """Entering a collective is a barrier already: no data."""
    p.enter()


@phase("reduce_scatter", "mesh")
def reduce_scatter(p: Builder, group: Group, slots: Slots, held: Where, kept: Where) -> None:
    """Everybody folds its own block: n(N-1)/N bytes loaded from the others."""
    for chunk in slots[group.index(p.rank)]:
        p.fold(kept(p.rank, chunk), *(held(rank, chunk) for rank in group))


@phase("all_gather", "mesh")
def all_gather(p: Builder, group: Group, slots: Slots, held: Where, kept: Where) -> None:
    """Everybody loads every block from its owner: n(N-1)/N bytes from the others."""
    for owner in round_from(group, p.rank):
        for chunk in slots[group.index(owner)]:
            if owner != p.rank:
                p.copy(kept(p.rank, chunk), held(owner, chunk))


@phase("scatter", "mesh")
def scatter(p: Builder, group: Group, root: int, slots: Slots, held: Where, kept: Where) -> None:
    """Everybody loads its block from the root: n/N bytes."""
    if p.rank != group[root]:
        for chunk in slots[group.index(p.rank)]:
            p.copy(kept(p.rank, chunk), held(group[root], chunk))


@phase("gather", "mesh")
def gather(p: Builder, group: Group, root: int, slots: Slots, held: Where, kept: Where) -> None:
    """Everybody stores its block to the root: n/N bytes."""
    if p.rank != group[root]:
        for chunk in slots[group.index(p.rank)]:
            p.copy(kept(group[root], chunk), held(p.rank, chunk))


def round_from(group: Group, rank: int) -> Iterator[int]:
    """The ranks of the group in order, beginning with one of them."""
    first = group.index(rank)
    return ((group[(first + distance) % len(group)]) for distance in range(len(group)))
