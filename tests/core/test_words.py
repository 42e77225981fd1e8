"""Flags and values, the words that streams set and wait for, under both sanitizers and without Python."""

from collections.abc import Callable

import pytest

pytestmark = pytest.mark.threads

SOURCES = ["tests/core/native/words.c", *(f"ascend_rt/core/{name}.c" for name in ("flag", "value", "wait"))]


def test_what_was_stored_before_a_word_is_seen_behind_it(compile_and_run: Callable[..., str]) -> None:
    compile_and_run(SOURCES, "thread", "pass", "2000")


def test_each_setting_of_a_flag_is_taken_once(compile_and_run: Callable[..., str]) -> None:
    compile_and_run(SOURCES, "thread", "share", "2000")


def test_limits_and_tests_of_values(compile_and_run: Callable[..., str]) -> None:
    compile_and_run(SOURCES, "address", "late")


def test_a_pause_of_the_waiter_is_not_time_waited(compile_and_run: Callable[..., str]) -> None:
    compile_and_run(SOURCES, "address", "paused")
