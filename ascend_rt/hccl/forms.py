"""What the arrays of a rank's calls are, packed for the native core, which runs what is plainly right by itself."""

import struct

from ..plan.collectives import COLLECTIVES, Blocks, Collective, InPlace

FORM = struct.Struct("10i")
"""struct form of core/binding.h."""


def forms(rank: int, size: int) -> bytes:
    """Of all collectives that have arrays, one behind another, for one rank of a communicator."""
    return b"".join(_form(spec, rank, size) for spec in COLLECTIVES.values() if spec.blocks_in is not Blocks.NONE)


def _form(spec: Collective, rank: int, size: int) -> bytes:
    first = (-1, -1) if spec.in_place is InPlace.NONE else spec.in_place.first_blocks(rank)
    elsewhere, on_root = (
        (spec.blocks_in.on(rank, size, root), spec.blocks_out.on(rank, size, root)) for root in (rank + 1, rank)
    )
    is_same, is_by_rank = spec.in_place is InPlace.SAME, spec.blocks_in.per_rank
    return FORM.pack(spec.number, spec.rooted, is_same, is_by_rank, *first, *elsewhere, *on_root)
