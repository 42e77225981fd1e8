"""The table of collectives, against HCCL's numbers and against NumPy."""

import pytest

from ascend_rt.plan import COLLECTIVES, InPlace

pytestmark = pytest.mark.proof


def test_numbers_are_hccl_command_types():
    numbers = {name: row.number for name, row in COLLECTIVES.items()}
    assert numbers == {
        "broadcast": 1, "all_reduce": 2, "reduce": 3, "all_gather": 6, "reduce_scatter": 7, "all_to_all": 10,
        "gather": 11, "scatter": 12, "barrier": 103,
    }


def test_blocks():
    blocks = {name: (row.blocks_in.number(5), row.blocks_out.number(5)) for name, row in COLLECTIVES.items()}
    assert blocks["all_reduce"] == blocks["broadcast"] == (1, 1)
    assert blocks["all_gather"] == (1, 5)
    assert blocks["reduce_scatter"] == (5, 1)
    assert blocks["all_to_all"] == (5, 5)
    assert blocks["barrier"] == (0, 0)


@pytest.mark.parametrize(("name", "on_root", "elsewhere"), [
    ("reduce", (1, 1), (1, 0)), ("gather", (1, 5), (1, 0)), ("scatter", (5, 1), (0, 1)), ("broadcast", (1, 1), (1, 1)),
])
def test_blocks_that_only_the_root_has(name, on_root, elsewhere):
    row = COLLECTIVES[name]
    for rank in range(5):
        blocks = tuple(buffer.on(rank, 5, 3) for buffer in (row.blocks_in, row.blocks_out))
        assert blocks == (on_root if rank == 3 else elsewhere)


def test_results_name_what_exists():
    for row in COLLECTIVES.values():
        for size in (1, 2, 5):
            root = size - 1 if row.rooted else 0
            blocks = [range(row.blocks_out.number(size))] * size
            for rank, block in ((r, b) for r in range(size) for b in blocks[r]):
                content = row.result(rank, block, size, root)
                assert bool(content.ranks) == (block in range(row.blocks_out.on(rank, size, root)))
                if not content.ranks:
                    continue
                assert content.ranks == tuple(sorted(set(content.ranks)))
                assert set(content.ranks) <= set(range(size))
                assert row.reduces == (content.ranks == tuple(range(size))) or size == 1
                assert content.block in range(row.blocks_in.number(size))


def test_in_place_forms_lie_inside_the_larger_buffer():
    for row in COLLECTIVES.values():
        if row.in_place is InPlace.NONE:
            assert row.blocks_in is row.blocks_out
            continue
        for rank in range(4):
            first_in, first_out = row.in_place.first_blocks(rank)
            larger = max(row.blocks_in.number(4), row.blocks_out.number(4))
            assert first_in + row.blocks_in.number(4) <= larger
            assert first_out + row.blocks_out.number(4) <= larger
    assert COLLECTIVES["all_gather"].in_place.first_blocks(2) == (2, 0)
    assert COLLECTIVES["reduce_scatter"].in_place.first_blocks(2) == (0, 2)
