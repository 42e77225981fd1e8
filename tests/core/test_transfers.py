"""Ranks as threads that send and receive on real futexes: singly, in batches, on two threads at once; under both
sanitizers, and without Python."""

import itertools
import random
import re
from collections.abc import Callable
from typing import Any, Literal

import pytest

pytestmark = pytest.mark.threads

PROGRAM = ["tests/core/native/transfers.c"]
WINDOWS = {"thread": {1: 60, 2: 150, 3: 120, 5: 80}, "address": {1: 100, 2: 300, 3: 200, 5: 150}}
CHAOS = 8


def cases() -> list[Any]:
    """The most telling ones by default."""
    every = itertools.product(["thread", "address"], ["spin", "sleep"], [1, 2, 3, 5])
    default = [("thread", "spin", 3), ("thread", "sleep", 2)]
    return [pytest.param(*case, marks=() if case in default else pytest.mark.thorough) for case in every]


@pytest.mark.parametrize(("sanitizer", "waiting", "size"), cases())
def test_random_windows(
    compile_and_run: Callable[..., str],
    engine: list[str],
    sanitizer: Literal["thread", "address"],
    waiting: str,
    size: int,
) -> None:
    run(compile_and_run, engine, sanitizer, waiting, size, WINDOWS[sanitizer][size])


@pytest.mark.parametrize("size", [2, 5])
def test_both_sides_agree_whether_a_message_came_when_the_communicator_ends(
    compile_and_run: Callable[..., str], engine: list[str], size: int
) -> None:
    """Each program ends its communicator once, somewhere."""
    for _ in range(CHAOS):
        run(compile_and_run, engine, "thread", random.choice(["spin", "sleep"]), size, 2)


def run(
    compile_and_run: Callable[..., str],
    engine: list[str],
    sanitizer: Literal["thread", "address"],
    waiting: str,
    size: int,
    windows: int,
) -> None:
    seed = random.randrange(2**32)
    said = compile_and_run([*PROGRAM, *engine], sanitizer, str(size), str(seed), str(windows), waiting)
    found = re.fullmatch(
        rf"transfers of {size} ranks, seed {seed}: {windows} windows, (\d+) done, (\d+) differed\n", said
    )
    assert found and int(found[1]) > 0, said
    assert windows < 50 or int(found[2]) > 0, said
