"""Device memory: every answer of the arena against a model, and two devices that share one budget."""

import random
from collections.abc import Callable

import pytest

pytestmark = pytest.mark.threads

SOURCES = ["tests/core/native/arena.c", "ascend_rt/core/arena.c", "ascend_rt/core/segment.c"]


def test_random_blocks_against_a_model(compile_and_run: Callable[..., str]) -> None:
    compile_and_run(SOURCES, "address", "model", str(random.randrange(2**32)), "20000")


def test_two_devices_share_the_budget(compile_and_run: Callable[..., str]) -> None:
    compile_and_run(SOURCES, "thread", "threads", str(random.randrange(2**32)), "20000")
