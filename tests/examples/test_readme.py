"""What the README shows, run as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()
HCCL_RUN = str(Path(sys.executable).with_name("hccl-run"))

MISMATCH = """import numpy as np

import ascend_rt as rt

comm = rt.init()
gradients = rt.array(np.ones(1000 if comm.rank == 2 else 1024, np.float32))
comm.all_reduce(gradients, op="avg")
"""


def block(language: str) -> str:
    """The only fenced block of this language."""
    (text,) = re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    return str(text)


def run(path: Path, program: str) -> subprocess.CompletedProcess[str]:
    """The job of four ranks that runs `program`."""
    path.write_text(program)
    command = [HCCL_RUN, "-n", "4", str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_the_example_prints_what_is_said(tmp_path: Path) -> None:
    printed = re.search(r"`hccl-run -n 4 look.py`.*prints `(.*?)`", README)
    job = run(tmp_path / "look.py", block("python"))
    assert printed and (job.returncode, job.stdout) == (0, f"[0] {printed[1]}\n"), job.stderr


def test_a_mismatch_reads_as_shown(tmp_path: Path) -> None:
    job = run(tmp_path / "train.py", MISMATCH)
    assert job.returncode == 1
    lines = [line.removeprefix("[0] ") for line in job.stderr.splitlines() if line.startswith("[0] ")]
    shown = block("text").splitlines()
    said = lines[-len(shown) :]
    assert [said[0].partition("HcclError: ")[2], *said[1:]] == shown
