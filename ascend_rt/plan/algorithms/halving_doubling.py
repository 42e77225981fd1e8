"""H-D_R, recursive halving and doubling, by any number of ranks.

In each round everybody exchanges with one partner, at half the distance of the round before (halving) or twice it
(doubling): as few rounds as there can be, and no byte more than the ring. Of N ranks that are no power of two, as many
as it takes hand their data to a neighbour first and get the result last, which costs rounds and bytes.
"""

from collections.abc import Sequence

from ..builder import Builder
from ..phases import Group, Slots, Where, phase


def core_size(size: int) -> int:
    """The largest power of two that is not larger."""
    return 1 << size.bit_length() - 1


def _spans(n: int) -> list[range]:
    """The members as spans of one or two neighbours, a power of two of spans: the first of each is in the core."""
    q = core_size(n)
    return [range(i * n // q, (i + 1) * n // q) for i in range(q)]


@phase("reduce_scatter", "H-D_R")
def reduce_scatter(p: Builder, group: Group, slots: Slots, held: Where, kept: Where) -> None:
    """log2 N rounds, n(N-1)/N bytes: who keeps which half of what is left is decided anew in each round."""
    spans = _spans(len(group))
    everything = [chunk for slot in slots for chunk in slot]
    _merge(p, group, spans, everything, held, kept)
    shares = [[chunk for member in span for chunk in slots[member]] for span in spans]
    _halve(p, group, spans, shares, held, kept)
    for first, extra in _pairs(group, spans):
        if p.rank == extra:
            for chunk in slots[group.index(extra)]:
                p.copy(kept(extra, chunk), kept(first, chunk))


@phase("all_gather", "H-D_R")
def all_gather(p: Builder, group: Group, slots: Slots, held: Where, kept: Where) -> None:
    """log2 N rounds, n(N-1)/N bytes: what each pair of partners has doubles from round to round."""
    spans = _spans(len(group))
    for first, extra in _pairs(group, spans):
        if p.rank == first:
            for chunk in slots[group.index(extra)]:
                p.copy(kept(first, chunk), held(extra, chunk))
    p.phase()
    shares = [[chunk for member in span for chunk in slots[member]] for span in spans]
    _double(p, group, spans, shares, held, kept)
    for first, extra in _pairs(group, spans):
        if p.rank == extra:
            for member, slot in enumerate(slots):
                for chunk in slot if group[member] != extra else ():
                    p.copy(kept(extra, chunk), held(first, chunk))


@phase("all_reduce", "H-D_R", parts=core_size)
def all_reduce(p: Builder, group: Group, chunks: Sequence[int], held: Where, kept: Where) -> None:
    """Halving, then doubling: 2 log2 N rounds, 2n(N-1)/N bytes."""
    spans = _spans(len(group))
    shares = [(chunk,) for chunk in chunks]
    _merge(p, group, spans, chunks, held, kept)
    _halve(p, group, spans, shares, held, kept)
    _double(p, group, spans, shares, kept, kept)
    for first, extra in _pairs(group, spans):
        if p.rank == extra:
            for chunk in chunks:
                p.copy(kept(extra, chunk), kept(first, chunk))


@phase("reduce", "H-D_R", parts=core_size)
def reduce(p: Builder, group: Group, root: int, chunks: Sequence[int], held: Where, kept: Where) -> None:
    """Halving, then a gather by doubling towards the root: 2 log2 N rounds, 2n(N-1)/N bytes."""
    n, q = len(group), core_size(len(group))
    ring = [group[(root + member) % n] for member in range(n)]  # the root is the first, and so in the core
    spans = _spans(n)
    shares = [(chunk,) for chunk in chunks]
    _merge(p, ring, spans, chunks, held, kept)
    _halve(p, ring, spans, shares, held, kept)
    core = [ring[span[0]] for span in spans]
    if p.rank in core:
        me, distance = core.index(p.rank), 1
        while distance < q and me % (2 * distance) == 0:
            for index in range(me + distance, me + 2 * distance):
                p.copy(kept(p.rank, chunks[index]), kept(core[me + distance], chunks[index]))
            p.round()
            distance *= 2
    p.phase()


def _pairs(group: Group, spans: Sequence[range]) -> list[tuple[int, int]]:
    """(rank in the core, its neighbour outside of it)"""
    return [(group[span[0]], group[span[1]]) for span in spans if len(span) == 2]


def _merge(
    p: Builder, group: Group, spans: Sequence[range], chunks: Sequence[int], held: Where, kept: Where
) -> None:
    """Whoever is not in the core hands all of its data to its neighbour who is."""
    for first, extra in _pairs(group, spans):
        if p.rank == first:
            for chunk in chunks:
                p.fold(kept(first, chunk), held(first, chunk), held(extra, chunk))
    p.phase()


def _halve(p: Builder, group: Group, spans: Sequence[range], shares: Slots, held: Where, kept: Where) -> None:
    """Reduce-scatter in the core: in the end the core's member i keeps the sums of shares[i]."""
    core = [group[span[0]] for span in spans]
    merged = {group[span[0]] for span in spans if len(span) == 2}
    distance = len(core) // 2
    while p.rank in core and distance:
        me = core.index(p.rank)
        partner = core[me ^ distance]
        first_round = distance == len(core) // 2
        half = me // distance * distance
        for chunk in (chunk for share in shares[half : half + distance] for chunk in share):
            so_far = [(held if first_round and rank not in merged else kept) for rank in (p.rank, partner)]
            p.fold(kept(p.rank, chunk), so_far[0](p.rank, chunk), so_far[1](partner, chunk))
        p.round()
        distance //= 2
    p.phase()


def _double(p: Builder, group: Group, spans: Sequence[range], shares: Slots, held: Where, kept: Where) -> None:
    """All-gather in the core, whose member i has shares[i] in the beginning."""
    core = [group[span[0]] for span in spans]
    distance = 1
    while p.rank in core and distance < len(core):
        partner = core.index(p.rank) ^ distance
        half = partner // distance * distance
        for chunk in (chunk for share in shares[half : half + distance] for chunk in share):
            p.copy(kept(p.rank, chunk), held(core[partner], chunk))
        p.round()
        distance *= 2
    p.phase()
