"""The job's memory: its parts, its seals, and descriptors that hold no segment or a damaged one."""

import random
from collections.abc import Callable

import pytest

pytestmark = pytest.mark.threads

SOURCES = ["tests/core/native/segment.c", "ascend_rt/core/segment.c"]


def test_create_and_attach(compile_and_run: Callable[..., str]) -> None:
    compile_and_run(SOURCES, "address", "good")


def test_hostile_descriptors_are_refused(compile_and_run: Callable[..., str]) -> None:
    said = compile_and_run(SOURCES, "address", "hostile", str(random.randrange(2**32)), "3000")
    assert said.endswith("forged headers are harmless\n")


def test_a_small_address_space_says_no_memory(compile_and_run: Callable[..., str]) -> None:
    compile_and_run(SOURCES, "none", "small_address_space")
