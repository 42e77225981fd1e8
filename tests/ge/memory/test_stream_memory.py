"""Graphs that are launched on one stream take turns in one block, without being asked; others have their own."""

import threading
from typing import Any

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt import ge
from ascend_rt.acl.device import current
from ascend_rt.ge.memory.plan import room
from ascend_rt.testing import RankPool

pytestmark = pytest.mark.processes

Array = np.ndarray[Any, Any]
KIB = 1024
LAYERS = 3


def scale(x: Array, factor: float, out: Array) -> None:
    np.multiply(x, factor, out=out)


class Step:
    """x doubled layer by layer, the last layer summed over the ranks into `total`; layers are the graph's own, and two
    of them are live at a time. The sum is taken on a stream beside."""

    def __init__(self, comm: rt.Communicator, stream: rt.Stream, nbytes: int, seed: int, **options: Any) -> None:
        count = nbytes // 4
        self.x = rt.array(np.random.default_rng([seed, comm.rank]).integers(-99, 99, count).astype(np.float32))
        self.total, self.peak = rt.empty(count), 2 * nbytes
        self.expected = comm.all_reduce(np.array(self.x)) * 2.0**LAYERS
        beside = rt.Stream()
        with ge.capture(stream, name=f"{nbytes} bytes") as self.graph:
            before = self.x
            for layer in range(LAYERS):
                after = ge.empty(stream, count, name=f"layer{layer}")
                stream.launch(scale, before, 2.0, after, reads=[before], writes=[after])
                before = after
            beside.wait(stream.record())
            comm.all_reduce(before, out=self.total, stream=beside)
            stream.wait(beside.record())
        if options:
            self.graph = ge.optimise(self.graph, ge.Options(options))

    def launch(self, stream: rt.Stream) -> None:
        self.total[...] = -1
        self.graph.launch(stream)

    def check(self) -> None:
        np.testing.assert_array_equal(self.total, self.expected)

    def run(self, *streams: rt.Stream) -> None:
        for stream in streams:
            self.launch(stream)
            stream.synchronize()
            self.check()


def in_use() -> int:
    return current().memory.device.in_use


def shapes_in_turn(comm: rt.Communicator) -> list[int]:
    """Bytes of the graphs' own in use, after each of some shapes has been launched first; and at the end."""
    stream, told = rt.Stream(), []
    steps = [Step(comm, stream, kib * KIB, kib) for kib in (32, 128, 16, 256, 64)]
    begin = in_use()
    for step in steps:
        step.run(stream)
        told.append(in_use() - begin)
    for _ in range(2):  # queued one behind another, they do not meet
        for step in steps:
            step.launch(stream)
        stream.synchronize()
        for step in steps:
            step.check()
    told.append(in_use() - begin)
    steps[3].graph.destroy()
    steps[0].run(stream)
    told.append(in_use() - begin)
    for step in steps:
        step.graph.destroy()
    steps[0].check()  # what the program reads is none of it
    for one in (stream, *stream.beside):
        one.synchronize()  # which lets go of what launches have held
    told.append(in_use() - begin)
    return told


def test_shapes_on_one_stream_take_what_the_largest_takes(ranks: RankPool) -> None:
    growing = [64 * KIB, 256 * KIB, 256 * KIB, 512 * KIB, 512 * KIB]
    for told in ranks.run(2, shapes_in_turn):
        assert told == [*growing, 512 * KIB, 512 * KIB, 0]


def larger_beside_a_running_one(comm: rt.Communicator) -> list[int]:
    """A larger graph is launched while a smaller one is under way, which keeps its place meanwhile."""
    stream, gate = rt.Stream(), threading.Event()
    small, large = Step(comm, stream, 32 * KIB, 1), Step(comm, stream, 64 * KIB, 2)
    begin = in_use()
    small.run(stream)
    stream.launch(gate.wait)
    small.launch(stream)
    large.launch(stream)
    small_again = in_use() - begin
    gate.set()
    stream.synchronize()
    small.check(), large.check()
    small.run(stream)
    return [small_again, in_use() - begin]


def test_a_larger_graph_behind_one_that_is_under_way(ranks: RankPool) -> None:
    assert ranks.run(1, larger_beside_a_running_one) == [[(64 + 128) * KIB, 128 * KIB]]


def two_streams(comm: rt.Communicator) -> list[int]:
    """Two graphs at once on two streams: one is held in the middle while the other runs whole."""
    one, other, gate, entered = rt.Stream(), rt.Stream(), threading.Event(), threading.Event()
    x, out = rt.array(np.arange(8 * KIB, dtype=np.float32)), rt.empty(8 * KIB)

    def hold() -> None:
        entered.set()
        gate.wait()

    with ge.capture(one) as held:
        layer = ge.empty(one, 8 * KIB)
        one.launch(scale, x, 3.0, layer, reads=[x], writes=[layer])
        one.launch(lambda _: hold(), layer, reads=[layer], writes=[layer])
        one.launch(scale, layer, 2.0, out, reads=[layer], writes=[out])
    step = Step(comm, other, 32 * KIB, 1)
    begin = in_use()
    held.launch(one)
    entered.wait()
    step.run(other)
    apart = in_use() - begin
    gate.set()
    one.synchronize()
    np.testing.assert_array_equal(out, x * 6)
    gate.clear(), entered.clear()
    held.launch(one)
    entered.wait()
    with ge.capture(other, name="second") as second:
        noise = ge.empty(other, 8 * KIB)
        other.launch(scale, x, -1.0, noise, reads=[x], writes=[noise])
    second.launch(one)  # behind the one that is held
    second.launch(other)  # not in its memory
    other.synchronize()
    gate.set()
    one.synchronize()
    np.testing.assert_array_equal(out, x * 6)
    step.run(other, one, other)
    return [apart, in_use() - begin]


def test_launches_that_may_overlap_do_not_share(ranks: RankPool) -> None:
    # 32 KiB of the first; 64 of the second, which leaves a block with nobody for one of its own; 32 of the third
    assert ranks.run(1, two_streams) == [[96 * KIB, 128 * KIB]]


def asked_otherwise(comm: rt.Communicator) -> list[int]:
    """Bytes of the graphs' own where the program has asked for memory, or for none that is shared."""
    stream, told = rt.Stream(), []
    plain = Step(comm, stream, 32 * KIB, 0)
    options = [
        {"ge.exec.staticMemoryPolicy": "0"},
        {"ge.exec.disableReuseMemory": "1"},
        {"ge.exec.staticMemoryPolicy": "4"},
    ]
    steps = [Step(comm, stream, 32 * KIB, 1 + seed, **given) for seed, given in enumerate(options)]
    begin = in_use()
    plain.run(stream)
    for step in steps:
        step.run(stream)
        told.append(in_use() - begin)
    placed = ge.allocate(ge.plan_memory(plain.graph), current().memory)
    placed.launch(stream)
    stream.synchronize()
    last = placed.array(f"layer{LAYERS - 1}").copy()
    for step in (plain, *steps):
        step.run(stream)
    np.testing.assert_array_equal(placed.array(f"layer{LAYERS - 1}"), last)  # nobody else has been there
    np.testing.assert_array_equal(last, plain.x * 2.0**LAYERS)
    told.append(in_use() - begin)
    looked_at = Step(comm, stream, 16 * KIB, 9)
    begin = in_use()
    assert looked_at.graph.prepared.streams == 2
    told.append(in_use() - begin)  # before anybody knows where it will be launched
    looked_at.run(stream)
    told.append(in_use() - begin)
    return told


def test_memory_that_was_asked_for_is_not_shared(ranks: RankPool) -> None:
    expected = [64 + 64, 64 + 64 + 96, 64 + 64 + 96, 64 + 64 + 96 + 64, 32, 0]
    assert ranks.run(1, asked_otherwise) == [[kib * KIB for kib in expected]]


def room_for_the_largest(comm: rt.Communicator) -> int:
    """There is room for the larger graph alone: the smaller one gives its block back when it is not running."""
    stream, gate, memory = rt.Stream(), threading.Event(), current().memory
    small, large = Step(comm, stream, 512 * KIB, 1), Step(comm, stream, 1024 * KIB, 2)
    small.run(stream)
    filling = memory.allocate(room(memory) - 1536 * KIB)
    stream.launch(gate.wait)
    small.launch(stream)
    with pytest.raises(ge.GraphMemoryError, match="needs 2,097,152 bytes of device 0, which has 1,572,864"):
        large.launch(stream)
    gate.set()
    stream.synchronize()
    small.check()
    begin = in_use()
    for step in (large, small, large):
        step.run(stream)
    told = in_use() - begin
    del filling
    return told


def test_there_need_be_room_for_the_largest_alone(ranks: RankPool) -> None:
    assert ranks.run(1, room_for_the_largest) == [1024 * KIB]


def dropped_in_the_middle(comm: rt.Communicator) -> None:
    """A stream beside is in a kernel of a graph that was dropped, while the next graph runs on the stream itself."""
    stream, beside, gate, entered = rt.Stream(), rt.Stream(), threading.Event(), threading.Event()
    written, x, out = threading.Event(), rt.array(np.arange(8 * KIB, dtype=np.float32)), rt.empty(8 * KIB)

    def late(layer: Array) -> None:
        entered.set()
        gate.wait()
        layer[...] = -7

    with ge.capture(stream) as first:
        beside.wait(stream.record())
        layer = ge.empty(stream, 8 * KIB)
        beside.launch(late, layer, writes=[layer])
        stream.wait(beside.record())
    with ge.capture(stream) as second:
        layer = ge.empty(stream, 8 * KIB)
        stream.launch(scale, x, 3.0, layer, reads=[x], writes=[layer])
        stream.launch(lambda _: gate.set(), layer, reads=[layer], writes=[layer])
        stream.launch(lambda _: written.wait(1), layer, reads=[layer], writes=[layer])
        stream.launch(scale, layer, 2.0, out, reads=[layer], writes=[out])
    first.launch(stream)
    entered.wait()
    stream.drop_queued()
    with pytest.raises(Exception, match="was dropped"):
        stream.synchronize()
    watcher = threading.Thread(target=lambda: (stream.beside[0].finish(0.0), written.set()))
    watcher.start()
    second.launch(stream)
    stream.synchronize()
    watcher.join()
    np.testing.assert_array_equal(out, x * 6)


def test_what_a_dropped_graph_still_writes_is_not_in_the_next_one(ranks: RankPool) -> None:
    ranks.run(1, dropped_in_the_middle)
