"""The builder of C test programs itself: a sanitizer that finds nothing would prove nothing."""

from collections.abc import Callable

import pytest

PROGRAM = "tests/core/native/faults.c"


def test_program_output_is_returned(compile_and_run: Callable[..., str]) -> None:
    assert compile_and_run([PROGRAM], "none", "print", "rank 2") == "rank 2\n"


@pytest.mark.parametrize(
    ("sanitizer", "fault", "finding"),
    [
        ("address", "overflow", "heap-buffer-overflow"),
        ("address", "misaligned", "misaligned address"),
        ("thread", "race", "data race"),
    ],
)
def test_sanitizer_finds_the_fault(
    compile_and_run: Callable[..., str], sanitizer: str, fault: str, finding: str
) -> None:
    with pytest.raises(AssertionError, match=finding):
        compile_and_run([PROGRAM], sanitizer, fault)


def test_compiler_errors_are_shown(compile_and_run: Callable[..., str]) -> None:
    with pytest.raises(AssertionError, match=r"missing\.c"):
        compile_and_run(["tests/core/native/missing.c"], "none")
