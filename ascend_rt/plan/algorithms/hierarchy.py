"""Hierarchical algorithms: mesh inside the servers (level 0), an algorithm of choice between them (level 1).

A rank exchanges with the ranks of its server and with those at its place of the other servers, never with others. The
compositions and the algorithms between servers are HCCL's; servers must have equally many ranks (AHC is for others).
"""

from collections.abc import Callable

from ..builder import Builder
from ..language import Groups, Ref
from ..phases import PHASES, Phase, Slots, own_in_out
from ..registry import algorithm
from ..servers import Place, place_in, place_of
from . import halving_doubling, mesh, nb, nhr, ring, tree  # noqa: F401  their phases are what is composed

Composition = Callable[[Builder, Place, Phase], None]


def all_reduce(p: Builder, place: Place, between: Phase) -> None:
    """Reduce-scatter inside, all-reduce between, all-gather inside."""
    slots = _cut(p, place, between)
    p.enter()
    mesh.reduce_scatter(p, place.server, slots, p.inp, p.out)
    p.phase()
    between.run(p, place.column, slots[place.row], p.out, p.out)
    p.phase()
    mesh.all_gather(p, place.server, slots, p.out, p.out)
    p.leave()


def reduce_scatter(p: Builder, place: Place, between: Phase) -> None:
    """Reduce-scatter between, of all blocks of each server; then inside."""
    p.enter()
    between.run(p, place.column, place.servers, p.inp, p.scratch)
    p.phase()
    held = p.scratch if len(place.servers) > 1 else p.inp
    mesh.reduce_scatter(p, place.server, _own(place), held, own_in_out(p))
    p.leave()


def all_gather(p: Builder, place: Place, between: Phase) -> None:
    """All-gather inside; then between, of all blocks of each server."""

    def held(rank: int, block: int) -> Ref:
        return p.inp(rank) if block == rank else p.out(rank, block)

    p.enter()
    p.copy(p.out(p.rank, p.rank), p.inp(p.rank))
    mesh.all_gather(p, place.server, _own(place), held, p.out)
    p.phase()
    between.run(p, place.column, place.servers, held, p.out)
    p.leave()


def broadcast(p: Builder, place: Place, between: Phase) -> None:
    """Scatter inside the root's server, broadcast between, all-gather inside."""

    def held(rank: int, chunk: int) -> Ref:
        return p.inp(rank, chunk) if rank == p.root else p.out(rank, chunk)

    root = place_of(p.root, place.servers)
    slots = _cut(p, place, between)
    p.enter()
    if p.rank == p.root:
        p.copy(p.out(p.root), p.inp(p.root), n=p.chunks)
    elif place.number == root.number:
        mesh.scatter(p, place.server, root.row, slots, p.inp, p.out)
    p.phase()
    between.run(p, place.column, root.number, slots[place.row], held, p.out)
    p.phase()
    if p.rank != p.root:
        mesh.all_gather(p, place.server, slots, held, p.out)
    p.leave()


def reduce(p: Builder, place: Place, between: Phase) -> None:
    """Reduce-scatter inside, reduce between, gather inside the root's server."""

    def kept(rank: int, chunk: int) -> Ref:
        return p.out(rank, chunk) if rank == p.root else p.scratch(rank, chunk)

    root = place_of(p.root, place.servers)
    slots = _cut(p, place, between)
    p.enter()
    mesh.reduce_scatter(p, place.server, slots, p.inp, kept)
    p.phase()
    between.run(p, place.column, root.number, slots[place.row], kept, kept)
    p.phase()
    if place.number == root.number:
        mesh.gather(p, place.server, root.row, slots, kept, kept)
    p.leave()


def scatter(p: Builder, place: Place, between: Phase) -> None:
    """Scatter between, of all blocks of each server, by those at the root's place; then inside."""

    def held(rank: int, block: int) -> Ref:
        return p.inp(rank, block) if rank == p.root else p.scratch(rank, block)

    root = place_of(p.root, place.servers)
    p.enter()
    if place.row == root.row:
        between.run(p, place.column, root.number, place.servers, held, p.scratch)
    p.phase()
    if place.row == root.row:
        p.copy(p.out(p.rank), held(p.rank, p.rank))
    mesh.scatter(p, place.server, root.row, _own(place), held, own_in_out(p))
    p.leave()


def all_to_all(p: Builder, servers: Groups = ()) -> None:
    """Inside each server, what goes to one column is brought there; then it goes to its server, pairwise."""
    place = place_in(p, servers)
    count = len(place.servers)
    p.enter()
    for peer in mesh.round_from(place.server, p.rank):
        for number, server in enumerate(place.servers):
            on_its_way = p.scratch(p.rank, server[place.server.index(peer)])
            p.copy(p.out(p.rank, peer) if number == place.number else on_its_way, p.inp(peer, server[place.row]))
    p.phase()
    for distance in range(1, count):
        source = place.servers[(place.number - distance) % count]
        for row, owner in enumerate(source):
            p.copy(p.out(p.rank, owner), p.scratch(source[place.row], place.server[row]))
        p.round()
    p.leave()


COMPOSITIONS: dict[str, tuple[Composition, tuple[str, ...]]] = {
    "reduce_scatter": (reduce_scatter, ("ring", "H-D_R", "NHR", "NB")),
    "all_gather": (all_gather, ("ring", "H-D_R", "NHR", "NB")),
    "all_reduce": (all_reduce, ("ring", "H-D_R", "NHR", "NB")),
    "broadcast": (broadcast, ("H-D_R", "NHR", "NB")),
    "reduce": (reduce, ("ring", "H-D_R")),
    "scatter": (scatter, ("ring", "NHR", "NB")),
}
"""How each collective is composed, and of what between servers."""


def _register(collective: str, compose: Composition, level1: str) -> None:
    def algorithm_between_servers(p: Builder, servers: Groups = ()) -> None:
        compose(p, place_in(p, servers), PHASES[collective, level1])

    algorithm_between_servers.__doc__ = compose.__doc__
    algorithm(collective, f"mesh+{level1}")(algorithm_between_servers)


for _collective, (_compose, _level1s) in COMPOSITIONS.items():
    for _level1 in _level1s:
        _register(_collective, _compose, _level1)
algorithm("all_to_all", "mesh+pairwise")(all_to_all)


def _cut(p: Builder, place: Place, between: Phase) -> Slots:
    """Cuts the data for both levels; the chunks that belong to each place of a server."""
    parts, rows = between.parts(len(place.servers)), len(place.server)
    p.cut(rows * parts)
    return [range(row * parts, (row + 1) * parts) for row in range(rows)]


def _own(place: Place) -> Slots:
    """Block r belongs to rank r of the server."""
    return [(rank,) for rank in place.server]
