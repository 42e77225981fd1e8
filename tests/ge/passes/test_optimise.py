"""All passes together, and each alone: the same bits, no race, no deadlock."""

import random
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ascend_rt import ge
from ascend_rt.ge.costs import Costs
from ascend_rt.ge.options import Options
from ascend_rt.ge.passes import PASSES, optimise_ranks
from ascend_rt.ge.passes.moving import Place, moved
from ascend_rt.ge.placement import Pieces
from ascend_rt.ge.task_groups import TaskGroup, TaskGroups
from ascend_rt.settings import LinksOf

from . import programs, view_programs
from .interpreter import check_same_bits

pytestmark = pytest.mark.proof

SLOW_LINK = LinksOf()("1MB/s,20us")


def random_costs(graph: ge.Graph, seed: int) -> Costs:
    draw = random.Random(seed)
    kernels = {node.id: draw.choice([1.0, 10.0, 100.0]) for node in graph.of_kind("kernel")}
    return Costs(kernels, links=SLOW_LINK, ranks=2)


def in_ranks(graphs, options, costs):
    ranks = range(len(graphs))
    done = optimise_ranks(dict(enumerate(graphs)), Options(options), costs=dict.fromkeys(ranks, costs))
    return [done[rank] for rank in ranks]


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 4), st.integers(1, 3), st.sampled_from(["auto", "rules"]))
def test_the_bits_stay_the_same(seed, size, streams, fusion):
    before = programs.program(seed, size, streams=streams)
    costs = random_costs(before[0], seed)
    after = in_ranks(before, {"ascend_rt.fusion": fusion}, costs)
    check_same_bits(before, after, seed, programs.inputs(before, seed))


COMM_FUSION = (
    "",
    '{"allreduce": {"mode": "index", "config": []}, "allgather": {"mode": "auto"}, "reducescatter": {"mode": "auto"}}',
    '{"allreduce": {"mode": "index", "config": [1, 3]}, "allgather": {"mode": "size", "config": 1}}',
)
VIEWS = {
    "seed": st.integers(0, 10**9),
    "size": st.integers(1, 4),
    "streams": st.integers(1, 3),
    "options": st.fixed_dictionaries(
        {"ascend_rt.fusion": st.sampled_from(["auto", "rules"]), "comm_fusion": st.sampled_from(COMM_FUSION)},
        optional={
            "ge.topoSortingMode": st.just("3"),
            "ge.streamMaxParallelNum": st.just("DNN_HCCL:1"),
            "ge.hcomParallel": st.just("0"),
        },
    ),
    "links": st.sampled_from([None, SLOW_LINK, LinksOf()("1GB/s,50us")]),
}


@settings(max_examples=12, deadline=None)
@given(**VIEWS)
def test_parts_of_buffers_keep_their_bits_and_find_their_memory(**drawn):
    check_views(**drawn)


@pytest.mark.thorough
@settings(max_examples=500, deadline=None, derandomize=False, print_blob=True)
@given(**VIEWS)
def test_parts_of_buffers_keep_their_bits_whatever_is_drawn(**drawn):
    check_views(**drawn)


def check_views(seed, size, streams, options, links):
    """Optimised, and then with memory that buffers share."""
    before = view_programs.program(seed, size, streams)
    given_bytes = programs.inputs(before, seed)
    after = in_ranks(before, options, replace(random_costs(before[0], seed), links=links))
    check_same_bits(before, after, seed, given_bytes)
    check_same_bits(before, [placed(graph) for graph in after], seed, given_bytes)


def placed(graph):
    """With the buffers of the graph's own in one, where its plan puts them."""
    plan = ge.plan_memory(graph, ge.MemoryOptions(effort=0))
    places = {name: Place("memory", offset) for name, offset in plan.offsets.items()}
    buffers = {name: buffer for name, buffer in graph.buffers.items() if name not in places}
    buffers["memory"] = ge.Buffer("memory", plan.peak)
    return graph.replace("placed", nodes=[moved(node, places) for node in graph.nodes], buffers=buffers)


@pytest.mark.parametrize("name", PASSES)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**9), size=st.integers(2, 3), streams=st.integers(1, 3))
def test_each_pass_alone(name, seed, size, streams):
    others = ",".join(set(PASSES) - {name})
    before = programs.program(seed, size, streams=streams)
    costs = random_costs(before[0], seed)
    after = in_ranks(before, {"ge.disableOptimizations": others}, costs)
    assert {line.split(":")[0] for graph in after for line in graph.log} <= {"streams", name}
    check_same_bits(before, after, seed, programs.inputs(before, seed))


def test_each_pass_finds_something_in_some_program():
    """Or the tests above would say nothing of it."""
    missing, seeds = set(PASSES) - {"recompute"}, iter(range(40))  # which has programs of its own
    while missing:
        seed = next(seeds)
        before = programs.program(seed, 2)
        after = in_ranks(before, {"ascend_rt.narrowReductions": "true"}, random_costs(before[0], seed))
        missing -= {line.split(":")[0] for line in after[0].log}


class NoCosts(Costs):
    def of(self, node, groups):
        raise ValueError("nobody knows what this costs")


@pytest.mark.parametrize("culprit", range(3))
def test_of_ranks_that_fail_the_one_that_failed_first_is_told(culprit):
    graphs = dict(enumerate(programs.training(rank, 3, 2) for rank in range(3)))
    costs = dict.fromkeys(range(3), Costs()) | {culprit: NoCosts()}
    with pytest.raises(ValueError, match="nobody knows"):
        optimise_ranks(graphs, costs=costs)


def test_ranks_that_mark_a_call_differently_are_told_on_all_of_them():
    graphs = dict(enumerate(programs.training(rank, 3, 2) for rank in range(3)))
    last = graphs[1].of_kind("collective")[-1]
    wrong = replace(last, task=replace(last.task, fusion=2, fusion_id=4))
    graphs[1] = graphs[1].replace("marked", nodes=[wrong if node is last else node for node in graphs[1].nodes])
    told = "EI0003: call 1 of 'world' has fusion ., fusion_id .* on rank ., and others elsewhere"
    with pytest.raises(ValueError, match=told):
        optimise_ranks(graphs)


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 3))
def test_task_groups_stay_as_they_are_and_nothing_is_moved_across_them(seed, size):
    before = programs.program(seed, size, streams=1)
    draw = random.Random(seed)
    calls = [len(graph.of_kind("collective")) for graph in before]
    assume(min(calls) > 0)
    number, held = draw.randrange(min(calls)), []
    for graph in before:
        place = graph.nodes.index(graph.of_kind("collective")[number])
        held.append([graph.nodes[place].id])
        graph.task_groups = TaskGroups([TaskGroup(0, 0, "step.py:1", held[-1])], Pieces())
    costs = random_costs(before[0], seed)
    after = in_ranks(before, {"ascend_rt.memoryCap": "100000"}, costs)
    check_same_bits(before, after, seed, programs.inputs(before, seed))
    for graph, done, ids in zip(before, after, held, strict=True):
        assert [group.nodes for group in done.task_groups.groups] == [ids]
        assert [done.by_id[id].task for id in ids] == [graph.by_id[id].task for id in ids]
        assert {id: done.by_id[id].buffers for id in ids} == {id: graph.by_id[id].buffers for id in ids}
        assert all(done.buffers[name] == graph.buffers[name] for id in ids for name in done.by_id[id].buffers)
        known = {node.id: place for place, node in enumerate(graph.nodes)}
        for node in done.nodes:
            if node.id in known and (node.reads or node.writes) and graph.by_id.get(node.id, node).name == node.name:
                for id in ids:
                    assert node.id == id or done.order.before(*sorted((node.id, id), key=known.__getitem__))


def test_ranks_with_other_calls_in_task_groups_are_told():
    graphs = [programs.training(rank, 2, 3, 100) for rank in range(2)]
    graphs[1].task_groups = TaskGroups([TaskGroup(0, 0, "x", [graphs[1].of_kind("collective")[1].id])], Pieces())
    with pytest.raises(ValueError, match=r"in task groups on rank [01], and others elsewhere; expected the same"):
        in_ranks(graphs, {}, random_costs(graphs[0], 0))
