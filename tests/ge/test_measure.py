"""What is measured for predictions: how long kernels take, and how late calls over emulated links are beside them."""

import time
from typing import Any

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt import ge
from ascend_rt.testing import RankPool

pytestmark = pytest.mark.processes

Array = np.ndarray[Any, Any]
RATE, LATENCY_US = 25e6, 4000.0
LINK = {"ASCEND_RT_LINK": "25MB/s,4ms"}
KERNEL_S = 0.002
SPARE_US = 10e6


def doze(x: Array) -> None:
    time.sleep(KERNEL_S)
    x += 1


def captured(comm: rt.Communicator, calls: int) -> tuple[ge.Graph, Array]:
    """A kernel, and calls of 3,000 elements each."""
    stream, x = rt.Stream(), rt.array(np.arange(3000, dtype=np.float32) + comm.rank)
    with ge.capture(stream) as graph:
        stream.launch(doze, x, reads=[x], writes=[x])
        for _ in range(calls):
            comm.all_reduce(x, op="max", stream=stream)
    return graph, x


def measure(comm: rt.Communicator) -> dict[tuple[int, ...], float]:
    graph, x = captured(comm, calls=3)
    costs = ge.measured(graph, rounds=2)
    (kernel,) = graph.of_kind("kernel")
    assert list(costs.kernels) == [kernel.id]
    assert KERNEL_S * 1e6 <= costs.kernels[kernel.id] < KERNEL_S * 1e6 + SPARE_US
    np.testing.assert_array_equal(x, np.arange(3000) + comm.rank)  # what was measured ran on copies
    on_time = costs.call("all_reduce", 12000, graph.groups["world"]).least_us - costs.late_us[(0, 1, 2)]
    assert on_time == pytest.approx(LATENCY_US + 2 * 12000 / 3 / RATE * 1e6)
    return dict(costs.late_us)


def test_kernels_and_calls_are_measured_and_memory_stays(ranks: RankPool) -> None:
    found = ranks.run(3, measure, environ=LINK)
    assert found[0] == found[1] == found[2]
    assert 0 <= found[0][0, 1, 2] < SPARE_US


def measure_another(comm: rt.Communicator) -> dict[tuple[int, ...], float]:
    return dict(ge.measured(captured(comm, calls=1 + comm.rank)[0], rounds=1).late_us)


def test_graphs_that_differ_are_measured_alike(ranks: RankPool) -> None:
    """Only the comparison of graphs says that they do not agree."""
    found = ranks.run(2, measure_another, environ=LINK)
    assert found[0] == found[1]
