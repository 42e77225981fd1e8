"""comm.resync(): after a mismatch that left the ranks with different call numbers they go on, with right results."""

from typing import Any

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt.testing import RankPool

pytestmark = pytest.mark.processes


def error_of(call: Any) -> str:
    try:
        call()
    except rt.HcclError as error:
        return str(error)
    return "no error"


def sum_of_ranks(comm: rt.Communicator, count: int, stream: rt.Stream | None = None) -> bool:
    x = rt.array(np.arange(float(count)) + comm.rank)
    comm.all_reduce(x, stream=stream)
    if stream is not None:
        stream.synchronize()
    return np.array_equal(x, comm.size * np.arange(float(count)) + comm.size * (comm.size - 1) / 2)


def shift(comm: rt.Communicator, extra: int) -> list[str]:
    """Rank 1 queues `extra` calls behind one that disagrees: they are counted there and nowhere else."""
    x, stream = rt.zeros(8 + (comm.rank == 1)), rt.Stream()
    if comm.rank == 1:
        for _ in range(1 + extra):
            comm.all_reduce(x, stream=stream)
        return [error_of(stream.synchronize)]
    return [error_of(lambda: comm.all_reduce(x))]


def resync_after_a_shift(comm: rt.Communicator) -> list[Any]:
    found: list[Any] = shift(comm, extra=3)
    found.append(error_of(lambda: comm.all_reduce(rt.zeros(8))))
    stream = rt.Stream()
    for _ in range(2):  # the second finds equal numbers
        comm.resync()
        found += [sum_of_ranks(comm, 5), sum_of_ranks(comm, 50_000), sum_of_ranks(comm, 5, stream)]
    return found


@pytest.mark.parametrize("size", [2, 3, 4])
def test_after_a_shift_all_ranks_go_on(ranks: RankPool, size: int) -> None:
    for first, shifted, *right in ranks.run(size, resync_after_a_shift):
        assert "do not agree on count" in first
        assert "do not agree on the number of calls" in shifted
        assert "all_reduce #2 / all_reduce #5" in shifted and "comm.resync() on all" in shifted
        assert right == [True] * 6


def resync_with_queued_work(comm: rt.Communicator) -> list[Any]:
    """Nobody has told rank 1 yet when it comes to the resync: what it had queued is over by then."""
    x, stream = rt.array(np.arange(8.0 + (comm.rank == 1))), rt.Stream()
    kept, found = x.copy(), []
    if comm.rank == 1:
        for _ in range(4):
            comm.all_reduce(x, stream=stream)
    else:
        found.append(error_of(lambda: comm.all_reduce(x)))
    comm.resync()
    found.append(sum_of_ranks(comm, 20))
    if comm.rank == 1:
        found.insert(0, error_of(stream.synchronize))
    return [*found, np.array_equal(x, kept), sum_of_ranks(comm, 20, stream)]


@pytest.mark.parametrize("size", [2, 3])
def test_queued_calls_are_over_when_the_resync_is_done(ranks: RankPool, size: int) -> None:
    for told, *right in ranks.run(size, resync_with_queued_work):
        assert "do not agree on count" in told and "all_reduce #1" in told
        assert right == [True] * 3


def another_call(comm: rt.Communicator) -> tuple[str, bool]:
    text = error_of(lambda: comm.all_reduce(rt.zeros(8)) if comm.rank == 2 else comm.resync())
    comm.resync()
    return text, sum_of_ranks(comm, 9)


def test_a_rank_that_makes_another_call_is_told_to_all(ranks: RankPool) -> None:
    for text, right in ranks.run(3, another_call):
        head, *lines = text.splitlines()
        assert "HCCL_E_PARA (1), EI0005" in head and "all_reduce #1 / resync #1" in head
        assert "do not agree on collective" in head
        said = [line.split(")  ")[1] for line in lines[:3]]
        assert [words.split()[0] for words in said] == ["resync", "resync", "all_reduce"]
        assert said[2].startswith("all_reduce count=8 dtype=float32 op=sum  !")
        assert right


def alone(comm: rt.Communicator) -> bool:
    comm.resync()
    return sum_of_ranks(comm, 4)


def test_alone_it_does_nothing(ranks: RankPool) -> None:
    assert ranks.run(1, alone) == [True]


def after_the_end(comm: rt.Communicator) -> tuple[str, str]:
    if comm.rank == 1:
        return "", ""
    errors = [error_of(comm.barrier), error_of(comm.resync)]
    comm.destroy()
    with pytest.raises(RuntimeError, match="this communicator was destroyed"):
        comm.resync()
    return errors[0], errors[1]


def test_an_ended_communicator_names_the_first_cause(ranks: RankPool) -> None:
    """Rank 1 has finalized, and ends."""
    first, again = ranks.run(2, after_the_end)[0]
    (cause,) = (words for words in ("rank 1 has destroyed this communicator", "rank 1 left") if words in first)
    assert again.startswith("HCCL_E_REMOTE (21): resync #2") and cause in again
    assert "This communicator has ended on every rank." in again
