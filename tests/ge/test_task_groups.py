"""Task groups and their updates: other arguments between launches, and what does not fit is told with its line."""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt import ge
from ascend_rt.acl import recording
from ascend_rt.acl.errors import AclError
from ascend_rt.hccl import HcclError
from ascend_rt.testing import RankPool

pytestmark = pytest.mark.processes

Array = np.ndarray[Any, Any]


@contextmanager
def raises(code: int, text: str) -> Iterator[None]:
    with pytest.raises(AclError, match=rf"\({code}\): .*{text}") as raised:
        yield
    assert raised.value.code == code


def add(x: Array, y: Array, out: Array) -> None:
    np.add(x, y, out=out)


def two_groups(stream: rt.Stream, x: Array, y: Array, out: Array) -> tuple[ge.Graph, list[ge.TaskGroup]]:
    """x + y, then times 10, in out; a group each, with a task between them that is in none."""
    with ge.capture(stream, name="step") as g:
        with ge.task_group(stream) as sums:
            stream.launch(add, x, y, out)
        stream.launch(np.negative, out, out=out)
        with ge.task_group(stream) as products:
            stream.launch(np.multiply, out, 10, out=out)
    return g, [sums, products]


def run(g: ge.Graph, stream: rt.Stream) -> None:
    g.launch(stream)
    stream.synchronize()


# ---- what an update changes ----


def test_an_update_holds_for_launches_from_then_on(stream: rt.Stream) -> None:
    x, y, out = np.arange(4.0), np.ones(4), np.zeros(4)
    g, (sums, products) = two_groups(stream, x, y, out)
    run(g, stream)
    assert out.tolist() == [-10, -20, -30, -40]
    gate, other = threading.Event(), rt.Stream()
    stream.launch(gate.wait)
    g.launch(stream)
    z = np.full(4, 100.0)
    with ge.update(g, sums, other):
        other.launch(add, x, z, out)
    gate.set()
    stream.synchronize()
    assert out.tolist() == [-10, -20, -30, -40]
    run(g, stream)
    assert out.tolist() == [-1000, -1010, -1020, -1030]
    with ge.update(g, products, other):
        other.launch(np.multiply, out, 2, out=out)
    other.launch(np.copyto, y, 3)
    other.synchronize()
    run(g, stream)
    assert out.tolist() == [-200, -202, -204, -206] and y.tolist() == [3] * 4
    assert [node.line.partition(":")[0] for node in g.nodes] == ["test_task_groups.py"] * 3
    assert g.nodes[0].id == 0 and sorted(g.buffers) == ["b0", "b2", "b3"] and g.races() == []
    other.end()


def test_updates_give_back_what_they_replace(stream: rt.Stream) -> None:
    """Also memory that launches which are under way still use: once they are over."""
    out = np.zeros(3)

    def fresh(value: int) -> Array:
        return np.full(3, float(value))

    g, (sums, _) = two_groups(stream, fresh(1), fresh(2), out)
    gate = threading.Event()
    for round_ in range(3, 8):
        gate.clear()
        stream.launch(gate.wait)
        g.launch(stream)
        with ge.update(g, sums, other := rt.Stream()):
            other.launch(add, fresh(round_), fresh(round_), out)
        other.end()
        gc.collect()
        gate.set()
        stream.synchronize()
        assert out.tolist() == [-30.0 if round_ == 3 else -20.0 * (round_ - 1)] * 3
        assert len(g.buffers) == len(g.memory) == 3


def test_memory_of_updates_is_held_and_given_back(ranks: RankPool) -> None:
    assert ranks.run(1, in_use_over_updates) == [[0, 4096, 4096, 4096, 0]]


def in_use_over_updates(comm: rt.Communicator) -> list[int]:
    """Bytes of device memory that nothing but the graph holds: captured, then after three updates, then destroyed."""
    stream, other, told = rt.Stream(), rt.Stream(), []
    before = comm._memory.device.in_use
    with ge.capture(stream) as g, ge.task_group(stream) as group:
        stream.fill(0, 0, 0, None)
        stream.launch(np.copyto, rt.zeros(1, "int8"), 1)
    told.append(comm._memory.device.in_use - before - 512)
    for _ in range(3):
        with ge.update(g, group, other):
            other.launch(np.copyto, rt.zeros(4096, "int8"), 1)
        g.launch(stream)
        stream.synchronize()
        stream.launch(int)
        stream.synchronize()
        told.append(comm._memory.device.in_use - before)
    g.destroy()
    told.append(comm._memory.device.in_use - before)
    return told


# ---- what does not fit ----


def test_groups_that_are_not_closed_or_not_open_are_named_with_their_lines(stream: rt.Stream) -> None:
    with raises(107029, "the stream is not captured"), ge.task_group(stream):
        pass
    ge.begin(stream)
    recorder = recording.recorder_of(stream)
    assert isinstance(recorder, ge.recorder.Recorder)
    with raises(107033, r"was ended \(test_task_groups.py:\d+\), and stream 0 has none open"):
        recorder.end_group(stream)
    recorder.begin_group(stream)
    with raises(107033, r"while task group 0 of stream 0, which began at test_task_groups.py:\d+, is open"):
        recorder.begin_group(stream)
    with raises(107033, r"the capture that began at .*:\d+ ended .* while task group 0 of stream 0, .*:\d+, is open"):
        ge.end(stream)
    assert not recording.is_active()


def test_another_stream_takes_nothing_while_a_group_is_open(stream: rt.Stream) -> None:
    other = rt.Stream()
    ge.begin(stream)
    other.wait(stream.record())
    with ge.task_group(stream):
        with raises(107034, r"int was queued \(.*:\d+\) on stream 1, which has no group open, while task group 0 of"):
            other.launch(int)
        with raises(207000, r"an event was recorded \(.*\) while task group 0 of stream 0"):
            stream.record()
    with raises(507903, "int was queued"):
        ge.end(stream)
    other.end()


def test_updates_that_do_not_fit_change_nothing(stream: rt.Stream) -> None:
    x, y, out = np.arange(4.0), np.ones(4), np.zeros(4)
    g, (sums, _) = two_groups(stream, x, y, out)
    run(g, stream)
    nodes, before = g.nodes, out.tolist()
    head = r"task group 0 of stream 0, .* of graph 'step' stays as it was; its update at test_task_groups.py:\d+: "
    with raises(107040, head + r"the group has 1 tasks \(add at .*:\d+\), and 2 were"), ge.update(g, sums, stream):
        stream.launch(add, x, x, out)
        stream.launch(add, x, x, out)
    with raises(107040, head + r"node 0 \(add at .*\) is a kernel, and a memset was"), ge.update(g, sums, stream):
        stream.fill(out.ctypes.data, 0, out.nbytes, out)
    with raises(107040, head + "a stream was synchronized"), ge.update(g, sums, stream), pytest.raises(AclError):
        stream.synchronize()
    with raises(107040, head + "an event was recorded"), ge.update(g, sums, stream), pytest.raises(AclError):
        stream.record()
    with pytest.raises(ZeroDivisionError), ge.update(g, sums, stream):
        stream.launch(add, x, x, out)
        raise ZeroDivisionError
    assert g.nodes is nodes and not recording.is_active()
    run(g, stream)
    assert out.tolist() == before


def test_a_group_is_updated_once_at_a_time_and_not_on_a_captured_stream(stream: rt.Stream) -> None:
    x = np.arange(4.0)
    g, (sums, products) = two_groups(stream, x, x, np.zeros(4))
    other = rt.Stream()
    ge.begin(other)
    with raises(107033, "cannot be updated on a stream that is captured"), ge.update(g, sums, other):
        pass
    ge.end(other)
    with ge.update(g, sums, stream):
        with raises(107033, r"is being updated already, since test_task_groups.py:\d+"), ge.update(g, sums, other):
            pass
        with ge.update(g, products, other):
            other.launch(np.multiply, x, 1, out=x)
        stream.launch(add, x, x, x)
    other.end()


def test_graphs_of_passes_have_no_groups_and_those_with_memory_have(stream: rt.Stream) -> None:
    with ge.capture(stream) as g:
        h, other = ge.empty(stream, 4, name="h"), ge.empty(stream, 4, name="other")
        with ge.task_group(stream) as group:
            stream.launch(np.copyto, h, 3)
        stream.launch(np.copyto, other, h)
    moved = g.replace("moved a task", nodes=g.nodes)
    with raises(107040, "none of graph 'graph'; its nodes were changed: moved a task"), ge.update(moved, group, stream):
        pass
    placed = g.replace("placed", memory={name: np.zeros(16, np.uint8) for name in g.buffers})
    with ge.update(placed, group, stream):
        stream.launch(np.copyto, h, 5)
    run(placed, stream)
    assert placed.array("other").tolist() == [5] * 4 and g.nodes[0].task.arguments[1] == 3
    with raises(107040, "did not use 'other', which is the graph's own"), ge.update(placed, group, stream):
        stream.launch(np.copyto, other, 5)


def optimised_and_updated(comm: rt.Communicator) -> list[list[float]]:
    """A group between gradients that are fused and overlapped, whose call and kernel get other memory then."""
    stream, other = rt.Stream(), rt.Stream()
    x, y, total = rt.array(np.arange(8, dtype="f")), rt.array(np.full(8, 100, "f")), rt.zeros(8)
    sums = [rt.zeros(8) for _ in range(4)]
    with ge.capture(stream) as g:
        h = ge.empty(stream, 8, name="h")
        for number in range(2):
            stream.launch(np.multiply, x, number + 1, out=sums[number], reads=[x], writes=[sums[number]])
            comm.all_reduce(sums[number], stream=stream)
        with ge.task_group(stream) as group:
            stream.launch(np.add, x, 1, out=h, reads=[x], writes=[h])
            comm.all_reduce(h, out=total, stream=stream)
        for number in range(2, 4):
            stream.launch(np.add, total, number, out=sums[number], reads=[total], writes=[sums[number]])
            comm.all_reduce(sums[number], stream=stream)
    faster = ge.optimise(g)
    run(faster, stream)
    told = [[float(each[1]) for each in (total, *sums)]]
    total[...] = -1
    with ge.update(faster, group, other):
        other.launch(np.add, y, 1, out=h, reads=[y], writes=[h])
        comm.all_reduce(h, out=total, stream=other)
    run(faster, stream)
    told.append([float(each[1]) for each in (total, *sums)])
    other.end()
    return told


def test_a_graph_that_was_optimised_has_its_groups(ranks: RankPool) -> None:
    size = 2
    expected = [[size * a, size, 2 * size, *(size * (size * a + more) for more in (2, 3))] for a in (2.0, 101.0)]
    assert ranks.run(size, optimised_and_updated) == [expected] * size


# ---- collectives ----


def collectives_updated(comm: rt.Communicator) -> list[Any]:
    """A group round a kernel and two collectives: other buffers, other counts, then an update on one rank alone."""
    stream, other = rt.Stream(), rt.Stream()
    x, y, wide = rt.zeros(8), rt.zeros(5), rt.zeros((comm.size, 8))

    def tasks(on: rt.Stream, array: Any, gathered: Any) -> None:
        on.launch(np.copyto, array, comm.rank + 1.0)
        comm.all_reduce(array, stream=on)
        comm.all_gather(array, out=gathered, stream=on)

    with ge.capture(stream) as g, ge.task_group(stream) as group:
        tasks(stream, x, wide)
    told = []
    few, more = rt.zeros((comm.size, 3)), rt.zeros((comm.size, 5))
    for array, gathered in ((x, wide), (rt.zeros(8), wide), (y[:3], few), (y, more)):
        with ge.update(g, group, other):
            tasks(other, array, gathered)
        for _ in range(2):
            array[...] = 0
            run(g, stream)
            told.append((len(array), float(array.sum()), float(gathered.sum())))
    if comm.rank == 0:
        with ge.update(g, group, other):
            tasks(other, x[:2], rt.zeros((comm.size, 2)))
    try:
        run(g, stream)
    except HcclError as error:
        told.append(str(error))
    return told


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_group_round_collectives_gets_other_buffers_and_counts(ranks: RankPool, size: int) -> None:
    total = size * (size + 1) // 2
    for told in ranks.run(size, collectives_updated):
        expected = [(count, count * total, count * total * size) for count in (8, 8, 3, 5) for _ in range(2)]
        assert told[:8] == expected
        assert len(told) == 8 + (size > 1)
        assert all("rank 0" in text and "test_task_groups.py" in text for text in told[8:])
