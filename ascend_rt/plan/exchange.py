"""A collective as one round: everybody shows its IN to all, and takes from all what its OUT must hold.

For few bytes this beats every algorithm: one round instead of two or three, no address, no staging. The core carries it
out (core/exchange.c); what to take is read off the table of collectives, so every collective of fixed blocks has it.
Reductions are folded once, in rank order.
"""

from array import array

from .collectives import COLLECTIVES, Collective

TAKE_FOLDED, TAKE_NOTHING = -1, -2
"""In the place of a rank: the block of all ranks, folded; leave the block of OUT as it is."""


def exchange(collective: str, rank: int, size: int, root: int) -> "array[int]":
    """What `rank` shows and takes, as the core reads it.

    [blocks in a payload, blocks that this rank fills, blocks of OUT, (rank or TAKE_*, block) for each block of OUT].
    """
    spec = COLLECTIVES[collective]
    takes = [_takes(spec, taker, size, root) for taker in range(size)]
    used = any(source in (rank, TAKE_FOLDED) for taken in takes for source, _ in taken)
    blocks = spec.blocks_in.number(size)
    words = [blocks, blocks if used else 0, len(takes[rank])]
    for take in takes[rank]:
        words += take
    return array("i", words)


def _takes(spec: Collective, rank: int, size: int, root: int) -> list[tuple[int, int]]:
    contents = (spec.result(rank, block, size, root) for block in range(spec.blocks_out.number(size)))
    return [(_source(spec, ranks), block) for ranks, block in contents]


def _source(spec: Collective, ranks: tuple[int, ...]) -> int:
    if not ranks:
        return TAKE_NOTHING
    return TAKE_FOLDED if spec.reduces else ranks[0]
