"""All passes together, and each alone: the same bits, no race, no deadlock."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_rt import ge
from ascend_rt.ge.costs import Costs
from ascend_rt.ge.options import Options
from ascend_rt.ge.passes import PASSES, optimise
from ascend_rt.settings import Links, LinksOf

from . import programs
from .interpreter import check_same_bits

pytestmark = pytest.mark.proof

SLOW_LINK: Links = LinksOf()("1MB/s,20us")


def random_costs(graph: ge.Graph, seed: int, links: Links | None = SLOW_LINK) -> Costs:
    draw = random.Random(seed)
    kernels = {node.id: draw.choice([1.0, 10.0, 100.0]) for node in graph.of_kind("kernel")}
    return Costs(kernels, links=links, ranks=2)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 4), st.integers(1, 3), st.sampled_from(["auto", "rules"]))
def test_the_bits_stay_the_same(seed, size, streams, fusion):
    before = programs.program(seed, size, streams=streams)
    costs = random_costs(before[0], seed)
    after = [optimise(graph, Options({"ascend_rt.fusion": fusion}), costs=costs) for graph in before]
    check_same_bits(before, after, seed, programs.inputs(before, seed))


@pytest.mark.parametrize("name", PASSES)
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**9), size=st.integers(2, 3), streams=st.integers(1, 3))
def test_each_pass_alone(name, seed, size, streams):
    others = ",".join(set(PASSES) - {name})
    before = programs.program(seed, size, streams=streams)
    costs = random_costs(before[0], seed)
    after = [optimise(graph, Options({"ge.disableOptimizations": others}), costs=costs) for graph in before]
    assert {line.split(":")[0] for graph in after for line in graph.log} <= {"streams", name}
    check_same_bits(before, after, seed, programs.inputs(before, seed))
