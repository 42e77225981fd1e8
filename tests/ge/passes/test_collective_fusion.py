"""All-gathers, reduce-scatters, broadcasts and reduces that become one."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ascend_rt as rt
from ascend_rt import ge
from ascend_rt.ge.costs import Costs
from ascend_rt.ge.options import Options
from ascend_rt.ge.passes import PASSES, optimise_ranks
from ascend_rt.settings import LinksOf
from ascend_rt.testing import RankPool

from .interpreter import check_same_bits
from .programs import accumulate, graphs_of, inputs, scale

OPTIONS = {"ge.disableOptimizations": ",".join(set(PASSES) - {"collective_fusion"})}
COSTS = Costs(links=LinksOf()("1GB/s,50us"), ranks=2)
MARK = {"fusion": 2, "fusion_id": 5}


def fused(graphs, options=(), costs=COSTS):
    """By rank, with the bits of before."""
    ranks = range(len(graphs))
    done = optimise_ranks(dict(enumerate(graphs)), Options(OPTIONS | dict(options)), costs=dict.fromkeys(ranks, costs))
    check_same_bits(graphs, [done[rank] for rank in ranks], 1, inputs(graphs, 1))
    return [done[rank] for rank in ranks]


def calls(graph):
    return [(node.task.call, node.task.count) for node in graph.of_kind("collective")]


def buffers_of(call, size, count):
    return {"all_gather": (count, size * count), "reduce_scatter": (size * count, count)}.get(call, (count, count))


def write_calls(writer, call, counts, *, role=ge.Role.INTERMEDIATE, root=0, in_place=False, **more):
    """Calls of these counts, of arrays that kernels write before and read behind."""
    result = writer.buffer("result", writer.size * sum(counts), ge.Role.INPUT)
    outs = []
    for number, count in enumerate(counts):
        x_count, out_count = buffers_of(call, writer.size, count)
        if in_place:
            whole = writer.buffer(f"x{number}", max(x_count, out_count), role)
            block = writer.block(f"x{number}") if x_count != out_count else whole
            x, out = (block if x_count < out_count else whole), (block if out_count < x_count else whole)
        else:
            x, out = writer.buffer(f"x{number}", x_count, role), writer.buffer(f"out{number}", out_count, role)
        writer.kernel(scale, x, writer.view("result", 0, x.count), by=number + 1 + writer.rank)
        if call == "reduce" and writer.rank != root:
            task = ge.Collective(call, "world", "float32", count, "sum", root, x, None, **more)
            writer.add(call, task, [x.span], [])
        else:
            writer.call(call, x, out, root=root, **more)
            outs.append(out)
    for out in outs:
        writer.kernel(accumulate, writer.view("result", 0, out.count), out)
    assert result.count


@pytest.mark.proof
@pytest.mark.parametrize(
    ("call", "role", "copied", "saved"),
    [
        ("all_gather", ge.Role.INTERMEDIATE, 3 * 48, 48),
        ("all_gather", ge.Role.OUTPUT, 4 * 48, 0),
        ("reduce_scatter", ge.Role.INTERMEDIATE, 3 * 48, 48),
        ("reduce_scatter", ge.Role.OUTPUT, 4 * 48, 0),
        ("broadcast", ge.Role.INTERMEDIATE, 0, 48),
        ("broadcast", ge.Role.OUTPUT, 48, 0),
        ("reduce", ge.Role.INTERMEDIATE, 0, 96),
        ("reduce", ge.Role.OUTPUT, 96, 0),
    ],
)
def test_marked_calls_become_one_and_only_what_has_a_block_for_each_rank_is_always_packed(call, role, copied, saved):
    """12 float32 a block at 3 ranks, of which rank 0 is the root."""
    in_place = call == "broadcast"
    graphs = graphs_of(lambda writer: write_calls(writer, call, [3, 4, 5], role=role, in_place=in_place, **MARK), 3)
    done = fused(graphs)
    assert [calls(graph) for graph in done] == [[(call, 12)]] * 3
    label = {"broadcast": "0-NA", "reduce": "0-sum", "all_gather": "NA", "reduce_scatter": "sum"}[call]
    assert f"collective_fusion: 3 calls became 1 ({call}-world-5-float32-{label}: [0,2])" in done[0].log[-1]
    assert f"packed: {copied} bytes are copied, {saved} need not be" in done[0].log[-1]
    alone = fused(graphs, {"ge.disableOptimizations": ",".join(PASSES)})
    assert [calls(graph) for graph in alone] == [calls(graph) for graph in graphs]


@pytest.mark.proof
@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(["all_gather", "reduce_scatter", "broadcast", "reduce"]),
    st.integers(1, 4),
    st.lists(st.integers(1, 5), min_size=2, max_size=5),
    st.sampled_from([ge.Role.INTERMEDIATE, ge.Role.OUTPUT]),
    st.booleans(),
    st.data(),
)
def test_the_bits_stay_the_same(call, size, counts, role, in_place, data):
    root = data.draw(st.integers(0, size - 1))
    more = {"role": role, "in_place": in_place or call == "broadcast", "root": root, **MARK}
    done = fused(graphs_of(lambda writer: write_calls(writer, call, counts, **more), size))
    assert size == 1 or [calls(graph) for graph in done] == [[(call, sum(counts))]] * size


@pytest.mark.proof
def test_calls_that_nobody_asks_to_fuse_stay_as_they_are():
    for call in ("all_gather", "broadcast"):
        graphs = graphs_of(lambda writer, call=call: write_calls(writer, call, [3, 4, 5], in_place=True))
        assert calls(fused(graphs)[0]) == calls(graphs[0])


@pytest.mark.proof
@pytest.mark.parametrize(("call", "name"), [("all_gather", "allgather"), ("reduce_scatter", "reducescatter")])
def test_comm_fusion_fuses_all_gathers_and_reduce_scatters_by_size(call, name):
    mib = 1 << 18
    graphs = graphs_of(lambda writer: write_calls(writer, call, [mib // 2, mib // 2, 3]))
    slow = Costs(links=LinksOf()("1GB/s,1s"), ranks=2)
    done = fused(graphs, {"comm_fusion": f'{{"{name}": {{"mode": "size", "config": 1}}}}'}, slow)
    assert calls(done[0]) == [(call, mib), (call, 3)]
    done = fused(graphs, {"comm_fusion": f'{{"{name}": {{"mode": "auto", "config": null}}}}'}, slow)
    assert calls(done[0]) == [(call, mib + 3)]
    packing_costs_more = Costs(links=LinksOf()("1GB/s,1us"), ranks=2)
    done = fused(graphs, {"comm_fusion": f'{{"{name}": {{"mode": "auto", "config": null}}}}'}, packing_costs_more)
    assert calls(done[0]) == calls(graphs[0])


@pytest.mark.proof
def test_a_fused_broadcast_has_at_most_the_bytes_of_the_option():
    graphs = graphs_of(lambda writer: write_calls(writer, "broadcast", [3, 4, 5, 9, 1, 1], in_place=True, **MARK))
    done = fused(graphs, {"ge.fusionTensorSize": str(7 * 4)})
    assert [count for _, count in calls(done[0])] == [7, 5, 9, 2]
    assert [count for _, count in calls(fused(graphs)[0])] == [23]


@pytest.mark.proof
def test_what_is_not_contiguous_on_one_rank_is_fused_on_none():
    def write(writer):
        for name in "abc":
            x = writer.buffer(name, 7, ge.Role.INPUT)
            is_strided = name == "b" and writer.rank == 0
            x = ge.View(name, 0, "float32", (4,), (8,), 4) if is_strided else writer.view(name, 0, 4)
            writer.call("all_reduce", x, x, **MARK)

    graphs = graphs_of(write)
    done = optimise_ranks(dict(enumerate(graphs)), Options(), costs=dict.fromkeys(range(2), COSTS))
    check_same_bits(graphs, [done[0], done[1]], 1, inputs(graphs, 1))
    assert [calls(graph) for graph in done.values()] == [[("all_reduce", 4), ("all_reduce", 8)]] * 2


def captured(comm: rt.Communicator) -> Any:
    """Counts of the calls of a graph once it is optimised, and whether it gives the bits of before."""
    stream, drawn = rt.Stream(), np.random.default_rng(comm.rank)
    shapes = [(comm.size, 3), (comm.size, 5)]
    arrays = {call: [rt.zeros(shape) for shape in shapes] for call in ("gather", "scatter", "cast", "reduce")}
    begin = [drawn.standard_normal(x.shape).astype("float32") for each in arrays.values() for x in each]
    with ge.capture(stream) as g, ge.fusion(2, fusion_id=1):
        for x in arrays["gather"]:
            comm.all_gather(x[comm.rank], x, stream=stream)
        for x in arrays["scatter"]:
            comm.reduce_scatter(x, x[comm.rank], stream=stream)
        for x in arrays["cast"]:
            comm.broadcast(x, root=1, stream=stream)
        for x in arrays["reduce"]:
            comm.reduce(x, x if comm.rank == 2 else None, root=2, stream=stream)
    optimised = ge.optimise(g, costs=COSTS)
    results = []
    for graph in (g, optimised):
        for array, value in zip((x for each in arrays.values() for x in each), begin, strict=True):
            array[:] = value
        graph.launch(stream)
        stream.synchronize()
        results.append([x.tobytes() for each in arrays.values() for x in each])
    return results[0] == results[1], sorted(calls(optimised))


@pytest.mark.processes
def test_ranks_launch_fused_calls_of_every_kind(ranks: RankPool) -> None:
    told = [("all_gather", 8), ("broadcast", 3 * 8), ("reduce", 3 * 8), ("reduce_scatter", 8)]
    assert ranks.run(3, captured) == [(True, told)] * 3
