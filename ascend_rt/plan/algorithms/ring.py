"""Ring: everybody loads from its left neighbour only.

As many rounds as there are neighbours: wins where only neighbours have a good link and data are large; loses to
algorithms of few rounds where they are small.
"""

from collections.abc import Sequence

from ..builder import Builder
from ..phases import Group, Slots, Where, in_two, phase

PIECES = 8
"""What goes through a chain is cut into so many pieces, which follow one another."""


def pieces(size: int) -> int:
    return PIECES


@phase("reduce_scatter", "ring")
def reduce_scatter(p: Builder, group: Group, slots: Slots, held: Where, kept: Where) -> None:
    """N-1 rounds in which partial sums travel to the right and grow; each ends at its owner. n(N-1)/N bytes."""
    me, n = group.index(p.rank), len(group)
    left = group[me - 1]
    for step in range(n - 1):
        partial = kept if step else held
        for chunk in slots[(me - 2 - step) % n]:
            p.fold(kept(p.rank, chunk), partial(left, chunk), held(p.rank, chunk))
        p.round()


@phase("all_gather", "ring")
def all_gather(p: Builder, group: Group, slots: Slots, held: Where, kept: Where) -> None:
    """N-1 rounds: each rank loads what its left neighbour got in the round before. n(N-1)/N bytes."""
    me, n = group.index(p.rank), len(group)
    left = group[me - 1]
    for step in range(n - 1):
        for chunk in slots[(me - 1 - step) % n]:
            p.copy(kept(p.rank, chunk), held(left, chunk))
        p.round()


@phase("all_reduce", "ring")
def all_reduce(p: Builder, group: Group, chunks: Sequence[int], held: Where, kept: Where) -> None:
    """Reduce-scatter, then all-gather: 2(N-1) rounds, 2n(N-1)/N bytes."""
    in_two(reduce_scatter, all_gather, p, group, [(chunk,) for chunk in chunks], held, kept)


@phase("broadcast", "ring", pieces)
def broadcast(p: Builder, group: Group, root: int, chunks: Sequence[int], held: Where, kept: Where) -> None:
    """A chain from the root to the right, one piece after the other.

    The last rank has all after (1 + (N-2)/pieces) n bytes, and with one piece after (N-1) n.
    """
    hops = (group.index(p.rank) - root) % len(group)
    left = group[group.index(p.rank) - 1]
    for step in range(len(chunks) + len(group) - 2):
        if hops > 0 and 0 <= step - (hops - 1) < len(chunks):
            chunk = chunks[step - (hops - 1)]
            p.copy(kept(p.rank, chunk), held(left, chunk))
        p.round()


@phase("reduce", "ring", pieces)
def reduce(p: Builder, group: Group, root: int, chunks: Sequence[int], held: Where, kept: Where) -> None:
    """A chain that ends at the root, one piece after the other: partial sums travel to the right and grow."""
    hops = (group.index(p.rank) - root - 1) % len(group)
    left = group[group.index(p.rank) - 1]
    for step in range(len(chunks) + len(group) - 2):
        if hops > 0 and 0 <= step - (hops - 1) < len(chunks):
            chunk = chunks[step - (hops - 1)]
            partial = kept if hops > 1 else held
            p.fold(kept(p.rank, chunk), partial(left, chunk), held(p.rank, chunk))
        p.round()


@phase("scatter", "ring")
def scatter(p: Builder, group: Group, root: int, slots: Slots, held: Where, kept: Where) -> None:
    """N-1 rounds: blocks leave the root to the right, that of the farthest rank first. n(N-1)/N bytes."""
    me, n = group.index(p.rank), len(group)
    hops = (me - root) % n
    left = group[me - 1]
    for step in range(n - 1):
        owner = n - 1 - (step - (hops - 1))
        if hops > 0 and hops <= owner < n:
            for chunk in slots[(root + owner) % n]:
                p.copy(kept(p.rank, chunk), held(left, chunk))
        p.round()


@phase("gather", "ring")
def gather(p: Builder, group: Group, root: int, slots: Slots, held: Where, kept: Where) -> None:
    """N-1 rounds: blocks travel to the right up to the root, that of the nearest rank first. n(N-1)/N bytes."""
    me, n = group.index(p.rank), len(group)
    left = group[me - 1]
    for step in range(n - 1 - (root - me) % n):
        for chunk in slots[(me - 1 - step) % n]:
            p.copy(kept(p.rank, chunk), held(left, chunk))
        p.round()
