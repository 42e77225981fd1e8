"""The words of a job that went wrong."""

import dataclasses
import time
from types import SimpleNamespace
from typing import Any

import pytest
from ascend_rt.launcher.ending import RankEnd, job_exit_code
from ascend_rt.launcher.summary import failure_report, how_it_ended, interruption_report, ranks_text, what_ranks_do

from ascend_rt.core._core import Segment
from ascend_rt.diag.vocabulary import AbortKind

pytestmark = pytest.mark.proof


@pytest.mark.parametrize(
    ("ranks", "text"),
    [([2], "rank 2"), ([0, 1], "ranks 0-1"), ([5, 0, 3, 2], "ranks 0, 2-3, 5"), (range(8), "ranks 0-7")],
)
def test_ranks_text(ranks: list[int], text: str) -> None:
    assert ranks_text(ranks) == text


def test_root_cause_last_and_once_consequences_folded() -> None:
    """Eight ranks: 5 dies, six notice, one is ended, and the report is four lines."""
    noticed = AbortKind.DEATH << 24 | 6 << 12
    ends = [RankEnd(rank, 100 + rank, 1, 9_000_000_000, "HcclError: gone", noticed) for rank in (0, 1, 2, 4, 6)]
    ends.append(RankEnd(3, 103, 2, 9_000_000_001))
    ends.append(RankEnd(5, 105, -9, 8_500_000_000))
    ends.append(RankEnd(7, 107, -9, 9_500_000_000, ended_by_us="SIGKILL, too slow"))
    assert failure_report(ends, ["rank 0: waiting"], started=7.25, oom_kills=0) == [
        "rank 0: waiting",
        "rank 7 ended by hccl-run: SIGKILL, too slow",
        "rank 3 failed as well: exit code 2",
        "ranks 0-2, 4, 6 failed because of it: HcclError: gone",
        "rank 5 (process 105) failed first, after 1.25 s: killed by SIGKILL",
    ]


@pytest.mark.parametrize(
    ("late", "text"),
    [
        ({"cause": -9, "ended_by_us": "SIGKILL, stopped", "held": "stopped"}, "was stopped"),
        ({"cause": -15, "ended_by_us": "SIGTERM, not ended"}, "did not come"),
        ({"cause": 1, "failure": AbortKind.TIMEOUT << 24 | 2 << 12 | 1}, "did not come"),
        ({"cause": 0}, "did not come"),
    ],
)
def test_the_rank_that_was_waited_for_in_vain_is_the_cause(late: dict[str, Any], text: str) -> None:
    """Rank 0 gave rank 1 up, rank 2 was told: the exit code is that of rank 0, the fault that of rank 1."""
    gave_up = AbortKind.TIMEOUT << 24 | 2 << 12 | 1
    ends = [RankEnd(0, 100, 3, 9_000_000_000, "no answer", gave_up), RankEnd(2, 102, 4, 8_000_000_000, "", gave_up)]
    ends.append(RankEnd(rank=1, pid=101, at_ns=9_500_000_000, **late))
    report = failure_report(ends, [], started=7.0, oom_kills=0)
    assert report[-2:] == [
        "rank 2 failed because of it",
        f"rank 1 (process 101) {text}; rank 0 gave it up after 2.00 s: no answer",
    ]
    assert job_exit_code(ends) == 3


def test_out_of_memory_is_suspected_only_after_sigkill() -> None:
    killed, raised = RankEnd(0, 9, -9, 0), RankEnd(0, 9, 1, 0)
    assert "memory ran out" in failure_report([killed], [], 0.0, oom_kills=1)[-1]
    assert "memory ran out" not in failure_report([killed], [], 0.0, oom_kills=0)[-1]
    assert "memory ran out" not in failure_report([raised], [], 0.0, oom_kills=1)[-1]


def test_nobody_was_first_where_all_disagreed() -> None:
    """What all ranks raise alike is told once; any other exception, or a rank that says something else, has a first."""
    ends = [RankEnd(rank, 100 + rank, 1, 9_000_000_000 + rank, "HcclError: differs (x.py:1)") for rank in range(3)]
    said = "ranks 0-2 raised the same error, after 2.00 s: HcclError: differs (x.py:1)"
    assert failure_report(ends, ["noise"], started=7.0, oom_kills=0) == ["noise", said]
    boom = [dataclasses.replace(end, words="ValueError: boom (x.py:1)") for end in ends]
    assert "failed first" in failure_report(boom, [], 7.0, 0)[-1]
    other = [*ends[:2], dataclasses.replace(ends[2], words="HcclError: other")]
    assert "rank 0 (process 100) failed first" in failure_report(other, [], 7.0, 0)[-1]


def test_nothing_to_report() -> None:
    assert failure_report([RankEnd(0, 1, 0, 5)], ["noise"], 0.0, 0) == []


def test_how_it_ended() -> None:
    assert how_it_ended(RankEnd(0, 1, -11, 0)) == "killed by SIGSEGV"
    assert how_it_ended(RankEnd(0, 1, 3, 0)) == "exit code 3"
    assert how_it_ended(RankEnd(0, 1, 1, 0, "ValueError: boom (x.py:1)")) == "ValueError: boom (x.py:1)"
    assert how_it_ended(RankEnd(0, 1, 0, 0)) == "left with exit code 0 while others waited for it"


def test_interruption_says_where() -> None:
    ends = [RankEnd(rank, 1, 130, 0, "KeyboardInterrupt (x.py:7)") for rank in range(3)]
    assert interruption_report([*ends, RankEnd(3, 1, -9, 0)]) == ["ranks 0-2 ended: KeyboardInterrupt (x.py:7)"]


def test_what_ranks_do() -> None:
    """Ranks that just run are not worth a line; those that wait alike share one."""
    runs = Segment.create(3, 3, 64 << 20, 1 << 20, 1 << 20).rank_line(2)
    since = time.monotonic_ns() - 2_000_000_000
    waits: Any = SimpleNamespace(pid=0, waits_for=2, wait_call=17, wait_collective=2, wait_since_ns=since)
    assert what_ranks_do({0: waits, 1: waits, 2: runs, 3: runs}) == [
        "ranks 0-1: waiting for rank 2 in all_reduce #17, for 2.0 s",
        "rank 2: process 0 is gone, and in no collective",
    ]
