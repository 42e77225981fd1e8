"""Jobs that end while collectives are queued: no hang, the right words, the right exit code, nothing left."""

import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.processes

HEAD = """
import os, signal, sys, time
import numpy as np
import ascend_rt as rt

comm, stream, other = rt.init(), rt.Stream(), rt.Stream()
x = rt.array(np.arange(1000.0) + comm.rank)

def queue(calls):
    for _ in range(calls):
        comm.all_reduce(x, op="max", stream=stream)

def hold():
    # What is queued from here on does not run before the program ends, which drops it.
    stream.launch(until_dropped)

def until_dropped():
    while not stream.cancelled:
        time.sleep(0.01)

comm.barrier()
"""
REPEATS = [0, *(pytest.param(repeat, marks=pytest.mark.thorough) for repeat in range(1, 10))]


def exception_on_every_rank(outcome: Any) -> None:
    assert outcome.code == 1
    # Of all, unless the end of another rank came first and failed them.
    assert re.search(r"rank \d left with 5 queued calls not run", outcome.err)
    assert outcome.err.count("ValueError: boom\n") == 3
    assert re.search(r"rank \d \(process \d+\) failed first, after [\d.]+ s: ValueError: boom", outcome.err)


def exit_with_queued_work(outcome: Any) -> None:
    assert outcome.code == 1
    assert "rank 0 left with 3 queued calls not run" in outcome.err
    assert outcome.err.count("queued calls not run") == 1
    assert sorted(outcome.lines) == ["[1] HCCL_E_REMOTE (0,)", "[2] HCCL_E_REMOTE (0,)"]
    assert re.search(r"rank 0 \(process \d+\) failed first, after [\d.]+ s: exit code 1", outcome.err)


def poison_through_an_event(outcome: Any) -> None:
    assert outcome.code == 1
    assert "ZeroDivisionError" in outcome.err and "raised in a function that was queued at program.py:" in outcome.err
    assert sorted(outcome.lines) == ["[1] HCCL_E_PARA (0,)", "[2] HCCL_E_PARA (0,)"]
    assert re.search(r"rank 0 \(process \d+\) failed first, after [\d.]+ s: ZeroDivisionError", outcome.err)


def killed_with_queued_work(outcome: Any) -> None:
    assert outcome.code == 137
    assert sorted(outcome.lines) == ["[0] HCCL_E_REMOTE (1,)", "[2] HCCL_E_REMOTE (1,)"]
    assert re.search(r"rank 1 \(process \d+\) failed first, after [\d.]+ s: killed by SIGKILL", outcome.err)


def failure_that_nobody_synchronized(outcome: Any) -> None:
    assert outcome.code == 1
    assert outcome.err.count("rank 0 left without synchronizing a stream in which this failed: ZeroDivisionError:") == 1
    assert re.search(r"rank 0 \(process \d+\) failed first, after [\d.]+ s: exit code 1", outcome.err)


def message_that_nobody_sends(outcome: Any) -> None:
    assert outcome.code == 1
    assert sorted(outcome.lines) == ["[0] 999.0", "[1] 999.0", "[2] 999.0"]  # no collective takes it for its own
    assert outcome.err.count("rank 0 left with 1 queued call not run") == 1


SYNCHRONIZE = """
try:
    stream.synchronize()
except rt.HcclError as error:
    print(error.name, error.ranks)
"""

ENDINGS: dict[str, tuple[str, Callable[[Any], None]]] = {
    "exception": (
        """
if comm.rank == 1:
    hold()
queue(5)
raise ValueError("boom")
""",
        exception_on_every_rank,
    ),
    "sys.exit(0)": (
        f"""
if comm.rank == 0:
    hold()
    queue(3)
    sys.exit(0)
queue(3)
{SYNCHRONIZE}
""",
        exit_with_queued_work,
    ),
    "no synchronize": (
        """
if comm.rank == 0:
    stream.launch(lambda: 1 // 0)
    other.wait(stream.record())
    other.record().synchronize()
""",
        failure_that_nobody_synchronized,
    ),
    "a receive that nothing matches": (
        """
if comm.rank == 0:
    comm.recv(np.zeros(3), 1, stream=other)
queue(2)
comm.barrier()
stream.synchronize()
print(x.max() - 2)
""",
        message_that_nobody_sends,
    ),
    "poison": (
        f"""
if comm.rank == 0:
    other.launch(lambda: 1 // 0)
    stream.wait(other.record())
queue(3)
{SYNCHRONIZE}
""",
        poison_through_an_event,
    ),
    "kill": (
        f"""
if comm.rank == 1:
    hold()
    queue(3)
    os.kill(os.getpid(), signal.SIGKILL)
queue(3)
{SYNCHRONIZE}
""",
        killed_with_queued_work,
    ),
}


@pytest.mark.parametrize("repeat", REPEATS)
@pytest.mark.parametrize("how", ENDINGS)
def test_ending(hccl_run: Callable[..., Any], script: Callable[..., Path], how: str, repeat: int) -> None:
    source, check = ENDINGS[how]
    outcome = hccl_run(script(HEAD + source), n=3, timeout=10)
    check(outcome)
    assert "ended by hccl-run" not in outcome.err  # as what hangs would be


@pytest.mark.parametrize("repeat", REPEATS)
def test_interrupt_of_a_queued_wait(start_job: Callable[..., Any], script: Callable[..., Path], repeat: int) -> None:
    """Ranks 0 and 2 wait in synchronize for calls that rank 1 never makes."""
    source = """
if comm.rank != 1:
    queue(3)
try:
    print("ready", comm.rank, flush=True)
    if comm.rank != 1:
        stream.synchronize()
    time.sleep(600)
except KeyboardInterrupt:
    while comm.rank == 1 and any(comm._membership.segment.rank_line(rank).state <= 2 for rank in (0, 2)):
        time.sleep(0.01)  # the others are not to fail of its end before they are interrupted
    raise
"""
    job = start_job(script(HEAD + source), n=3)
    job.read_until("ready 0", "ready 1", "ready 2")
    job.process.send_signal(signal.SIGINT)
    outcome = job.outcome(timeout=10)
    assert outcome.code == 130 and "ended by hccl-run" not in outcome.err
    assert re.search(r"rank [02] left with 3 queued calls not run", outcome.err)  # the other one failed of its end
    assert "ended: KeyboardInterrupt" in outcome.err
    assert outcome.err.splitlines()[-1] == "hccl-run: ended by SIGINT; exit code 130"
