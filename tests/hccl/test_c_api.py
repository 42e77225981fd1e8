"""HCCL by its C names: values, the result of every wrong argument, and that all ranks learn of a wrong one."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ascend_rt as rt
from ascend_rt import acl, hccl
from ascend_rt.acl import util
from ascend_rt.hccl import HcclDataType, HcclReduceOp, HcclResult
from ascend_rt.testing import RankPool

from ..answers import made

pytestmark = pytest.mark.processes

FP32, SUM = HcclDataType.HCCL_DATA_TYPE_FP32, HcclReduceOp.HCCL_REDUCE_SUM
OK, PARA, PTR = HcclResult.HCCL_SUCCESS, HcclResult.HCCL_E_PARA, HcclResult.HCCL_E_PTR
NOT_SUPPORT, RUNTIME = HcclResult.HCCL_E_NOT_SUPPORT, HcclResult.HCCL_E_RUNTIME
N = 300


def set_up(comm: rt.Communicator) -> tuple[int, int]:
    """(communicator, stream) of this rank."""
    assert acl.rt.set_device(comm.rank) == 0
    root_info = made(hccl.HcclGetRootInfo())
    return made(hccl.HcclCommInitRootInfo(comm.size, root_info, comm.rank)), made(acl.rt.create_stream())


def buffer(values: Any) -> int:
    address: int = made(acl.rt.malloc(values.nbytes, 0))
    util.ptr_to_numpy(address, values.shape, values.dtype)[...] = values
    return address


def values_of(rank: int, n: int = N) -> Any:
    return np.random.default_rng(rank).integers(-9, 10, n).astype(np.float32)


def every_collective(comm: rt.Communicator) -> None:
    handle, stream = set_up(comm)
    size, rank = comm.size, comm.rank
    everyone = [values_of(r) for r in range(size)]
    assert hccl.HcclGetRankSize(handle) == (size, OK) and hccl.HcclGetRankId(handle) == (rank, OK)

    x, out = buffer(values_of(rank)), buffer(np.zeros(N, np.float32))
    assert hccl.HcclAllReduce(x, out, N, FP32, SUM, handle, stream) is OK
    # What is queued behind it on the stream sees its result, and a block that is freed lives until then.
    host = made(acl.rt.malloc_host(4 * N))
    assert acl.rt.memcpy_async(host, 4 * N, out, 4 * N, acl.ACL_MEMCPY_DEVICE_TO_HOST, stream) == 0
    assert acl.rt.memset_async(out, 4 * N, 0, 4 * N, stream) == 0
    assert hccl.HcclAllReduce(out, out, N, acl.ACL_FLOAT, SUM, handle, stream) is OK
    assert acl.rt.free(x) == 0 and acl.rt.synchronize_stream(stream) == 0
    assert np.array_equal(util.ptr_to_numpy(host, (N,), np.float32), sum(everyone))
    assert not util.ptr_to_numpy(out, (N,), np.float32).any()

    shared = buffer(values_of(rank))
    assert hccl.HcclBroadcast(shared, N, FP32, size - 1, handle, 0) is OK
    assert hccl.HcclBarrier(handle, 0) is OK and acl.rt.synchronize_stream(0) == 0
    assert np.array_equal(util.ptr_to_numpy(shared, (N,), np.float32), everyone[-1])

    whole = buffer(np.zeros(N * size, np.float32))
    assert hccl.HcclAllGather(buffer(everyone[rank]), whole, N, int(FP32), handle, stream) is OK
    part = buffer(np.zeros(N, np.float32))
    assert hccl.HcclReduceScatter(whole, part, N, FP32, HcclReduceOp.HCCL_REDUCE_MAX, handle, stream) is OK
    assert acl.rt.synchronize_stream(stream) == 0
    assert np.array_equal(util.ptr_to_numpy(whole, (size, N), np.float32), everyone)
    assert np.array_equal(util.ptr_to_numpy(part, (N,), np.float32), everyone[rank])

    root, none = size - 1, 0
    reduced = buffer(np.zeros(N, np.float32)) if rank == root else none
    assert hccl.HcclReduce(buffer(everyone[rank]), reduced, N, FP32, SUM, root, handle, stream) is OK
    assert hccl.HcclScatter(whole if rank == root else none, part, N, FP32, root, handle, stream) is OK
    exchanged = buffer(np.zeros(N * size, np.float32))
    assert hccl.HcclAlltoAll(whole, N, FP32, exchanged, N, FP32, handle, stream) is OK
    assert acl.rt.synchronize_stream(stream) == 0
    assert rank != root or np.array_equal(util.ptr_to_numpy(reduced, (N,), np.float32), sum(everyone))
    assert np.array_equal(util.ptr_to_numpy(part, (N,), np.float32), everyone[rank])
    assert np.array_equal(util.ptr_to_numpy(exchanged, (size, N), np.float32), [everyone[rank]] * size)
    assert hccl.HcclAlltoAll(whole, N, FP32, exchanged, N + 1, FP32, handle, stream) is PARA
    assert hccl.HcclAlltoAll(whole, N, FP32, whole, N, FP32, handle, stream) is PARA
    assert acl.rt.synchronize_stream(stream) == acl.ACL_ERROR_RT_PARAM_INVALID

    assert hccl.HcclGetCommAsyncError(handle) == (OK, OK)
    assert hccl.HcclAllReduce(0, 0, 0, FP32, SUM, handle, stream) is OK and acl.rt.synchronize_stream(stream) == 0
    assert hccl.HcclCommDestroy(handle) is OK and hccl.HcclCommDestroy(handle) is PARA
    assert hccl.HcclBarrier(handle, stream) is PARA and hccl.HcclGetRankId(handle) == (0, PARA)
    assert comm.all_reduce(rt.array(np.ones(1, np.float32)))[0] == size


@pytest.mark.parametrize("size", [1, 3])
def test_every_collective(ranks: RankPool, size: int) -> None:
    ranks.run(size, every_collective)


def one_rank_is_wrong(comm: rt.Communicator) -> list[tuple[int, int, str]]:
    """Rank 1 passes what is wrong: (result, code of the stream, text) of each case; the communicator works on."""
    handle, stream = set_up(comm)
    good, wrong, told = buffer(values_of(comm.rank)), comm.rank == 1, []
    freed = buffer(values_of(0))
    assert acl.rt.free(freed) == 0
    plain = np.zeros(N, np.float32)
    cases = [
        {"x": freed}, {"x": 0}, {"x": good + 1}, {"x": good + 4}, {"x": util.numpy_to_ptr(plain)}, {"x": 1 << 70},
        {"count": -1}, {"count": 1 << 62}, {"dtype": 99}, {"dtype": acl.ACL_STRING}, {"op": 9}, {"op": -1},
    ]
    for case in cases:
        given = {"x": good, "out": good, "count": N, "dtype": FP32, "op": SUM, **(case if wrong else {})}
        result = hccl.HcclAllReduce(*given.values(), handle, stream)
        code = acl.rt.synchronize_stream(stream)
        told.append((int(result), code, acl.get_recent_err_msg()))
    assert hccl.HcclBroadcast(good, N, FP32, comm.size if wrong else 0, handle, stream) is (PARA if wrong else OK)
    assert acl.rt.synchronize_stream(stream) == acl.ACL_ERROR_RT_PARAM_INVALID
    one = buffer(np.ones(N, np.float32))
    assert hccl.HcclAllReduce(one, one, N, FP32, SUM, handle, stream) is OK
    assert acl.rt.synchronize_stream(stream) == 0
    assert (util.ptr_to_numpy(one, (N,), np.float32) == comm.size).all()
    return told


def test_a_wrong_argument_of_one_rank_is_told_to_all(ranks: RankPool) -> None:
    right, wrong = ranks.run(2, one_rank_is_wrong)
    assert [result for result, _, _ in right] == [0] * 12
    assert [result for result, _, _ in wrong] == [1, 2, 1, 1, 1, 1, 1, 1, 5, 5, 5, 5]
    for case, (_, code, text) in [*enumerate(right), *enumerate(wrong)]:
        expected = acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT if case >= 8 else acl.ACL_ERROR_RT_PARAM_INVALID
        assert code == expected and "rank 1" in text, text
    assert "null pointer" in right[1][2] and "count=-1" in right[6][2] and "dtype=99" in right[8][2]


def ranks_differ(comm: rt.Communicator) -> str:
    handle, stream = set_up(comm)
    x = buffer(values_of(comm.rank))
    for count in (N, N, N - comm.rank):  # the first makes what the others find
        assert hccl.HcclAllReduce(x, x, count, FP32, SUM, handle, stream) is OK
    assert acl.rt.synchronize_stream(stream) == acl.ACL_ERROR_RT_PARAM_INVALID
    text = acl.get_recent_err_msg()
    assert acl.rt.synchronize_stream(stream) == 0
    return text


def test_a_disagreement_comes_out_of_the_stream(ranks: RankPool) -> None:
    for text in ranks.run(2, ranks_differ):
        assert "HCCL_E_PARA (1)" in text and "count=300" in text and "count=299" in text
        assert "test_c_api.py:" in text and "/c_api.py:" not in text and " c_api.py:" not in text


def alone(comm: rt.Communicator) -> None:
    """What one rank can find out by itself."""
    handle, root_info = None, made(hccl.HcclGetRootInfo())
    assert len(root_info) == hccl.HCCL_ROOT_INFO_BYTES == 4108
    assert hccl.HcclCommInitRootInfo(0, root_info, 0) == hccl.HcclCommInitRootInfo(-1, root_info, 0) == (0, PARA)
    assert hccl.HcclCommInitRootInfo(1, root_info, 1) == (0, PARA)
    assert hccl.HcclCommInitRootInfo(1, bytes(4108), 0) == (0, PARA)
    handle = made(hccl.HcclCommInitRootInfo(1, root_info, 0))
    assert hccl.HcclBarrier(handle, 0) is RUNTIME  # no device is set
    handle, stream = set_up(comm)
    for wild in (-1, 1, 1 << 64, stream):
        assert hccl.HcclBarrier(wild, stream) is hccl.HcclCommDestroy(wild) is PARA
        assert hccl.HcclGetCommAsyncError(wild) == hccl.HcclGetRankSize(wild) == (0, PARA)
    assert hccl.HcclBarrier(0, stream) is hccl.HcclCommDestroy(0) is PTR
    assert hccl.HcclBarrier(handle, handle) is PARA
    for wrong in ("1", None, 1.5):
        with pytest.raises(TypeError):
            hccl.HcclBarrier(wrong, stream)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        hccl.HcclCommInitRootInfo(1, "job", 0)  # type: ignore[arg-type]
    assert acl.rt.destroy_stream(stream) == 0 and hccl.HcclBarrier(handle, stream) is PARA
    wild_collectives(handle)


def wild_collectives(handle: int) -> None:
    wild = st.one_of(st.integers(), st.integers(-(1 << 65), 1 << 65), st.sampled_from([0, 1, -1, 1 << 63, 1 << 64]))

    @settings(max_examples=150, deadline=None, database=None)
    @given(send=wild, recv=wild, count=wild.filter(bool), dtype=wild, op=wild)
    def check(send: int, recv: int, count: int, dtype: int, op: int) -> None:
        results = [
            hccl.HcclAllReduce(send, recv, count, dtype, op, handle, 0),
            hccl.HcclBroadcast(send, count, dtype, op, handle, 0),
            hccl.HcclAllGather(send, recv, count, dtype, handle, 0),
            hccl.HcclReduceScatter(send, recv, count, dtype, op, handle, 0),
            hccl.HcclReduce(send, recv, count, dtype, op, 0, handle, 0),
            hccl.HcclScatter(send, recv, count, dtype, 0, handle, 0),
            hccl.HcclAlltoAll(send, count, dtype, recv, count, dtype, handle, 0),
        ]
        assert {*results} <= {PARA, PTR, NOT_SUPPORT}
        refused = (acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT)
        assert acl.rt.synchronize_stream(0) in refused

    check()


def test_wild_and_wrong_handles_give_codes(ranks: RankPool) -> None:
    ranks.run(1, alone)


def only_acl(comm: rt.Communicator) -> None:
    assert acl.rt.set_device(2) == acl.ACL_ERROR_RT_INVALID_DEVICEID
    assert f"rank {comm.rank} was asked for device 2; expected 0 to 1" in acl.get_recent_err_msg()
    assert acl.rt.set_device(comm.rank) == 0
    assert acl.rt.get_device() == (comm.rank, 0) and acl.rt.get_device_count() == (2, 0)


def test_each_rank_has_its_own_device(ranks: RankPool) -> None:
    ranks.run(2, only_acl)


def test_results_have_hccls_words() -> None:
    assert hccl.HcclGetErrorString(0) == "no error" and hccl.HcclGetErrorString(PARA) == "parameter error"
    assert hccl.HcclGetErrorString(25) == hccl.HcclGetErrorString(-(1 << 70)) == "unknown error"
