"""What becomes of a communicator, by HCCL's C names: suspended, resumed, ended, and who is told."""

from typing import Any

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt import acl, hccl
from ascend_rt.hccl import HcclCommStatePhase, HcclCommStatus, HcclResult
from ascend_rt.testing import RankPool

from ..answers import made
from ..limits import give_up_after_a_second
from .device_memory import memory

pytestmark = pytest.mark.processes

OK, PARA, PTR = HcclResult.HCCL_SUCCESS, HcclResult.HCCL_E_PARA, HcclResult.HCCL_E_PTR
SUSPENDING, NOT_FOUND = HcclResult.HCCL_E_SUSPENDING, HcclResult.HCCL_E_NOT_FOUND
FP32, SUM = hccl.HcclDataType.HCCL_DATA_TYPE_FP32, hccl.HcclReduceOp.HCCL_REDUCE_SUM


def suspended_and_resumed(comm: rt.Communicator) -> None:
    assert acl.rt.set_device(comm.rank) == 0
    handle, (address, x) = hccl.handle_of(comm), memory([comm.rank + 1, 5])
    assert hccl.HcclCommGetStatus("world") == (HcclCommStatus.HCCL_COMM_STATUS_READY, OK)
    assert hccl.HcclCommGetStatus("nobody") == (0, NOT_FOUND)
    assert hccl.HcclAllReduce(address, address, 2, FP32, SUM, handle, 0) is OK
    assert hccl.HcclCommSuspend(handle) is OK and hccl.HcclCommSuspend(handle) is OK  # what is queued still runs
    assert acl.rt.synchronize_stream(0) == 0 and x.tolist() == [3, 10]
    assert hccl.HcclCommGetStatus("world") == (HcclCommStatus.HCCL_COMM_STATUS_SUSPENDING, OK)
    assert hccl.HcclAllReduce(address, address, 2, FP32, SUM, handle, 0) is SUSPENDING
    assert hccl.HcclSend(address, 2, FP32, 1 - comm.rank, handle, 0) is SUSPENDING
    assert hccl.HcclBarrier(handle, 0) is SUSPENDING
    assert hccl.HcclCreateSubCommConfig(handle, 2, [0, 1], 1, comm.rank) == (0, SUSPENDING)
    assert "HcclCommResume" in acl.get_recent_err_msg() and hccl.HcclGetRankSize(handle) == (2, OK)
    assert hccl.HcclCommResume(handle) is OK, acl.get_recent_err_msg()
    assert hccl.HcclGetCommName(handle) == ("world", OK) and hccl.HcclGetRankId(handle) == (comm.rank, OK)
    assert hccl.HcclCommGetStatus("world") == (HcclCommStatus.HCCL_COMM_STATUS_READY, OK)
    assert hccl.HcclAllReduce(address, address, 2, FP32, SUM, handle, 0) is OK
    assert acl.rt.synchronize_stream(0) == 0 and x.tolist() == [6, 20]
    assert np.array_equal(rt.init().all_reduce(np.arange(3.0)), 2 * np.arange(3.0))  # the world is the new one


def test_suspended_and_resumed(ranks: RankPool) -> None:
    ranks.run(2, suspended_and_resumed)


def resumed_after_a_timeout(comm: rt.Communicator) -> None:
    """Rank 1 comes too late: the communicator has ended, and goes on once both have resumed it."""
    assert acl.rt.set_device(comm.rank) == 0
    handle, (address, x) = hccl.handle_of(comm), memory([comm.rank])
    if comm.rank == 0:
        give_up_after_a_second(comm)
        assert hccl.HcclAllReduce(address, address, 1, FP32, SUM, handle, 0) is OK
        assert acl.rt.synchronize_stream(0) == 507048
        assert hccl.HcclCommGetStatus("world") == (HcclCommStatus.HCCL_COMM_STATUS_INVALID, OK)
        assert hccl.HcclGetCommAsyncError(handle) == (HcclResult.HCCL_E_TIMEOUT, OK)
    assert hccl.HcclCommResume(handle) is OK, acl.get_recent_err_msg()
    assert hccl.HcclGetCommAsyncError(handle) == (OK, OK)
    assert hccl.HcclAllReduce(address, address, 1, FP32, SUM, handle, 0) is OK
    assert acl.rt.synchronize_stream(0) == 0 and x.tolist() == [1]


def test_resumed_after_a_timeout(ranks: RankPool) -> None:
    ranks.run(2, resumed_after_a_timeout)


def callbacks(_comm: Any) -> None:
    told: list[tuple[Any, ...]] = []

    def note(comm: int, phase: HcclCommStatePhase, args: str) -> None:
        told.append((args, comm, phase.name.removeprefix("HCCL_COMM_STATE_PHASE_")))

    def refuse(_comm: int, phase: HcclCommStatePhase, code: int) -> int:
        return code if phase == HcclCommStatePhase.HCCL_COMM_STATE_PHASE_DESTROY_PRE else 0

    register = hccl.HcclCommRegCommStateCallback
    assert register("one", None, 0) is PTR
    assert register("one", refuse, 0) is OK and register("two", note, "two") is OK
    assert register("one", note, "one") is OK
    handle = made(hccl.HcclCommInitRootInfo(1, made(hccl.HcclGetRootInfo()), 0))
    assert hccl.HcclCommResume(handle) is OK
    assert register("three", refuse, HcclResult.HCCL_E_UNAVAIL) is OK
    assert hccl.HcclCommDestroy(handle) is HcclResult.HCCL_E_UNAVAIL and "'three'" in acl.get_recent_err_msg()
    assert hccl.HcclGetRankSize(handle) == (1, OK)  # nothing was done
    assert register("three", lambda *_: 1 // 0, 0) is OK  # type: ignore[arg-type]
    assert hccl.HcclCommDestroy(handle) is HcclResult.HCCL_E_INTERNAL
    assert "'three' raised ZeroDivisionError in HCCL_COMM_STATE_PHASE_DESTROY_PRE" in acl.get_recent_err_msg()
    assert register("three", refuse, 0) is OK and hccl.HcclCommDestroy(handle) is OK
    assert hccl.HcclCommDestroy(handle) is PARA
    phases = ["RESUME_PRE", "RESUME_POST", "DESTROY_PRE", "DESTROY_PRE", "DESTROY_PRE", "DESTROY_POST"]
    assert told == [(args, handle, phase) for phase in phases for args in ("one", "two")]


def test_callbacks(ranks: RankPool) -> None:
    ranks.run(1, callbacks)


def information(_comm: Any) -> None:
    info = made(hccl.HcclGetRootInfo())
    config = hccl.HcclCommConfig(hcclAlgo="level0:NA;level1:ring")
    plain = made(hccl.HcclCommInitRootInfo(1, info, 0))
    ring = made(hccl.HcclCommInitRootInfoConfig(1, info, 0, config))
    assert hccl.HcclConfigGetInfo(plain, 0, 4) == (hccl.HcclOpExpansionMode.HCCL_OP_EXPANSION_MODE_HOST, OK)
    assert hccl.HcclConfigGetInfo(plain, 1, 1600) == ("", OK)
    assert hccl.HcclConfigGetInfo(ring, 1, 1600) == ("level0:NA;level1:ring", OK)
    assert hccl.HcclConfigGetInfo(ring, 2, 4) == (0, HcclResult.HCCL_E_NOT_SUPPORT)
    assert hccl.HcclConfigGetInfo(ring, 1, 4) == (0, PARA) and hccl.HcclConfigGetInfo(ring, 3, 4) == (0, PARA)
    assert hccl.HcclCommWorkingDevNicSet(ring, [0], [True], 1) is OK
    assert hccl.HcclCommWorkingDevNicSet(ring, [1], [True], 1) is PARA
    assert hccl.HcclCommWorkingDevNicSet(ring, [0], [True], 2) is PARA


def test_information(ranks: RankPool) -> None:
    ranks.run(1, information)
