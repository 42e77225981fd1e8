"""What a launched graph does: the bits of the same calls made at once, order, failures, what it keeps alive."""

import gc
import operator
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt import ge, hccl
from ascend_rt.acl.errors import AclError
from ascend_rt.testing import RankPool

pytestmark = pytest.mark.processes

Array = np.ndarray[Any, Any]
STREAMS, ARRAYS, COUNT = 3, 5, 240


def mix(x: Array, y: Array, out: Array, factor: float) -> None:
    np.multiply(x, factor, out=out)
    out += y


class Program:
    """Random calls that all ranks draw alike, on streams of their own choice; events order what shares an array."""

    def __init__(self, comm: rt.Communicator, seed: int) -> None:
        self.comm, self.common, self.own = comm, np.random.default_rng(seed), np.random.default_rng([seed, comm.rank])
        self.arrays = [rt.zeros(COUNT, "float32") for _ in range(ARRAYS)]
        self.wide = rt.zeros((comm.size, COUNT), "float32")
        self.steps = [self.draw() for _ in range(25)]

    def draw(self) -> tuple[int, Callable[[rt.Stream], object], list[Array]]:
        """stream, what queues one call there, the arrays that it uses"""
        comm, common = self.comm, self.common
        x, y, out = (self.arrays[i] for i in common.permutation(ARRAYS)[:3])
        kind, stream = common.integers(8), int(self.own.integers(STREAMS))
        factor, value = float(common.standard_normal()), int(common.integers(256))
        root, near = int(common.integers(comm.size)), ((comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size)

        def move(s: rt.Stream) -> None:
            s.copy(address(out), address(x), COUNT, None)
            s.fill(address(y), value, 64, None)

        calls: list[tuple[Callable[[rt.Stream], object], list[Array]]] = [
            (lambda s: s.launch(mix, x, y, out, factor, reads=[x, y], writes=[out]), [x, y, out]),
            (lambda s: s.launch(operator.iadd, x, y), [x, y]),
            (lambda s: comm.all_reduce(x, op="max", stream=s), [x]),
            (lambda s: comm.all_reduce(x[: COUNT // 2 : 3], stream=s), [x]),
            (lambda s: comm.all_gather(x, out=self.wide, stream=s), [x, self.wide]),
            (lambda s: comm.broadcast(x, root=root, stream=s), [x]),
            (lambda s: comm.batch_send_recv([hccl.Send(x, near[0]), hccl.Recv(y, near[1])], stream=s), [x, y]),
            (move, [x, y, out]),
        ]
        return stream, *calls[kind]

    def queue(self, streams: list[rt.Stream]) -> None:
        """From the first stream and back to it."""
        begun = streams[0].record()
        for stream in streams[1:]:
            stream.wait(begun)
        latest: dict[int, rt.Event] = {}
        for number, call, arrays in self.steps:
            for x in arrays:
                if id(x) in latest:
                    streams[number].wait(latest[id(x)])
            call(streams[number])
            event = streams[number].record()
            latest.update({id(x): event for x in arrays})
        for stream in streams[1:]:
            streams[0].wait(stream.record())

    def fill(self, round_: int) -> None:
        random = np.random.default_rng([round_, self.comm.rank])
        for x in (*self.arrays, self.wide):
            x[...] = random.standard_normal(x.shape)

    def state(self) -> bytes:
        return b"".join(x.tobytes() for x in (*self.arrays, self.wide))


def address(x: Array) -> int:
    return int(x.__array_interface__["data"][0])


def captured_and_eager(comm: rt.Communicator, seeds: list[int]) -> list[str]:
    wrong = []
    streams, beside = [rt.Stream() for _ in range(STREAMS)], rt.Stream()
    for seed in seeds:
        program = Program(comm, seed)
        expected = []
        for round_ in range(4):
            program.fill(round_)
            program.queue(streams)
            streams[0].synchronize()
            expected.append(program.state())
        with ge.capture(streams[0], name=f"seed {seed}") as g:
            program.queue(streams)
        if program.state() != expected[-1]:
            wrong.append(f"seed {seed}: the capture has run something")
        if g.races():
            wrong.append(f"seed {seed}: {g.races()}")
        for round_, state in enumerate(expected):
            program.fill(round_)
            g.launch(beside if round_ % 2 else streams[0])
            (beside if round_ % 2 else streams[0]).synchronize()
            if program.state() != state:
                wrong.append(f"seed {seed}: other bits in round {round_}")
    return wrong


@pytest.mark.parametrize("size", [1, *(pytest.param(size, marks=pytest.mark.thorough) for size in (2, 3)), 4])
def test_a_launch_has_the_bits_of_the_same_calls_made_at_once(ranks: RankPool, size: int) -> None:
    assert ranks.run(size, captured_and_eager, [11, 12]) == [[]] * size


@pytest.mark.thorough
def test_many_programs(ranks: RankPool) -> None:
    assert ranks.run(3, captured_and_eager, list(range(100, 200)), timeout=120) == [[]] * 3


def launches_in_a_row(comm: rt.Communicator) -> Any:
    """x <- sum over ranks of (2 x + 1), on two streams, launched without waiting between."""
    stream, other = rt.Stream(), rt.Stream()
    x, y = rt.array(np.arange(50, dtype=np.int64) + comm.rank), rt.zeros(50, "int64")
    with ge.capture(stream) as g:
        stream.launch(mix_integers, x, y, reads=[x], writes=[y])
        other.wait(stream.record())
        comm.all_reduce(y, out=x, stream=other)
        stream.wait(other.record())
    for _ in range(6):
        g.launch(stream)
        comm.all_reduce(x, op="max", stream=stream)  # eager calls and launches take turns
    stream.synchronize()
    return x.tolist(), (g.prepared.streams, g.prepared.events, g.prepared.tasks)


def mix_integers(x: Array, y: Array) -> None:
    y[...] = 2 * x + 1


def test_launches_in_a_row_and_calls_between_them_keep_their_order(ranks: RankPool) -> None:
    x = np.array([np.arange(50) + rank for rank in range(3)])
    for _ in range(6):
        x[:] = (2 * x + 1).sum(axis=0)
    assert ranks.run(3, launches_in_a_row) == [(x[0].tolist(), (2, 3, 9))] * 3


def calls_of(comm: rt.Communicator, x: Array, out: Array) -> dict[str, Callable[[rt.Stream], object]]:
    n, counts = comm.size, [rank + 1 for rank in range(comm.size)]

    def message(s: rt.Stream) -> None:
        if comm.rank == 0:
            comm.send(x, 1, stream=s)
        elif comm.rank == 1:
            comm.recv(x, 0, stream=s)

    return {
        "all_reduce": lambda s: comm.all_reduce(x, out=out[: 6 * n], stream=s),
        "reduce": lambda s: comm.reduce(x, out=out[: 6 * n], root=n - 1, stream=s),
        "broadcast": lambda s: comm.broadcast(x, root=n - 1, stream=s),
        "all_gather": lambda s: comm.all_gather(x, out=out, stream=s),
        "reduce_scatter": lambda s: comm.reduce_scatter(x, out=out[:6], op="prod", stream=s),
        "all_to_all": lambda s: comm.all_to_all(x, out=out[: 6 * n], stream=s),
        "scatter": lambda s: comm.scatter(x, out=out[:6], root=0, stream=s),
        "gather": lambda s: comm.gather(x, out=out, root=0, stream=s),
        "all_gather_v": lambda s: comm.all_gather_v(x[: comm.rank + 1], out[: sum(counts)], counts, stream=s),
        "barrier": lambda s: comm.barrier(stream=s),
        "message": message,
    }


def every_collective(comm: rt.Communicator) -> list[str]:
    """Each kind in a graph of its own, in device memory and in plain memory: where a launch has other bits."""
    wrong, stream = [], rt.Stream()
    for make in (rt.zeros, np.zeros):
        x, out = make(6 * comm.size, np.int32), make(6 * comm.size**2, np.int32)

        def state_after(run: Callable[[rt.Stream], object], x: Array = x, out: Array = out) -> bytes:
            x[:] = np.random.default_rng([5, comm.rank]).integers(1, 9, x.size)
            out[:] = 0
            run(stream)
            stream.synchronize()
            return x.tobytes() + out.tobytes()

        for name, call in calls_of(comm, x, out).items():
            with ge.capture(stream) as g:
                call(stream)
            if not state_after(g.launch) == state_after(call) == state_after(g.launch):
                wrong.append(f"{name} in memory of {make.__module__}")
    return wrong


def test_every_collective_can_be_captured(ranks: RankPool) -> None:
    assert ranks.run(3, every_collective) == [[]] * 3


def read_back(comm: rt.Communicator) -> Any:
    """A graph written down as text, read, and bound to other memory."""
    stream = rt.Stream()
    x, y = rt.array(np.arange(40, dtype=np.float32)), rt.zeros(40)
    with ge.capture(stream, name="step") as g:
        stream.launch(np.multiply, x, 3.0, out=y, reads=[x], writes=[y])
        comm.all_reduce(y, stream=stream)
    read = ge.Graph.from_json(g.to_json())
    with pytest.raises(ValueError, match="communicator 'world', which it was not given; call bind first"):
        read.launch(stream)
    with pytest.raises(ValueError, match="buffer 'b0' needs 160 contiguous bytes, and was given none"):
        read.bind({}, {"world": comm})
    a, b = rt.array(np.full(40, comm.rank, np.float32)), rt.zeros(40)
    read.bind({"b0": a, "b1": b}, {"world": comm}).launch(stream)
    stream.synchronize()
    return b[0].item(), y[0].item()


def test_a_graph_read_from_text_runs_over_other_memory(ranks: RankPool) -> None:
    assert ranks.run(2, read_back) == [(3.0, 0.0)] * 2


def passes(comm: rt.Communicator) -> Any:
    """A pass moves a collective to a stream of its own, tied by control edges, and drops all events."""
    stream = rt.Stream()
    x, y = rt.array(np.arange(9, dtype=np.float32)), rt.zeros(9)
    with ge.capture(stream) as g:
        stream.launch(np.add, x, 1, out=x, reads=[x], writes=[x])
        comm.all_reduce(x, out=y, stream=stream)
        stream.launch(np.add, y, x, out=y, reads=[x, y], writes=[y])
    first, second, third = g.nodes
    moved = [
        first,
        ge.Node(second.id, second.name, 1, second.task, second.reads, second.writes, (first.id,), second.line),
        ge.Node(third.id, third.name, 0, third.task, third.reads, third.writes, (second.id,), third.line),
    ]
    other = g.replace("moved all_reduce to stream 1", nodes=moved)
    results = []
    for graph in (g, other, other):
        x[:] = np.arange(9) + comm.rank
        graph.launch(stream)
        stream.synchronize()
        results.append(y.tolist())
    return results, other.log, other.races(), (other.prepared.streams, other.prepared.events)


def test_what_a_pass_has_made_runs(ranks: RankPool) -> None:
    expected = [[2 * i + 3 + i + 1 + rank for i in map(float, range(9))] for rank in range(2)]
    for rank, result in enumerate(ranks.run(2, passes)):
        assert result == ([expected[rank]] * 3, ("moved all_reduce to stream 1",), [], (2, 3))


def own_memory(comm: rt.Communicator) -> Any:
    stream = rt.Stream()
    x, out = rt.array(np.arange(64.0)), rt.zeros(64, "float64")
    with ge.capture(stream) as g:
        h = ge.empty(stream, 64, "float64", name="hidden")
        stream.launch(np.multiply, x, 2, out=h, reads=[x], writes=[h])
        comm.all_reduce(h, stream=stream)
        stream.launch(np.add, h, x, out=out, reads=[h, x], writes=[out])
        with pytest.raises(ValueError, match=r"uses an array of ge\.empty that it was not given"):
            stream.launch(lambda: h.sum())
    hidden = g.buffers["hidden"]
    g.launch(stream)
    stream.synchronize()
    roles = {buffer.role.value for buffer in g.buffers.values()}
    return out[1].item(), hidden.address, hidden.nbytes, hidden.role.value, sorted(roles), list(g.memory)


def test_memory_of_the_graphs_own_is_placed_when_it_is_launched(ranks: RankPool) -> None:
    expected = (2 * 2.0 + 1.0, None, 512, "intermediate", ["input", "intermediate", "output"], ["b0", "b1"])
    assert ranks.run(2, own_memory) == [expected] * 2


def mismatch(comm: rt.Communicator) -> Any:
    """Ranks launch graphs that do not agree: all are told where the calls were captured, before anything is queued."""
    stream = rt.Stream()
    x = rt.array(np.ones(8 + comm.rank, np.float32))
    with ge.capture(stream) as g:
        comm.all_reduce(x, stream=stream)
        stream.launch(np.add, x, 1, out=x)
    with pytest.raises(rt.HcclError) as raised:
        g.launch(stream)
    same = rt.array(np.ones(8, np.float32))
    comm.all_reduce(same, stream=stream)
    stream.synchronize()
    return "test_launch.py:" in str(raised.value), raised.value.code, float(x[0]), float(same[0])


def test_a_launch_that_ranks_disagree_on_fails_on_all_and_names_the_captured_lines(ranks: RankPool) -> None:
    assert ranks.run(2, mismatch) == [(True, hccl.HcclResult.HCCL_E_PARA, 1.0, 2.0)] * 2


def boom(x: Array) -> None:
    if x[0] > 0:
        raise ArithmeticError("too large")


def failure_on_a_side_stream(comm: rt.Communicator) -> Any:
    stream, side = rt.Stream(), rt.Stream()
    x, y = rt.zeros(4), rt.zeros(4)
    with ge.capture(stream) as g:
        side.wait(stream.record())
        side.launch(boom, x)
        side.launch(np.add, y, 1, out=y)
        stream.wait(side.record())
        stream.launch(np.add, y, 10, out=y)
    x[0] = 1
    g.launch(stream)
    with pytest.raises(ArithmeticError, match="too large") as raised:
        stream.synchronize()
    x[0] = 0
    after_failure = y.tolist()
    g.launch(stream)
    stream.synchronize()
    note = raised.value.__notes__[0]
    return after_failure, y.tolist(), note.startswith("raised in a function that was queued at test_launch.py:")


def test_what_fails_beside_comes_out_of_the_stream_and_the_next_launch_runs(ranks: RankPool) -> None:
    assert ranks.run(1, failure_on_a_side_stream) == [([0.0] * 4, [11.0] * 4, True)]


def pinned(comm: rt.Communicator) -> Any:
    """Arrays and communicators that nobody else has are there when it is launched, also while launches are queued."""
    stream = rt.Stream()
    total = rt.zeros(1000)
    in_use = comm._memory.device.in_use
    with ge.capture(stream) as g:
        for _ in range(3):
            x = rt.array(np.ones(1000, np.float32))
            comm.all_reduce(x, stream=stream)
            stream.launch(np.add, total, x, out=total)
    del x
    gc.collect()
    held = comm._memory.device.in_use - in_use
    gate = threading.Event()
    stream.launch(gate.wait)
    g.launch(stream)
    g.destroy()
    gate.set()
    stream.synchronize()
    stream.launch(int)
    stream.synchronize()
    del g
    gc.collect()
    gone = ge.Graph()
    gone.destroy()
    with pytest.raises(AclError) as raised:
        gone.launch(stream)
    return float(total[0]), held, comm._memory.device.in_use - in_use, raised.value.code


def test_a_graph_keeps_alive_what_it_uses_until_it_is_destroyed_and_done(ranks: RankPool) -> None:
    assert ranks.run(2, pinned) == [(6.0, 3 * 4096, 0, 107017)] * 2


def communicator_is_held(comm: rt.Communicator) -> Any:
    part = comm.split(0)
    assert part is not None
    stream, x = rt.Stream(), rt.zeros(4)
    with ge.capture(stream, name="step") as g:
        part.all_reduce(x, stream=stream)
    with pytest.raises(rt.HcclError, match="cannot be destroyed: graph 'step' has calls of it") as raised:
        part.destroy()
    g.launch(stream)
    stream.synchronize()
    g.destroy()
    part.destroy()
    return raised.value.code


def test_a_communicator_outlives_its_graphs_or_says_so(ranks: RankPool) -> None:
    assert ranks.run(2, communicator_is_held) == [hccl.HcclResult.HCCL_E_PARA] * 2


def decorated(comm: rt.Communicator) -> Any:
    runs = []

    @ge.graph
    def step(stream: rt.Stream, x: Array, factor: float) -> None:
        runs.append(factor)
        stream.launch(np.multiply, x, factor, out=x)
        comm.all_reduce(x, stream=stream)

    stream, x, y = rt.Stream(), rt.array(np.ones(3)), rt.array(np.ones(3))
    graphs = [step(stream, *arguments) for arguments in ((x, 2.0), (x, 2.0), (y, 2.0), (x, 3.0), (x, 2.0))]
    stream.synchronize()
    return runs, x[0].item(), y[0].item(), graphs[0] is graphs[1] is graphs[4], graphs[0].name


def test_a_decorated_function_is_captured_once_for_its_arguments(ranks: RankPool) -> None:
    assert ranks.run(2, decorated) == [([2.0, 2.0, 3.0], 4.0**3 * 6, 4.0, True, "step")] * 2
