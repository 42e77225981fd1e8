"""Ranks that are spread over servers: where one stands, and who faces it on the other servers.

Algorithms for several servers take the parameter `servers`: the ranks of each server, in rank order. Left out, all
ranks are on one.
"""

from collections.abc import Sequence
from typing import NamedTuple

from .builder import Builder
from .language import Groups


class Place(NamedTuple):
    """A rank's place among servers of equally many ranks.

    servers  all of them
    number   of the rank's own server
    column   the ranks at the same place of each server, by server: who face one another
    row      place of the rank in its server
    """

    servers: Groups
    number: int
    row: int

    @property
    def server(self) -> Sequence[int]:
        return self.servers[self.number]

    @property
    def column(self) -> Sequence[int]:
        return self.facing(self.row)

    def facing(self, row: int) -> Sequence[int]:
        return [server[row] for server in self.servers]


def place_in(p: Builder, servers: Groups) -> Place:
    """The place of p's rank. ValueError if the servers have not equally many ranks."""
    return place_of(p.rank, groups_of(p, servers))


def place_of(rank: int, servers: Groups) -> Place:
    """The place of any rank. ValueError if the servers have not equally many ranks."""
    if len({len(server) for server in servers}) != 1:
        counts = ", ".join(str(len(server)) for server in servers)
        raise ValueError(f"servers with {counts} ranks: expected equally many; AHC is for others")
    number = next(number for number, server in enumerate(servers) if rank in server)
    return Place(servers, number, servers[number].index(rank))


def groups_of(p: Builder, servers: Groups) -> Groups:
    """The servers as given; without any, one of all ranks."""
    return servers or (tuple(p.ranks),)
