"""Which failure came first, what follows for the exit code, and which signal is due when."""

import itertools
import signal
from typing import Any

import pytest
from ascend_rt.launcher.ending import Escalation, RankEnd, exit_code, first_failure, job_exit_code
from hypothesis import given
from hypothesis import strategies as st

from ascend_rt.diag.vocabulary import AbortKind

pytestmark = pytest.mark.proof

SERVER = -1


def end(rank: int, cause: int, at: int, **how: Any) -> RankEnd:
    return RankEnd(rank, 1000 + rank, cause, at, **how)


def word(kind: AbortKind, culprit: int, raiser: int = SERVER) -> int:
    return kind << 24 | (culprit + 1) << 12 | (raiser + 1)


@pytest.mark.parametrize(
    ("ends", "first", "code"),
    [
        ([end(0, 0, 1), end(1, 0, 2)], None, 0),
        ([end(0, 0, 1), end(1, 3, 2)], 1, 3),
        ([end(0, 2, 3), end(1, 3, 2)], 1, 3),
        ([end(0, -9, 1), end(1, 1, 2)], 0, 137),
        # Whoever only noticed is not the cause, even if it was seen to end earlier.
        ([end(0, 1, 1, failure=word(AbortKind.DEATH, 1)), end(1, -9, 2)], 1, 137),
        ([end(0, 1, 1, failure=word(AbortKind.DEATH, 1)), end(1, -9, 2), end(2, 5, 3)], 1, 137),
        # It left with 0 while another waited for it; had nobody waited, it would be nobody's fault.
        ([end(0, 3, 2, failure=word(AbortKind.LEFT, 1, 0)), end(1, 0, 1)], 1, 1),
        ([end(0, 3, 2), end(1, 0, 1)], 0, 3),
        # A chain: 0 noticed that 1 had left, which had noticed that 2 was dead.
        (
            [
                end(0, 4, 3, failure=word(AbortKind.LEFT, 1, 0)),
                end(1, 5, 2, failure=word(AbortKind.DEATH, 2)),
                end(2, -11, 1),
            ],
            2,
            139,
        ),
        # Who gave up waiting is the cause for those who were told.
        (
            [
                end(0, 1, 1, failure=word(AbortKind.TIMEOUT, 2, 1)),
                end(1, 7, 2, failure=word(AbortKind.TIMEOUT, 2, 1)),
                end(2, -9, 3, ended_by_us="stopped"),
            ],
            1,
            7,
        ),
        # The rendezvous told it.
        ([end(0, 1, 1, let_down_by=1), end(1, 6, 2)], 1, 6),
        # Who was interrupted inside a collective, and who was told.
        (
            [
                end(0, 1, 1, failure=word(AbortKind.INTERRUPT, 1, 1)),
                end(1, 130, 2, failure=word(AbortKind.INTERRUPT, 1, 1)),
            ],
            1,
            130,
        ),
        # Ended by hccl-run: never the cause, unless there is no other.
        ([end(0, -15, 1, ended_by_us="grace"), end(1, 2, 2)], 1, 2),
        ([end(0, -15, 1, ended_by_us="grace"), end(1, 0, 2)], 0, 143),
        # Everybody only noticed somebody: the earliest, rather than none.
        (
            [
                end(0, 1, 2, failure=word(AbortKind.DEATH, 1)),
                end(1, 2, 1, failure=word(AbortKind.DEATH, 0)),
            ],
            1,
            2,
        ),
    ],
)
def test_first_failure(ends: list[RankEnd], first: int | None, code: int) -> None:
    """Whatever the order in which the ends were seen."""
    for order in itertools.permutations(ends):
        found = first_failure(order)
        assert (None if found is None else found.rank) == first
        assert job_exit_code(order) == code


@given(st.lists(st.integers(-64, 255), min_size=1, max_size=6), st.sampled_from([1, 2, 15]))
def test_exit_code_is_zero_exactly_when_all_are(causes: list[int], number: int) -> None:
    ends = [end(rank, cause, rank) for rank, cause in enumerate(causes)]
    assert (job_exit_code(ends) == 0) == (not any(causes))
    assert job_exit_code(ends, interrupted_by=number) == 128 + number
    assert job_exit_code(ends, timed_out=True) == 124


def test_exit_code_of_signals() -> None:
    assert [exit_code(cause) for cause in (0, 1, 255, -signal.SIGKILL, -signal.SIGSEGV)] == [0, 1, 255, 137, 139]


def steps(escalation: Escalation, times: list[float]) -> list[list[int]]:
    return [escalation.take(time) for time in times]


def test_survivors_of_a_failure() -> None:
    escalation = Escalation()
    escalation.first_failure(100.0, grace=2.0)
    assert escalation.due() == 102.0
    assert steps(escalation, [101.9, 102.0, 103.9, 104.1]) == [[], [signal.SIGTERM], [], [signal.SIGKILL]]
    assert escalation.due() is None


def test_a_pause_counts_for_nothing() -> None:
    escalation = Escalation()
    escalation.first_failure(100.0, grace=2.0)
    escalation.postpone(50.0)
    assert steps(escalation, [151.9, 152.0, 154.1]) == [[], [signal.SIGTERM], [signal.SIGKILL]]


def test_long_grace_is_not_doubled() -> None:
    escalation = Escalation()
    escalation.first_failure(0.0, grace=60.0)
    assert steps(escalation, [60.0, 65.0]) == [[signal.SIGTERM], [signal.SIGKILL]]


def test_interrupt_is_over_within_the_grace() -> None:
    escalation = Escalation()
    escalation.forwarded(signal.SIGINT, 10.0, grace=5.0)
    assert steps(escalation, [10.0, 13.0, 14.5]) == [[signal.SIGINT], [signal.SIGTERM], [signal.SIGKILL]]


def test_second_interrupt_is_at_once() -> None:
    escalation = Escalation()
    escalation.forwarded(signal.SIGINT, 10.0, grace=5.0)
    assert escalation.take(10.0) == [signal.SIGINT]
    escalation.at_once(10.5)
    assert escalation.take(10.5) == [signal.SIGKILL]


def test_interrupt_hastens_the_end_of_survivors() -> None:
    escalation = Escalation()
    escalation.first_failure(0.0, grace=100.0)
    escalation.forwarded(signal.SIGTERM, 1.0, grace=5.0)
    assert steps(escalation, [1.0, 6.0]) == [[signal.SIGTERM], [signal.SIGKILL]]
