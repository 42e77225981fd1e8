"""What HCCL_ALGO asks for, as algorithms of ours; and algorithms that are asked for by their own names.

HCCL names algorithms per level: level 0 is inside a server, where the topology decides, level 1 between servers, level
2 between superpods, of which there are none here. An algorithm of level 1 is, by what is known of the servers,

    several, of equally many ranks      mesh inside of them and it between: `mesh+ring`
    several, of unequally many          AHC, which alone takes such servers
    one                                 nothing: level 1 has but one member
    nothing is known (no rank table)    it, over all ranks, each as if it were a server

Where HCCL has no such algorithm for an operator, it takes the first of NHR, H-D_R and ring that it has, and pairwise
for all-to-all.
"""

from .language import Groups, Option
from .registry import function, names, parameters

OPERATORS = {
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "allreduce": "all_reduce",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "scatter": "scatter",
    "alltoall": "all_to_all",
}
"""HCCL_ALGO's names of the collectives."""

FALLBACK = ("NHR", "H-D_R", "ring", "pairwise")
SAME = {"NHR_V1": "NHR"}
"""An earlier version of it, which is not made again."""
WITH_OWN_LEVELS = ("pipeline", "AHC")
"""Algorithms for several servers that are not composed of one for each level."""

Named = tuple[str, tuple[tuple[str, Option], ...]]
"""An algorithm of ours, and what it is built with."""


def between_servers(collective: str, level1: str, size: int, servers: Groups) -> Named | None:
    """What HCCL_ALGO's `level1` means for a collective of `size` ranks; None: nothing.

    servers: the ranks of each, empty if nothing is known of them.
    """
    if len(servers) == 1 or size == 1:
        return None
    for name in (SAME.get(level1, level1), *FALLBACK):
        if found := _made_of(collective, name, size, servers):
            return found
    return None


def by_own_name(collective: str, algorithm: str, servers: Groups) -> Named | None:
    """An algorithm of the registry on these servers; None if it does not take them. ValueError if it does not exist."""
    function(collective, algorithm)
    if len(servers) < 2 or "servers" not in parameters(collective, algorithm):
        return algorithm, ()
    return None if algorithm != "AHC" and _are_unequal(servers) else (algorithm, (("servers", servers),))


def _made_of(collective: str, level1: str, size: int, servers: Groups) -> Named | None:
    known = names(collective)
    if level1 in WITH_OWN_LEVELS and level1 in known:
        groups = servers or tuple((rank,) for rank in range(size))
        return None if level1 != "AHC" and _are_unequal(groups) else (level1, (("servers", groups),))
    if f"mesh+{level1}" not in known:  # what HCCL has between servers is what the compositions are made of
        return None
    if not servers:
        return level1, ()
    if _are_unequal(servers):
        return ("AHC", (("servers", servers),)) if "AHC" in known else None
    return f"mesh+{level1}", (("servers", servers),)


def _are_unequal(servers: Groups) -> bool:
    return len({len(server) for server in servers}) > 1
