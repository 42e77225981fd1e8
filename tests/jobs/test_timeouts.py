"""HCCL_EXEC_TIMEOUT: the exit code is that of the rank that gave up, the cause that is named is who did not come.

A rank that is to stop inside of a call must have come to it, however slow the machine: the other begins to give up only
when it is stopped.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.processes

SOURCE = """
import os, signal, sys, threading, time
import numpy as np
import ascend_rt as rt
from ascend_rt.link.process import process_state

def give_up_once_rank_1_is_stopped():
    while process_state(comm._membership.segment.rank_line(1).pid) != "stopped":
        time.sleep(0.01)
    comm._tune_by(comm._settings.with_config({{"hcclExecTimeOut": 1}}), comm.size)

comm = rt.init()
x = rt.array(np.arange(1 << 16, dtype=np.float32) + comm.rank)
if comm.rank == 0 and "HCCL_EXEC_TIMEOUT" not in os.environ:
    threading.Thread(target=give_up_once_rank_1_is_stopped).start()
if comm.rank == 1:
    {absence}
try:
    comm.all_reduce(x)
except rt.HcclError as error:
    sys.exit(7 + comm.rank)
"""
ABSENCES = {
    "stopped before the call": ("os.kill(os.getpid(), signal.SIGSTOP)", "was stopped"),
    "stopped inside the call": ("comm._stop_when_committed()", "was stopped"),
    "elsewhere": ("time.sleep(600)", "did not come"),
    "too late": ("while not comm._abort_word(): time.sleep(0.01)", "did not come"),
}


def test_the_rank_that_did_not_come_is_named(start_job: Callable[..., Any], script: Callable[..., Path]) -> None:
    """Four jobs at once: what they do is wait."""
    jobs = {}
    for how, (absence, _) in ABSENCES.items():
        grace, path = "5" if how == "too late" else "0.2", script(SOURCE.format(absence=absence), f"{how}.py")
        env = {} if how == "stopped inside the call" else {"HCCL_EXEC_TIMEOUT": "1"}
        jobs[how] = start_job("--grace", grace, path, n=2, env=env)
    for how, job in jobs.items():
        outcome = job.outcome()
        assert outcome.code == 7, (how, outcome)
        story = (
            rf"hccl-run: rank 1 \(process \d+\) {ABSENCES[how][1]}; rank 0 gave it up after \d\.\d+ s: exit code 7; "
            "the job's exit code is 7"
        )
        assert re.fullmatch(story, outcome.err.splitlines()[-1]), (how, outcome.err)
