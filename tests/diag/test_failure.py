"""Words for an abort word and for what ranks are doing, from the control area of a segment made for the test."""

import os

import pytest

from ascend_rt.core._core import Segment
from ascend_rt.diag.failure import cause_in_words, describe, ending
from ascend_rt.diag.vocabulary import AbortKind, RankState, split_abort_word

pytestmark = pytest.mark.threads


def abort_word(kind: AbortKind, culprit: int, raiser: int) -> int:
    return kind << 24 | (culprit + 1) << 12 | (raiser + 1)


@pytest.fixture
def segment() -> Segment:
    segment = Segment.create(3, 3, 2 << 20, 6 << 20, 2 << 20)
    for rank in range(3):
        segment.set_state(rank, RankState.RUNNING, pid=os.getpid())
    return segment


def test_endings() -> None:
    assert ending(0) == "exit code 0"
    assert ending(3) == "exit code 3"
    assert ending(-9) == "killed by signal 9 (SIGKILL)"
    assert ending(-63) == "killed by signal 63 (unknown)"


def test_the_server_names_the_dead_and_the_first_cause_stays(segment: Segment) -> None:
    segment.set_state(1, RankState.DEAD, cause=-11, pid=4321)
    segment.raise_abort(AbortKind.DEATH, 1)
    segment.raise_abort(AbortKind.DEATH, 2)
    assert split_abort_word(segment.abort_word()) == (AbortKind.DEATH, 1, -1)
    assert cause_in_words(segment.abort_word(), segment) == (
        "rank 1 died: killed by signal 11 (SIGSEGV), process 4321"
    )


def test_left(segment: Segment) -> None:
    segment.set_state(2, RankState.LEFT)
    words = cause_in_words(abort_word(AbortKind.LEFT, 2, 0), segment)
    assert words == "rank 2 left (exit code 0) while others waited for it"


def test_destroyed(segment: Segment) -> None:
    word = abort_word(AbortKind.DESTROYED, 2, 0)
    told = "rank 2 has destroyed this communicator while others waited for it; process"
    assert cause_in_words(word, segment) == f"{told} {os.getpid()}: running"
    segment.set_state(2, RankState.LEFT)
    assert cause_in_words(word, segment) == f"{told} {os.getpid()}: exit code 0"


def test_a_timeout_says_what_the_missing_process_does(segment: Segment) -> None:
    word = abort_word(AbortKind.TIMEOUT, 2, 0)
    assert cause_in_words(word, segment, 5.0) == (
        f"rank 2 did not arrive within 5 s (rank 0 gave up); its process {os.getpid()} is running"
    )
    segment.set_state(2, RankState.DEAD, cause=-9)
    assert "has ended since: killed by signal 9 (SIGKILL)" in cause_in_words(word, segment, 5.0)


def test_every_rank_has_a_line(segment: Segment) -> None:
    segment.set_state(1, RankState.DEAD, cause=2)
    text = describe(abort_word(AbortKind.DEATH, 1, -1), segment, 0, 'all_reduce #4 of group "world"')
    lines = text.splitlines()
    assert lines[0].startswith('all_reduce #4 of group "world": rank 1 died: exit code 2')
    assert lines[1] == "  rank 0  running, no collective yet     <- this rank"
    assert lines[2] == "  rank 1  dead, exit code 2, no collective yet"
    assert lines[3] == "  rank 2  running, no collective yet"
    assert lines[4].endswith("This communicator has ended on every rank.")
