"""The end of a communicator on one rank: who waits for that rank learns who has ended it; what is in use stays."""

from typing import Any

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt import acl, hccl
from ascend_rt.hccl import Communicator, HcclResult
from ascend_rt.testing import RankPool

pytestmark = pytest.mark.processes

OK, AGAIN = HcclResult.HCCL_SUCCESS, HcclResult.HCCL_E_AGAIN
FP32 = hccl.HcclDataType.HCCL_DATA_TYPE_FP32


def told_who(comm: Communicator, how: str) -> tuple[str, tuple[int, ...], str]:
    """Rank 1 has made all calls that there are, and lives on; the others make one more."""
    sub = comm.split(0, -comm.rank)  # ranks are the other way round
    assert sub is not None
    sums = sub.all_reduce(np.arange(3000.0))
    assert np.array_equal(sums, comm.size * np.arange(3000.0))
    failed = "HCCL_SUCCESS", (), ""
    if comm.rank == 1:
        sub.destroy()
    else:
        stream, x = rt.Stream(), np.ones(2)
        try:
            if how == "recv":
                sub.recv(x, 1)
            else:
                sub.all_reduce(x, stream=stream)
            stream.synchronize()
        except rt.HcclError as error:
            failed = error.name, error.ranks, str(error)
    comm.barrier()  # no other communicator has ended
    return failed


@pytest.mark.parametrize("how", ["queued", "recv"])
def test_who_has_destroyed_it(ranks: RankPool, how: str) -> None:
    told = ranks.run(3, told_who, how)
    for name, at_fault, text in (told[0], told[2]):
        assert (name, at_fault) == ("HCCL_E_REMOTE", (1,))
        assert "rank 1 (rank 1 of the job) has destroyed this communicator while others waited for it" in text


def a_message_in_use(comm: Communicator) -> list[HcclResult]:
    """A receive that is queued is a use, as a collective is."""
    assert acl.rt.set_device(comm.rank) == 0
    handle, (x, _) = hccl.handle_of(comm.split(0)), acl.rt.malloc(4, 0)
    waits, _ = acl.rt.create_notify(0)
    assert acl.rt.wait_and_reset_notify(waits, 0, 0) == 0
    call = hccl.HcclSend if comm.rank else hccl.HcclRecv
    assert call(x, 1, FP32, 1 - comm.rank, handle, 0) is OK
    stream, _ = acl.rt.create_stream()
    results = [hccl.HcclCommDestroy(handle)]
    assert acl.rt.record_notify(waits, stream) == 0 and acl.rt.synchronize_stream(0) == 0
    return [*results, hccl.HcclCommDestroy(handle)]


def test_a_message_in_use(ranks: RankPool) -> None:
    assert ranks.run(2, a_message_in_use) == [[AGAIN, OK]] * 2


def finalized(comm: Communicator) -> str:
    if comm.rank == 0:
        rt.finalize()
        return ""
    try:
        comm.barrier()
    except rt.HcclError as error:
        return f"{error.name} {error.ranks}"
    return "nothing"


def test_a_rank_that_has_finalized(ranks: RankPool) -> None:
    """Whether its process has ended by then or not."""
    assert ranks.run(2, finalized) == ["", "HCCL_E_REMOTE (0,)"]


def never_collected(comm: Communicator) -> int:
    """A communicator that nobody refers to any more is destroyed; one with a call queued is not, until that is over."""
    stream, x = rt.Stream(), np.ones(2) * comm.rank
    sub: Any = comm.split(0)
    sub.all_reduce(x, stream=stream)
    del sub
    stream.synchronize()
    return int(x[0])


def test_what_is_queued_runs_when_nobody_refers_to_it(ranks: RankPool) -> None:
    assert ranks.run(3, never_collected) == [3, 3, 3]
