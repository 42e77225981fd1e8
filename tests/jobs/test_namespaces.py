"""Jobs in containers: no network, a name that nobody resolves, process ids of their own, no room in /dev/shm."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.processes

SUM = (Path(__file__).parent / "programs" / "sum.py").read_text()
LARGE = """
x = rt.array(np.arange(1 << 23, dtype=np.float32) + comm.rank)
comm.all_reduce(x)
comm.all_reduce(np.arange(1 << 20) + comm.rank)
assert x[5] == 5 * comm.size + comm.size * (comm.size - 1) // 2
"""
PROXY = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://nobody.invalid:1")
NAME = "echo no.such-host_at.all >/proc/sys/kernel/hostname"
FULL = "mount -t tmpfs -o size=64k none /dev/shm; ! dd if=/dev/zero of=/dev/shm/full 2>/dev/null"
BOXES = {
    "no network": ("--net", ":"),
    "a name that nobody resolves": ("--uts", NAME),
    "its own process ids": ("--pid --fork --mount-proc", ":"),
    "full /dev/shm": ("--mount", FULL),
    "read-only /dev/shm": ("--mount", "mount -t tmpfs -o size=64k,ro none /dev/shm"),
    "all at once": ("--net --uts --pid --fork --mount-proc --ipc", f"{NAME} && {FULL}"),
}


def can_unshare() -> bool:
    words = ["unshare", "-r", "--net", "--mount", "--pid", "--fork", "--mount-proc", "true"]
    return shutil.which("unshare") is not None and subprocess.run(words, capture_output=True).returncode == 0


@pytest.mark.parametrize(
    "box", ["all at once", *(pytest.param(box, marks=pytest.mark.thorough) for box in BOXES if box != "all at once")]
)
def test_a_job_in_a_box(start_job: Callable[..., Any], script: Callable[..., Path], box: str) -> None:
    """As everywhere: memory has no name and needs no file system, and ranks meet without a network."""
    if not can_unshare():
        pytest.skip("this user or kernel may not make namespaces")
    options, setup = BOXES[box]
    program, hccl_run = script(SUM + LARGE), Path(sys.executable).with_name("hccl-run")
    words = f"{setup} && {hccl_run} -n 3 --no-prefix {program}; exit $?"
    boxed = start_job("--", "unshare", "-r", *options.split(), "bash", "-c", words, n=1, env=PROXY)
    outcome = boxed.outcome()
    assert (outcome.code, outcome.err) == (0, ""), outcome
    assert sorted(line.partition("] ")[2] for line in outcome.lines) == [f"right {rank} 3" for rank in range(3)]
