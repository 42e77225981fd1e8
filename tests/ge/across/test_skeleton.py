"""What ranks tell each other of a graph keeps calls, messages and their order, and loses everything else."""

import dataclasses
import random

import pytest

from ascend_rt import ge
from ascend_rt.ge import json_form
from ascend_rt.ge.across.skeleton import digest, is_told_by_digest, skeleton

from .programs import right
from .test_check import call, jumbled, program, transfer

pytestmark = pytest.mark.proof


@pytest.mark.parametrize("seed", range(20))
def test_order_and_verdict_are_the_same(seed: int) -> None:
    whole = jumbled(seed)
    told = {rank: ge.Graph.from_json(json_form.dump(skeleton(graph, whole))) for rank, graph in whole.items()}
    assert list(map(str, ge.check_ranks(told))) == list(map(str, ge.check_ranks(whole)))
    for rank, graph in whole.items():
        kept = [node.id for node in graph.nodes if node.communicator]
        assert [node.id for node in told[rank].nodes] == kept
        pairs = [(a, b) for a in kept for b in kept]
        assert [told[rank].order.before(*pair) for pair in pairs] == [graph.order.before(*pair) for pair in pairs]


@pytest.mark.parametrize("seed", range(10))
def test_communicators_that_reach_beyond_the_ranks_are_left_out(seed: int) -> None:
    whole = right(seed)
    ranks = random.Random(seed).sample(list(whole), len(whole) - 1)
    told = {rank: skeleton(whole[rank], ranks) for rank in ranks}
    assert ge.check_ranks(told) == []
    assert all("world" not in graph.groups for graph in told.values())


def test_a_digest_tells_calls_apart_and_nothing_else() -> None:
    one, two = call(1, "w"), call(2, "w", op="max")
    (first,) = program([one, two]).values()
    elsewhere = dataclasses.replace(two, stream=3, line="other.py:1")
    (same,) = program([one, elsewhere]).values()
    (swapped,) = program([two, one]).values()
    assert digest(first, "w") == digest(same, "w") != digest(swapped, "w")
    assert all(is_told_by_digest(graph, "w") for graph in (first, swapped))
    split = call(3, "w", call="all_gather_v", split=((1,), (0,), (1,), (0,)))
    for rest in transfer(4, (False, 0, 1)), split:
        assert not is_told_by_digest(program([one, rest])[0], "w")
    assert not is_told_by_digest(first, "other")
