"""Messages between two ranks, and blocks that differ in count, by their C names."""

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt import acl, hccl
from ascend_rt.hccl import HcclDataType, HcclReduceOp, HcclResult, HcclSendRecvItem, HcclSendRecvType
from ascend_rt.testing import RankPool

from .device_memory import memory

pytestmark = pytest.mark.processes

FP32, SUM = HcclDataType.HCCL_DATA_TYPE_FP32, HcclReduceOp.HCCL_REDUCE_SUM
OK, PARA, PTR = HcclResult.HCCL_SUCCESS, HcclResult.HCCL_E_PARA, HcclResult.HCCL_E_PTR
NOT_SUPPORT = HcclResult.HCCL_E_NOT_SUPPORT
SEND, RECV = HcclSendRecvType.HCCL_SEND, HcclSendRecvType.HCCL_RECV


def set_up(comm: rt.Communicator) -> tuple[int, int]:
    assert acl.init() == 0 and acl.rt.set_device(comm.rank) == 0
    root_info, _ = hccl.HcclGetRootInfo()
    handle, ret = hccl.HcclCommInitRootInfo(comm.size, root_info, comm.rank)
    stream, ret_of_stream = acl.rt.create_stream()
    assert (ret, ret_of_stream) == (OK, 0)
    return handle, stream


def pairs_and_splits(comm: rt.Communicator) -> None:
    handle, stream = set_up(comm)
    rank, size = comm.rank, comm.size
    right, left = (rank + 1) % size, (rank - 1) % size
    source, _x = memory(np.arange(5) + 10 * rank)
    target, got = memory(np.zeros(5))
    calls = [lambda: hccl.HcclSend(source, 5, FP32, right, handle, stream)]
    calls.append(lambda: hccl.HcclRecv(target, 5, acl.ACL_FLOAT, left, handle, stream))
    for call in calls if rank == 0 else calls[::-1]:
        assert call() is OK
    assert acl.rt.synchronize_stream(stream) == 0 and got.tolist() == (np.arange(5) + 10 * left).tolist()

    got[...] = 0
    items = [HcclSendRecvItem(RECV, target, 5, FP32, left), HcclSendRecvItem(SEND, source, 5, FP32, right)]
    assert hccl.HcclBatchSendRecv(items, 2, handle, stream) is OK
    assert acl.rt.synchronize_stream(stream) == 0 and got.tolist() == (np.arange(5) + 10 * left).tolist()

    counts, displs = [1, 3, 0][:size], [4, 0, 0][:size]
    whole, gathered = memory(np.full(5, -1))
    assert hccl.HcclAllGatherV(source, counts[rank], whole, counts, displs, FP32, handle, stream) is OK
    assert acl.rt.synchronize_stream(stream) == 0 and gathered.tolist() == [10, 11, 12, -1, 0]
    part, folded = memory(np.zeros(counts[rank]))
    assert hccl.HcclReduceScatterV(source, counts, displs, part, counts[rank], FP32, SUM, handle, stream) is OK
    sums = size * np.arange(5) + 10 * sum(range(size))
    assert acl.rt.synchronize_stream(stream) == 0
    assert folded.tolist() == sums[displs[rank] :][: counts[rank]].tolist()

    table = np.arange(size)[:, None] + np.arange(size)  # i sends i + j to j
    given, _given = memory(1000 * rank + np.arange(table[rank].sum()))
    room, exchanged = memory(np.zeros(table[:, rank].sum()))
    starts = [0, *np.cumsum(table, axis=1)[rank, :-1]], [0, *np.cumsum(table, axis=0)[:-1, rank]]
    sent, received = table[rank], table[:, rank]
    parts = [1000 * peer + table[peer, :rank].sum() + np.arange(table[peer, rank]) for peer in range(size)]
    assert hccl.HcclAlltoAllV(given, sent, starts[0], FP32, room, received, starts[1], FP32, handle, stream) is OK
    assert acl.rt.synchronize_stream(stream) == 0 and exchanged.tolist() == np.concatenate(parts).tolist()
    exchanged[...] = 0
    assert hccl.HcclAlltoAllVC(given, table.reshape(-1), FP32, room, FP32, handle, stream) is OK
    assert acl.rt.synchronize_stream(stream) == 0 and exchanged.tolist() == np.concatenate(parts).tolist()


@pytest.mark.parametrize("size", [2, 3])
def test_pairs_and_splits(ranks: RankPool, size: int) -> None:
    ranks.run(size, pairs_and_splits)


def refused_by_rank_0(code: HcclResult, words: str) -> bool:
    return words.startswith(f"{code.name} ({int(code)}), EI0003: ") and "refused on rank 0" in words


def wrong_arguments(comm: rt.Communicator) -> None:
    """What is wrong on rank 0 gives its code there, and comes out of the stream on both."""
    handle, stream = set_up(comm)
    x, _x = memory(np.zeros(8))
    wrong, other = comm.rank == 0, 1 - comm.rank
    for address, count, code in ((0, 4, PTR), (x + 2, 4, PARA), (x, 999, PARA), (x, -1, PARA)):
        result = hccl.HcclSend(address, count, FP32, 1, handle, stream) if wrong else None
        assert result is code or hccl.HcclRecv(x, 4, FP32, 0, handle, stream) is OK
        assert acl.rt.synchronize_stream(stream) != 0 and refused_by_rank_0(code, acl.get_recent_err_msg())
    assert hccl.HcclSend(x, 1, FP32, 2, handle, stream) is PARA and hccl.HcclSend(x, 1, FP32, 0, 0, stream) is PTR
    assert hccl.HcclBatchSendRecv([], 0, handle, stream) is PARA
    assert hccl.HcclBatchSendRecv([HcclSendRecvItem(2, x, 1, FP32, other)], 1, handle, stream) is PARA
    items = [HcclSendRecvItem(SEND, 0 if wrong else x, 1, FP32, other), HcclSendRecvItem(RECV, x, 1, FP32, other)]
    assert hccl.HcclBatchSendRecv(items, 2, handle, stream) is (PTR if wrong else OK)
    assert acl.rt.synchronize_stream(stream) != 0
    counts = [5, 4] if wrong else [4, 4]
    assert hccl.HcclAlltoAllV(x, counts, [0, 4], FP32, x, [0, 0], [0, 0], FP32, handle, stream) is OK
    assert acl.rt.synchronize_stream(stream) != 0  # nobody expects what they send
    assert hccl.HcclAlltoAllVC(x, [1, 1, 1], FP32, x, FP32, handle, stream) is PARA
    assert acl.rt.synchronize_stream(stream) != 0
    dtype, code = (99, NOT_SUPPORT) if wrong else (FP32, OK)
    assert hccl.HcclAllGatherV(x, 1, x + 4, [1, 1], [0, 1], dtype, handle, stream) is code
    assert acl.rt.synchronize_stream(stream) != 0 and refused_by_rank_0(NOT_SUPPORT, acl.get_recent_err_msg())
    y, received = memory(np.zeros(1))
    call = hccl.HcclSend(x, 1, FP32, 1, handle, stream) if wrong else hccl.HcclRecv(y, 1, FP32, 0, handle, stream)
    assert call is OK and acl.rt.synchronize_stream(stream) == 0 and not received.any()


def test_a_wrong_argument_of_one_side_is_told_to_the_other(ranks: RankPool) -> None:
    ranks.run(2, wrong_arguments)
