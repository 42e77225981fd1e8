"""Ranks that die, leave, stop, come late or are interrupted: the others fail in bounded time and name them."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt.link.process import process_state
from ascend_rt.testing import RankPool

from ..limits import give_up_after_a_second

pytestmark = pytest.mark.processes

PROGRAM = """
import os, signal, sys, time
import numpy as np
import ascend_rt as rt
comm = rt.init()
x = rt.array(np.arange({count}, dtype=np.float32) + comm.rank)
for call in range(20):
    if comm.rank == 2 and call == 10:
        {end}
    try:
        comm.all_reduce(x, op="max")
    except rt.HcclError as error:
        again = ""
        try:
            comm.barrier()
        except rt.HcclError as second:
            again = second.name
        print(f"SURVIVOR {{comm.rank}} {{error.name}} {{error.ranks}} {{again}}", flush=True)
        print(error, flush=True)
        sys.exit(3)
"""

ENDS = {
    "kill": ("os.kill(os.getpid(), signal.SIGKILL)", 137, "rank 2 died: killed by signal 9 (SIGKILL)"),
    "segfault": ("signal.raise_signal(signal.SIGSEGV)", 139, "rank 2 died: killed by signal 11 (SIGSEGV)"),
    "exit code": ("os._exit(17)", 17, "rank 2 died: exit code 17"),
    "exit 0": ("os._exit(0)", 1, "rank 2 left (exit code 0) while others waited for it"),
    "raise": ("raise ValueError('boom')", 1, "rank 2 died: exit code 1"),
}


@pytest.mark.parametrize("count", [4, 1 << 18], ids=["in the line", "by a plan"])
@pytest.mark.parametrize("how", ENDS)
def test_survivors_name_the_rank_that_ended(ranks: RankPool, tmp_path: Path, how: str, count: int) -> None:
    end, exit_code, words = ENDS[how]
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(count=count, end=end))
    started = time.monotonic()
    ended = ranks.hccl_run(["-n", "4", "--no-prefix", "--timeout", "20", str(program)])
    assert time.monotonic() - started < 5
    assert ended.exit_code == exit_code, ended
    survivors = sorted(line for line in ended.stdout.splitlines() if line.startswith("SURVIVOR"))
    assert survivors == [f"SURVIVOR {rank} HCCL_E_REMOTE (2,) HCCL_E_REMOTE" for rank in (0, 1, 3)]
    assert ended.stdout.count(words) == 3
    assert "rank 2" in ended.stderr.splitlines()[-1]


def until_it_has_ended(comm: rt.Communicator) -> None:
    """Until another rank has given the communicator up."""
    while not comm._abort_word():
        time.sleep(0.001)


def wait_for_a_rank_that_comes_too_late(comm: rt.Communicator, count: int) -> Any:
    comm.all_reduce(rt.zeros(3))
    give_up_after_a_second(comm)
    if comm.rank == 1:
        until_it_has_ended(comm)
    elif comm.rank == 2:  # whose limit is not to be over first: it looks for rank 0 before it looks for rank 1
        while comm._membership.segment.rank_line(0).wait_call != 2:
            time.sleep(0.001)
    try:
        comm.all_reduce(rt.array(np.arange(float(count))))
    except rt.HcclError as error:
        return str(error), error.name, error.ei, error.ranks
    return "no error"


@pytest.mark.parametrize("count", [2, 1000], ids=["in the line", "by a plan"])
def test_a_timeout_says_who_is_missing_and_what_sets_it(ranks: RankPool, count: int) -> None:
    results = ranks.run(3, wait_for_a_rank_that_comes_too_late, count)
    for rank, (text, name, ei, at_fault) in enumerate(results):
        assert (name, ei, at_fault) == ("HCCL_E_TIMEOUT", "EI0002", (1,))
        assert "rank 1 did not arrive within 1 s" in text and "HCCL_EXEC_TIMEOUT" in text
        lines = text.splitlines()
        assert "last seen in all_reduce #2" in lines[1] and "last seen in all_reduce #1" in lines[2]
        assert lines[1 + rank].endswith("<- this rank")


def give_up_once_rank_1_is_stopped(comm: rt.Communicator) -> None:
    while process_state(comm._membership.segment.rank_line(1).pid) != "stopped":
        time.sleep(0.001)
    give_up_after_a_second(comm)


def stop_between_commit_and_first_store(comm: rt.Communicator) -> None:
    x = rt.array(np.arange(1 << 16, dtype=np.float32) + comm.rank)
    comm.all_reduce(x)
    if comm.rank == 1:
        comm._stop_when_committed()
    else:
        threading.Thread(target=give_up_once_rank_1_is_stopped, args=(comm,)).start()
    try:
        comm.all_reduce(x)
        name = "done"
    except rt.HcclError as error:
        name = error.name
    state = comm._membership.segment.rank_line(1).state
    del x
    refilled = rt.array(np.arange(1 << 16, dtype=np.float32) * 3)  # the same memory
    time.sleep(0.3)  # a rank that were still there would store now
    print(comm.rank, name, state, np.array_equal(refilled, np.arange(1 << 16, dtype=np.float32) * 3))


def test_a_stopped_rank_is_ended_before_anybody_raises(ranks: RankPool) -> None:
    ended = ranks.end_of(3, stop_between_commit_and_first_store)
    assert sorted(ended.stdout.splitlines()) == ["0 HCCL_E_TIMEOUT 4 True", "2 HCCL_E_TIMEOUT 4 True"], ended
    assert "rank 1" in ended.stderr and "is stopped" in ended.stderr


SOON_S = 5.0
"""A machine that stalls for a second may take so long over what takes milliseconds."""


def interrupt_a_wait(comm: rt.Communicator) -> Any:
    if comm.rank == 1:
        until_it_has_ended(comm)
        with pytest.raises(rt.HcclError) as error:
            comm.all_reduce(rt.zeros(100))
        return error.value.name, error.value.ranks, "rank 0 was interrupted inside a collective" in str(error.value)
    handled, sent = threading.Event(), []
    signal.signal(signal.SIGALRM, lambda number, frame: handled.set())

    def interrupt() -> None:
        """By a signal whose handler returns and, when it has, by one whose handler raises."""
        while comm._membership.segment.rank_line(0).waits_for < 0:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGALRM)
        handled.wait()
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        comm.all_reduce(rt.zeros(100))
    assert time.monotonic() - sent[0] < SOON_S
    thread.join()
    with pytest.raises(rt.HcclError) as later:
        comm.barrier()
    return later.value.name


def test_python_signal_handlers_run_inside_a_wait(ranks: RankPool) -> None:
    assert ranks.run(2, interrupt_a_wait) == ["HCCL_E_REMOTE", ("HCCL_E_REMOTE", (0,), True)]


def other_threads_go_on(comm: rt.Communicator) -> float:
    """Rank 1 comes when another thread of rank 0 has run fifty times: how long rank 0's wait has used a core."""

    def tick() -> None:
        for _ in range(50):
            time.sleep(0.01)
        comm.send(np.zeros(1), 1)

    if comm.rank == 1:
        comm.recv(np.zeros(1), 0)
    thread = threading.Thread(target=tick)
    if comm.rank == 0:
        thread.start()
    before = time.thread_time()
    comm.all_reduce(rt.zeros(100))
    took = time.thread_time() - before
    if comm.rank == 0:
        thread.join()
    return took


def test_a_rank_that_waits_holds_neither_the_gil_nor_a_core(ranks: RankPool) -> None:
    assert ranks.run(2, other_threads_go_on)[0] < 0.05  # of half a second and more


def held() -> tuple[int, int, int]:
    """Descriptors, threads and resident pages of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return len(list(Path("/proc/self/fd").iterdir())), len(list(Path("/proc/self/task").iterdir())), pages


def many_calls(comm: rt.Communicator, calls: int) -> tuple[list[int], bool]:
    """What has grown meanwhile, and whether all was right."""
    stream, x, plain = rt.Stream(), rt.array(np.zeros(50)), np.zeros(50)
    events = []
    for call in range(2 * calls):
        if call == calls:
            before = held()
        comm.all_reduce(x, op="max")
        comm.all_reduce(plain, op="max", stream=stream)
        comm.send(plain, 1 - comm.rank) if (call + comm.rank) % 2 else comm.recv(plain, 1 - comm.rank)
        events.append(stream.record())
        if call % 50 == 0:
            stream.synchronize()
            events.clear()
            x += 1
    stream.synchronize()
    return [after - first for after, first in zip(held(), before, strict=True)], bool(x[0] == -(-2 * calls // 50))


@pytest.mark.thorough
def test_many_calls_leave_nothing(ranks: RankPool) -> None:
    for (descriptors, threads, pages), right in ranks.run(2, many_calls, 10_000, timeout=100):
        assert (descriptors, threads, right) == (0, 0, True) and pages < 64


def two_threads_in_one_communicator(comm: rt.Communicator) -> str:
    told = comm.split(0)
    assert told is not None
    if comm.rank == 1:
        told.barrier()
        comm.barrier()
        return ""
    thread = threading.Thread(target=comm.barrier)
    thread.start()
    while comm._membership.segment.rank_line(0).waits_for < 0:
        time.sleep(0.001)
    with pytest.raises(RuntimeError) as error:
        comm.barrier()
    told.barrier()
    thread.join()
    return str(error.value)


def test_two_threads_in_one_communicator_are_told(ranks: RankPool) -> None:
    assert "another thread of this rank is inside a collective" in ranks.run(2, two_threads_in_one_communicator)[0]


def fork_a_rank(comm: rt.Communicator) -> tuple[int, list[float]]:
    x = rt.array(np.arange(100.0))
    pid = os.fork()
    if pid == 0:
        try:
            comm.all_reduce(x)
        except RuntimeError as error:
            os._exit(42 if "fork" in str(error) else 1)
        os._exit(2)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), comm.all_reduce(x)[:3].tolist()


def test_a_fork_of_a_rank_is_no_rank(ranks: RankPool) -> None:
    assert ranks.run(2, fork_a_rank) == [(42, [0, 2, 4])] * 2


def fork_with_queued_work(comm: rt.Communicator) -> tuple[int, list[float]]:
    stream = rt.Stream()
    x = rt.array(np.arange(100.0))
    comm.all_reduce(x, stream=stream)
    pid = os.fork()
    if pid == 0:
        with pytest.raises(RuntimeError, match="destroyed"):
            comm.all_reduce(x, stream=stream)
        sys.exit(9)  # through the exit handlers, none of which may wait for a worker that is not here
    _, status = os.waitpid(pid, 0)
    stream.synchronize()
    return os.waitstatus_to_exitcode(status), x[:3].tolist()


def test_a_fork_with_streams_ends_by_itself(ranks: RankPool) -> None:
    assert ranks.run(2, fork_with_queued_work) == [(9, [0, 2, 4])] * 2


def finalize_and_go_on(comm: rt.Communicator) -> tuple[list[float], bool]:
    x = rt.array([1.0, 2.0])
    comm.barrier()
    rt.finalize()
    rt.finalize()
    with pytest.raises(RuntimeError, match="destroyed"):
        comm.all_reduce(x)
    return x.tolist(), True


def begin_again(_comm: rt.Communicator) -> str:
    rt.finalize()
    with pytest.raises(rt.HcclError) as error:
        rt.init()
    return str(error.value)


def test_a_world_of_one_begins_again_and_a_rank_does_not(ranks: RankPool, tmp_path: Path) -> None:
    """Who has left a job does not come back to it; a process that is its own job may have another."""
    assert all("a process joins its job once" in story for story in ranks.run(2, begin_again))
    program = tmp_path / "program.py"
    program.write_text(
        "import ascend_rt as rt\nfor turn in range(20):\n    comm, stream = rt.init(), rt.Stream()\n"
        "    x = comm.all_reduce(rt.array([1.0 + turn]), stream=stream)\n    stream.synchronize()\n    rt.finalize()\n"
        "print(x)\n"
    )
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[20.]\n", "")


def test_finalize_leaves_arrays_readable(ranks: RankPool) -> None:
    assert ranks.run(2, finalize_and_go_on) == [([1.0, 2.0], True)] * 2
