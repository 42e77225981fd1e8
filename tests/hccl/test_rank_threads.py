"""HcclCommInitAll: ranks that are threads of one process, a device each."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt import acl, hccl
from ascend_rt.hccl import HcclResult, c_conventions
from ascend_rt.testing import RankPool

from ..answers import made
from .device_memory import memory

pytestmark = pytest.mark.processes

OK, PARA = HcclResult.HCCL_SUCCESS, HcclResult.HCCL_E_PARA
FP32, SUM = hccl.HcclDataType.HCCL_DATA_TYPE_FP32, hccl.HcclReduceOp.HCCL_REDUCE_SUM
COUNT = 30_000


def values_of(rank: int) -> Any:
    return np.random.default_rng(rank).integers(-9, 10, COUNT).astype(np.float32)


def in_threads(size: int, function: Callable[[int], None]) -> None:
    """`function(rank)` in a thread for each rank; raises what the first one raised."""
    raised: list[BaseException] = []

    def run(rank: int) -> None:
        try:
            function(rank)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


def everything(_comm: Any, devices: list[int]) -> None:
    """By C names and streams, by methods that block, between two ranks, in a communicator of some."""
    size, total = len(devices), np.sum([values_of(rank) for rank in range(len(devices))], axis=0)
    comms = made(hccl.HcclCommInitAll(size, devices))

    def rank_thread(rank: int) -> None:
        assert acl.rt.set_device(devices[rank]) == 0
        handle, stream = comms[rank], made(acl.rt.create_stream())
        assert hccl.HcclGetRankId(handle) == (rank, OK) and hccl.HcclGetRankSize(handle) == (size, OK)
        (address, x), (room, y) = memory(values_of(rank)), memory(np.zeros(COUNT, np.float32))
        assert hccl.HcclAllReduce(address, room, COUNT, FP32, SUM, handle, stream) is OK
        assert acl.rt.synchronize_stream(stream) == 0 and np.array_equal(y, total), acl.get_recent_err_msg()
        items = [
            hccl.HcclSendRecvItem(0, address, COUNT, FP32, (rank + 1) % size),
            hccl.HcclSendRecvItem(1, room, COUNT, FP32, (rank - 1) % size),
        ]
        assert hccl.HcclBatchSendRecv(items, 2, handle, stream) is OK
        assert acl.rt.synchronize_stream(stream) == 0 and np.array_equal(y, values_of((rank - 1) % size))
        communicator = c_conventions.communicators.get(handle)
        assert communicator._memory.holds(x)  # where it lies, and in no pieces
        assert np.array_equal(communicator.all_gather(x[:5]), [values_of(each)[:5] for each in range(size)])
        pair = communicator.split(rank % 2)
        assert pair is not None
        alike = [each for each in range(size) if each % 2 == rank % 2]
        assert pair.all_reduce(np.array([10**rank])).tolist() == [sum(10**each for each in alike)]
        window = made(hccl.HcclCommSymWinRegister(handle, address, 4 * COUNT, 1))
        there = made(hccl.HcclSymWinGetPeerPointer(window, 0, (rank + 1) % size))
        assert acl.rt.memcpy(room, 4 * COUNT, there, 4 * COUNT, acl.ACL_MEMCPY_DEVICE_TO_DEVICE) == 0
        assert np.array_equal(y, values_of((rank + 1) % size))
        communicator.barrier()
        assert hccl.HcclCommSymWinDeregister(window) is OK and hccl.HcclCommDestroy(handle) is OK

    in_threads(size, rank_thread)


@pytest.mark.parametrize("devices", [[0], [1, 0], [4, 1, 2]])
def test_ranks_that_are_threads(ranks: RankPool, devices: list[int]) -> None:
    ranks.run(1, everything, devices)


def one_thread_for_all(_comm: Any) -> None:
    comms, sums = made(hccl.HcclCommInitAll(3, [0, 1, 2])), []
    for rank, handle in enumerate(comms):
        assert acl.rt.set_device(rank) == 0
        address, x = memory(values_of(rank))
        sums.append(x)
        assert hccl.HcclAllReduce(address, address, COUNT, FP32, SUM, handle, 0) is OK
    for rank in range(3):
        assert acl.rt.set_device(rank) == 0 and acl.rt.synchronize_stream(0) == 0, acl.get_recent_err_msg()
    total = np.sum([values_of(rank) for rank in range(3)], axis=0)
    assert all(np.array_equal(x, total) for x in sums)


def test_one_thread_for_all_ranks(ranks: RankPool) -> None:
    ranks.run(1, one_thread_for_all)


def with_memory_from_before(_comm: Any) -> None:
    """It stays where it is, and goes through the memory of the ranks in pieces."""
    blocks = []
    for rank in range(2):
        assert acl.rt.set_device(rank) == 0
        blocks.append(memory(values_of(rank)))
    comms = made(hccl.HcclCommInitAll(2, [0, 1]))

    def rank_thread(rank: int) -> None:
        assert acl.rt.set_device(rank) == 0
        address, x = blocks[rank]
        assert hccl.HcclAllReduce(address, address, COUNT, FP32, SUM, comms[rank], 0) is OK
        assert acl.rt.synchronize_stream(0) == 0, acl.get_recent_err_msg()
        assert np.array_equal(x, values_of(0) + values_of(1))

    in_threads(2, rank_thread)
    assert np.array_equal(rt.init().all_reduce(np.arange(3.0)), np.arange(3.0))  # the world of before is still one


def test_memory_from_before(ranks: RankPool) -> None:
    ranks.run(1, with_memory_from_before, environ={"ASCEND_RT_DEVICES": "2"})


def failures(_comm: Any) -> None:
    for ndev, devices in ((2, [0]), (0, []), (2, [1, 1]), (2, [-1, 0]), (2, [0, 3])):
        assert hccl.HcclCommInitAll(ndev, devices) == (0, PARA)
        assert f"devices={devices}; expected" in acl.get_recent_err_msg()
    comms = made(hccl.HcclCommInitAll(2, [2, 0]))

    def rank_thread(rank: int) -> None:
        assert acl.rt.set_device((2, 0)[rank]) == 0
        address, x = memory(values_of(rank))
        for count, code in ((COUNT - rank, 107000), (COUNT, 0)):
            assert hccl.HcclAllReduce(address, address, count, FP32, SUM, comms[rank], 0) is OK
            assert acl.rt.synchronize_stream(0) == code
        assert np.array_equal(x, values_of(0) + values_of(1))

    in_threads(2, rank_thread)


def test_wrong_devices_and_ranks_that_disagree(ranks: RankPool) -> None:
    ranks.run(1, failures, environ={"ASCEND_RT_DEVICES": "3"})


PROGRAM = """
import threading
import numpy as np
import ascend_rt as rt
from ascend_rt import acl, hccl
from ascend_rt.acl import util

comms, ret = hccl.HcclCommInitAll(3, [0, 1, 2])
assert ret == 0, acl.get_recent_err_msg()
sums = {}

def rank_thread(rank):
    assert acl.rt.set_device(rank) == 0
    address, _ = acl.rt.malloc(8, 0)
    x = util.ptr_to_numpy(address, (2,), np.float32)
    x[...] = rank, 10
    assert hccl.HcclAllReduce(address, address, 2, 4, 0, comms[rank], 0) == 0
    assert acl.rt.synchronize_stream(0) == 0, acl.get_recent_err_msg()
    sums[rank] = x.tolist()

threads = [threading.Thread(target=rank_thread, args=(rank,)) for rank in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(sorted(sums.items()), acl.rt.get_device_count())
try:
    rt.init()
except rt.HcclError as error:
    print(error)
"""


def test_a_program_that_nobody_has_launched(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    ended = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=30)
    assert (ended.returncode, ended.stderr) == (0, "")
    sums, refusal = ended.stdout.splitlines()
    assert sums == f"{[(rank, [3.0, 30.0]) for rank in range(3)]} (3, 0)"
    assert refusal.startswith("HCCL_E_UNAVAIL (7): this process is several ranks (HcclCommInitAll)")


BY_ROOT_INFO = """
import threading
import numpy as np
from ascend_rt import acl, hccl
from ascend_rt.acl import util

info, ret = hccl.HcclGetRootInfo()
sums = {}

def rank_thread(rank):
    assert acl.rt.set_device(rank) == 0
    comm, ret = hccl.HcclCommInitRootInfo(3, info, rank)
    assert ret == 0, acl.get_recent_err_msg()
    address, _ = acl.rt.malloc(8, 0)
    x = util.ptr_to_numpy(address, (2,), np.float32)
    x[...] = rank, 10
    assert hccl.HcclAllReduce(address, address, 2, 4, 0, comm, 0) == 0
    assert acl.rt.synchronize_stream(0) == 0, acl.get_recent_err_msg()
    sums[rank] = x.tolist()

threads = [threading.Thread(target=rank_thread, args=(rank,)) for rank in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(sorted(sums.items()))
"""


def test_threads_that_meet_by_a_root_info(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(BY_ROOT_INFO)
    environ = {**os.environ, "ASCEND_RT_DEVICES": "3"}
    ended = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=30, env=environ)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == f"{[(rank, [3.0, 30.0]) for rank in range(3)]}\n"
