"""Ctrl-Z: the ranks stop with hccl-run and go on with it, and nobody is taken for hanging."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.processes


def states(job: Any) -> set[str]:
    """The letters of /proc/PID/stat of all processes of the job."""
    return {Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in job.processes()}


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_ranks_stop_and_go_on(start_job: Callable[..., Any], script: Callable[..., Path], tmp_path: Path) -> None:
    """Forked ranks, and children of a shell. The pause is longer than --timeout, which must not count it."""
    source = f"""
        import os, time
        print("ready", os.environ["RANK_ID"], flush=True)
        while not os.path.exists("{tmp_path}/over"):
            time.sleep(0.01)
        print("over", os.environ["RANK_ID"])
    """
    path = script(source)
    jobs = [start_job("--timeout", "3", *words) for words in ([path], ["--", "bash", "-c", f"python3 {path}; exit $?"])]
    for job in jobs:
        job.read_until("ready 0", "ready 1")
        job.process.send_signal(signal.SIGTSTP)
        until(lambda job=job: states(job) == {"T"})
    (tmp_path / "over").touch()
    time.sleep(3.2)  # the length of the pause is what is tested
    for job in jobs:
        assert states(job) == {"T"}
        job.process.send_signal(signal.SIGCONT)
        outcome = job.outcome(10)
        assert (outcome.code, outcome.err) == (0, "")
        assert sorted(outcome.lines)[-2:] == ["[0] over 0", "[1] over 1"]


def test_a_rank_that_was_stopped_before_stays_so(
    start_job: Callable[..., Any], script: Callable[..., Path], tmp_path: Path
) -> None:
    job = start_job(script("import time\nprint('ready', flush=True)\ntime.sleep(600)"), n=1)
    job.read_until("ready")
    (rank,) = set(job.processes()) - {job.process.pid}
    os.kill(rank, signal.SIGSTOP)
    until(lambda: "T" in states(job))
    job.process.send_signal(signal.SIGTSTP)
    until(lambda: states(job) == {"T"})
    job.process.send_signal(signal.SIGCONT)
    until(lambda: states(job) == {"T", "S"})
    job.process.send_signal(signal.SIGTERM)
    os.kill(rank, signal.SIGCONT)
    assert job.outcome(10).code == 143
