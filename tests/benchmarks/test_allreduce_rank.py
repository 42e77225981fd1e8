"""What a rank answers, with threads in the place of a library."""

import socket
import threading
from collections.abc import Callable
from typing import Any

import allreduce_rank
import numpy as np
import pytest
from numpy.typing import NDArray

pytestmark = pytest.mark.threads
Sum = Callable[[list[NDArray[Any]]], NDArray[Any]]


class World:
    """Two ranks as threads; `total` is how they sum."""

    def __init__(self, total: Sum) -> None:
        self.total = total
        self.barrier = threading.Barrier(2)
        self.buffers: list[NDArray[Any]] = [np.empty(0), np.empty(0)]


class Thread:
    """One of them, as a side."""

    size = 2

    def __init__(self, world: World, rank: int) -> None:
        self.world, self.rank = world, rank
        self.calls = 0

    def zeros(self, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        return np.zeros(count, dtype)

    def loop(self, x: NDArray[Any], calls: int) -> None:
        for _ in range(calls):
            self.world.buffers[self.rank] = x
            self.barrier()
            total = self.world.total(self.world.buffers)
            self.barrier()
            x[:] = total
            self.calls += 1

    def barrier(self) -> None:
        self.world.barrier.wait(20)

    def close(self) -> None: ...


def adds(buffers: list[NDArray[Any]]) -> NDArray[Any]:
    result: NDArray[Any] = buffers[0] + buffers[1]
    return result


def serve(total: Sum, requests: str) -> tuple[list[list[str]], list[str], list[int]]:
    """Both ranks answer `requests`: the lines each sent, how they failed, how many calls each made."""
    world, ends, failures = World(total), [socket.socketpair() for _ in range(2)], []
    ranks = [Thread(world, rank) for rank in range(2)]

    def run(rank: int) -> None:
        try:
            allreduce_rank.serve(ranks[rank], ends[rank][1], np.dtype(np.float32))
        except SystemExit as failure:
            failures.append(str(failure))

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(2)]
    for thread, (ours, _) in zip(threads, ends, strict=True):
        ours.sendall(requests.encode())
        ours.shutdown(socket.SHUT_WR)
        thread.start()
    for thread in threads:
        thread.join(30)
    answers = []
    for ours, _ in ends:
        with ours, ours.makefile() as lines:
            answers.append(lines.read().splitlines())
    return answers, sorted(failures), [rank.calls for rank in ranks]


def test_rank_0_answers_every_request() -> None:
    answers, failures, calls = serve(adds, "40 10 3\n40 10 3\n8 1 1\n")
    assert failures == []
    assert answers[0][0] == "0 2" and answers[1] == ["1 2"]
    assert len(answers[0]) == 4 and all(float(microseconds) > 0 for microseconds in answers[0][1:])
    # Per size one call is checked; per request a tenth and one warm up, then come the batches.
    assert calls == [1 + 2 * (2 + 30) + 1 + (1 + 1)] * 2


def test_wrong_sums_end_the_rank_and_say_where() -> None:
    def spoils_the_last(buffers: list[NDArray[Any]]) -> NDArray[Any]:
        total = adds(buffers)
        total[-1] += 1
        return total

    _, failures, _ = serve(spoils_the_last, "400 1 1\n")
    assert [failure.split(":")[0] for failure in failures] == ["rank 0", "rank 1"]
    assert all("100 float32 gave 1 wrong sums, the first at element 99" in failure for failure in failures)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_samples_differ_between_ranks_and_repeat_only_at_a_prime(dtype: str) -> None:
    count = 4 * allreduce_rank.PERIOD
    first, second = (allreduce_rank.samples(rank, count, np.dtype(dtype)) for rank in range(2))
    assert first.dtype == dtype and first.min() == -7 and first.max() == 7
    assert np.count_nonzero(first == second) < count / 5
    assert np.array_equal(first, allreduce_rank.samples(0, count, np.dtype(dtype)))
    assert all(np.count_nonzero(first[:65536] == first[65536 * k : 65536 * (k + 1)]) < 65536 / 5 for k in (1, 2))
