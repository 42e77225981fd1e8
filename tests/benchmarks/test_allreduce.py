"""The arithmetic of allreduce.py, and one short run of the whole script."""

import argparse
import io
import json
import subprocess
import sys
from pathlib import Path

import allreduce
import pytest
from rich.console import Console

BENCHMARKS = Path(allreduce.__file__).parent


class Scripted:
    """A side whose calls take the given times, and that remembers what it was asked."""

    def __init__(self, name: str, times: list[float]) -> None:
        self.name, self.times = name, iter(times)
        self.asked: list[tuple[int, int, int]] = []

    def measure(self, nbytes: int, calls: int, batches: int) -> float:
        self.asked.append((nbytes, calls, batches))
        return next(self.times)

    def close(self) -> None:
        raise AssertionError("measure must not close a side")


def verdict(times: dict[int, dict[str, list[float]]], size: int) -> tuple[int, str]:
    said = io.StringIO()
    return allreduce.judge(times, size, Console(file=said, width=200)), said.getvalue()


@pytest.mark.parametrize(("text", "nbytes"), [("8", 8), ("64K", 65536), ("16m", 1 << 24), ("1G", 1 << 30)])
def test_sizes_are_read(text: str, nbytes: int) -> None:
    assert allreduce.nbytes_of(text) == nbytes


@pytest.mark.parametrize("text", ["", "0", "12", "K", "-8", "8KB", "1.5M"])
def test_other_sizes_are_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="multiple of 8, not"):
        allreduce.nbytes_of(text)


def test_the_ladder_holds_both_ends_and_the_powers_of_four_between() -> None:
    assert allreduce.ladder(8, 64) == [8, 16, 64]
    assert allreduce.ladder(24, 24) == [24]
    steps = allreduce.ladder(8, 64 << 20)
    assert {bound.nbytes for bound in allreduce.BOUNDS} <= set(steps) and len(steps) == 13


def test_a_ratio_is_taken_within_each_round() -> None:
    # The machine slowed down threefold in the second round; both sides met it.
    times = {"ours": [2.0, 6.0, 2.2], "limit": [1.0, 3.0, 1.0]}
    assert allreduce.ratio(times, "limit") == 2.0


@pytest.mark.parametrize(("round_us", "batches"), [(allreduce.ROUND_US, 14), (allreduce.CROWDED_ROUND_US, 149)])
def test_sides_take_turns_with_the_effort_of_their_calibration(round_us: float, batches: int) -> None:
    quick = Scripted("ours", [1.0, 1.0, 1.1, 1.2])
    slow = Scripted("limit", [9e9, 50_000.0, 7.0, 8.0])
    times = allreduce.measure([quick, slow], 1 << 20, 2, round_us)
    assert times == {"ours": [1.1, 1.2], "limit": [7.0, 8.0]}
    assert quick.asked[2:] == [(1 << 20, 2001, batches)] * 2
    few = max(allreduce.FEWEST_BATCHES, int(round_us / 50_000.0))
    assert slow.asked[2:] == [(1 << 20, 1, few)] * 2


def test_bounds_that_hold_and_bounds_that_are_missed() -> None:
    times = {
        8: {"limit": [0.2, 0.2, 0.3], "ours": [0.59, 0.61, 0.69], "mpi4py": [0.8, 0.8, 0.8]},
        64 << 10: {"limit": [2.0], "ours": [4.1]},
        16 << 20: {"limit": [100.0], "ours": [130.0]},
    }
    missed, said = verdict(times, 2)
    assert missed == 1
    assert "missed  2 ranks, 64 KB: ours <= 2.0 x limit: at 102% of it" in said
    assert said.count("held") == 3


def test_a_size_that_was_not_measured_is_missed_and_a_peer_that_did_not_run_is_said() -> None:
    missed, said = verdict({8: {"limit": [1.0], "ours": [1.0]}}, 2)
    assert missed == 2
    assert "16 MB: ours <= 1.3 x limit: not measured" in said
    assert "mpi4py did not run" in said


def test_check_wants_a_number_of_ranks_that_has_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        allreduce.parse(["-n", "3", "--check"])
    assert "--check knows bounds for -n [2, 8], not for -n 3" in capsys.readouterr().err


@pytest.mark.processes
@pytest.mark.skipif(not (Path(sys.executable).parent / "hccl-run").exists(), reason="ascend_rt is not installed")
def test_the_script_measures_both_sides(tmp_path: Path) -> None:
    report = tmp_path / "times.json"
    command = [sys.executable, str(BENCHMARKS / "allreduce.py"), "-n", "2", "-b", "8", "-e", "1K", "--rounds", "1"]
    done = subprocess.run([*command, "--json", str(report)], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    times = json.loads(report.read_text())["us"]
    assert list(times) == ["8", "16", "64", "256", "1024"]
    assert all(row[side][0] > 0 and len(row[side]) == 1 for row in times.values() for side in ("limit", "ours"))
    assert "ours/limit" in done.stdout
