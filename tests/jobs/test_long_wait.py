"""A wait that lasts long is told once: who waits in what and for whom, and what that one does instead."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.processes

# hccl-run as it is, but for the time after which it speaks.
HASTY = """
import sys
from ascend_rt.launcher import cli, job
job.LONG_WAIT_SECONDS = 0.5
sys.argv = ["hccl-run", *sys.argv[1:]]
sys.exit(cli.main())
"""
SOURCE = """
import os, signal, subprocess, time
import ascend_rt as rt
comm = rt.init()
comm.barrier()
if comm.rank == 1:
    {elsewhere}
stream = rt.Stream() if {queued} else None
comm.all_reduce(rt.zeros(5), stream=stream)
if stream is not None:
    stream.synchronize()
"""
STOPPED = "subprocess.Popen(['sh', '-c', f'sleep 1.5; kill -CONT {os.getpid()}']); os.kill(os.getpid(), signal.SIGSTOP)"


CASES = [(True, "time.sleep(1.5)", "sleeping, and in no collective"), (False, STOPPED, "stopped")]


def test_a_long_wait_is_told_once(start_job: Callable[..., Any], script: Callable[..., Path]) -> None:
    """Queued and blocking: two jobs at once, since what they do is wait."""
    jobs = []
    for queued, elsewhere, _ in CASES:
        path = script(SOURCE.format(elsewhere=elsewhere, queued=queued), f"{queued}.py")
        jobs.append(start_job("--no-prefix", "--", sys.executable, "-P", "-c", HASTY, "-n", "3", path, n=1))
    for job, (*_, state) in zip(jobs, CASES, strict=True):
        outcome = job.outcome()
        assert outcome.code == 0, outcome
        notice = [line for line in outcome.err.splitlines() if line.startswith("hccl-run: ")]
        assert len(notice) == 3, outcome.err
        assert notice[0] == "hccl-run: a rank has been waiting for 0.5 s:"
        assert re.fullmatch(r"hccl-run: ranks 0, 2: waiting for rank 1 in all_reduce #2, for [0-9.]+ s", notice[1])
        assert re.fullmatch(rf"hccl-run: rank 1: process \d+ is {state}", notice[2])
