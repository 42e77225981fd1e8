"""The arithmetic of collectives.py, and that every rank program makes the calls that it is to compare."""

import json
import subprocess
from pathlib import Path

import collectives
import collectives_rank
import pytest
import sides

from ascend_rt.plan.collectives import COLLECTIVES


def test_a_ratio_is_taken_within_each_round() -> None:
    # The machine slowed down threefold in the second round; both sides met it.
    ours = [{"gather": {64: time}} for time in (2.0, 6.0, 2.2)]
    theirs = [{"gather": {64: time}} for time in (4.0, 12.0, 4.0)]
    assert collectives.ratios(ours, theirs) == {"gather": {64: 0.5}}


@pytest.mark.parametrize(("nbytes", "calls"), [(64, 2000), (1 << 20, 38), (64 << 20, 5)])
def test_large_calls_are_made_less_often(nbytes: int, calls: int) -> None:
    assert collectives_rank.calls_of(nbytes, 2) == calls


@pytest.mark.processes
def test_all_calls_are_measured_at_all_sizes(tmp_path: Path) -> None:
    command = [*sides.hccl_run(2), collectives.PROGRAM, "ours", "64", "4096"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    times = json.loads(done.stdout)
    assert set(times) == {*COLLECTIVES, "there and back"} - {"all_reduce", "barrier"}
    assert all(list(by_size) == ["64", "4096"] and min(by_size.values()) > 0 for by_size in times.values())
