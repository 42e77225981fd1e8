"""How HCCL_BUFFSIZE is shared out: the device memory that a communicator takes for itself on each rank, as a whole.

    1/4   staging: two pieces, for the IN and the OUT of calls with arrays that are not in device memory
    1/2   scratch: a limit of 1/4, twice, because what is replaced by a larger one may still be in use and stays
    1/4   channels: two pieces for each rank that such arrays are sent to

Whatever does not fit goes in pieces, so a small size costs time and fails nothing.
"""

from dataclasses import dataclass

from ..settings import Settings

LINE_NBYTES = 64
CHANNEL_NBYTES = 128 << 10
"""Pieces of 64 KiB: while one is read the next is filled, and both are in the cache."""


@dataclass(frozen=True)
class Buffers:
    """Sizes in bytes of the parts, the same on all ranks."""

    piece: int
    scratch: int
    """the most that a plan gets"""
    channel: int


def buffers(settings: Settings, size: int) -> Buffers:
    """The parts for a communicator of `size` ranks."""
    quarter = (settings.hccl_buffsize << 20) // 4
    piece = max(min(settings.ascend_rt_piece_kib << 10, quarter // 2), LINE_NBYTES * size)
    channel = max(min(piece, CHANNEL_NBYTES, quarter // size // LINE_NBYTES * LINE_NBYTES), 2 * LINE_NBYTES)
    return Buffers(piece, quarter, channel)


def scratch_nbytes(needed: int, most: int) -> int:
    """How much scratch is made for a call that needs more than there is: twice that, or `most` where that would be over
    half of it, so that what is replaced adds up to no more than what replaces it."""
    return 2 * needed if 4 * needed <= most else most
