"""What somebody without a compiler or without Python.h reads: one sentence with the names of the Debian packages."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("setuptools", reason="setup.py is run directly, without pip's own build environment")
pytestmark = pytest.mark.processes


def build(root: Path, folder: Path, program: str, **environ: str) -> str:
    """The last line that `setup.py build_ext` says when it fails."""
    arguments = ["build_ext", "--build-lib", str(folder), "--build-temp", str(folder)]
    command = [sys.executable, "-c", program, *arguments]
    outcome = subprocess.run(command, cwd=root, env={**os.environ, **environ}, capture_output=True, text=True)
    assert outcome.returncode == 1
    return outcome.stderr.strip().splitlines()[-1]


RUN = "import runpy; runpy.run_path('setup.py', run_name='__main__')"


def test_no_compiler(root: Path, tmp_path: Path) -> None:
    said = build(root, tmp_path, RUN, CC="no-such-compiler")
    assert said.startswith("ascend_rt: the C core could not be compiled (")
    assert said.endswith("on Debian and Ubuntu: apt install gcc python3-dev")


def test_no_headers(root: Path, tmp_path: Path) -> None:
    no_headers = (
        "import sysconfig; paths = sysconfig.get_paths;"
        f"sysconfig.get_paths = lambda *a, **k: {{**paths(*a, **k), 'include': {str(tmp_path)!r}}};"
    )
    said = build(root, tmp_path, no_headers + RUN)
    assert said == "ascend_rt: Python.h is missing; on Debian and Ubuntu: apt install python3-dev gcc"
