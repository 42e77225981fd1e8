"""A collective as one round: what a rank takes, carried out in plain Python, is what the table of collectives says."""

import pytest

from ascend_rt.plan.collectives import COLLECTIVES
from ascend_rt.plan.exchange import TAKE_FOLDED, TAKE_NOTHING, exchange

pytestmark = pytest.mark.proof

HEADER = 3


def contents(collective: str, rank: int, size: int, root: int) -> list[tuple[tuple[int, ...], int]]:
    """(ranks, block) for each block of OUT, read off the words."""
    words = exchange(collective, rank, size, root)
    takes = list(zip(words[HEADER::2], words[HEADER + 1 :: 2], strict=True))
    assert len(takes) == words[2]
    sources = {TAKE_FOLDED: tuple(range(size)), TAKE_NOTHING: ()}
    return [(sources.get(source, (source,)), block) for source, block in takes]


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_takes_what_the_table_says(collective: str, size: int) -> None:
    spec = COLLECTIVES[collective]
    for root in range(size if spec.rooted else 1):
        for rank in range(size):
            blocks = range(spec.blocks_out.number(size))
            want = [tuple(spec.result(rank, block, size, root)) for block in blocks]
            assert contents(collective, rank, size, root) == want


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_fills_what_somebody_takes(collective: str, size: int) -> None:
    root = size - 1 if COLLECTIVES[collective].rooted else 0
    taken = {
        (source, block)
        for rank in range(size)
        for sources, block in contents(collective, rank, size, root)
        for source in sources
    }
    for rank in range(size):
        blocks, filled, _ = exchange(collective, rank, size, root)[:HEADER]
        assert all(block < blocks for _, block in taken)
        assert filled == (blocks if any(source == rank for source, _ in taken) else 0)
