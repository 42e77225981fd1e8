"""How calls end that do not end well: timeouts, deaths, exits, interrupts, each at the point where it hurts most.

No time passes and nothing depends on it: ranks stand still on a stage (native/stage.h) and a scenario moves them.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

pytestmark = pytest.mark.threads

NATIVE = "tests/core/native"
SCENARIOS = ["endings_round.c", "endings_data.c", "endings_numbers.c"]
PROGRAM = [f"{NATIVE}/{name}" for name in ("endings.c", "stage.c", "stage_host.c", *SCENARIOS)]


def names() -> list[str]:
    """Of the scenarios, in the order of the tables at the end of each file."""
    folder = Path(__file__).parent / "native"
    return [name for file in SCENARIOS for name in re.findall(r'^ {4}\{"(.+)", \d,', (folder / file).read_text(), re.M)]


def test_all_scenarios(
    compile_and_run: Callable[..., str],
    engine: list[str],
    plan_file: Callable[..., str],
    sanitizer: Literal["thread", "address"],
) -> None:
    assert compile_and_run([*PROGRAM, *engine], sanitizer, plan_file(2, 3)).splitlines() == names()
