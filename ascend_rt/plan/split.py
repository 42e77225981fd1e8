"""Collectives whose blocks differ in count: each is done by the plans of one whose blocks are all alike.

A plan speaks of chunks and not of elements; where every chunk is a whole block, it does not matter to it that the
blocks differ in count. So mesh plans, which cut no block, serve both. Where each block lies and how many elements it
has, the ranks tell each other in tables.
"""

from .collectives import COLLECTIVES, Collective

SPLIT = {
    "all_to_all_v": "all_to_all",
    "all_to_all_vc": "all_to_all",
    "all_gather_v": "all_gather",
    "reduce_scatter_v": "reduce_scatter",
}
"""The collective whose plans do it, by name."""

NUMBERS = {"all_to_all_v": 8, "all_to_all_vc": 9, "all_gather_v": 16, "reduce_scatter_v": 17}
"""HcclCMDType by name."""

ALGORITHM = "mesh"


def split_spec(name: str) -> Collective:
    """What the collective with equal blocks means, block by block."""
    return COLLECTIVES[SPLIT[name]]
