"""NB, nonuniform Bruck: ceil(log2 N) rounds by any number of ranks, at distances 1, 2, 4 ... to the right.

In round k of a reduce-scatter a rank hands on every second of the partial sums it still has: those whose owner is an
odd multiple of 2^k to its right. The all-gather is Bruck's: what a rank has, from its own block on, doubles.
"""

from collections.abc import Sequence

from ..builder import Builder
from ..phases import Group, Slots, Where, in_two, phase


def distances(n: int) -> list[int]:
    """1, 2, 4 ..., less than n."""
    return [1 << k for k in range((n - 1).bit_length())]


@phase("reduce_scatter", "NB")
def reduce_scatter(p: Builder, group: Group, slots: Slots, held: Where, kept: Where) -> None:
    """ceil(log2 N) rounds, n(N-1)/N bytes; (N-1+2^k) div 2^(k+1) blocks in round k."""
    me, n = group.index(p.rank), len(group)
    for distance in distances(n):
        source = group[(me - distance) % n]
        for ahead in range(distance, n, 2 * distance):
            # Only partial sums for the rank farthest ahead got nothing in the rounds before.
            so_far = held if distance == 1 or ahead == n - 1 else kept
            own = held if distance == 1 else kept
            for chunk in slots[(me - distance + ahead) % n]:
                p.fold(kept(p.rank, chunk), so_far(source, chunk), own(p.rank, chunk))
        p.round()


@phase("all_gather", "NB")
def all_gather(p: Builder, group: Group, slots: Slots, held: Where, kept: Where) -> None:
    """ceil(log2 N) rounds, n(N-1)/N bytes: in round k the next 2^k blocks come from the rank 2^k to the right."""
    me, n = group.index(p.rank), len(group)
    for distance in distances(n):
        for ahead in range(distance, min(2 * distance, n)):
            for chunk in slots[(me + ahead) % n]:
                p.copy(kept(p.rank, chunk), held(group[(me + distance) % n], chunk))
        p.round()


@phase("all_reduce", "NB")
def all_reduce(p: Builder, group: Group, chunks: Sequence[int], held: Where, kept: Where) -> None:
    """Reduce-scatter, then all-gather: 2 ceil(log2 N) rounds, 2n(N-1)/N bytes."""
    in_two(reduce_scatter, all_gather, p, group, [(chunk,) for chunk in chunks], held, kept)


@phase("scatter", "NB")
def scatter(p: Builder, group: Group, root: int, slots: Slots, held: Where, kept: Where) -> None:
    """ceil(log2 N) rounds, n(N-1)/N bytes from the root: in round k everybody reached hands on every second block."""
    me, n = (group.index(p.rank) - root) % len(group), len(group)
    for distance in distances(n):
        if distance <= me < 2 * distance:
            for ahead in range(me, n, 2 * distance):
                for chunk in slots[(root + ahead) % n]:
                    p.copy(kept(p.rank, chunk), held(group[(root + me - distance) % n], chunk))
        p.round()


@phase("broadcast", "NB")
def broadcast(p: Builder, group: Group, root: int, chunks: Sequence[int], held: Where, kept: Where) -> None:
    """Scatter, then all-gather: 2 ceil(log2 N) rounds, 2n(N-1)/N bytes."""
    slots = [(chunk,) for chunk in chunks]
    scatter(p, group, root, slots, held, kept)
    p.phase()
    if p.rank != group[root]:
        all_gather(p, group, slots, held, kept)
