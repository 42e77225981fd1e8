"""Mesh plans of equal blocks, proved for blocks that differ in count; and cut ones, which are not right for them."""

import random
from dataclasses import replace

import pytest

from ascend_rt.plan import Buffer, build_all
from ascend_rt.plan.layout import Call
from ascend_rt.plan.split import ALGORITHM, SPLIT
from ascend_rt.plan.verify import DataError, prove

pytestmark = pytest.mark.proof


def table(dice, name, size):
    """What each rank sends to each: nothing now and then, and nothing at all from one of them."""
    sent = [[dice.choice([0, dice.randrange(9)]) for _ in range(size)] for _ in range(size)]
    sent[dice.randrange(size)] = [0] * size
    if SPLIT[name] == "all_gather":
        sent = [[row[0]] * size for row in sent]
    elif SPLIT[name] == "reduce_scatter":
        sent = [sent[0]] * size
    return tuple(map(tuple, sent))


@pytest.mark.parametrize("size", range(1, 8))
@pytest.mark.parametrize("name", sorted(SPLIT))
def test_mesh_plans_are_right_for_blocks_that_differ_in_count(name, size):
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    plans = build_all(SPLIT[name], ALGORITHM, size)
    assert plans[0].chunks == 1 and plans[0].scratch == 0
    in_place = [frozenset(), frozenset(range(size))] if SPLIT[name] != "all_to_all" else [frozenset()]
    for _ in range(5):
        calls = [Call(plans, 0, in_place=ranks, sent=table(dice, name, size)) for ranks in in_place]
        for call in calls:
            prove(call)
        prove(*calls, *reversed(calls))


@pytest.mark.parametrize("name", sorted(SPLIT))
def test_equal_blocks_as_a_table_are_the_call_without_one(name):
    plans = build_all(SPLIT[name], ALGORITHM, 3)
    equal, tabled = Call(plans, 4), Call(plans, 0, sent=((4,) * 3,) * 3)
    for rank in range(3):
        for buffer in (Buffer.IN, Buffer.OUT):
            blocks = equal.blocks(rank, buffer)
            assert blocks == tabled.blocks(rank, buffer)
            assert equal.length(rank, buffer) == tabled.length(rank, buffer) == sum(blocks)
            starts = [[call.block_start(rank, buffer, block) for block in range(4)] for call in (equal, tabled)]
            assert starts[0][: len(blocks)] == starts[1][: len(blocks)]
            for at in range(sum(blocks)):
                assert equal.block_at(rank, buffer, at) == tabled.block_at(rank, buffer, at)
    prove(equal, tabled)


def test_a_block_that_goes_to_the_wrong_rank_is_found():
    plans = list(build_all("all_to_all", ALGORITHM, 3))
    wrong = [replace(step, src=step.src._replace(chunk=(step.src.chunk + 1) % 3)) for step in plans[1].body]
    plans[1] = replace(plans[1], steps=(plans[1].steps[0], *wrong, plans[1].steps[-1]))
    with pytest.raises(DataError):
        prove(Call(tuple(plans), 0, sent=((2,) * 3,) * 3))
