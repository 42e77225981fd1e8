"""hccl-run --tune: measures, prints, and leaves a file by which the next job chooses."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.processes


@pytest.mark.thorough
def test_what_is_measured_is_printed_kept_and_used(
    hccl_run: Callable[..., Any], script: Callable[..., Path], tmp_path: Path
) -> None:
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    outcome = hccl_run("--tune=3", env=cache, timeout=100)
    assert outcome.code == 0, outcome
    (kept,) = (tmp_path / "cache" / "ascend_rt").iterdir()
    assert f"written to {kept}" in outcome.lines
    found = json.loads(kept.read_text())
    assert {row[2] for row in found["rows"]} == {2, 3} and {row[0] for row in found["rows"]} > {"all_reduce", "gather"}
    measured = [line for line in outcome.lines if " bytes per block:  " in line]
    assert all(line.count("*") == 1 for line in measured) and len(measured) > 40
    program = script("import ascend_rt as rt\nprint(rt.init().explain('all_reduce', 8192).machine.constants)")
    told = hccl_run(program, n=2, env=cache)
    constants = ", ".join(f"{name}={found[name]!r}" for name in ("alpha_us", "switch_us", "beta_us_per_byte"))
    assert [constants in line for line in told.lines] == [True, True]


def test_tune_takes_no_program(hccl_run: Callable[..., Any]) -> None:
    outcome = hccl_run("--tune", "4")
    assert outcome.code == 2 and "--tune takes no program, such as '4'; --tune=4 measures 2 and 4 ranks" in outcome.err
