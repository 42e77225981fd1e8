"""Ranks that do not make the same call: all raise, with the table of all calls, and the communicator works on."""

import re
import threading
import time
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt.testing import RankPool

pytestmark = pytest.mark.processes


def buffer(count: int, dtype: Any = np.float32) -> Any:
    x = rt.empty(count, dtype)
    x[...] = np.arange(count) % 7
    return x


# What the others call, what the odd rank calls, the head of the error, words of the odd rank's line.
Calls = tuple[Callable[[Any], Any], Callable[[Any], Any], str, str]
KINDS: dict[str, Calls] = {
    "count, in a plan": (
        lambda comm: comm.all_reduce(buffer(64)),
        lambda comm: comm.all_reduce(buffer(65)),
        "do not agree on count",
        "all_reduce count=65 dtype=float32 op=sum",
    ),
    "count, in the line": (
        lambda comm: comm.all_reduce(buffer(1)),
        lambda comm: comm.all_reduce(buffer(2)),
        "do not agree on count",
        "count=2",
    ),
    "count, in the line and in a plan": (
        lambda comm: comm.all_reduce(buffer(8)),
        lambda comm: comm.all_reduce(buffer(9)),
        "do not agree on count",
        "count=9",
    ),
    "types of one size": (
        lambda comm: comm.all_reduce(buffer(64, np.float16)),
        lambda comm: comm.all_reduce(buffer(64, ml_dtypes.bfloat16)),
        "do not agree on dtype",
        "dtype=bfloat16",
    ),
    "op": (
        lambda comm: comm.all_reduce(buffer(64)),
        lambda comm: comm.all_reduce(buffer(64), op="max"),
        "do not agree on op",
        "op=max",
    ),
    "root": (
        lambda comm: comm.broadcast(buffer(64)),
        lambda comm: comm.broadcast(buffer(64), root=1),
        "do not agree on root",
        "root=1",
    ),
    "collective": (
        lambda comm: comm.all_reduce(buffer(64)),
        lambda comm: comm.broadcast(buffer(64)),
        "do not agree on collective",
        "broadcast count=64 dtype=float32 root=0",
    ),
    "barrier": (
        lambda comm: comm.all_gather(buffer(64)),
        lambda comm: comm.barrier(),
        "do not agree on collective",
        "barrier",
    ),
    "memory": (
        lambda comm: comm.all_reduce(np.arange(64.0)),
        lambda comm: comm.all_reduce(rt.zeros(63, np.float64)),
        "do not agree on count",
        "count=63 dtype=float64",
    ),
    "memory, in many pieces": (
        lambda comm: comm.all_reduce(np.arange(512_000, dtype=np.float32)),
        lambda comm: comm.all_reduce(np.arange(256_000, dtype=np.float32)),
        "do not agree on count",
        "count=256000 dtype=float32",
    ),
}


def disagree(comm: rt.Communicator, kind: str, odd: int) -> list[Any]:
    common, other, _, _ = KINDS[kind]
    found: list[Any] = []
    for _ in range(2):  # the second shows that the first left nothing behind
        started = time.monotonic()
        try:
            (other if comm.rank == odd else common)(comm)
            found.append("no error")
        except rt.HcclError as error:
            found.append((str(error), error.name, error.ei, time.monotonic() - started))
        x = rt.array(np.arange(1000, dtype=np.int32) + comm.rank)
        found.append(np.array_equal(comm.all_reduce(x), np.arange(1000) * comm.size + comm.size * (comm.size - 1) // 2))
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [2, 3, 5])
def test_all_raise_and_work_on(ranks: RankPool, kind: str, size: int) -> None:
    odd = 0 if size == 3 else size - 1
    for rank, (first, right, second, right_again) in enumerate(ranks.run(size, disagree, kind, odd)):
        assert right and right_again
        for number, (text, name, ei, seconds) in zip((1, 3), (first, second), strict=True):
            assert (name, ei) == ("HCCL_E_PARA", "EI0005")
            assert seconds < 10
            lines = text.splitlines()
            assert KINDS[kind][2] in lines[0] and f"#{number}" in lines[0]
            for other in range(size):
                assert re.match(rf"  rank {other} \(test_disagreements\.py:\d+\)  ", lines[1 + other])
            assert KINDS[kind][3] in lines[1 + odd]
            assert [rank for rank, line in enumerate(lines[1:-1]) if "<- this rank" in line] == [rank]


def a_late_rank(comm: rt.Communicator) -> None:
    """Rank 2 comes when both others have said what they know, after a second: rank 0, which waits for rank 1 first and
    then for rank 2, and rank 1, which waits for rank 2 first."""

    def tell() -> None:
        while not comm._noticed:
            time.sleep(0.001)
        comm.send(np.zeros(1), 2)

    if comm.rank == 2:
        for other in (0, 1):
            comm.recv(np.zeros(1), other)
    else:
        threading.Thread(target=tell).start()
    with pytest.raises(rt.HcclError) as error:
        comm.all_reduce(buffer(64 + comm.rank % 2))
    print(error.value)


def test_a_difference_is_noticed_before_the_last_rank_comes(ranks: RankPool) -> None:
    ended = ranks.end_of(3, a_late_rank)
    notice = "the ranks disagree on all_reduce #1 already; waiting for the call of rank 2 to tell the whole story"
    assert sorted(ended.stderr.splitlines()) == [f"rank 0: {notice}", f"rank 1: {notice}"], ended
    assert ended.exit_code == 0 and ended.stdout.count("count=65") == ended.stdout.count("  rank 2 (") == 3, ended
