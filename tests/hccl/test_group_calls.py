"""HcclGroupStart and HcclGroupEnd: what is in between is issued together."""

from typing import Any

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt import acl, hccl
from ascend_rt.hccl import HcclResult
from ascend_rt.testing import RankPool

from ..answers import made
from .device_memory import memory

pytestmark = pytest.mark.processes

OK, PARA, PTR = HcclResult.HCCL_SUCCESS, HcclResult.HCCL_E_PARA, HcclResult.HCCL_E_PTR
NOT_SUPPORT = HcclResult.HCCL_E_NOT_SUPPORT
FP32, SUM = hccl.HcclDataType.HCCL_DATA_TYPE_FP32, hccl.HcclReduceOp.HCCL_REDUCE_SUM
COUNT = 20_000


def sent(comm: int, source: int, dest: int) -> Any:
    return np.arange(COUNT) + 1000 * comm + 100 * source + dest


def everybody_to_everybody(comm: rt.Communicator) -> None:
    """All sends before all receives, to itself too, on one stream, of two communicators in an order that differs."""
    assert acl.rt.set_device(comm.rank) == 0
    rank, size, stream = comm.rank, comm.size, made(acl.rt.create_stream())
    handles = [hccl.handle_of(comm), hccl.handle_of(comm.split(0))]
    order = [0, 1] if rank == 0 else [1, 0]
    given = {(n, peer): memory(sent(n, rank, peer)) for n in order for peer in range(size)}
    room = {(n, peer): memory(np.zeros(COUNT)) for n in order for peer in range(size)}
    assert hccl.HcclGroupStart() is OK and hccl.HcclGroupStatusGet() == (True, OK)
    for n in order:
        assert hccl.HcclGroupStart() is OK  # groups in a group are part of it
        for peer in range(size):
            assert hccl.HcclSend(given[n, peer][0], COUNT, FP32, peer, handles[n], stream) is OK
        for peer in range(size):
            assert hccl.HcclRecv(room[n, peer][0], COUNT, FP32, peer, handles[n], stream) is OK
        assert hccl.HcclGroupEnd() is OK
    comm.barrier()
    assert not any(x.any() for _, x in room.values())  # nothing has been issued
    assert hccl.HcclGroupEnd() is OK and hccl.HcclGroupStatusGet() == (False, OK)
    assert acl.rt.synchronize_stream(stream) == 0, acl.get_recent_err_msg()
    for (n, peer), (_, x) in room.items():
        assert np.array_equal(x, sent(n, peer, rank))


@pytest.mark.parametrize("size", [1, 3])
def test_sends_and_receives_do_not_wait_for_one_another(ranks: RankPool, size: int) -> None:
    ranks.run(size, everybody_to_everybody)


def collectives(comm: rt.Communicator) -> None:
    assert acl.rt.set_device(comm.rank) == 0
    handle, size, rank = hccl.handle_of(comm), comm.size, comm.rank
    address, x = memory(np.arange(6.0 * size) * (rank + 1))
    part, _ = memory(np.zeros(6))
    total = sum(range(1, size + 1))
    assert hccl.HcclGroupStart() is OK
    assert hccl.HcclReduceScatter(address, part, 6, FP32, SUM, handle, 0) is OK
    assert hccl.HcclAllGather(part, address, 6, FP32, handle, 0) is OK
    assert hccl.HcclAllGatherV(part, 6, address, [6] * size, [6 * r for r in range(size)], FP32, handle, 0) is OK
    assert hccl.HcclBarrier(handle, 0) is OK
    assert acl.rt.synchronize_stream(0) == 0 and x.tolist() == (np.arange(6.0 * size) * (rank + 1)).tolist()
    assert hccl.HcclGroupEnd() is OK
    assert acl.rt.synchronize_stream(0) == 0 and x.tolist() == (np.arange(6.0 * size) * total).tolist()


def test_collectives_come_in_their_order(ranks: RankPool) -> None:
    ranks.run(3, collectives)


def wrong_groups(comm: rt.Communicator) -> None:
    """What is wrong comes out at the end, on the rank that has it; the others learn of it, and go on."""
    assert acl.rt.set_device(comm.rank) == 0
    handle, (address, x), wrong = hccl.handle_of(comm), memory([1, 2, 3]), comm.rank == 0
    assert hccl.HcclGroupEnd() is NOT_SUPPORT
    assert hccl.HcclGroupStart() is OK
    assert hccl.HcclAllReduce(0 if wrong else address, address, 3, FP32, SUM, handle, 0) is OK
    assert hccl.HcclAllReduce(address, address, 3, FP32, SUM, handle, 0) is OK
    assert hccl.HcclGroupEnd() is (PTR if wrong else OK)
    assert not wrong or "send is a null pointer" in acl.get_recent_err_msg()
    assert acl.rt.synchronize_stream(0) != 0 and "refused on rank 0" in acl.get_recent_err_msg()
    assert hccl.HcclGroupStart() is OK
    assert hccl.HcclSend(address, 3, FP32, 1 - comm.rank, handle, 0) is OK
    assert hccl.HcclBarrier(handle, 0) is NOT_SUPPORT  # of another kind
    assert hccl.HcclBatchSendRecv([], 0, handle, 0) is NOT_SUPPORT
    assert hccl.HcclSend(address, 3, FP32, 0, 0, 0) is PTR
    assert hccl.HcclRecv(address, 3 - wrong, FP32, 1 - comm.rank, handle, 0) is OK
    assert hccl.HcclGroupEnd() is NOT_SUPPORT and "collectives in a group of sends" in acl.get_recent_err_msg()
    assert acl.rt.synchronize_stream(0) != 0  # rank 0 expects fewer
    x[...] = comm.rank
    assert hccl.HcclAllReduce(address, address, 3, FP32, SUM, handle, 0) is OK
    assert acl.rt.synchronize_stream(0) == 0 and x.tolist() == [1, 1, 1]


def test_wrong_groups(ranks: RankPool) -> None:
    ranks.run(2, wrong_groups)


def a_failure_beside_the_stream(comm: rt.Communicator) -> str:
    """The batch of the second communicator fails: the stream that waits for it says so, once."""
    assert acl.rt.set_device(comm.rank) == 0
    first, second = hccl.handle_of(comm), hccl.handle_of(comm.split(0))
    (x, _), (y, _), (z, received) = memory([comm.rank + 1]), memory([1, 2]), memory([0])
    assert hccl.HcclGroupStart() is OK
    if comm.rank == 0:
        assert hccl.HcclSend(x, 1, FP32, 1, first, 0) is OK and hccl.HcclSend(y, 2, FP32, 1, second, 0) is OK
    else:
        assert hccl.HcclRecv(z, 1, FP32, 0, first, 0) is OK and hccl.HcclRecv(y, 1, FP32, 0, second, 0) is OK
    assert hccl.HcclGroupEnd() is OK
    assert acl.rt.synchronize_stream(0) == 107000
    told = str(acl.get_recent_err_msg())
    assert received.tolist() == [comm.rank] and acl.rt.synchronize_stream(0) == 0
    return told


def test_a_failure_beside_the_stream(ranks: RankPool) -> None:
    for told in ranks.run(2, a_failure_beside_the_stream):
        assert "count" in told and 'group "world_sub_1_0"' in told


def one_thread_makes_all(_comm: Any) -> None:
    """Communicators of three ranks by one root info, from one thread; they are destroyed in a group, too."""
    for device in range(3):
        assert acl.rt.set_device(device) == 0
    info, comms, sums = made(hccl.HcclGetRootInfo()), [], []
    assert hccl.HcclGroupStart() is OK
    for rank in range(3):
        assert acl.rt.set_device(rank) == 0
        comms.append(made(hccl.HcclCommInitRootInfo(3, info, rank)))
    assert hccl.HcclGetRankSize(comms[0]) == (0, PARA)  # not yet
    assert hccl.HcclGroupEnd() is OK, acl.get_recent_err_msg()
    for rank in range(3):
        assert acl.rt.set_device(rank) == 0
        address, x = memory(np.arange(COUNT) * (rank + 1))
        assert hccl.c_conventions.communicators.get(comms[rank])._memory.holds(x)
        assert hccl.HcclAllReduce(address, address, COUNT, FP32, SUM, comms[rank], 0) is OK
        sums.append(x)
    for rank in range(3):
        assert acl.rt.set_device(rank) == 0 and acl.rt.synchronize_stream(0) == 0, acl.get_recent_err_msg()
        assert hccl.HcclGetRankId(comms[rank]) == (rank, OK) and np.array_equal(sums[rank], np.arange(COUNT) * 6)
    assert hccl.HcclGroupStart() is OK
    assert all(hccl.HcclCommDestroy(comm) is OK for comm in comms) and hccl.HcclGetRankSize(comms[0]) == (3, OK)
    assert hccl.HcclGroupEnd() is OK and hccl.HcclGetRankSize(comms[0]) == (0, PARA)


def test_one_thread_makes_the_communicators_of_all_ranks(ranks: RankPool) -> None:
    ranks.run(1, one_thread_makes_all, environ={"ASCEND_RT_DEVICES": "3"})
