"""A wait that lasts long is told once: who waits in what and for whom, and what that one does instead."""

import os
import re
import sys
import time
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
    {elsewhere}  # until the test has read the notice
stream = rt.Stream() if {queued} else None
comm.all_reduce(rt.zeros(5), stream=stream)
if stream is not None:
    stream.synchronize()
"""
STOPPED = "subprocess.Popen(['sh', '-c', f'cat {}; kill -CONT {{os.getpid()}}']); os.kill(os.getpid(), signal.SIGSTOP)"


CASES = [(True, "open('{}').read()", "sleeping, and in no collective"), (False, STOPPED, "stopped")]


def test_a_long_wait_is_told_once(start_job: Callable[..., Any], script: Callable[..., Path], tmp_path: Path) -> None:
    """Queued and blocking: two jobs at once, since what they do is wait."""
    jobs = []
    for queued, elsewhere, _ in CASES:
        go, told = tmp_path / f"go_{queued}", tmp_path / f"told_{queued}"
        os.mkfifo(go)
        path = script(SOURCE.format(elsewhere=elsewhere.format(go), queued=queued), f"{queued}.py")
        words = ("--no-prefix", "--", sys.executable, "-P", "-c", HASTY, "-n", "3", path)
        with told.open("wb") as stderr:
            jobs.append((start_job(*words, n=1, stderr=stderr), go, told))
    for (job, go, told), (*_, state) in zip(jobs, CASES, strict=True):
        while f" is {state}\n" not in told.read_text() and job.process.poll() is None:
            time.sleep(0.01)
        go.write_text("on")
        assert job.outcome().code == 0, told.read_text()
        notice = [line for line in told.read_text().splitlines() if line.startswith("hccl-run: ")]
        assert len(notice) == 3, told.read_text()
        assert notice[0] == "hccl-run: a rank has been waiting for 0.5 s:"
        assert re.fullmatch(r"hccl-run: ranks 0, 2: waiting for rank 1 in all_reduce #2, for [0-9.]+ s", notice[1])
        assert re.fullmatch(rf"hccl-run: rank 1: process \d+ is {state}", notice[2])
