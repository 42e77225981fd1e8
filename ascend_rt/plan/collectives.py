"""What each collective means: which contribution starts where and must end where.

One table, read by the grammar, the prover, the test oracle and the argument checks. Algorithms are not in it: how the
data travel is free, as long as every rank's OUT ends as stated here and its IN is left as it was.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class Blocks(Enum):
    """How many blocks of `count` elements a buffer consists of, on every rank or on the root alone."""

    NONE = "none"
    ONE = "1"
    PER_RANK = "N"
    ROOT_ONE = "1 on the root"
    ROOT_PER_RANK = "N on the root"

    @property
    def per_rank(self) -> bool:
        """Whether there is a block for each rank."""
        return self is Blocks.PER_RANK or self is Blocks.ROOT_PER_RANK

    def number(self, size: int) -> int:
        """The blocks of a rank that has the buffer."""
        return 0 if self is Blocks.NONE else size if self.per_rank else 1

    def on(self, rank: int, size: int, root: int) -> int:
        """The blocks of `rank`: none off the root if only that one has the buffer."""
        return 0 if rank != root and self in (Blocks.ROOT_ONE, Blocks.ROOT_PER_RANK) else self.number(size)


class InPlace(Enum):
    """The one way in which a rank that has both may pass IN and OUT that overlap. Each rank decides for itself."""

    NONE = "there is no in-place form"
    SAME = "OUT is IN"
    IN_OWN_BLOCK = "IN is the rank's own block of OUT"
    OUT_OWN_BLOCK = "OUT is the rank's own block of IN"

    def first_blocks(self, rank: int) -> tuple[int, int]:
        """The blocks of the shared memory at which IN and OUT of `rank` begin."""
        return (rank if self is InPlace.IN_OWN_BLOCK else 0, rank if self is InPlace.OUT_OWN_BLOCK else 0)


class Content(NamedTuple):
    """What a block of OUT holds in the end: block `block` of IN of each of `ranks`, folded in that order if several.

    No ranks: this rank has no such block.
    """

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


def _sum_on_root(rank: int, block: int, size: int, root: int) -> Content:
    return Content(tuple(range(size)) if rank == root else (), block)


def _block_of_root(rank: int, block: int, size: int, root: int) -> Content:
    return Content((root,), rank)


def _data_of_each_on_root(rank: int, block: int, size: int, root: int) -> Content:
    return Content((block,) if rank == root else (), 0)


def _own_block_of_each(rank: int, block: int, size: int, root: int) -> Content:
    return Content((block,), rank)


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

    def blocks(self, size: int) -> int:
        """Blocks of the larger of IN and OUT, on a rank that has it."""
        return max(self.blocks_in.number(size), self.blocks_out.number(size))


_ROWS = (
    Collective("broadcast", 1, Blocks.ONE, Blocks.ONE, InPlace.SAME, _data_of_root, rooted=True),
    Collective("all_reduce", 2, Blocks.ONE, Blocks.ONE, InPlace.SAME, _sum_of_all, reduces=True),
    Collective("reduce", 3, Blocks.ONE, Blocks.ROOT_ONE, InPlace.SAME, _sum_on_root, reduces=True, rooted=True),
    Collective("all_gather", 6, Blocks.ONE, Blocks.PER_RANK, InPlace.IN_OWN_BLOCK, _data_of_each),
    Collective(
        "reduce_scatter", 7, Blocks.PER_RANK, Blocks.ONE, InPlace.OUT_OWN_BLOCK, _sum_of_own_block, reduces=True
    ),
    Collective("all_to_all", 10, Blocks.PER_RANK, Blocks.PER_RANK, InPlace.NONE, _own_block_of_each),
    Collective(
        "gather", 11, Blocks.ONE, Blocks.ROOT_PER_RANK, InPlace.IN_OWN_BLOCK, _data_of_each_on_root, rooted=True
    ),
    Collective("scatter", 12, Blocks.ROOT_PER_RANK, Blocks.ONE, InPlace.OUT_OWN_BLOCK, _block_of_root, rooted=True),
    Collective("barrier", 103, Blocks.NONE, Blocks.NONE, InPlace.NONE, _nothing, synchronises=True),
)

COLLECTIVES: dict[str, Collective] = {row.name: row for row in _ROWS}
