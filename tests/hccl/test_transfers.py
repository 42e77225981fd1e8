"""send, recv and batch_send_recv: what comes where, what two sides that differ are told, how waits end."""

import gc
import os
import re
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt import hccl
from ascend_rt.testing import RankPool

from ..limits import give_up_after_a_second

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


def in_either_order(comm: rt.Communicator) -> None:
    """Three messages to the right are queued before any is received; ranks await their streams in different orders."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for count in (1, 70_000):
        sending, receiving = rt.Stream(), rt.Stream()
        outs = [np.zeros(count) for _ in range(3)]
        for number in range(3):
            comm.send(rt.array(values(comm.rank + 10 * number, count)), right, stream=sending)
        for out in outs:
            comm.recv(out, left, stream=receiving)
        for stream in (sending, receiving) if comm.rank % 2 else (receiving, sending):
            stream.synchronize()
        for number, out in enumerate(outs):
            np.testing.assert_array_equal(out, values(left + 10 * number, count))


@pytest.mark.parametrize("size", [2, 5])
def test_streams_that_send_and_that_receive_do_not_wait_for_one_another(ranks: RankPool, size: int) -> None:
    ranks.run(size, in_either_order)


def dropped(comm: rt.Communicator) -> None:
    """Nobody holds the arrays that are queued to be sent, nor the stream; their memory is not reused before."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    stream = rt.Stream()
    comm.send(rt.array(values(comm.rank, 50_000)), right, stream=stream)
    comm.send(values(comm.rank, 50_000)[::2], right, stream=stream)
    del stream
    gc.collect()
    noise = [make(np.full(50_000, -1.0)) for make in (rt.array, np.array) for _ in range(8)]
    for step in (1, 2):
        want = values(left, 50_000)[::step]
        np.testing.assert_array_equal(comm.recv(np.zeros_like(want), left), want)
    del noise
    comm.barrier()  # who leaves while something is queued drops it


def test_what_is_queued_to_be_sent_is_kept(ranks: RankPool) -> None:
    ranks.run(2, dropped)


def beside_a_message(comm: rt.Communicator) -> list[float]:
    """One thread of rank 0 waits for a message that rank 1 only sends behind an all_reduce."""
    y = np.ones(4)
    if comm.rank == 1:
        comm.all_reduce(y)
        comm.send(values(1, 3), 0)
        return list(y)
    out = np.zeros(3)
    thread = threading.Thread(target=comm.recv, args=(out, 1))
    thread.start()
    comm.all_reduce(y)
    thread.join()
    np.testing.assert_array_equal(out, values(1, 3))
    return list(y)


def test_a_collective_beside_a_thread_that_receives(ranks: RankPool) -> None:
    assert ranks.run(2, beside_a_message) == [[2.0] * 4] * 2


def all_send(comm: rt.Communicator) -> str:
    """As on NPUs: a blocking send waits for its recv, and nobody comes to receive."""
    with pytest.raises(rt.HcclError) as caught:
        comm.send(values(comm.rank, 3), (comm.rank + 1) % comm.size)
    return str(caught.value)


@pytest.mark.thorough
def test_a_ring_of_sends_that_nobody_receives_is_told(ranks: RankPool) -> None:
    for story in ranks.run(3, all_send, environ={"HCCL_EXEC_TIMEOUT": "1"}):
        assert "did not arrive within 1 s" in story
        assert sum(bool(re.match(r"  rank \d  .* in send #1", line)) for line in story.splitlines()) >= 2, story


def in_a_row(world: rt.Communicator) -> list[Any]:
    """Ranks 3 and 1, and ranks 2 and 0: each pair disagrees about one message, then goes on."""
    comm = world.split(world.rank % 2, -world.rank)
    assert comm is not None
    x, out = values(world.rank, 8), np.zeros(8)
    story = told(comm.send, x[:3], 1) if comm.rank == 0 else told(comm.recv, out[:4], 0)
    with pytest.raises(rt.HcclError, match=rf"rank {comm.rank} \(rank {world.rank} of the job\): send .*dest=2"):
        comm.send(x, 2)
    comm.batch_send_recv([hccl.Recv(out, 1 - comm.rank), hccl.Send(x, 1 - comm.rank)])
    np.testing.assert_array_equal(out, values((world.rank + 2) % 4, 8))
    return [story[0], *story[2].splitlines()[:3]]


def test_messages_of_communicators_of_some_ranks(ranks: RankPool) -> None:
    even, odd, *again = ranks.run(4, in_a_row)
    assert again == [even, odd]
    for story, group, (first, second) in ((even, 0, (2, 0)), (odd, 1, (3, 1))):
        assert story[0] == "EI0005"
        assert f'EI0005: message #1 from rank 0 to rank 1 of group "world_sub_1_{group}": its two sides' in story[1]
        assert re.match(rf"  rank 0 \(rank {first} of the job\) \(test_transfers.py:\d+\)  send count=3 ", story[2])
        assert re.match(rf"  rank 1 \(rank {second} of the job\) \(test_transfers.py:\d+\)  recv count=4 ", story[3])


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


def interrupt_when_it_waits(comm: rt.Communicator) -> None:
    while comm._membership.segment.rank_line(comm.rank).waits_for < 0:
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGINT)


def endings(comm: rt.Communicator, how: str) -> tuple[str, tuple[int, ...], str]:
    """Rank 1 ends in one way or another while rank 0 sends to it, and rank 2 receives from rank 0 for ever."""
    comm.barrier()
    if how == "timeout":
        give_up_after_a_second(comm)
    if comm.rank == 1 and how == "interrupted":
        threading.Thread(target=interrupt_when_it_waits, args=(comm,)).start()
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
    told = [end for end in ranks.run(3, endings, how) if end[0]]
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
