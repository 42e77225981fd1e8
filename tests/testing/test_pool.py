"""The warm pool: results by rank, a failing rank's traceback as the failure, a hang turned into an error."""

import os
import time
from typing import NamedTuple

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt.testing import RankFailure, RankPool

from ..answers import made

pytestmark = pytest.mark.processes


class Finder(NamedTuple):
    """What a rank has found; the test finds the class by the same name."""

    rank: int
    told: str


def through_a_neighbour(comm: rt.Communicator, found: Finder) -> Finder:
    return Finder(comm.rank, made((found.told * comm.rank, 0)))


def place_in_job(comm: rt.Communicator, offset: int) -> tuple[int, int, int]:
    return comm.rank + offset, comm.size, os.getpid()


def fail_on_rank_2(comm: rt.Communicator) -> None:
    if comm.rank == 2:
        raise ValueError("told so by the test")
    comm.barrier()


def rank_0_stays_away(comm: rt.Communicator) -> None:
    if comm.rank:
        comm.all_reduce(rt.array(np.arange(3)))
    else:
        time.sleep(60)


def test_results_come_back_by_rank(ranks: RankPool) -> None:
    results = ranks.run(4, place_in_job, 10)
    assert [result[:2] for result in results] == [(10, 4), (11, 4), (12, 4), (13, 4)]
    assert len({pid for *_, pid in results}) == 4


def test_a_test_file_may_import_its_neighbours_and_pickle_its_classes(ranks: RankPool) -> None:
    assert ranks.run(2, through_a_neighbour, Finder(0, "ab")) == [Finder(0, ""), Finder(1, "ab")]


def test_the_failing_ranks_traceback_is_the_failure(ranks: RankPool) -> None:
    with pytest.raises(RankFailure) as failure:
        ranks.run(3, fail_on_rank_2)
    text = str(failure.value)
    assert "exit code 1" in text
    assert 'raise ValueError("told so by the test")' in text
    assert "rank 2" in text.splitlines()[-1]


def test_a_hang_is_an_error_that_says_who_waits_for_whom(ranks: RankPool) -> None:
    with pytest.raises(RankFailure, match=r"hung for 2 s") as failure:
        ranks.run(3, rank_0_stays_away, timeout=2)
    assert "waiting for rank 0 in all_reduce #1" in str(failure.value)
