"""Emulated links by a clock that only sleeping moves."""

from collections.abc import Callable

import pytest

pytestmark = pytest.mark.threads


def test_what_is_booked_and_how_long_is_slept(compile_and_run: Callable[..., str], engine: list[str]) -> None:
    assert compile_and_run(["tests/core/native/links.c", *engine], "address") == "links\n"
