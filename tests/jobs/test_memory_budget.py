"""A step that is out of memory when it is queued trains when it is captured, to the same bits as with enough memory."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.processes

PAGE = Path(__file__).resolve().parents[2] / "docs" / "memory.md"


def losses(outcome: Any) -> dict[str, set[str]]:
    """What the ranks have printed behind each word."""
    assert (outcome.code, outcome.err) == (0, ""), outcome
    told: dict[str, set[str]] = {}
    for line in outcome.out.splitlines():
        word, _, values = line.partition(": ")
        told.setdefault(word, set()).add(values)
    return told


def test_a_step_that_does_not_fit_trains_when_it_is_captured(
    hccl_run: Callable[..., Any], script: Callable[..., Path]
) -> None:
    """The program of docs/memory.md, with all digits of the loss."""
    (program,) = re.findall(r"^```python\n(# hccl-run -n 2 --hbm.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    path = script(program.replace(":.3f}", ":.9g}"))
    small = losses(hccl_run("--no-prefix", "--hbm", "6M", path, n=2))
    large = losses(hccl_run("--no-prefix", "--hbm", "64M", path, n=2))
    assert all("ACL_ERROR_RT_MEMORY_ALLOCATION (207001)" in story for story in small["queued"])
    assert small["captured"] == large["captured"] == large["queued"] and len(large["queued"]) == 1
