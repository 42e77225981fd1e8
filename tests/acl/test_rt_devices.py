"""acl.rt: several devices of one process, what belongs to which, and copies between them."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ascend_rt import acl
from ascend_rt.testing import RankPool

from ..answers import made

INVALID, NO_CONTEXT, NO_DEVICE = acl.ACL_ERROR_RT_PARAM_INVALID, 107002, acl.ACL_ERROR_RT_INVALID_DEVICEID
N = 1000
D2D, D2H, H2D = acl.ACL_MEMCPY_DEVICE_TO_DEVICE, acl.ACL_MEMCPY_DEVICE_TO_HOST, acl.ACL_MEMCPY_HOST_TO_DEVICE


def malloc_on(index: int, nbytes: int = N) -> int:
    assert acl.rt.set_device(index) == 0
    return int(made(acl.rt.malloc(nbytes, 0)))


def test_a_process_opens_several_devices(device: int) -> None:
    assert acl.rt.get_device_count() == (3, 0)
    on_0, on_2 = made(acl.rt.malloc(N, 0)), malloc_on(2)
    assert acl.rt.get_device() == (2, 0)
    for address, index in ((on_0, 0), (on_2, 2)):
        attributes = made(acl.rt.pointer_get_attributes(address + N - 1))
        assert attributes["location"] == {"id": index, "type": acl.ACL_MEM_LOCATION_TYPE_DEVICE}
    # Memory of any device may be used and freed whichever is the current one.
    assert acl.rt.memset(on_0, N, 1, N) == acl.rt.free(on_0) == 0
    assert acl.rt.reset_device(2) == 0 and acl.rt.memset(on_2, N, 1, N) == NO_CONTEXT
    assert acl.rt.set_device(0) == 0 and acl.rt.memset(on_2, N, 1, N) == INVALID
    assert acl.rt.reset_device(2) == NO_CONTEXT and "device 2 is not set" in acl.get_recent_err_msg()


def test_memory_info_is_of_the_current_device(device: int) -> None:
    before = [acl.rt.get_mem_info(acl.ACL_HBM_MEM)[0]]
    malloc_on(1, 1 << 20)
    assert before[0] - acl.rt.get_mem_info(acl.ACL_HBM_MEM)[0] == 1 << 20
    assert acl.rt.set_device(0) == 0
    # The budget of the job is shared, and here a device may take it all.
    assert before[0] - acl.rt.get_mem_info(acl.ACL_HBM_MEM)[0] == 1 << 20


def test_streams_and_contexts_belong_to_their_device(device: int, stream: int) -> None:
    home = made(acl.rt.get_context())
    assert acl.rt.set_device(1) == 0
    assert acl.rt.synchronize_stream(stream) == acl.ACL_ERROR_RT_STREAM_CONTEXT
    other = made(acl.rt.create_stream())
    assert acl.rt.set_context(home) == 0 and acl.rt.get_device() == (0, 0)
    assert acl.rt.synchronize_stream(other) == acl.ACL_ERROR_RT_STREAM_CONTEXT
    assert acl.rt.synchronize_stream(stream) == 0
    assert acl.rt.reset_device(1) == 0
    assert acl.rt.synchronize_stream(other) == acl.ACL_ERROR_RT_INVALID_HANDLE


def test_an_event_of_one_device_orders_streams_of_two(device: int, stream: int, hold: Callable[..., Any]) -> None:
    release, event = hold(stream), made(acl.rt.create_event())
    source, target = made(acl.rt.malloc(N, 0)), malloc_on(1)
    assert acl.rt.device_enable_peer_access(0, 0) == 0
    other = made(acl.rt.create_stream())
    assert acl.rt.memset(source, N, 1, N) == 0
    assert acl.rt.stream_wait_event(other, event) == 0  # never recorded: complete
    assert acl.rt.set_device(0) == 0
    assert acl.rt.memset_async(source, N, 7, N, stream) == acl.rt.record_event(event, stream) == 0
    assert acl.rt.set_device(1) == 0
    assert acl.rt.stream_wait_event(other, event) == 0
    assert acl.rt.memcpy_async(target, N, source, N, D2D, other) == 0
    assert acl.rt.stream_query(other) == (acl.ACL_STREAM_STATUS_NOT_READY, 0)
    release()
    assert acl.rt.synchronize_stream(other) == 0
    assert acl.util.ptr_to_bytes(target, N) == b"\7" * N


def test_copies_between_devices_need_peer_access(device: int) -> None:
    values = np.random.default_rng(1).integers(0, 256, N, np.uint8)
    on_0, on_1 = made(acl.rt.malloc(N, 0)), malloc_on(1)
    assert acl.rt.memcpy(on_0, N, acl.util.numpy_to_ptr(values), N, H2D) == 0
    assert acl.rt.memcpy(on_1, N, on_0, N, D2D) == INVALID
    assert "a copy from device 0 to device 1" in acl.get_recent_err_msg()
    assert acl.rt.device_can_access_peer(1, 0) == (1, 0) and acl.rt.device_can_access_peer(1, 1) == (0, 0)
    assert acl.rt.device_peer_access_status(1, 0) == (0, 0)
    assert acl.rt.device_enable_peer_access(0, 0) == 0
    assert acl.rt.device_peer_access_status(1, 0) == (1, 0) and acl.rt.device_peer_access_status(0, 1) == (0, 0)
    assert acl.rt.memcpy(on_1, N, on_0, N, acl.ACL_MEMCPY_INTER_DEVICE_TO_DEVICE) == 0
    assert acl.util.ptr_to_bytes(on_1, N) == values.tobytes()
    assert acl.rt.device_disable_peer_access(0) == 0
    assert acl.rt.device_disable_peer_access(0) == INVALID
    assert acl.rt.memcpy(on_0, N, on_1, N, D2D) == INVALID
    assert acl.rt.device_enable_peer_access(1, 0) == acl.rt.device_enable_peer_access(0, 1) == INVALID
    assert acl.rt.get_devices_topo(0, 2) == (acl.ACL_RT_DEVS_TOPOLOGY_HCCS, 0)


@pytest.mark.parametrize("index", [3, -1, 99, 1 << 64])
def test_there_are_no_other_devices(device: int, index: int) -> None:
    for call in (
        acl.rt.set_device,
        acl.rt.reset_device,
        acl.rt.reset_device_force,
        lambda index: acl.rt.create_context(index)[1],
        lambda index: acl.rt.device_can_access_peer(index, 0)[1],
        lambda index: acl.rt.device_peer_access_status(0, index)[1],
        lambda index: acl.rt.get_devices_topo(index, 0)[1],
        lambda index: acl.rt.device_enable_peer_access(index, 0),
        lambda index: acl.rt.device_task_abort(index, 0),
    ):
        assert call(index) == NO_DEVICE
        assert f"rank 0 was asked for device {index}; expected 0 to 2: the job has 3" in acl.get_recent_err_msg()


def test_each_thread_has_its_device(device: int) -> None:
    seen: dict[int, Any] = {}

    def open_device(index: int) -> None:
        address = malloc_on(index)
        assert acl.rt.memset(address, N, index, N) == 0
        seen[index] = (acl.rt.get_device(), acl.util.ptr_to_bytes(address, N))

    threads = [threading.Thread(target=open_device, args=(index,)) for index in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {index: ((index, 0), bytes([index]) * N) for index in (1, 2)}
    assert acl.rt.get_device() == (0, 0)


def test_reset_by_force_drops_what_is_queued(device: int, stream: int, hold: Callable[..., Any]) -> None:
    assert acl.rt.set_device(0) == 0
    notify = made(acl.rt.create_notify(0))
    assert acl.rt.wait_and_reset_notify(notify, stream, 0) == 0
    assert acl.rt.reset_device_force(0) == 0
    assert acl.rt.get_device() == (0, NO_CONTEXT) and acl.rt.reset_device(0) == NO_CONTEXT
    assert acl.rt.set_device(0) == 0 and acl.rt.synchronize_stream(stream) == acl.ACL_ERROR_RT_INVALID_HANDLE


# ---- devices of ranks ----


def every_rank_opens_every_device(comm: Any) -> list[tuple[int, int]]:
    found = []
    for index in range(comm.size):
        address = malloc_on(index, 1 << 16)
        assert acl.rt.memset(address, 1 << 16, 10 * comm.rank + index, 1 << 16) == 0
        found.append(address)
    assert acl.rt.set_device(comm.rank) == 0
    comm.barrier()
    # What one rank holds on a device is no other rank's, and the budget of the device counts it all.
    values = {acl.util.ptr_to_bytes(address, 1 << 16) for address in found}
    assert values == {bytes([10 * comm.rank + index]) * (1 << 16) for index in range(comm.size)}
    free, total, ret = acl.rt.get_mem_info(acl.ACL_HBM_MEM)
    comm.barrier()
    assert ret == 0
    return [(free, total)]


@pytest.mark.processes
def test_ranks_share_devices(ranks: RankPool) -> None:
    answers = ranks.run(3, every_rank_opens_every_device)
    assert answers[0] == answers[1] == answers[2]
    free, total = answers[0][0]
    assert total - free >= 9 << 16


def buffers_of_another_device(comm: Any) -> list[Any]:
    from ascend_rt import hccl

    root_info = made(hccl.HcclGetRootInfo())
    other = 1 - comm.rank
    foreign = malloc_on(other)
    assert acl.rt.set_device(comm.rank) == 0
    handle = made(hccl.HcclCommInitRootInfo(2, root_info, comm.rank))
    ret = hccl.HcclAllReduce(foreign, foreign, 8, hccl.HcclDataType.HCCL_DATA_TYPE_FP32, 0, handle, 0)
    told = acl.get_recent_err_msg()
    return [int(ret), told, acl.rt.synchronize_stream(0)]


@pytest.mark.processes
def test_collectives_take_memory_of_the_ranks_own_device(ranks: RankPool) -> None:
    for rank, (ret, told, code) in enumerate(ranks.run(2, buffers_of_another_device)):
        assert ret == 1 and f"in no live block of device {rank}" in told and code == INVALID
