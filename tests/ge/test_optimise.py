"""Optimised graphs on real ranks: the bits of the captured one, and what ranks agree on."""

import threading
from typing import Any

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt import ge
from ascend_rt.ge.passes import agreement
from ascend_rt.hccl.split import api
from ascend_rt.testing import RankPool

Array = np.ndarray[Any, Any]
LAYERS, COUNT = 8, 500


def grow(x: Array, w: Array, out: Array) -> None:
    np.multiply(x, w, out=out)
    out += x


def empty_gradients(stream: rt.Stream, layers: int, where: str) -> list[Array]:
    """Of the graph, each with memory of its own, or slices of one array."""
    if where == "of the graph":
        return [ge.empty(stream, COUNT) for _ in range(layers)]
    if where == "apart":
        return [rt.zeros(COUNT, "float32") for _ in range(layers)]
    return list(rt.zeros((layers, COUNT), "float32"))


def step(comm: rt.Communicator, stream: rt.Stream, x: Array, weights: list[Array], where: str) -> None:
    """Forward, gradients and their all-reduces from the last layer to the first, updates."""
    values = [x, *(ge.empty(stream, COUNT) for _ in weights)]
    gradients = empty_gradients(stream, len(weights), where)
    for number, weight in enumerate(weights):
        given, out = [values[number], weight], values[number + 1]
        stream.launch(grow, *given, out, reads=given, writes=[out])
    for number in reversed(range(len(weights))):
        given = [values[number], weights[number]]
        stream.launch(grow, *given, gradients[number], reads=given, writes=[gradients[number]])
        comm.all_reduce(gradients[number], stream=stream)
    for weight, gradient in zip(weights, gradients, strict=True):
        stream.launch(np.add, weight, gradient, out=weight, reads=[weight, gradient], writes=[weight])


def captured_and_optimised(comm: rt.Communicator, where: str) -> Any:
    """Whether both leave the same weights, and what the passes did."""
    stream = rt.Stream()
    drawn = np.random.default_rng(comm.rank)
    begin = [drawn.standard_normal(COUNT).astype("float32") for _ in range(LAYERS + 1)]
    held = [rt.array(each) for each in begin]
    with ge.capture(stream) as g:
        step(comm, stream, held[0], held[1:], where)
    results = []
    api.set_split_strategy_by_idx([2, LAYERS - 1])
    costs = ge.measured(g)
    kernels = len([node for node in g.nodes if node.kind == "kernel"])
    assert len(costs.kernels) == kernels and min(costs.kernels.values()) > 0
    assert [each.tobytes() for each in held] == [each.tobytes() for each in begin]
    optimised = ge.optimise(g, costs=costs)
    for graph in (g, optimised):
        for array, value in zip(held, begin, strict=True):
            array[:] = value
        for _ in range(2):
            graph.launch(stream)
        stream.synchronize()
        results.append([array.tobytes() for array in held])
    did = optimised.log[0].split(";")[:2]
    return results[0] == results[1], len(optimised.of_kind("collective")), did


@pytest.mark.processes
@pytest.mark.parametrize(("where", "packed"), [("of the graph", 0), ("apart", 2), ("slices", 0)])
def test_an_optimised_graph_has_the_bits_of_the_captured_one(ranks: RankPool, where: str, packed: int) -> None:
    did = f"all_reduce_fusion: {LAYERS} all-reduces became 2 (all_reduce-world--1-float32-sum: [0,2] [3,7])"
    nbytes = 2 * LAYERS * COUNT * 4
    copied, saved = (nbytes, 0) if packed else (0, nbytes)
    copies = f" {packed} of 2 buckets are packed: {copied} bytes are copied, {saved} need not be"
    assert ranks.run(3, captured_and_optimised, where) == [(True, 2, [did, copies])] * 3


MARKS = [(1, -1), (2, 3), (2, 7), (0, -1), (2, 3), (1, -1), (2, 7), (1, -1)]


def captured_with_marks(comm: rt.Communicator) -> Any:
    """The marks in the graph and in its text, the counts of the calls once it is optimised, what its sums are, and
    how calls are told."""
    stream = rt.Stream()
    gradients = [rt.array(np.full(10 + number, comm.rank + number, "float32")) for number in range(len(MARKS))]
    with ge.capture(stream) as g, ge.fusion(0):
        for gradient, (fusion, id) in zip(gradients, MARKS, strict=True):
            with ge.fusion(fusion, fusion_id=id):
                comm.all_reduce(gradient, stream=stream)
    comm.all_reduce(rt.zeros(4))
    told = [[(node.task.fusion, node.task.fusion_id) for node in each.nodes] for each in (g, read_again(g))]
    optimised = ge.optimise(g, ge.Options({"comm_fusion": '{"allreduce": {"mode": "size", "config": 1}}'}))
    optimised.launch(stream)
    stream.synchronize()
    sums = [sorted({float(value) for value in gradient}) for gradient in gradients]
    return told, [node.task.count for node in optimised.of_kind("collective")], sums, [str(g.nodes[n]) for n in (1, 3)]


def read_again(graph: ge.Graph) -> ge.Graph:
    return ge.Graph.from_json(graph.to_json())


@pytest.mark.processes
def test_calls_that_are_captured_have_the_marks_of_the_innermost_block(ranks: RankPool) -> None:
    for told, counts, sums, texts in ranks.run(2, captured_with_marks):
        assert told == [MARKS, MARKS]
        assert counts == [13, 11 + 14, 12 + 16, 10 + 15 + 17]
        assert sums == [[2.0 * number + 1] for number in range(len(MARKS))]
        assert ["in place, fusion_id 3" in texts[0], "in place, fusion 0" in texts[1]] == [True, True]


@pytest.mark.proof
@pytest.mark.parametrize("wrong", [(3, -1), (1, 0), (0, 5), (2, -1), (2, 1 << 31)])
def test_a_fusion_that_does_not_exist_is_refused(wrong: tuple[int, int]) -> None:
    told = rf"EI0003: fusion {wrong[0]}, fusion_id {wrong[1]}; expected fusion 0 or 1"
    with pytest.raises(ValueError, match=told), ge.fusion(wrong[0], fusion_id=wrong[1]):
        raise AssertionError("unreachable")


def agreed(comm: rt.Communicator) -> Any:
    agree = agreement.asked({"world": comm})
    own = {"everywhere": float(comm.rank), f"only {comm.rank}": 1.0, "first two": 0.5}
    if comm.rank == 2:
        own = {"everywhere": 0.25}
    pair = agree("world", {"a": float(comm.rank), str(comm.rank): 1.0}, 2 - comm.rank) if comm.rank != 1 else None
    return agree("world", own), agree("world", {}), pair


@pytest.mark.processes
def test_ranks_know_what_all_have_told_and_the_largest_number(ranks: RankPool) -> None:
    first, middle, last = ranks.run(3, agreed)
    assert first == last == ({"everywhere": 1.0}, {}, {"a": 2.0})
    assert middle == ({"everywhere": 1.0}, {}, None)


def sent_narrow(comm: rt.Communicator) -> Any:
    """Rank 0 sends rank 2 what that one casts; what it gets, without and with the passes."""
    stream = rt.Stream()
    x, half = rt.array(np.random.default_rng(5).standard_normal(COUNT)), rt.zeros(COUNT, "float16")
    with ge.capture(stream) as g:
        wide = ge.empty(stream, COUNT, "float64")
        if comm.rank == 0:
            comm.send(x, 2, stream=stream)
        elif comm.rank == 2:
            comm.recv(wide, 0, stream=stream)
            stream.launch(np.copyto, half, wide, reads=[wide], writes=[half])
    results, optimised = [], ge.optimise(g)
    for graph in (g, optimised):
        half[:] = 0
        graph.launch(stream)
        stream.synchronize()
        results.append(half.tobytes())
    sent = [message.view.dtype for node in optimised.of_kind("transfer") for message in node.task.messages]
    return sent, results[0] == results[1], half.any()


@pytest.mark.processes
def test_two_ranks_agree_on_what_they_send(ranks: RankPool) -> None:
    assert ranks.run(3, sent_narrow) == [(["float16"], True, False), ([], True, False), (["float16"], True, True)]


@pytest.mark.proof
def test_threads_agree_as_ranks_do() -> None:
    meeting = agreement.Meeting()
    told: dict[int, Any] = {}

    def run(rank: int) -> None:
        agree = meeting.rank(rank, {"world": 3, "pair": 2})
        first = agree("world", {"a": rank, str(rank): 1.0})
        pair = agree("pair", {"b": 1.0 - rank}) if rank < 2 else None
        two = agree("world", {"c": rank}, 2 - rank) if rank != 1 else None
        told[rank] = (first, pair, agree("world", {"a": -rank}), two)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == {
        rank: ({"a": 2}, {"b": 1.0} if rank < 2 else None, {"a": 0}, {"c": 2} if rank != 1 else None)
        for rank in range(3)
    }


@pytest.mark.proof
def test_a_rank_that_fails_keeps_nobody_waiting() -> None:
    meeting = agreement.Meeting()
    failed: list[str] = []

    def run() -> None:
        try:
            meeting.rank(1, {"world": 2})("world", {})
        except RuntimeError as error:
            failed.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    meeting.leave("rank 0 has failed: no memory")
    thread.join()
    assert failed == ["rank 1 has nobody to agree with on communicator 'world': rank 0 has failed: no memory"]
    with pytest.raises(RuntimeError, match=r"only ranks \[0\] came within 0.001 s"):
        agreement.Meeting(0.001).rank(0, {"world": 2})("world", {})
