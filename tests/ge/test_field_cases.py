"""What users of captured graphs complain of elsewhere, where no other test shows it: see docs/field_cases.md."""

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt import ge
from ascend_rt.acl.device import current
from ascend_rt.testing import RankPool

from ..limits import give_up_after_a_second

pytestmark = pytest.mark.processes

GRAPHS, STREAMS = 40, 3


def wide(stream: rt.Stream, beside: list[rt.Stream], x: Any, name: str) -> ge.Graph:
    """A kernel on each of some streams, beside one another."""
    with ge.capture(stream, name=name) as g:
        begun = stream.record()
        for one in beside:
            one.wait(begun)
            one.launch(np.add, x, 1, out=x)
            stream.wait(one.record())
    return g


def threads_of_graphs(comm: rt.Communicator) -> list[Any]:
    """Threads of the process with one graph launched, and with many; and what a graph says that it takes."""
    stream, beside, x = rt.Stream(), [rt.Stream() for _ in range(STREAMS - 1)], rt.zeros(8)
    graphs, threads = [], []
    for number in range(GRAPHS):
        graphs.append(wide(stream, beside, x, f"size {number}"))
        graphs[-1].launch(stream)
        stream.synchronize()
        threads.append(native_threads())
    return [threads[0], threads[-1], repr(graphs[-1]), graphs[-1].prepared.streams, graphs[-1].prepared.events]


def native_threads() -> int:
    return int(Path("/proc/self/status").read_text().partition("Threads:")[2].split()[0])


def test_many_graphs_take_the_streams_of_one_and_say_how_many(ranks: RankPool) -> None:
    for one, many, told, streams, events in ranks.run(1, threads_of_graphs):
        assert one == many and (streams, events) == (STREAMS, 1 + 2 * (STREAMS - 1))
        assert f"graph 'size {GRAPHS - 1}': 9 nodes on {STREAMS} streams (" in told


def launched_without_room(comm: rt.Communicator) -> list[Any]:
    """A graph with memory of its own and a collective, launched again when nothing can be allocated any more."""
    memory, stream = current().memory, rt.Stream()
    x, total = rt.array(np.arange(8, dtype=np.float32)), rt.zeros(8)
    with ge.capture(stream) as g:
        h = ge.empty(stream, 8, name="h")
        stream.launch(np.multiply, x, 2, out=h, reads=[x], writes=[h])
        comm.all_reduce(h, out=total, stream=stream)
    g.launch(stream)
    stream.synchronize()
    comm.barrier()
    kept = []
    for nbytes in (1 << shift for shift in range(40, 8, -1)):
        with contextlib.suppress(MemoryError):
            while True:
                kept.append(memory.allocate(nbytes))
    in_use, total[:] = memory.device.in_use, 0
    comm.barrier()
    for _ in range(3):
        g.launch(stream)
    stream.synchronize()
    told = [memory.device.in_use - in_use, total.tolist()]
    comm.barrier()
    return told


@pytest.mark.parametrize("size", [1, 2])
def test_a_launch_allocates_nothing(ranks: RankPool, size: int) -> None:
    expected = [0, [2.0 * i * size for i in range(8)]]
    assert ranks.run(size, launched_without_room) == [expected] * size


def updated_receive(comm: rt.Communicator) -> str:
    """Rank 0 waits in a receive of an updated group for a message that rank 1 sends only once."""
    stream, other, x = rt.Stream(), rt.Stream(), rt.zeros(4)

    def message(on: rt.Stream) -> None:
        if comm.rank == 0:
            comm.recv(x, source=1, stream=on)
        else:
            comm.send(x, dest=0, stream=on)

    with ge.capture(stream) as g, ge.task_group(stream) as group:
        message(stream)
    with ge.update(g, group, other):
        message(other)
    g.launch(stream)
    stream.synchronize()
    give_up_after_a_second(comm)
    with pytest.raises(rt.HcclError) as raised:
        if comm.rank == 0:
            g.launch(stream)
            stream.synchronize()
        else:
            comm.recv(x, source=0)
    return str(raised.value)


def test_a_graph_that_hangs_behind_an_update_names_the_line_of_the_update(ranks: RankPool) -> None:
    waiting, _ = ranks.run(2, updated_receive)
    lines = Path(__file__).read_text().splitlines()
    line = 1 + next(number for number, text in enumerate(lines) if "comm.recv(x, source=1" in text)
    assert "recv" in waiting and "rank 1" in waiting and f"test_field_cases.py:{line}" in waiting
