"""Ranks as threads that exchange blocks which differ in count, under both sanitizers and without Python."""

import random
import re
from collections.abc import Callable
from typing import Literal

import pytest

pytestmark = [pytest.mark.threads, pytest.mark.thorough]

PROGRAM = ["tests/core/native/splits.c"]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8])
def test_random_tables(
    compile_and_run: Callable[..., str],
    engine: list[str],
    plan_file: Callable[..., str],
    sanitizer: Literal["thread", "address"],
    size: int,
) -> None:
    seed, rounds = random.randrange(2**32), 200
    said = compile_and_run([*PROGRAM, *engine], sanitizer, str(size), str(seed), str(rounds), plan_file(size))
    found = re.fullmatch(rf"splits of {size} ranks, seed {seed}: {rounds} rounds, (\d+) failed\n", said)
    assert found and 0 < int(found[1]) < rounds, said
