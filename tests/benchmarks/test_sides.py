"""The probe sums rightly by each of its ways, and a job that ends or says nothing is an error, never a hang."""

import subprocess
import sys
from pathlib import Path

import pytest
import sides

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def limit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sides.compile_limit(tmp_path_factory.mktemp("limit"))


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_the_probe_checks_its_sums_by_every_way(limit: Path, size: int) -> None:
    # 60 bytes fill a line, 16384 a slot; none of the others is a multiple of ranks or of cache lines.
    sizes = [4, 60, 64, 412, 16384, 16388, 1_000_004]
    requests = "".join(f"{nbytes} 3 2\n" for nbytes in sizes)
    done = subprocess.run([limit, str(size)], input=requests, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    answers = [line.split() for line in done.stdout.splitlines()]
    assert [int(nbytes) for nbytes, _, _ in answers] == sizes
    assert all(float(microseconds) > 0 for _, microseconds, _ in answers)
    assert [way for _, _, way in answers[5:]] == ["mesh", "mesh"]


@pytest.mark.parametrize("request_line", ["6 1 1", "8 0 1", "8 1 0", "8 1 2000", "8 1", "4294967300 1 1"])
def test_the_probe_refuses_what_it_cannot_measure(limit: Path, request_line: str) -> None:
    done = subprocess.run([limit, "2"], input=request_line, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("limit: expected NBYTES") and done.stderr.endswith(f"not: {request_line}")


def test_the_probe_answers_as_a_side(tmp_path: Path) -> None:
    probe = sides.Probe(2, tmp_path)
    assert [probe.measure(nbytes, 10, 3) > 0 for nbytes in (8, 4096)] == [True, True]
    probe.close()
    assert probe.process.returncode == 0


def test_a_missing_compiler_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(sides.UnavailableError, match="apt install gcc"):
        sides.compile_limit(tmp_path)


def test_a_job_that_never_comes_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="fake: the job ended with exit code 3"):
        sides.Job("fake", [sys.executable, "-c", "raise SystemExit(3)"], 2, "float32")


def test_a_job_that_ends_under_measurement_is_an_error() -> None:
    program = """
import socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[3])
connection.sendall(b"0 1\\n")
connection.recv(100)
sys.exit(5)
"""
    job = sides.Job("fake", [sys.executable, "-c", program], 1, "float32")
    with pytest.raises(RuntimeError, match="fake: the job ended with exit code 5"):
        job.measure(8, 1, 1)
    with pytest.raises(RuntimeError, match="fake: the job ended with exit code 5"):
        job.close()
