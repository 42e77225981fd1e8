"""AHC, asymmetric hierarchical concatenation: servers of unequally many ranks.

Inside each server NB; between servers, for every part of the data, NB among those who hold it, one of each server. A
rank of a small server holds a larger part and faces several ranks of a large one. ceil(log2 M) + ceil(log2 G) rounds
each way, for G servers of at most M ranks.
"""

from collections import defaultdict
from math import lcm

from ..builder import Builder
from ..language import Groups, Ref
from ..phases import Group, Slots, own_in_out
from ..registry import algorithm
from ..servers import groups_of
from . import nb


@algorithm("all_reduce", "AHC")
def all_reduce(p: Builder, servers: Groups = ()) -> None:
    """The data are cut as finely as all servers together cut them. Sums inside, all-reduce between, results inside."""
    servers = groups_of(p, servers)
    server = next(server for server in servers if p.rank in server)
    parts = lcm(*(len(server) for server in servers))
    p.cut(len(servers) * parts)  # chunk turn * parts + part: for each part, a turn for each server
    share = parts // len(server)
    slots = [
        [first + part for first in range(0, p.chunks, parts) for part in range(place * share, (place + 1) * share)]
        for place in range(len(server))
    ]
    facing = _holders(p, servers, parts)
    p.enter()
    if len(server) > 1:
        nb.reduce_scatter(p, server, slots, p.inp, p.out)
    else:
        p.copy(p.out(p.rank), p.inp(p.rank), n=p.chunks)
    p.phase()
    for group, turns in facing.items():
        p.meanwhile()
        nb.reduce_scatter(p, group, turns, p.out, p.out)
    p.phase()
    for group, turns in facing.items():
        p.meanwhile()
        nb.all_gather(p, group, turns, p.out, p.out)
    p.phase()
    nb.all_gather(p, server, slots, p.out, p.out)
    p.leave()


def _holders(p: Builder, servers: Groups, parts: int) -> dict[tuple[int, ...], Slots]:
    """Who holds parts of which p's rank holds some, one of each server; and the chunks of these parts, turn by turn."""
    own: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
    for part in range(parts):
        own[tuple(server[part * len(server) // parts] for server in servers)].append(part)
    turns = range(0, p.chunks, parts)
    return {
        group: [[first + part for part in held] for first in turns] for group, held in own.items() if p.rank in group
    }


@algorithm("reduce_scatter", "AHC")
def reduce_scatter(p: Builder, servers: Groups = ()) -> None:
    """Sums inside each server: of a rank's own block and of a share of those of other servers; then between servers."""
    servers = groups_of(p, servers)
    server = next(server for server in servers if p.rank in server)
    alone = {other[0] for other in servers if len(other) == 1}

    def held(rank: int, block: int) -> Ref:
        return p.inp(rank, block) if rank in alone else p.scratch(rank, block)

    p.enter()
    if p.size == 1:
        p.copy(p.out(0), p.inp(0))
    nb.reduce_scatter(p, server, _slots(servers, server), p.inp, p.scratch if len(servers) > 1 else own_in_out(p))
    p.phase()
    for group, turns in _facing(p, servers):
        p.meanwhile()
        nb.reduce_scatter(p, group, turns, held, own_in_out(p))
    p.leave()


@algorithm("all_gather", "AHC")
def all_gather(p: Builder, servers: Groups = ()) -> None:
    """The reverse: every block goes to one rank of each other server, then to all ranks of its server."""
    servers = groups_of(p, servers)
    server = next(server for server in servers if p.rank in server)

    def held(rank: int, block: int) -> Ref:
        return p.inp(rank) if block == rank else p.out(rank, block)

    p.enter()
    p.copy(p.out(p.rank, p.rank), p.inp(p.rank))
    for group, turns in _facing(p, servers):
        p.meanwhile()
        nb.all_gather(p, group, turns, held, p.out)
    p.phase()
    nb.all_gather(p, server, _slots(servers, server), held, p.out)
    p.leave()


def _slots(servers: Groups, server: Group) -> Slots:
    """The blocks of each rank of a server: its own, and an even share of all those that other servers own."""
    others = [rank for other in servers if other != server for rank in other]
    n = len(server)
    return [
        [rank, *(block for number, block in enumerate(others) if number * n // len(others) == place)]
        for place, rank in enumerate(server)
    ]


def _facing(p: Builder, servers: Groups) -> list[tuple[Group, Slots]]:
    """For each block that p's rank has to do with: who holds it, by server, and that it belongs to its owner's."""
    slots = {server: _slots(servers, server) for server in servers}
    facing: list[tuple[Group, Slots]] = []
    for block in p.ranks:
        group = [
            next(rank for rank, own in zip(server, slots[server], strict=True) if block in own) for server in servers
        ]
        if p.rank in group:
            facing.append((group, [(block,) if rank == block else () for rank in group]))
    return facing
