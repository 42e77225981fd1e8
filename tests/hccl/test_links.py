"""Emulated links: every way to another rank's memory takes the time of the link, the core stays free, values are right.

Lower bounds are exact; upper bounds leave ten seconds to a machine that has other things to do.
"""

import os
import time
from collections.abc import Callable

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt import hccl
from ascend_rt.testing import RankPool

pytestmark = pytest.mark.processes

RATE, LATENCY = 25e6, 4e-3  # bytes per second, seconds
EVERY = {"ASCEND_RT_LINK": "25MB/s,4ms"}
COUNT = 120_000  # of float32: 19.2 ms on a link
SPARE = 10.0


def seconds(comm: rt.Communicator, call: Callable[[], object]) -> float:
    """How long a call takes, on the rank where it takes longest."""
    comm.barrier()
    began = time.perf_counter()
    call()
    return float(comm.all_reduce(rt.array([time.perf_counter() - began]), op="max")[0])


def collectives(comm: rt.Communicator) -> None:
    x, total = rt.array(np.arange(COUNT, dtype=np.float32)), COUNT * 4
    everything, some = rt.empty((comm.size, COUNT)), rt.empty((COUNT // comm.size,))
    nine = [9] * comm.size
    began, began_cpu = time.perf_counter(), time.process_time()
    calls: list[tuple[Callable[[], object], float]] = [
        (lambda: comm.all_reduce(x, op="max"), 2 * total / comm.size),
        (lambda: comm.all_reduce(np.ones(COUNT, np.float32)), 2 * total / comm.size),
        (lambda: comm.all_gather(x, everything), total),
        (lambda: comm.reduce_scatter(x, some, op="max"), total / comm.size),
        (lambda: comm.all_to_all(x), total / comm.size),
        (lambda: comm.all_to_all_v(x[: 9 * comm.size], nine, np.empty(9 * comm.size, np.float32), nine), 36),
        (lambda: comm.all_reduce(x[:2], op="max"), 8),
        (comm.barrier, 0),
    ]
    for call, nbytes_of_a_link in calls:
        took = seconds(comm, call)
        assert took >= LATENCY + nbytes_of_a_link / RATE
        assert took < 2 * total / RATE + SPARE
    assert time.process_time() - began_cpu < (time.perf_counter() - began) / 2
    np.testing.assert_array_equal(x, np.arange(COUNT, dtype=np.float32))
    np.testing.assert_array_equal(everything[comm.size - 1], x)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_collectives_take_the_time_of_their_links(ranks: RankPool, size: int) -> None:
    ranks.run(size, collectives, environ=EVERY)


def transfers(comm: rt.Communicator) -> None:
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for make in (rt.array, np.asarray):
        x = make(np.full(COUNT, comm.rank, np.float32))
        out = rt.empty(COUNT)
        both = [hccl.Send(x, right), hccl.Recv(out, left)]
        took = seconds(comm, lambda both=both: comm.batch_send_recv(both))
        assert LATENCY + COUNT * 4 / RATE <= took < LATENCY + COUNT * 4 / RATE + SPARE
        np.testing.assert_array_equal(out, np.full(COUNT, left))
    if comm.rank == 0:
        comm.send(x, 1)
    elif comm.rank == 1:
        began = time.perf_counter()
        comm.recv(out, 0)
        assert time.perf_counter() - began >= LATENCY + COUNT * 4 / RATE
    comm.barrier()
    assert comm._statistics()["late_sleeps"] == 0


@pytest.mark.parametrize("size", [2, 3])
def test_send_and_receive_take_the_time_of_their_link(ranks: RankPool, size: int) -> None:
    ranks.run(size, transfers, environ=EVERY)


def calls_on_two_streams(comm: rt.Communicator) -> None:
    other = comm.split(0)
    assert other is not None
    pairs = [(comm, rt.Stream(), rt.zeros(COUNT)), (other, rt.Stream(), rt.zeros(COUNT))]

    def both() -> None:
        for communicator, stream, x in pairs:
            communicator.all_reduce(x, stream=stream)
        for _, stream, _ in pairs:
            stream.synchronize()

    assert seconds(comm, both) >= 2 * COUNT * 4 / RATE


def test_communicators_share_the_links(ranks: RankPool) -> None:
    ranks.run(2, calls_on_two_streams, environ=EVERY)


def slow_pair(comm: rt.Communicator) -> float:
    """How long a message to rank 1 takes over the link that is not slow, at best."""
    x, fast = rt.zeros(COUNT), list[float]()
    for _ in range(5 if comm.rank else 0):
        began = time.perf_counter()
        comm.recv(x, 2) if comm.rank == 1 else comm.send(x, 1)
        fast.append(time.perf_counter() - began)
    comm.barrier()
    began = time.perf_counter()
    if comm.rank == 1:
        comm.recv(x, 0)
        assert time.perf_counter() - began >= COUNT * 4 / 1.6e6
    elif comm.rank == 0:
        comm.send(x, 1)
    return min(fast, default=0.0)


def test_a_pair_has_a_link_of_its_own(ranks: RankPool) -> None:
    fast = ranks.run(3, slow_pair, environ={"ASCEND_RT_LINK": "0-1:1.6MB/s,1us"})[1]
    assert fast < COUNT * 4 / 1.6e6


def turns(comm: rt.Communicator) -> tuple[bool, bool]:
    """Whether its streams take turns, and whether ranks share cores."""
    return rt.Stream.take_turns, comm.size > len(os.sched_getaffinity(0))


@pytest.mark.parametrize("environ", [{}, EVERY])
def test_ranks_that_share_cores_take_turns_over_links(ranks: RankPool, environ: dict[str, str]) -> None:
    for takes_turns, shares_cores in ranks.run(8, turns, environ=environ):
        assert takes_turns == (shares_cores and bool(environ))


def chosen(comm: rt.Communicator) -> list[tuple[str, str, str]]:
    """What is chosen for calls of 400 kB, all of which give the right result, and why."""
    x = rt.array(np.arange(100_000, dtype=np.float32))
    total = comm.reduce(x, rt.empty(x.shape), root=1)
    if comm.rank == 1:
        np.testing.assert_array_equal(total, x * comm.size)
    np.testing.assert_array_equal(comm.broadcast(x, root=2), np.arange(100_000))
    found = [comm.explain(name, x.nbytes) for name in ("reduce", "broadcast", "all_to_all")]
    found.append(comm.explain("reduce", x.nbytes, "float16"))
    return [(each.algorithm, each.why, each.links) for each in found]


def test_the_algorithm_is_chosen_by_the_links(ranks: RankPool) -> None:
    link = "2GB/s,5us;0-1:20MB/s,50us"
    want = [("ring", "emulated links", link), ("NHR", "emulated links", link), ("mesh", "emulated links", link)]
    for found in ranks.run(4, chosen, environ={"ASCEND_RT_LINK": link}):
        assert found[:3] == want
        assert found[3] == ("mesh", "emulated links", link)  # a ring would round once per hop
