"""NHR, nonuniform hierarchical ring: N trees of depth ceil(log2 N) at once, by any number of ranks.

Partial sums travel to the right over 1, 2, 4 ...; results come back over the same distances in reverse. Where the parts
of the data may be numbered freely they are numbered so that a rank hands on neighbouring ones: few long steps.
"""

from collections.abc import Sequence

from ..builder import Builder
from ..phases import Group, Slots, Where, in_two, phase
from .nb import distances
from .nb import reduce_scatter as travel_right

phase("reduce_scatter", "NHR")(travel_right)


@phase("all_gather", "NHR")
def all_gather(p: Builder, group: Group, slots: Slots, held: Where, kept: Where) -> None:
    """The reduce-scatter in reverse: ceil(log2 N) rounds, n(N-1)/N bytes."""
    me, n = group.index(p.rank), len(group)
    for distance in reversed(distances(n)):
        for ahead in range(distance, n, 2 * distance):
            for chunk in slots[(me + ahead) % n]:
                p.copy(kept(p.rank, chunk), held(group[(me + distance) % n], chunk))
        p.round()


@phase("all_reduce", "NHR")
def all_reduce(p: Builder, group: Group, chunks: Sequence[int], held: Where, kept: Where) -> None:
    """Reduce-scatter, then all-gather: 2 ceil(log2 N) rounds, 2n(N-1)/N bytes."""
    in_two(travel_right, all_gather, p, group, _numbered(chunks), held, kept)


@phase("scatter", "NHR")
def scatter(p: Builder, group: Group, root: int, slots: Slots, held: Where, kept: Where) -> None:
    """A binomial tree: ceil(log2 N) rounds, n(N-1)/N bytes from the root, first the half that is farthest away."""
    me, n = (group.index(p.rank) - root) % len(group), len(group)
    for distance in reversed(distances(n)):
        if me % (2 * distance) == distance:
            for ahead in range(me, min(me + distance, n)):
                for chunk in slots[(root + ahead) % n]:
                    p.copy(kept(p.rank, chunk), held(group[(root + me - distance) % n], chunk))
        p.round()


@phase("broadcast", "NHR")
def broadcast(p: Builder, group: Group, root: int, chunks: Sequence[int], held: Where, kept: Where) -> None:
    """Scatter, then all-gather: 2 ceil(log2 N) rounds, 2n(N-1)/N bytes."""
    slots = _numbered(chunks)
    scatter(p, group, root, slots, held, kept)
    p.phase()
    if p.rank != group[root]:
        all_gather(p, group, slots, held, kept)


def _numbered(chunks: Sequence[int]) -> Slots:
    """The chunk of each member: those of members at a distance of 2^k from one another lie together."""
    bits = (len(chunks) - 1).bit_length()
    mirrored = sorted(range(len(chunks)), key=lambda member: f"{member:0{bits}b}"[::-1] if bits else "")
    return [(chunks[mirrored.index(member)],) for member in range(len(chunks))]
