"""Symmetric windows: memory of every rank that all read and store, and until when."""

from typing import Any

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt import acl, hccl
from ascend_rt.acl import util
from ascend_rt.hccl import HcclResult
from ascend_rt.testing import RankPool

from ..answers import made

pytestmark = pytest.mark.processes

OK, PARA = HcclResult.HCCL_SUCCESS, HcclResult.HCCL_E_PARA
NBYTES, HEAD = 4096, 512
D2D = acl.ACL_MEMCPY_DEVICE_TO_DEVICE


def values_of(rank: int) -> Any:
    return np.random.default_rng(rank).integers(0, 1 << 30, (NBYTES - HEAD) // 8)


def one_sided(comm: rt.Communicator) -> None:
    """Every rank stores its values into its right neighbour's memory, and reads what its left one has stored there."""
    assert acl.rt.set_device(comm.rank) == 0
    rank, size, handle = comm.rank, comm.size, hccl.handle_of(comm)
    block, own = made(acl.rt.malloc(NBYTES, 0)), made(acl.rt.malloc(NBYTES, 0))
    here = util.ptr_to_numpy(block, (NBYTES // 8,), np.int64)
    here[...] = -1
    util.ptr_to_numpy(own, ((NBYTES - HEAD) // 8,), np.int64)[...] = values_of(rank)
    window = made(hccl.HcclCommSymWinRegister(handle, block, NBYTES, 1))
    assert hccl.HcclCommSymWinGet(handle, block + HEAD, NBYTES - HEAD) == (window, HEAD, OK)
    assert hccl.HcclCommSymWinGet(handle, block + HEAD, NBYTES) == (0, 0, HcclResult.HCCL_E_NOT_FOUND)
    there = made(hccl.HcclSymWinGetPeerPointer(window, HEAD, (rank + 1) % size))
    assert acl.rt.memcpy(there, NBYTES - HEAD, own, NBYTES - HEAD, D2D) == 0, acl.get_recent_err_msg()
    comm.barrier()
    assert (here[: HEAD // 8] == -1).all()
    assert np.array_equal(here[HEAD // 8 :], values_of((rank - 1) % size))
    for peer in range(size):  # what lies there is what its left neighbour has stored
        source = made(hccl.HcclSymWinGetPeerPointer(window, HEAD, peer))
        assert acl.rt.memcpy(own, NBYTES, source, NBYTES - HEAD, D2D) == 0
        found = util.ptr_to_numpy(own, ((NBYTES - HEAD) // 8,), np.int64)
        assert np.array_equal(found, values_of((peer - 1) % size))
    assert hccl.HcclSymWinGetPeerPointer(window, 0, size) == (0, PARA)
    assert hccl.HcclSymWinGetPeerPointer(window, NBYTES, 0) == (0, PARA)
    comm.barrier()
    assert hccl.HcclCommSymWinDeregister(window) is OK and hccl.HcclCommSymWinDeregister(window) is PARA
    if size > 1:
        assert acl.rt.memcpy(there, 8, own, 8, D2D) == 107000
    comm.barrier()


@pytest.mark.parametrize("size", [1, 3])
def test_one_sided(ranks: RankPool, size: int) -> None:
    ranks.run(size, one_sided)


def wrong_windows(comm: rt.Communicator) -> None:
    assert acl.rt.set_device(comm.rank) == 0
    handle, wrong = hccl.handle_of(comm), comm.rank == 1
    block = made(acl.rt.malloc(NBYTES, 0))
    array = rt.zeros(512)
    given = [(0, NBYTES, 1), (block, NBYTES + 1, 1), (block, 0, 1), (block, NBYTES, 0), (array.ctypes.data, 8, 1)]
    for address, size, flag in given:
        answer = hccl.HcclCommSymWinRegister(handle, *((address, size, flag) if wrong else (block, NBYTES, 1)))
        assert answer == (0, PARA) and "refused on rank 1" in acl.get_recent_err_msg()
    assert hccl.HcclCommSymWinRegister(handle, block, NBYTES - comm.rank, 1) == (0, PARA)
    assert "[4096, 4095]" in acl.get_recent_err_msg()
    window = made(hccl.HcclCommSymWinRegister(handle, block, NBYTES, 1))
    there = made(hccl.HcclSymWinGetPeerPointer(window, 0, 0))
    if comm.rank == 0:
        assert acl.rt.free(block) == 0
    comm.barrier()
    if comm.rank == 1:  # nobody stores into memory that is free
        assert acl.rt.memcpy(there, 8, block, 8, D2D) == 107000
    assert hccl.HcclCommSymWinDeregister(window) is OK


def test_wrong_windows(ranks: RankPool) -> None:
    ranks.run(2, wrong_windows)


def test_what_needs_virtual_memory_is_not_supported() -> None:
    calls = [
        lambda: hccl.HcclCommSetMemoryRange(1, 2, 3, 0, 0),
        lambda: hccl.HcclCommUnsetMemoryRange(1, 2),
        lambda: hccl.HcclCommActivateCommMemory(1, 2, 3, 0, 4, 0),
        lambda: hccl.HcclCommDeactivateCommMemory(1, 2),
    ]
    for call in calls:
        assert call() is HcclResult.HCCL_E_NOT_SUPPORT
        assert "no virtual addresses to reserve and map" in acl.get_recent_err_msg()
