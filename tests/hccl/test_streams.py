"""Collectives on streams: results, order, failures that come out at synchronize, and what queued calls keep alive."""

import gc
import os
import re
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt.acl.errors import AclError
from ascend_rt.testing import RankPool

pytestmark = pytest.mark.processes


def gate(stream: rt.Stream) -> threading.Event:
    """Holds up all that is queued behind it until it is set."""
    event = threading.Event()
    stream.launch(event.wait)
    return event


def queued_and_blocking(comm: rt.Communicator) -> list[bool]:
    stream, same = rt.Stream(), []
    random = np.random.default_rng(comm.rank)
    for count in (0, 1, 8, 9, 1000, 70_000):
        for kind in ("all_reduce", "broadcast", "all_gather", "reduce_scatter"):
            values = random.standard_normal(count * comm.size).astype(np.float32)
            for make in (rt.array, np.array):
                blocking = getattr(comm, kind)(make(values))
                queued = getattr(comm, kind)(make(values), stream=stream)
                stream.synchronize()
                same.append(np.array_equal(blocking, queued) and blocking.shape == queued.shape)
    comm.barrier(stream=stream)
    stream.synchronize()
    return same


def test_a_queued_call_has_the_bits_of_a_blocking_one(ranks: RankPool) -> None:
    assert ranks.run(3, queued_and_blocking) == [[True] * 48] * 3


def chain_over_streams(comm: rt.Communicator) -> list[float]:
    """x <- max(x over ranks) + 1, 60 times, on whatever stream; events tie them."""
    streams, own = [rt.Stream() for _ in range(3)], np.random.default_rng(comm.rank)
    x = rt.array(np.arange(500.0) + comm.rank)
    latest = rt.Event()

    def increment() -> None:
        np.add(x, 1, out=x)

    for _ in range(60):
        stream = streams[own.integers(3)]
        stream.wait(latest)
        comm.all_reduce(x, op="max", stream=stream)
        stream.launch(increment)
        stream.record(latest)
    latest.synchronize()
    return [float(value) for value in x[:3]]


def test_events_tie_streams_that_share_an_array(ranks: RankPool) -> None:
    assert ranks.run(3, chain_over_streams) == [[62.0, 63.0, 64.0]] * 3


def issue_order(comm: rt.Communicator) -> Any:
    """A call on a stream that is held up: those issued later, on free streams or blocking, come behind it."""
    held, free = rt.Stream(), rt.Stream()
    go, finished = gate(held), []
    x = rt.array(np.arange(100.0))
    comm.all_reduce(x, stream=held)
    comm.all_reduce(x, stream=free)
    free.launch(lambda: finished.append("free"))
    behind = free.record()
    before = behind.query()
    threading.Timer(0.05, go.set).start()
    comm.barrier()
    free.synchronize()
    return before, finished, x[:3].tolist()


def test_calls_run_in_the_order_of_issue_across_streams_and_blocking_ones_in_turn(ranks: RankPool) -> None:
    assert ranks.run(2, issue_order) == [(False, ["free"], [0.0, 4.0, 8.0])] * 2


def drop_arrays(comm: rt.Communicator) -> tuple[bool, int]:
    stream, before = rt.Stream(), comm._memory.device.in_use
    comm.all_gather(np.arange(10_000), stream=stream)
    stream.synchronize()  # what plans and staging keep for good
    kept = comm._memory.device.in_use
    go, results = gate(stream), []
    for number in range(100):
        x = rt.array(np.arange(1000.0) + number + comm.rank)
        results.append(comm.all_gather(x, np.empty((comm.size, 1000)), stream=stream))
        comm.all_reduce(np.arange(2000.0)[::2], stream=stream)
        del x
    gc.collect()
    others = [rt.array(np.full(1000, -1.0)) for _ in range(200)]
    go.set()
    stream.synchronize()
    want = np.arange(1000.0)
    right = all(
        np.array_equal(result[rank], want + number + rank)
        for number, result in enumerate(results)
        for rank in range(comm.size)
    )
    del others, results
    gc.collect()
    assert before <= kept
    return right, comm._memory.device.in_use - kept


def test_queued_calls_keep_their_arrays_and_let_go_of_them(ranks: RankPool) -> None:
    assert ranks.run(2, drop_arrays) == [(True, 0)] * 2


# ---- failures ----


def error_of(stream: rt.Stream) -> str:
    with pytest.raises(rt.HcclError) as error:
        stream.synchronize()
    return f"{error.value.name} {error.value.ei}: {error.value}"


def line_number(words: str) -> int:
    """Of the one line of this file that holds `words`."""
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if words in line and "line_number" not in line)


def queued_mismatch(comm: rt.Communicator) -> Any:
    stream, other = rt.Stream(), rt.Stream()
    go = gate(stream)
    x = rt.array(np.arange(100.0) + comm.rank)
    if comm.rank == 0:
        comm.all_reduce(x[:64], stream=stream)  # the call of rank 0
    else:
        comm.all_reduce(x[:65], stream=stream)  # the call of the others
    for _ in range(3 + comm.rank):  # not even as many on every rank
        comm.all_reduce(x, stream=stream)
        comm.all_reduce(x, stream=other)
    go.set()
    first, second = error_of(stream), error_of(other)
    stream.synchronize()
    other.synchronize()
    unchanged = np.array_equal(x, np.arange(100.0) + comm.rank)
    return first, first == second, unchanged


def works_on(comm: rt.Communicator) -> list[float]:
    stream = rt.Stream()
    x = rt.array(np.arange(100.0) + comm.rank)
    comm.all_reduce(x, stream=stream)
    stream.synchronize()
    comm.all_reduce(x)
    return [float(value) for value in x[:2]]


def queued_mismatch_and_on(comm: rt.Communicator) -> Any:
    stream, other = rt.Stream(), rt.Stream()
    x = rt.array(np.arange(100.0) + comm.rank)
    found = []
    for _ in range(3):
        go = gate(stream)
        comm.all_reduce(x[: 64 + comm.rank], stream=stream)
        for _ in range(3):
            comm.all_reduce(x, stream=stream)
            comm.broadcast(x, root=1, stream=other)
        go.set()
        texts = [error_of(stream), error_of(other)]
        found.append((texts[0] == texts[1], np.array_equal(x, np.arange(100.0) + comm.rank), works_on(comm)))
    return found


def test_after_a_queued_mismatch_the_communicator_works_on(ranks: RankPool) -> None:
    assert ranks.run(2, queued_mismatch_and_on) == [[(True, True, [2.0, 6.0])] * 3] * 2


@pytest.mark.parametrize("size", [2, 3])
def test_a_queued_mismatch_names_the_lines_that_queued(ranks: RankPool, size: int) -> None:
    lines = [line_number("# the call of rank 0")] + [line_number("# the call of the others")] * (size - 1)
    for rank, (text, same, unchanged) in enumerate(ranks.run(size, queued_mismatch)):
        assert text.startswith("HCCL_E_PARA EI0005") and "do not agree on count" in text and same and unchanged
        table = text.splitlines()[1:-1]
        for other, row in enumerate(table):
            assert f"rank {other} (test_streams.py:{lines[other]})  all_reduce count={64 + (other > 0)}" in row
        assert [r for r, row in enumerate(table) if "<- this rank" in row] == [rank]


def queued_refusal(comm: rt.Communicator) -> Any:
    stream = rt.Stream()
    x = rt.array(np.arange(100.0))
    comm.all_reduce(x, op="sum" if comm.rank else "xor", stream=stream)
    comm.all_reduce(x, stream=stream)
    text = error_of(stream)
    return text, x[:2].tolist(), works_on(comm)


def test_a_refused_argument_is_told_to_all(ranks: RankPool) -> None:
    for text, values, later in ranks.run(3, queued_refusal):
        assert "refused on rank 0; nothing was moved" in text and "op 'xor'; expected one of sum" in text
        assert values == [0.0, 1.0] and later == [9.0, 18.0]


def blocking_behind_a_queued_mismatch(comm: rt.Communicator) -> Any:
    stream = rt.Stream()
    x = rt.array(np.arange(100.0))
    go = gate(stream)
    comm.all_reduce(x[: 64 + comm.rank], stream=stream)
    threading.Timer(0.05, go.set).start()
    with pytest.raises(rt.HcclError) as error:
        comm.all_reduce(x)
    text = str(error.value)
    comm.all_reduce(x)
    return text == error_of(stream).partition(": ")[2], x[:2].tolist()


def test_a_blocking_call_behind_a_queued_mismatch_fails_with_it(ranks: RankPool) -> None:
    assert ranks.run(2, blocking_behind_a_queued_mismatch) == [(True, [0.0, 2.0])] * 2


def poisoned_before_a_call(comm: rt.Communicator) -> Any:
    """Rank 0's stream fails in a function of its own: its collective behind it is told to the others, not left out."""
    stream = rt.Stream()
    x = rt.array(np.arange(100.0))
    if comm.rank == 0:
        stream.launch(lambda: 1 // 0)
    comm.all_reduce(x, stream=stream)
    if comm.rank == 0:
        with pytest.raises(ZeroDivisionError):
            stream.synchronize()
        return "", x[:2].tolist(), works_on(comm)
    return error_of(stream), x[:2].tolist(), works_on(comm)


def test_others_are_told_of_a_call_whose_stream_failed_before(ranks: RankPool) -> None:
    results = ranks.run(3, poisoned_before_a_call)
    assert [rest for _, *rest in results] == [[[0.0, 1.0], [9.0, 18.0]]] * 3
    for text, *_ in results[1:]:
        assert "refused on rank 0" in text
        assert re.search(r"its stream failed before, in what was queued at test_streams\.py:\d+", text)


def on_a_destroyed_stream(comm: rt.Communicator) -> Any:
    """Rank 0's second stream is gone; a call of another stream is queued and must not lose its turn."""
    held, gone = rt.Stream(), rt.Stream()
    x = rt.array(np.arange(100.0) + comm.rank)
    if comm.rank == 0:
        while not gone.close(1.0):
            pass
    go = gate(held)
    comm.all_reduce(x, stream=held)
    threading.Timer(0.05, go.set).start()
    with pytest.raises(rt.HcclError) as error:
        comm.all_reduce(x, stream=gone)
        gone.synchronize()
    held.synchronize()
    return str(error.value), x[:2].tolist(), works_on(comm)


def test_a_call_on_a_destroyed_stream_is_refused_on_all(ranks: RankPool) -> None:
    for text, values, later in ranks.run(2, on_a_destroyed_stream):
        assert "refused on rank 0" in text and "stream was destroyed" in text
        assert values == [1.0, 3.0] and later == [2.0, 6.0]


def drop_a_stream(comm: rt.Communicator) -> Any:
    """Nobody holds the stream any more; the call was issued all the same, and the others wait for it."""
    x = rt.array(np.arange(100.0) + comm.rank)
    comm.all_reduce(x, stream=rt.Stream())
    comm.all_reduce(x)
    return x[:2].tolist()


def test_calls_of_a_stream_that_is_dropped_are_run(ranks: RankPool) -> None:
    assert ranks.run(2, drop_a_stream) == [[2.0, 6.0]] * 2


def drop_a_stream_that_fails(comm: rt.Communicator) -> None:
    stream = rt.Stream()
    x = rt.array(np.arange(100.0) + comm.rank)
    comm.all_reduce(x[: 64 + comm.rank], stream=stream)
    while not stream.query():
        time.sleep(0.001)
    del stream
    print(works_on(comm))


def test_a_failure_that_nobody_can_synchronize_is_printed(ranks: RankPool) -> None:
    ended = ranks.end_of(2, drop_a_stream_that_fails)
    assert (ended.exit_code, ended.stdout.splitlines()) == (0, ["[2.0, 6.0]"] * 2), ended
    assert ended.stderr.count("a stream was dropped, and not synchronized, in which this failed: HCCL_E_PARA") == 2


# ---- waiting ----


def interrupt_synchronize(comm: rt.Communicator) -> Any:
    stream = rt.Stream()
    x = rt.array(np.arange(100.0))
    if comm.rank == 1:
        comm.barrier()  # after rank 0 has been interrupted
        comm.all_reduce(x)
        return x[1]
    go = gate(stream)
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        stream.synchronize()
    assert time.monotonic() - started < 5  # the gate stays shut, so nothing but the interrupt ends it
    go.set()
    comm.barrier()
    comm.all_reduce(x, stream=stream)
    stream.synchronize()
    return x[1]


def test_an_interrupt_inside_synchronize(ranks: RankPool) -> None:
    assert ranks.run(2, interrupt_synchronize) == [2.0, 2.0]


def wait_for_each_other(comm: rt.Communicator) -> tuple[str, int, bool]:
    one, other = rt.Stream(), rt.Stream()
    go = gate(one)
    ahead = rt.Event()
    other.wait(one.record())  # B waits for A ...
    behind = other.record(ahead)
    one.wait(behind)  # ... and A for B: no hang, since A's event is recorded before
    go.set()
    one.synchronize()
    other.synchronize()
    stuck = threading.Event()
    other.launch(stuck.wait)
    started = time.monotonic()
    one.wait(other.record())
    with pytest.raises(AclError) as error:
        one.synchronize()
    took = time.monotonic() - started
    stuck.set()
    other.synchronize()
    one.synchronize()
    return str(error.value), error.value.code, 1 <= took < 10


def test_a_wait_for_an_event_that_does_not_come_ends_in_time(ranks: RankPool) -> None:
    [(text, code, in_time)] = ranks.run(1, wait_for_each_other, environ={"HCCL_EXEC_TIMEOUT": "1"})
    line = line_number("one.wait(other.record())")
    assert f"queued at test_streams.py:{line}, took longer than HCCL_EXEC_TIMEOUT" in text
    assert code == 507046 and in_time
