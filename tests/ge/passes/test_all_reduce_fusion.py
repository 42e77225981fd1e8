"""Which all-reduces become one, and where their memory lies then."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_rt import ge
from ascend_rt.ge.buckets import Indices, Percentages, fastest
from ascend_rt.ge.costs import Costs
from ascend_rt.ge.options import Options
from ascend_rt.ge.passes import PASSES, optimise_ranks
from ascend_rt.ge.passes.all_reduce_fusion import fuse_all_reduces
from ascend_rt.ge.passes.candidates import candidates_of
from ascend_rt.ge.passes.overlap import overlap
from ascend_rt.ge.passes.terms import Terms
from ascend_rt.ge.timeline import simulate
from ascend_rt.settings import LinksOf

from .interpreter import check_same_bits
from .programs import WORLD, Writer, accumulate, add, graphs_of, inputs, scale, training

pytestmark = pytest.mark.proof

RULES = {"ascend_rt.fusion": "rules"}
ONE_BUCKET = {"comm_fusion": '{"allreduce": {"mode": "index", "config": []}}'}
COSTS = Costs(links=LinksOf()("1GB/s,50us"), ranks=2)


def fused(graphs, options=RULES, costs=COSTS, **more):
    after = [fuse_all_reduces(graph, Terms(costs, options=Options(options, **more))) for graph in graphs]
    check_same_bits(graphs, after, 1, inputs(graphs, 1))
    return after[0]


def calls(graph):
    return [(node.task.count, node.task.op) for node in graph.of_kind("collective")]


def many(sizes, ops=(), *, role=ge.Role.INTERMEDIATE, dtypes=(), **more):
    """Gradients of these sizes, each written, then all reduced, then all used."""

    def write(writer):
        x = writer.buffer("x", max(sizes), ge.Role.INPUT)
        views = []
        for number, size in enumerate(sizes):
            dtype = dtypes[number] if dtypes else "float32"
            view = writer.buffer(f"g{number}", size, role, dtype)
            writer.kernel(scale, view, writer.view("x", 0, size), by=number + 1)
            views.append(view)
        for number, view in enumerate(views):
            writer.call("all_reduce", view, view, (ops or ["sum"] * len(sizes))[number], **more)
        for view in views:
            writer.kernel(accumulate, writer.view("x", 0, view.count), view)
        assert x.count == max(sizes)

    return graphs_of(write)


def test_the_default_is_ge_s_split_by_bytes():
    after = fused(many([10] * 30))
    assert calls(after) == [(290, "sum"), (10, "sum")]
    assert after.log[-1].startswith(
        "all_reduce_fusion: 30 all-reduces became 2 (all_reduce-world--1-float32-sum: [0,28] [29,29]); "
        "0 of 1 buckets are packed: 0 bytes are copied, 2320 need not be; communication 15"
    )


def test_a_strategy_of_the_communicator_wins():
    after = fused(many([10] * 30), split_strategies={WORLD: Percentages((60, 20, 20))})
    assert calls(after) == [(180, "sum"), (60, "sum"), (60, "sum")]
    after = fused(many([10] * 30), split_strategies={WORLD: Indices((9, 29))})
    assert calls(after) == [(100, "sum"), (200, "sum")]


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ('{"openstate": false}', [10] * 6),
        ('{"allreduce": {"mode": "auto", "config": null}}', [60]),
        ('{"allreduce": {"mode": "index", "config": [1, 3]}}', [20, 20, 20]),
        ('{"openstate": true, "allreduce": {"mode": "size", "config": 1}}', [60]),
    ],
)
def test_comm_fusion_of_mindspore(text, counts):
    assert [count for count, _ in calls(fused(many([10] * 6), {"comm_fusion": text}))] == counts


def test_what_differs_in_type_reduction_or_fusion_id_is_in_buckets_of_its_own():
    after = fused(many([4] * 6, ["sum", "max", "sum", "max", "sum", "prod"]), ONE_BUCKET)
    assert sorted(calls(after)) == [(4, "max"), (4, "max"), (4, "prod"), (12, "sum")]
    after = fused(many([4] * 4, dtypes=["float32", "float64"] * 2), ONE_BUCKET)
    assert [(node.task.dtype, node.task.count) for node in after.of_kind("collective")] == [
        ("float32", 8),
        ("float64", 8),
    ]


def marked(graphs, *fusions):
    """The all-reduces with (fusion, fusion_id) in this order."""
    changed = []
    for graph in graphs:
        wanted = iter(fusions)
        nodes = [
            replace(n, task=replace(n.task, fusion=(f := next(wanted))[0], fusion_id=f[1])) if n.communicator else n
            for n in graph.nodes
        ]
        changed.append(graph.replace("marked", nodes=nodes))
    return changed


def test_fusion_0_is_left_alone_and_fusion_2_goes_by_its_id():
    graphs = marked(many([4, 5, 6, 7, 8, 9]), (2, 7), (0, -1), (2, 1), (2, 7), (1, -1), (2, 1))
    assert calls(fused(graphs)) == [(5, "sum"), (11, "sum"), (8, "sum"), (15, "sum")]


def test_a_graph_with_a_fusion_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match=r"EI0003: fusion 1, fusion_id 0; expected .*: .* all_reduce .*step.py:2"):
        marked(many([4]), (1, 0))


def test_buffers_of_the_graph_become_one_without_copies():
    after = fused(many([4, 5, 6]), ONE_BUCKET)
    assert after.of_kind("copy") == []
    assert [(name, buffer.nbytes) for name, buffer in after.buffers.items()] == [("x", 24), ("bucket0", 60)]
    (call,) = after.of_kind("collective")
    assert call.task.x == call.task.out == ge.View("bucket0", 0, "float32", (15,), None, 4)
    assert [node.writes[0] for node in after.of_kind("kernel")[:3]] == [
        ge.Span("bucket0", start, nbytes) for start, nbytes in ((0, 16), (16, 20), (36, 24))
    ]


def test_what_lies_side_by_side_already_is_one_call():
    def write(writer):
        whole = writer.buffer("whole", 12, ge.Role.INPUT)
        for first, count in ((0, 4), (4, 2), (6, 6)):
            part = writer.view("whole", first, count)
            writer.call("all_reduce", part, part)
        assert whole.count == 12

    after = fused(graphs_of(write), ONE_BUCKET)
    (node,) = after.nodes
    assert node.task.x == ge.View("whole", 0, "float32", (12,), None, 4)


def sliced(writer, sizes, order, *, name="flat", role=ge.Role.INPUT):
    """Slices of one buffer, which lie in it as `order` has their numbers, by number."""
    writer.buffer(name, sum(sizes), role)
    starts, start = {}, 0
    for number in order:
        starts[number] = start
        start += sizes[number]
    return [writer.view(name, starts[number], size) for number, size in enumerate(sizes)]


def backward(writer, sizes, order, out_order=None):
    """Gradients that are slices of one buffer of the program's, and sums that are slices of another one if told."""
    gradients = sliced(writer, sizes, order)
    sums = gradients if out_order is None else sliced(writer, sizes, out_order, name="sums", role=ge.Role.OUTPUT)
    for number, (gradient, total) in enumerate(zip(gradients, sums, strict=True)):
        writer.kernel(scale, gradient, gradient, by=number + 1)
        writer.call("all_reduce", gradient, total)
    for total in sums:
        writer.kernel(scale, total, total, by=0.5)


def test_slices_of_one_buffer_are_one_call_in_whatever_order_they_are_reduced():
    """A buffer of weights and biases from the first layer to the last, which backward fills from its end."""
    sizes, order = [60, 6] * 10, [number ^ 1 for number in reversed(range(20))]
    after = fused(graphs_of(lambda writer: backward(writer, sizes, order)), ONE_BUCKET)
    assert calls(after) == [(660, "sum")]
    assert after.of_kind("copy") == []
    (call,) = after.of_kind("collective")
    assert call.task.x == call.task.out == ge.View("flat", 0, "float32", (660,), None, 4)
    assert "0 of 1 buckets are packed: 0 bytes are copied, 5280 need not be" in after.log[-1]
    halves = fused(graphs_of(lambda writer: backward(writer, sizes, order)), split_strategies={WORLD: Indices((9,))})
    assert [node.task.x.start for node in halves.of_kind("collective")] == [1320, 0]
    uneven = fused(graphs_of(lambda writer: backward(writer, sizes, order)), split_strategies={WORLD: Indices((8,))})
    assert "2 of 2 buckets are packed" in uneven.log[-1]  # both have a part of the fifth layer from the end


@settings(max_examples=25, deadline=None)
@given(st.data(), st.integers(2, 3), st.lists(st.integers(1, 5), min_size=2, max_size=7), st.booleans())
def test_slices_keep_their_bits_in_every_order_and_need_no_copies_where_ranks_agree(data, size, sizes, is_in_place):
    def drawn():
        orders = st.permutations(range(len(sizes)))
        return data.draw(orders), None if is_in_place else data.draw(orders)

    same, agree = drawn(), data.draw(st.booleans())
    orders = [same if agree else drawn() for _ in range(size)]
    graphs = []
    for rank, (order, out_order) in enumerate(orders):
        writer = Writer(rank, size)
        backward(writer, sizes, order, out_order)
        graphs.append(writer.graph())
    others = ",".join(set(PASSES) - {"all_reduce_fusion"})
    done = optimise_ranks(dict(enumerate(graphs)), Options(ONE_BUCKET | {"ge.disableOptimizations": others}))
    check_same_bits(graphs, [done[rank] for rank in range(size)], 1, inputs(graphs, 1))
    if all(out_order in (None, order) and order == orders[0][0] for order, out_order in orders):
        assert calls(done[0]) == [(sum(sizes), "sum")]
        assert [graph.of_kind("copy") for graph in done.values()] == [[]] * size


def test_memory_of_the_program_is_packed_where_that_pays():
    graphs = many([4, 5, 6], role=ge.Role.OUTPUT)
    after = fused(graphs, ONE_BUCKET)
    assert [str(node.task) for node in after.of_kind("copy")][::3] == [
        "copy g0[0:16] -> packed0[0:16]",
        "copy packed0[0:16] -> g0[0:16]",
    ]
    assert "1 of 1 buckets are packed: 120 bytes are copied, 0 need not be" in after.log[-1]
    slow_copies = Costs(links=LinksOf()("1GB/s,1ns"), task_us=100.0)
    assert calls(fused(graphs, ONE_BUCKET, slow_copies)) == calls(graphs[0])


def test_out_of_place_gradients_have_two_joined_buffers():
    def write(writer):
        writer.buffer("x", 4, ge.Role.INPUT)
        for number in range(3):
            writer.kernel(scale, writer.buffer(f"g{number}", 4), writer.view("x"), by=number)
            writer.call("all_reduce", writer.view(f"g{number}"), writer.buffer(f"h{number}", 4))
        for number in range(3):
            writer.kernel(accumulate, writer.view("x"), writer.view(f"h{number}"))

    after = fused(graphs_of(write), ONE_BUCKET)
    (call,) = after.of_kind("collective")
    assert (call.task.x.buffer, call.task.out.buffer) == ("bucket0", "bucket1")


def test_a_gradient_that_another_one_needs_is_in_an_earlier_bucket():
    def write(writer):
        a, b = writer.buffer("a", 4, ge.Role.INPUT), writer.buffer("b", 4, ge.Role.INPUT)
        writer.call("all_reduce", a, a)
        writer.kernel(add, b, a, a)
        writer.call("all_reduce", b, b)

    graphs = graphs_of(write)
    assert calls(fused(graphs, ONE_BUCKET)) == calls(graphs[0])


def test_another_call_does_not_come_to_stand_behind_the_bucket():
    def write(writer):
        a, b, c = (writer.buffer(name, 4, ge.Role.INPUT) for name in "abc")
        writer.call("all_reduce", a, a)
        writer.kernel(add, c, a, a)
        writer.call("broadcast", c, c)
        writer.call("all_reduce", b, b)

    graphs = graphs_of(write)
    assert calls(fused(graphs, ONE_BUCKET)) == calls(graphs[0])


def test_auto_does_not_bet_on_the_speed_of_kernels():
    """Buckets that end communication earliest at the speed that was measured wait for kernels that are slower."""
    graphs = [training(rank, 2, 12, 1000) for rank in range(2)]
    kernels = dict.fromkeys((node.id for node in graphs[0].of_kind("kernel")), 100.0)
    terms = Terms(Costs(kernels, links=LinksOf()("20MB/s,100us"), ranks=2))
    (candidates,) = candidates_of(graphs[0], terms, lambda label: True).values()
    bet = fused(graphs, {}, terms.costs, split_strategies={WORLD: Indices(tuple(fastest(candidates.gradients)[1]))})
    auto = fused(graphs, {}, terms.costs)
    assert (len(calls(bet)), len(calls(auto))) == (3, 4)
    slower = terms.costs.with_kernels_at(0.85)
    assert simulate(overlap(auto, terms), slower).step_us < 0.95 * simulate(overlap(bet, terms), slower).step_us


@pytest.mark.parametrize(("latency", "buckets"), [("1us", 12), ("100us", 6), ("1ms", 2), ("3ms", 1)])
def test_auto_weighs_latency_against_waiting(latency, buckets):
    graphs = [training(rank, 2, 12, 1000) for rank in range(2)]
    kernels = {node.id: 100.0 for node in graphs[0].of_kind("kernel")}
    costs = Costs(kernels, links=LinksOf()(f"100MB/s,{latency}"), ranks=2)
    after = fused(graphs, {}, costs)
    assert len(calls(after)) == buckets, after.log
