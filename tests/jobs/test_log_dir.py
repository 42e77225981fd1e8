"""--log-dir: what every rank wrote, byte for byte, besides what hccl-run shows."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.processes

SOURCE = """
import os, sys
rank = os.environ["RANK_ID"]
for number in range(1000):
    print("out", rank, number)
    print("err", rank, number, file=sys.stderr)
sys.stdout.buffer.write(b"\\xff no newline")
"""


def test_one_file_per_rank_and_stream(
    hccl_run: Callable[..., Any], script: Callable[..., Path], tmp_path: Path
) -> None:
    folder = tmp_path / "new" / "logs"
    outcome = hccl_run("--log-dir", folder, script(SOURCE), n=3)
    assert outcome.code == 0
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        f"rank_{rank}.{stream}" for rank in range(3) for stream in ("stdout", "stderr")
    )
    for rank in range(3):
        out = "".join(f"out {rank} {number}\n" for number in range(1000)).encode()
        assert (folder / f"rank_{rank}.stdout").read_bytes() == out + b"\xff no newline"
        assert (folder / f"rank_{rank}.stderr").read_bytes() == out.replace(b"out", b"err")
        assert f"[{rank}] out {rank} 999" in outcome.lines


def test_files_of_an_earlier_job_are_replaced(
    hccl_run: Callable[..., Any], script: Callable[..., Path], tmp_path: Path
) -> None:
    for word in ("a longer text", "text"):
        assert hccl_run("--log-dir", tmp_path, script(f"print({word!r})"), n=1).code == 0
    assert (tmp_path / "rank_0.stdout").read_text() == "text\n"


def test_a_folder_that_cannot_be(hccl_run: Callable[..., Any], script: Callable[..., Path], tmp_path: Path) -> None:
    path = script("print('never')")
    outcome = hccl_run("--log-dir", path, path, n=1)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == f"hccl-run: --log-dir {path}: File exists\n"


def test_a_file_that_cannot_be(hccl_run: Callable[..., Any], script: Callable[..., Path], tmp_path: Path) -> None:
    blocked = tmp_path / "rank_1.stderr"
    blocked.mkdir()
    outcome = hccl_run("--log-dir", tmp_path, script("import time; time.sleep(600)"))
    assert outcome.code == 1
    assert outcome.err == f"hccl-run: --log-dir: cannot write {blocked}: Is a directory\n"


def test_a_log_that_cannot_be_written_is_told(
    hccl_run: Callable[..., Any], script: Callable[..., Path], tmp_path: Path
) -> None:
    full = tmp_path / "rank_0.stdout"
    full.symlink_to("/dev/full")
    outcome = hccl_run("--log-dir", tmp_path, script("print('seen all the same')"), n=1)
    assert (outcome.code, outcome.out) == (0, "[0] seen all the same\n")
    assert outcome.err == f"hccl-run: {full} could not be written: No space left on device; what came after is lost\n"
