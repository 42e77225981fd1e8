"""Calls that become others, or none: what they are before and after, by hand."""

import numpy as np
import pytest

from ascend_rt import ge
from ascend_rt.ge.options import Options
from ascend_rt.ge.passes import PASSES, optimise, optimise_ranks

from .interpreter import check_same_bits, run
from .programs import Writer, accumulate, add, inputs, scale

pytestmark = pytest.mark.proof

SIZE, COUNT = 2, 8


def written(write):
    """The graphs of all ranks of a program on buffers x, y (the program's) and t, u, s (the graph's; s is a block)."""
    graphs = []
    for rank in range(SIZE):
        writer = Writer(rank, SIZE)
        for name in "xy":
            writer.buffer(name, COUNT, ge.Role.INPUT)
        for name in "tu":
            writer.buffer(name, COUNT)
        writer.buffer("s", COUNT // SIZE)
        write(writer)
        graphs.append(writer.graph())
    return graphs


def after(name, graphs):
    """The first rank's calls and copies behind one pass, which keeps the bits."""
    others = ",".join(set(PASSES) - {name})
    done = optimise_ranks(dict(enumerate(graphs)), Options({"ge.disableOptimizations": others}))
    check_same_bits(graphs, [done[rank] for rank in range(SIZE)], 3, inputs(graphs, 3))
    return [(node.name, getattr(node.task, "count", 0)) for node in done[0].of_kind("collective", "copy")]


def test_an_all_reduce_of_which_the_own_block_is_read_becomes_a_reduce_scatter():
    def write(writer, *, reads_all_on=()):
        x, t = writer.view("x"), writer.view("t")
        writer.call("all_reduce", x, t)
        writer.kernel(accumulate, writer.block("y"), writer.block("t"))
        if writer.rank in reads_all_on:
            writer.kernel(accumulate, writer.view("y"), t)

    name = "all_reduce_slice_to_reduce_scatter"
    assert after(name, written(write)) == [("reduce_scatter", COUNT // SIZE)]
    assert after(name, written(lambda writer: write(writer, reads_all_on=[1]))) == [("all_reduce", COUNT)]
    # A result that is the program's is read whole.
    assert after(name, written(lambda writer: writer.call("all_reduce", writer.view("x"), writer.view("x")))) == [
        ("all_reduce", COUNT)
    ]


def test_a_reduce_scatter_whose_blocks_are_gathered_becomes_an_all_reduce():
    def in_place(writer):
        writer.call("reduce_scatter", writer.view("x"), writer.block("x"))
        writer.call("all_gather", writer.block("x"), writer.view("x"))

    def apart(writer, between=""):
        writer.call("reduce_scatter", writer.view("x"), writer.view("s"))
        if between == "part":
            writer.kernel(scale, writer.view("s"), writer.view("s"), by=2)
        if between == "x":
            writer.kernel(scale, writer.view("x"), writer.view("y"), by=2)
        writer.call("all_gather", writer.view("s"), writer.view("y"))
        if between == "behind":
            writer.kernel(accumulate, writer.block("x"), writer.view("s"))

    name = "reduce_scatter_all_gather_to_all_reduce"
    assert after(name, written(in_place)) == [("all_reduce", COUNT)]
    assert after(name, written(apart)) == [("all_reduce", COUNT)]
    for between in ("part", "x", "behind"):
        kept = after(name, written(lambda writer, between=between: apart(writer, between)))
        assert [call for call, _ in kept] == ["reduce_scatter", "all_gather"]


def test_equal_all_gathers_are_one_and_unchanged_data_are_not_sent_again():
    def twice(writer, out="u", change=""):
        writer.kernel(scale, writer.view("s"), writer.block("x"), by=3)
        writer.call("all_gather", writer.view("s"), writer.view("t"))
        if change:
            writer.kernel(accumulate, writer.view(change, 0, 1), writer.view("x", 0, 1))
        writer.call("all_gather", writer.view("s"), writer.view(out))
        writer.kernel(add, writer.view("y"), writer.view("t"), writer.view(out))

    def broadcast(writer, changed_on=None):
        for _ in range(3):
            writer.call("broadcast", writer.view("x"), writer.view("x"), root=1)
            if writer.rank == changed_on:
                writer.kernel(accumulate, writer.view("x"), writer.view("y"))

    name = "repeated_communication"
    gather = ("all_gather", COUNT // SIZE)
    assert after(name, written(twice)) == [gather, ("copy", 0)]
    assert after(name, written(lambda writer: twice(writer, "t"))) == [gather]
    assert after(name, written(lambda writer: twice(writer, change="s"))) == [gather] * 2
    assert after(name, written(lambda writer: twice(writer, change="t"))) == [gather] * 2
    assert after(name, written(broadcast)) == [("broadcast", COUNT)]
    assert after(name, written(lambda writer: broadcast(writer, 0))) == [("broadcast", COUNT)] * 3


def test_a_call_whose_result_nobody_reads_is_dropped_if_that_is_so_on_all_ranks():
    def write(writer, read_on=None):
        writer.call("all_reduce", writer.view("x"), writer.view("t"))
        if writer.rank == read_on:
            writer.kernel(accumulate, writer.view("y"), writer.view("t"))
        writer.kernel(scale, writer.view("t"), writer.view("x"), by=2)
        writer.kernel(accumulate, writer.view("y"), writer.view("t"))

    assert after("dead_communication", written(write)) == []
    assert after("dead_communication", written(lambda writer: write(writer, 1))) == [("all_reduce", COUNT)]


def test_what_shows_through_the_gaps_of_what_is_written_later_is_read():
    def kernel(writer):
        ends = ge.View("t", 0, "float32", (2,), ((COUNT - 1) * 4,), 4)  # the first and the last element
        writer.kernel(scale, ends, writer.view("x", count=2), by=2)

    def copy(writer):
        x, t = writer.view("x").span, writer.view("t").span
        task = ge.Copy(t, x, 4, rows=2, to_pitch=(COUNT - 1) * 4, source_pitch=(COUNT - 1) * 4)
        writer.add("copy", task, [x], [t])

    def write(writer, over):
        writer.call("all_reduce", writer.view("x"), writer.view("t"))
        over(writer)
        writer.kernel(accumulate, writer.view("y"), writer.view("t"))

    for over in (kernel, copy):
        assert after("dead_communication", written(lambda writer, over=over: write(writer, over)))[0] == (
            "all_reduce",
            COUNT,
        )


@pytest.mark.parametrize("call", ["all_gather", "broadcast"])
def test_a_narrowing_cast_goes_first_if_it_is_the_only_reader(call):
    def write(writer, other_reader=False):
        half = writer.buffer("half", COUNT, dtype="float16")
        if call == "all_gather":
            writer.call(call, writer.block("x"), writer.view("t"))
        else:
            writer.kernel(scale, writer.view("t"), writer.view("x"), by=1)
            writer.call(call, writer.view("t"), writer.view("t"), root=1)
        writer.kernel(np.copyto, half, writer.view("t"))
        writer.kernel(accumulate, writer.view("y"), half)
        if other_reader and writer.rank == 0:
            writer.kernel(accumulate, writer.view("y"), writer.view("t"))

    graphs = written(write)
    done = optimise_ranks(dict(enumerate(graphs)), Options({"ge.disableOptimizations": "overlap"}))
    check_same_bits(graphs, [done[0], done[1]], 4, inputs(graphs, 4))
    for graph in done.values():
        (moved,) = graph.of_kind("collective")
        assert (moved.task.dtype, moved.task.out.buffer) == ("float16", "half")
        assert graph.log[-1].startswith("narrowing_cast: 1 casts go first")
    kept = written(lambda writer: write(writer, True))
    (left,) = optimise_ranks(dict(enumerate(kept)), Options())[0].of_kind("collective")
    assert left.task.dtype == "float32"


def narrowed(write, options=None):
    """Both ranks' calls behind the passes, overlap apart, as (call, dtype, buffers), and the graphs."""
    graphs = written(write)
    done = optimise_ranks(dict(enumerate(graphs)), Options({"ge.disableOptimizations": "overlap"} | (options or {})))
    calls = []
    for graph in done.values():
        views = [[m.view for m in node.task.messages] for node in graph.of_kind("transfer")]
        views += [[node.task.x, node.task.out] for node in graph.of_kind("collective")]
        calls.append([(view.dtype, view.buffer) for each in views for view in each])
    return calls, graphs, [done[0], done[1]]


@pytest.mark.parametrize("in_batch", [False, True])
def test_a_narrowing_cast_goes_to_the_sender_of_a_message(in_batch):
    def write(writer, other_reader=None, wide_on=None):
        half = writer.buffer("half", COUNT, dtype="float16")
        writer.kernel(scale, writer.view("t"), writer.view("x"), by=3)
        peer = 1 - writer.rank
        if in_batch:
            writer.batch(ge.Message(False, peer, writer.view("t")), ge.Message(True, peer, writer.view("u")))
        else:
            (writer.send if writer.rank else writer.recv)(writer.view("t" if writer.rank else "u"), peer)
        if in_batch or writer.rank == 0:
            writer.kernel(np.copyto, half if writer.rank != wide_on else writer.view("y"), writer.view("u"))
            writer.kernel(accumulate, writer.view("y"), half)
        if writer.rank == other_reader:
            writer.kernel(accumulate, writer.view("y"), writer.view("u"))

    wide, sent, got = ("float32", "t"), ("float16", "narrow0"), ("float16", "half")
    calls, graphs, done = narrowed(write)
    assert calls == ([[sent, got], [sent, got]] if in_batch else [[got], [sent]])
    check_same_bits(graphs, done, 4, inputs(graphs, 4))
    assert done[0].log[-1].startswith(f"narrowing_cast_send: {1 + in_batch} messages are cast by their senders")
    # A receiver that has another use for what it gets has it sent whole; what it sends itself is another matter.
    kept = [[sent, ("float32", "u")], [wide, got]] if in_batch else [[("float32", "u")], [wide]]
    assert narrowed(lambda writer: write(writer, other_reader=0))[0] == kept
    assert narrowed(lambda writer: write(writer, wide_on=0))[0] == kept
    off = narrowed(write, {"ge.disableOptimizations": "overlap,narrowing_cast_send"})[0]
    assert {dtype for each in off for dtype, _ in each} == {"float32"}


@pytest.mark.parametrize("call", ["all_reduce", "reduce_scatter"])
def test_a_narrowing_cast_goes_before_a_reduction_if_told_and_rounds_otherwise(call):
    def write(writer):
        block = call == "reduce_scatter"
        half = writer.buffer("half", COUNT // SIZE if block else COUNT, dtype="float16")
        result = writer.view("s" if block else "t")
        writer.call(call, writer.view("x"), result)
        writer.kernel(np.copyto, half, result)
        writer.kernel(accumulate, writer.view("y", 0, half.count), half)

    calls, _, _ = narrowed(write)
    assert {dtype for dtype, _ in calls[0]} == {"float32"}
    calls, graphs, done = narrowed(write, {"ascend_rt.narrowReductions": "true"})
    assert calls[0] == [("float16", "narrow0" if call == "reduce_scatter" else "half"), ("float16", "half")]
    assert "1 casts go before reductions, which round otherwise then" in done[0].log[-1]
    drawn = [np.random.default_rng(rank).standard_normal((2, COUNT)).astype("float32") for rank in range(SIZE)]
    given = [{"x": x.tobytes(), "y": y.tobytes()} for x, y in drawn]
    exact, rounded = (
        np.array([np.frombuffer(held["y"], "float32") for held in run(each, 5, given)]) for each in (graphs, done)
    )
    assert np.abs(exact - rounded).max() < 4e-3
    halves = drawn[0][0].astype("float16") + drawn[1][0].astype("float16")
    count = COUNT // SIZE if call == "reduce_scatter" else COUNT
    expected = drawn[0][1].copy()
    expected[:count] += halves[:count]
    np.testing.assert_array_equal(rounded[0], expected)


def test_a_graph_alone_cannot_know_what_other_ranks_do():
    (graph, _) = written(lambda writer: writer.call("all_reduce", writer.view("x"), writer.view("x")))
    with pytest.raises(
        ValueError, match="has no communicators here; bind it, or optimise_ranks the graphs"
    ):
        optimise(graph)
