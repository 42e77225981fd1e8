"""Ranks as threads on one board and real futexes: random calls, mismatches, refusals, under both sanitizers."""

import re
from collections.abc import Callable
from typing import Literal

import pytest

pytestmark = pytest.mark.threads

PROGRAM = ["tests/core/native/ranks.c"]
ROUNDS = {"thread": {1: 100, 2: 600, 3: 400, 5: 250, 8: 100}, "address": {1: 200, 2: 1500, 3: 1000, 5: 600, 8: 300}}
SIZES = [
    pytest.param(1, marks=pytest.mark.thorough),
    2,
    3,
    pytest.param(5, marks=pytest.mark.thorough),
    pytest.param(8, marks=pytest.mark.thorough),
]


@pytest.mark.parametrize("size", SIZES)
def test_random_calls(
    random_run: Callable[..., tuple[int, str]], sanitizer: Literal["thread", "address"], waiting: str, size: int
) -> None:
    rounds = ROUNDS[sanitizer][size]
    seed, said = random_run(PROGRAM, size, rounds)
    found = re.fullmatch(rf"ranks {size}, seed {seed}: {rounds} rounds, (\d+) committed, (\d+) sleeps\n", said)
    assert found, said
    committed, sleeps = map(int, found.groups())
    assert committed > 0
    assert (sleeps > 0) >= (waiting == "sleep" and size > 1)
