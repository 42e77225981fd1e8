"""Pipeline: a ring between servers and a mesh inside of them at the same time.

While a rank gets the next data from the server to the left, it shares the last with the ranks of its own. One round for
each server, n/N bytes per link and round: wins for large data where links inside and between servers are equally good.
"""

from collections.abc import Sequence

from ..builder import Builder
from ..language import Groups, Ref
from ..phases import Where, own_in_out
from ..registry import algorithm
from ..servers import Place, place_in
from .mesh import round_from


@algorithm("reduce_scatter", "pipeline")
def reduce_scatter(p: Builder, servers: Groups = ()) -> None:
    """Partial sums travel to the right from server to server; at each the server's own ranks are folded in."""
    place = place_in(p, servers)
    p.enter()
    _fold_along(p, place, own_in_out(p))
    p.leave()


@algorithm("all_gather", "pipeline")
def all_gather(p: Builder, servers: Groups = ()) -> None:
    """Blocks travel to the right from server to server; at each they are shared by the server's own ranks."""

    def held(rank: int, block: int) -> Ref:
        return p.inp(rank) if block == rank else p.out(rank, block)

    place = place_in(p, servers)
    p.enter()
    p.copy(p.out(p.rank, p.rank), p.inp(p.rank))
    _share_along(p, place, held)
    p.leave()


@algorithm("all_reduce", "pipeline")
def all_reduce(p: Builder, servers: Groups = ()) -> None:
    """Reduce-scatter, then all-gather."""
    place = place_in(p, servers)
    p.cut(p.size)
    p.enter()
    _fold_along(p, place, p.out)
    p.phase()
    _share_along(p, place, p.out)
    p.leave()


def _fold_along(p: Builder, place: Place, kept: Where) -> None:
    left: Sequence[int] = place.servers[place.number - 1]
    for step in range(len(place.servers)):
        chunk = place.column[(place.number - 1 - step) % len(place.servers)]
        partial = [kept(left[place.row], chunk)] if step else []
        p.fold(kept(p.rank, chunk), *partial, *(p.inp(rank, chunk) for rank in place.server))
        p.round()


def _share_along(p: Builder, place: Place, held: Where) -> None:
    left, count = place.servers[place.number - 1], len(place.servers)
    for step in range(count):
        here = place.servers[(place.number - step) % count]
        for peer in round_from(place.server, p.rank):
            chunk = here[place.server.index(peer)]
            if peer != p.rank:
                p.copy(p.out(p.rank, chunk), held(peer, chunk))
        if step < count - 1:
            chunk = place.column[(place.number - 1 - step) % count]
            p.copy(p.out(p.rank, chunk), held(left[place.row], chunk))
        p.round()
