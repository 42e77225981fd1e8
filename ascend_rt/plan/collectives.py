"""What each collective means: which contribution starts where and must end where.

One table, read by the grammar, the prover, the test oracle and the argument checks. Algorithms are not in it: how the
data travel is free, as long as every rank's OUT ends as stated here and its IN is left as it was.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class Blocks(Enum):
    """How many blocks of `count` elements a buffer consists of."""

    NONE = "none"
    ONE = "1"
    PER_RANK = "N"

    def number(self, size: int) -> int:
        return {Blocks.NONE: 0, Blocks.ONE: 1, Blocks.PER_RANK: size}[self]


class InPlace(Enum):
    """The one way in which a rank may pass IN and OUT that overlap. Each rank decides for itself."""

    NONE = "there is no in-place form"
    SAME = "OUT is IN"
    IN_OWN_BLOCK = "IN is the rank's own block of OUT"
    OUT_OWN_BLOCK = "OUT is the rank's own block of IN"

    def first_blocks(self, rank: int) -> tuple[int, int]:
        """The blocks of the shared memory at which IN and OUT of `rank` begin."""
        return (rank if self is InPlace.IN_OWN_BLOCK else 0, rank if self is InPlace.OUT_OWN_BLOCK else 0)


class Content(NamedTuple):
    """What a block of OUT holds in the end: block `block` of IN of each of `ranks`, folded in that order if several."""

    ranks: tuple[int, ...]
    block: int


Result = Callable[[int, int, int, int], Content]
"""(rank, block of its OUT, size, root) -> what that block must hold in the end."""


def _sum_of_all(rank: int, block: int, size: int, root: int) -> Content:
    return Content(tuple(range(size)), block)


def _sum_of_own_block(rank: int, block: int, size: int, root: int) -> Content:
    return Content(tuple(range(size)), rank)


def _data_of_root(rank: int, block: int, size: int, root: int) -> Content:
    return Content((root,), block)


def _data_of_each(rank: int, block: int, size: int, root: int) -> Content:
    return Content((block,), 0)


def _nothing(rank: int, block: int, size: int, root: int) -> Content:
    return Content((), 0)


@dataclass(frozen=True)
class Collective:
    """One row of the table.

    name          as in `Communicator.<name>`
    number        HcclCMDType
    blocks_in     blocks of IN, each of `count` elements
    blocks_out    blocks of OUT
    in_place      the overlap of IN and OUT that is allowed
    result        what each block of OUT holds in the end
    reduces       contributions are folded (takes a reduce op)
    rooted        has a root
    synchronises  no rank leaves before every rank has entered
    """

    name: str
    number: int
    blocks_in: Blocks
    blocks_out: Blocks
    in_place: InPlace
    result: Result
    reduces: bool = False
    rooted: bool = False
    synchronises: bool = False


_ROWS = (
    Collective("broadcast", 1, Blocks.ONE, Blocks.ONE, InPlace.SAME, _data_of_root, rooted=True),
    Collective("all_reduce", 2, Blocks.ONE, Blocks.ONE, InPlace.SAME, _sum_of_all, reduces=True),
    Collective("all_gather", 6, Blocks.ONE, Blocks.PER_RANK, InPlace.IN_OWN_BLOCK, _data_of_each),
    Collective(
        "reduce_scatter", 7, Blocks.PER_RANK, Blocks.ONE, InPlace.OUT_OWN_BLOCK, _sum_of_own_block, reduces=True
    ),
    Collective("barrier", 103, Blocks.NONE, Blocks.NONE, InPlace.NONE, _nothing, synchronises=True),
)

COLLECTIVES: dict[str, Collective] = {row.name: row for row in _ROWS}
