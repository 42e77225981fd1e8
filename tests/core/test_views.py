"""Strided arrays: what a view reads and stores, piece by piece, against a walk over all indices."""

import random
from collections.abc import Callable

import pytest

pytestmark = pytest.mark.threads

CASES = 1000


def test_random_shapes_and_strides(compile_and_run: Callable[..., str]) -> None:
    seed = random.randrange(2**32)
    said = compile_and_run(["tests/core/native/views.c", "ascend_rt/core/view.c"], "address", str(seed), str(CASES))
    assert said == f"views, seed {seed}: {CASES} cases\n"
