"""Streams as native threads: queued calls, events, failures, cancelling, under both sanitizers and without Python."""

import random
import re
from collections.abc import Callable
from typing import Literal

import pytest

pytestmark = pytest.mark.threads

PROGRAM = [f"tests/core/native/{name}.c" for name in ("streams", "queueing", "slots")]
STREAMS = [f"ascend_rt/core/{name}.c" for name in ("stream", "mark", "queue", "flag", "value")]
BATCHES = {"thread": 40, "address": 100}
SIZES = [(3, 1), *(pytest.param(size, times, marks=pytest.mark.thorough) for size, times in ((1, 2), (2, 3), (3, 2)))]


@pytest.mark.parametrize(("size", "times"), SIZES)
def test_random_batches(
    random_run: Callable[..., tuple[int, str]], sanitizer: Literal["thread", "address"], size: int, times: int
) -> None:
    batches = times * BATCHES[sanitizer]
    seed, said = random_run([*PROGRAM, *STREAMS], size, batches)
    found = re.fullmatch(
        rf"streams of {size} ranks, seed {seed}: {batches} batches, (\d+) failed, (\d+) committed\n", said
    )
    assert found and all(int(number) > 0 for number in found.groups()), said


def test_dropped_tasks(compile_and_run: Callable[..., str], engine: list[str], sanitizer: str) -> None:
    sources = ["tests/core/native/aborts.c", *STREAMS, *engine]
    compile_and_run(sources, sanitizer, str(random.randrange(2**32)), "300")
