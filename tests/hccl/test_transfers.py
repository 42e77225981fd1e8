"""send, recv and batch_send_recv: what comes where, what two sides that differ are told, how waits end."""

import re
import signal
from typing import Any

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt import hccl
from ascend_rt.testing import RankPool

pytestmark = pytest.mark.processes

Array = np.ndarray[Any, Any]


def values(rank: int, count: int, dtype: Any = np.float64) -> Array:
    return (np.arange(count) * 3 + rank * 1000).astype(dtype)


def memory(kind: str, like: Array) -> Array:
    """An array equal to `like`: in device memory, plain, or with gaps."""
    if kind == "device":
        return rt.array(like)
    if kind == "plain":
        return like.copy()
    gaps = np.zeros((like.size, 3), like.dtype)
    gaps[:, 1] = like
    return gaps[:, 1]


def ring_of_all_kinds(comm: rt.Communicator) -> None:
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    stream = rt.Stream()
    for count in (0, 1, 7, 70_001):
        for number, kind in enumerate(("device", "plain", "strided")):
            x = memory(kind, values(comm.rank, count))
            out = memory(("device", "plain", "strided")[(number + comm.rank) % 3], np.zeros(count))
            items = [hccl.Send(x, right), hccl.Recv(out, left)]
            comm.batch_send_recv(items if count % 2 else items[::-1], stream=stream if number else None)
            stream.synchronize()
            np.testing.assert_array_equal(out, values(left, count))
            np.testing.assert_array_equal(x, values(comm.rank, count))
    assert comm._statistics()["late_sleeps"] == 0


@pytest.mark.parametrize("size", [1, 3])
def test_a_ring_of_all_kinds_of_memory(ranks: RankPool, size: int) -> None:
    ranks.run(size, ring_of_all_kinds, environ={"ASCEND_RT_PIECE_KIB": "16"})


def orders(comm: rt.Communicator) -> None:
    """Rank 0 sends five messages to rank 1, singly and queued on two streams; rank 1 receives them at once."""
    outs = [rt.zeros(4, np.int32) for _ in range(5)]
    if comm.rank == 0:
        streams = rt.Stream(), rt.Stream()
        for number in range(5):
            x = rt.array(values(number, 4, np.int32))
            comm.send(x, 1, stream=streams[number % 2] if number < 4 else None)
        for stream in streams:
            stream.synchronize()
    else:
        comm.batch_send_recv([hccl.Recv(out, 0) for out in outs])
        for number, out in enumerate(outs):
            assert out.tolist() == values(number, 4, np.int32).tolist()
    # Between a message and a collective there is no order: each is on a stream of its own.
    one, other = rt.Stream(), rt.Stream()
    x, y = rt.array(values(comm.rank, 3)), rt.array(values(comm.rank, 2))
    calls = [lambda: comm.all_reduce(x, stream=one)]
    calls.append(lambda: comm.send(y, 1, stream=other) if comm.rank == 0 else comm.recv(y, 0, stream=other))
    for call in calls if comm.rank else calls[::-1]:
        call()
    one.synchronize()
    other.synchronize()
    assert x.tolist() == (values(0, 3) + values(1, 3)).tolist() and y.tolist() == values(0, 2).tolist()


def test_messages_are_matched_in_the_order_in_which_they_are_issued(ranks: RankPool) -> None:
    ranks.run(2, orders)


def told(call: Any, *arguments: Any) -> tuple[str, tuple[int, ...], str]:
    with pytest.raises(rt.HcclError) as caught:
        call(*arguments)
    assert caught.value.name == ("HCCL_E_NOT_SUPPORT" if "dtype >f8" in str(caught.value) else "HCCL_E_PARA")
    return caught.value.ei, caught.value.ranks, re.sub(r" +<- this rank", "", str(caught.value))


def disagreements(comm: rt.Communicator) -> list[Any]:
    x, out, stories = rt.array(values(comm.rank, 8)), rt.zeros(8, np.float64), []
    sends, other = comm.rank == 0, 1 - comm.rank
    for mine, theirs in ((x[:5], out[:6]), (x[:5].view(np.int64), out[:5]), (x, out.astype(">f8"))):
        call, argument = (comm.send, mine) if sends else (comm.recv, theirs)
        stories.append(told(call, argument, other))
        assert not out.any()
    stories.append(told(comm.send if sends else comm.recv, None, other))
    with pytest.raises(rt.HcclError, match=f"rank {comm.rank}: send .*dest=2; expected a rank, 0 to 1"):
        comm.send(x, 2)
    # One item of a batch fails alone, queued, and then the channel works on.
    stream, more = rt.Stream(), rt.zeros(8, np.float64)
    items = [hccl.Send(x, other), hccl.Send(x, comm.rank), hccl.Recv(more[: 8 - comm.rank], other)]
    comm.batch_send_recv([*items, hccl.Recv(out := rt.zeros(8, np.float64), comm.rank)], stream=stream)
    stories.append(told(stream.synchronize))
    assert out.tolist() == x.tolist() and more.any() == sends
    comm.batch_send_recv([hccl.Send(x, other), hccl.Recv(more, other)])
    assert more.tolist() == values(other, 8).tolist()
    return stories


def test_both_sides_tell_the_same_story_and_go_on(ranks: RankPool) -> None:
    first, second = ranks.run(2, disagreements)
    assert first == second
    assert [story[:2] for story in first] == [
        ("EI0005", ()),
        ("EI0005", ()),
        ("EI0003", (1,)),
        ("EI0003", (0, 1)),
        ("EI0005", ()),
    ]
    count, dtype, refused, both, batch = (story[2] for story in first)
    assert "from rank 0 to rank 1" in count and "do not agree on count" in count
    assert re.search(r"\n  rank 0 \(test_transfers.py:\d+\)  send count=5 dtype=float64 to rank 1\n", count)
    assert re.search(r"\n  rank 1 \(test_transfers.py:\d+\)  recv count=6 dtype=float64 from rank 0\n", count)
    assert "do not agree on dtype" in dtype and "recv: HCCL_E_NOT_SUPPORT: dtype >f8; expected one of int8" in refused
    assert "x is a NoneType" in both and "out is a NoneType" in both
    assert "from rank 1 to rank 0" not in batch or "count=7" in batch


def endings(comm: rt.Communicator, how: str) -> tuple[str, tuple[int, ...], str]:
    """Rank 1 ends in one way or another while rank 0 sends to it, and rank 2 receives from rank 0 for ever."""
    comm.barrier()
    if comm.rank == 1 and how == "interrupted":
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(KeyboardInterrupt):
            comm.recv(rt.zeros(3), 2)
        return "", (), ""
    with pytest.raises(rt.HcclError) as caught:
        if comm.rank == 0:
            comm.send(np.ones(3), 1)
        else:
            comm.recv(np.ones(3), 0 if how != "timeout" else 1)
    with pytest.raises(rt.HcclError):
        comm.batch_send_recv([hccl.Send(np.ones(3), 0)])
    return caught.value.name, caught.value.ranks, str(caught.value).splitlines()[0]


@pytest.mark.parametrize(
    ("how", "name", "words"),
    [
        ("interrupted", "HCCL_E_REMOTE", "rank 1 was interrupted"),
        ("timeout", "HCCL_E_TIMEOUT", "did not arrive within 1 s"),
    ],
)
def test_who_waits_for_a_rank_that_does_not_come_is_told_why(ranks: RankPool, how: str, name: str, words: str) -> None:
    told = [end for end in ranks.run(3, endings, how, environ={"HCCL_EXEC_TIMEOUT": "1"}) if end[0]]
    assert len(told) == (3 if how == "timeout" else 2)
    for got, culprits, line in told:
        assert got == name and len(culprits) == 1 and words in line, line
        assert re.search(r'(send|recv) #1 of group "world" \(test_transfers.py:\d+\)', line), line


@pytest.mark.parametrize(("how", "exit_code"), [("dies", 137), ("leaves", 1)])
def test_a_peer_that_ends_fails_who_waits_for_it(ranks: RankPool, tmp_path: Any, how: str, exit_code: int) -> None:
    program = tmp_path / "ends.py"
    program.write_text(
        "import os, sys\nimport numpy as np\nimport ascend_rt as rt\ncomm = rt.init()\ncomm.barrier()\n"
        f"if comm.rank == 1:\n    os.kill(os.getpid(), 9) if {how == 'dies'} else sys.exit(0)\n"
        "try:\n    comm.send(np.ones(5), 1)\nexcept rt.HcclError as error:\n"
        "    print(error.name, error.ranks, str(error).splitlines()[0])\n    raise\n"
    )
    ended = ranks.hccl_run(["-n", "2", "--timeout", "20", str(program)])
    assert ended.exit_code == exit_code
    words = {"dies": "rank 1 died: killed by signal 9", "leaves": "rank 1 left (exit code 0) while others waited"}
    assert f'HCCL_E_REMOTE (1,) HCCL_E_REMOTE (21): send #1 of group "world" (ends.py:9): {words[how]}' in ended.stdout
