"""Who takes part in a job: every rank once, nobody else, and jobs never meet."""

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.processes

INIT = "import os, sys\nimport ascend_rt as rt\n"
SUM = (Path(__file__).parent / "programs" / "sum.py").read_text()


def test_forked_and_executed_ranks_share_memory(hccl_run: Callable[..., Any], script: Callable[..., Path]) -> None:
    path = script(SUM)
    shell = ("--", "bash", "-c", f"{sys.executable} {path}; exit $?")
    for words in ((path,), ("--env", "PYTHONHASHSEED=1", path), shell):
        outcome = hccl_run("--no-prefix", *words, n=3)
        assert (outcome.code, sorted(outcome.lines)) == (0, [f"right {rank} 3" for rank in range(3)]), words


def test_a_rank_that_never_comes_is_named(hccl_run: Callable[..., Any], script: Callable[..., Path]) -> None:
    """Rank 2 fails before it joins: the others are told which, and the job's exit code is its."""
    source = f"""{INIT}
if os.environ["RANK_ID"] == "2":
    sys.exit(9)
try:
    rt.init()
except rt.HcclError as error:
    print(error.ranks)
    raise
"""
    outcome = hccl_run("--no-prefix", script(source), n=3)
    assert (outcome.code, outcome.lines) == (9, ["(2,)", "(2,)"])
    noticed, first = outcome.err.splitlines()
    assert re.match(r"hccl-run: ranks 0-1 failed because of it: HcclError: .*: rank 2 \(.* exit code 9 before", noticed)
    assert re.match(r"hccl-run: rank 2 \(process \d+\) failed first, .*: exit code 9; the job's exit code is 9", first)


def test_a_rank_that_leaves_without_joining(hccl_run: Callable[..., Any], script: Callable[..., Path]) -> None:
    """It left with 0 while others waited for it: 1."""
    source = f"{INIT}\nif os.environ['RANK_ID'] == '0':\n    rt.init()\n"
    outcome = hccl_run(script(source))
    assert outcome.code == 1
    assert "rank 1 " in outcome.err.splitlines()[-1]
    assert "left with exit code 0 while others waited for it" in outcome.err


def test_a_rank_whose_partner_is_late_names_it(hccl_run: Callable[..., Any], script: Callable[..., Path]) -> None:
    """One line for all who waited, not one for each; the first is the notice of so short a limit."""
    source = f"{INIT}\nif os.environ['RANK_ID'] != '2':\n    rt.init()\nimport time\ntime.sleep(60)\n"
    outcome = hccl_run("--grace", "1", script(source), n=4, env={"HCCL_CONNECT_TIMEOUT": "1"})
    assert outcome.code == 1
    assert "this rank waited 1 s for the other ranks to join; still missing: rank 2 (process" in outcome.err
    assert len(outcome.err.splitlines()) == 4


def test_a_child_program_is_no_rank(hccl_run: Callable[..., Any], script: Callable[..., Path]) -> None:
    """A program that a rank starts inherits its environment, and is told that it is not the rank; the job goes on."""
    child = script(SUM, "child.py")
    source = f"""{SUM}
import subprocess
import sys
done = subprocess.run([sys.executable, "{child}"], capture_output=True, text=True)
print("refused" if done.returncode == 1 and "is already joined by process" in done.stderr else done.stderr)
"""
    outcome = hccl_run("--no-prefix", script(source))
    assert (outcome.code, sorted(outcome.lines)) == (0, ["refused", "refused", "right 0 2", "right 1 2"])


def test_a_job_inside_a_rank_is_its_own(hccl_run: Callable[..., Any], script: Callable[..., Path]) -> None:
    inner = script(SUM, "inner.py")
    run = str(Path(sys.executable).with_name("hccl-run"))
    source = f"""{SUM}
import subprocess
done = subprocess.run(["{run}", "-n", "3", "--no-prefix", "{inner}"], capture_output=True, text=True)
print("inner", done.returncode, sorted(done.stdout.splitlines()))
"""
    outcome = hccl_run("--no-prefix", script(source))
    inner_lines = f"inner 0 {[f'right {rank} 3' for rank in range(3)]}"
    assert (outcome.code, sorted(outcome.lines)) == (0, [inner_lines] * 2 + ["right 0 2", "right 1 2"])


def test_five_jobs_at_once(start_job: Callable[..., Any], script: Callable[..., Path]) -> None:
    """Each reduces its own number: they never meet."""
    path = script(SUM)
    jobs = [start_job("--no-prefix", path, env={"NUMBER": str(number)}) for number in range(5)]
    for job in jobs:
        outcome = job.outcome(60)
        assert (outcome.code, sorted(outcome.lines), outcome.err) == (0, ["right 0 2", "right 1 2"], "")


def test_sixteen_ranks_on_few_cores(hccl_run: Callable[..., Any], script: Callable[..., Path]) -> None:
    outcome = hccl_run("--no-prefix", script(SUM), n=16, timeout=60)
    assert (outcome.code, sorted(outcome.lines)) == (0, sorted(f"right {rank} 16" for rank in range(16)))


MEGABYTE = """
y = rt.array(np.arange(1 << 18, dtype=np.float32) % 1000 + comm.rank)
comm.all_reduce(y)
assert np.array_equal(y, comm.size * (np.arange(1 << 18) % 1000) + comm.size * (comm.size - 1) // 2)
"""


@pytest.mark.thorough
def test_sixty_four_ranks_start_reduce_a_megabyte_and_leave(
    hccl_run: Callable[..., Any], script: Callable[..., Path]
) -> None:
    outcome = hccl_run("--no-prefix", script(SUM + MEGABYTE), n=64, timeout=120)
    assert (outcome.code, sorted(outcome.lines)) == (0, sorted(f"right {rank} 64" for rank in range(64)))
    assert outcome.seconds < 15


TURNS = """
import os, time
import numpy as np
import ascend_rt as rt
comm, x = rt.init(), rt.zeros(256)
comm.barrier()
began = time.monotonic()
for _ in range(1000):
    comm.barrier()
    comm.all_reduce(x)
print(len(os.sched_getaffinity(0)), time.monotonic() - began)
"""


@pytest.mark.thorough
def test_eight_ranks_on_one_core_take_turns(start_job: Callable[..., Any], script: Callable[..., Path]) -> None:
    """Who waits leaves the core to whom it waits for: some context switches for each call, not time slices."""
    core = str(min(os.sched_getaffinity(0)))
    job = start_job("--no-prefix", script(TURNS), n=8, under=["taskset", "-c", core])
    outcome = job.outcome(60)
    assert outcome.code == 0, outcome
    cores, seconds = zip(*(map(float, line.split()) for line in outcome.lines), strict=True)
    print("a barrier and an all_reduce took", max(seconds), "ms")
    assert set(cores) == {1} and max(seconds) < 4  # time slices of 3 ms and more would add up to 20 s and more


FENCE = """
import os, signal, sys, time
from ascend_rt.link.rendezvous import join
from ascend_rt.settings import read
member = join(read())
if member.rank == 1:
    print("about to stop", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(60)
while member.segment.rank_line(1).state != 4:
    member.fence(1)
    time.sleep(0.02)
print("fenced", member.segment.rank_line(1).cause)
sys.exit(6)
"""


def test_a_stopped_rank_is_ended_for_others(hccl_run: Callable[..., Any], script: Callable[..., Path]) -> None:
    """It cannot answer and could store later: its death is the fence. The cause stays who gave up waiting."""
    outcome = hccl_run("--no-prefix", script(FENCE))
    assert (outcome.code, outcome.lines) == (6, ["about to stop", "fenced -9"])
    assert "is stopped, and rank 0 must be sure that it writes no more: it is ended" in outcome.err
    assert outcome.err.splitlines()[-1].startswith("hccl-run: rank 0 ")


def test_memory_that_does_not_fit(start_job: Callable[..., Any], script: Callable[..., Path]) -> None:
    """Under `ulimit -v` the windows shrink; where not even the smallest fit, one sentence says so."""
    path, run = script(SUM), Path(sys.executable).with_name("hccl-run")
    for limit, code, says in ((3 << 20, 0, ""), (1 << 20, 1, "cannot map the memory of the job: 20 devices need")):
        words = f"ulimit -v {limit} && exec {run} -n {20 if code else 2} --no-prefix {path}"
        outcome = start_job("--", "bash", "-c", words, n=1).outcome(60)
        assert outcome.code == code
        assert says in outcome.err
