"""acl.rt's memory functions: values, and the code of every wrong argument."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ascend_rt as rt
from ascend_rt import acl

from ..answers import made

HOST_TO_DEVICE, DEVICE_TO_HOST = acl.ACL_MEMCPY_HOST_TO_DEVICE, acl.ACL_MEMCPY_DEVICE_TO_HOST
DEVICE_TO_DEVICE, DEFAULT = acl.ACL_MEMCPY_DEVICE_TO_DEVICE, acl.ACL_MEMCPY_DEFAULT
INVALID = acl.ACL_ERROR_RT_PARAM_INVALID
N = 1000


def malloc(nbytes: int = N) -> int:
    return made(acl.rt.malloc(nbytes, acl.ACL_MEM_MALLOC_HUGE_FIRST))


def some_bytes(seed: int, n: int = N) -> Any:
    return np.random.default_rng(seed).integers(0, 256, n, np.uint8)


def upload(values: Any) -> int:
    address = malloc(values.nbytes)
    source = acl.util.numpy_contiguous_to_ptr(values)
    assert acl.rt.memcpy(address, values.nbytes, source, values.nbytes, HOST_TO_DEVICE) == 0
    return address


def download(address: int, n: int = N) -> Any:
    values = np.zeros(n, np.uint8)
    assert acl.rt.memcpy(acl.util.numpy_contiguous_to_ptr(values), n, address, n, DEVICE_TO_HOST) == 0
    return values


def test_bytes_travel_from_host_to_device_to_device_to_host(device: int) -> None:
    values = some_bytes(1)
    first, second = upload(values), malloc()
    assert first % 512 == 0 and first != second
    assert acl.rt.memcpy(second + 10, N - 10, first + 3, 100, DEVICE_TO_DEVICE) == 0
    assert np.array_equal(download(second)[10:110], values[3:103])


def test_overlapping_copies_are_as_if_through_a_buffer(device: int, stream: int) -> None:
    values = some_bytes(2)
    for copy in (acl.rt.memcpy, lambda *arguments: acl.rt.memcpy_async(*arguments, stream)):
        address = upload(values)
        assert copy(address + 1, N - 1, address, N - 1, DEVICE_TO_DEVICE) == 0
        assert acl.rt.synchronize_stream(stream) == 0
        assert np.array_equal(download(address)[1:], values[:-1])


def test_memset_takes_the_low_8_bits(device: int, stream: int) -> None:
    values = some_bytes(3)
    address = upload(values)
    assert acl.rt.memset(address + 1, N - 1, 0x1AB, 10) == 0
    assert acl.rt.memset_async(address + 20, N - 20, -1, 5, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    values[1:11], values[20:25] = 0xAB, 0xFF
    assert np.array_equal(download(address), values)


def test_queued_copies_keep_their_blocks_and_their_order(device: int, stream: int) -> None:
    values = some_bytes(4)
    pinned, out = made(acl.rt.malloc_host(N)), made(acl.rt.malloc_host(N))
    acl.util.ptr_to_numpy(pinned, (N,), np.uint8)[:] = values
    first, second = malloc(), malloc()
    assert acl.rt.memcpy_async(first, N, pinned, N, HOST_TO_DEVICE, stream) == 0
    assert acl.rt.memcpy_async(second, N, first, N, DEVICE_TO_DEVICE, stream) == 0
    assert acl.rt.free(first) == 0 and acl.rt.free_host(pinned) == 0
    assert acl.rt.memset_async(second, N, 7, 1, stream) == 0
    assert acl.rt.memcpy_async(out, N, second, N, DEFAULT, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    assert acl.util.ptr_to_bytes(out, N) == b"\7" + values[1:].tobytes()
    assert acl.rt.free_host(out) == 0


def test_memory_of_arrays_is_device_memory_too(device: int) -> None:
    x = rt.array(np.arange(10, dtype=np.float32))
    address = acl.util.numpy_to_ptr(x)
    assert acl.util.ptr_to_numpy(address, (2, 5), "float32").tolist() == x.reshape(2, 5).tolist()
    assert acl.rt.memset(address, 40, 0, 40) == 0 and not x.any()


def test_mem_info_counts_what_is_held(device: int) -> None:
    free, total, ret = acl.rt.get_mem_info(acl.ACL_HBM_MEM)
    assert ret == 0 and 0 < free <= total
    address = malloc(1 << 20)
    assert free - acl.rt.get_mem_info(acl.ACL_HBM_MEM)[0] == 1 << 20
    assert acl.rt.free(address) == 0
    assert acl.rt.get_mem_info(acl.ACL_HBM_MEM) == (free, total, 0)
    assert acl.rt.get_mem_info(18) == (0, 0, INVALID)


def test_a_fork_gives_nothing_back(device: int) -> None:
    kept, address = rt.zeros(1 << 18), malloc(1 << 20)
    held = acl.rt.get_mem_info(acl.ACL_HBM_MEM)
    pid = os.fork()
    if pid == 0:
        del kept
        os._exit(acl.rt.malloc(8, 0)[1] == 0)  # it is no rank, and has no device
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert acl.rt.get_mem_info(acl.ACL_HBM_MEM) == held
    assert acl.rt.free(address) == 0


def test_no_room_tells_who_holds_what(device: int) -> None:
    assert acl.rt.malloc(1 << 60, 0) == (0, acl.ACL_ERROR_RT_MEMORY_ALLOCATION)
    assert "budget of the job" in acl.get_recent_err_msg()
    assert acl.get_recent_err_msg() == ""
    assert acl.rt.malloc(1 << 70, 0) == (0, acl.ACL_ERROR_RT_MEMORY_ALLOCATION)
    assert acl.rt.malloc_host(1 << 70) == (0, acl.ACL_ERROR_RT_MEMORY_ALLOCATION)


@pytest.mark.parametrize("size, policy, code", [
    (0, 0, INVALID),
    (-1, 0, INVALID),
    (8, 8, acl.ACL_ERROR_RT_INVALID_MALLOC_TYPE),
    (8, -1, acl.ACL_ERROR_RT_INVALID_MALLOC_TYPE),
    (8, acl.ACL_MEM_MALLOC_NORMAL_ONLY | acl.ACL_MEM_TYPE_HIGH_BAND_WIDTH, 0),
])
def test_sizes_and_policies(device: int, size: int, policy: int, code: int) -> None:
    assert acl.rt.malloc(size, policy)[1] == code


def test_each_block_is_freed_once_and_from_its_beginning(device: int) -> None:
    address = malloc()
    assert acl.rt.free(address + 1) == INVALID
    assert acl.rt.free(address) == 0
    assert acl.rt.free(address) == INVALID and "freed before" in acl.get_recent_err_msg()
    assert acl.rt.free(0) == INVALID
    assert acl.rt.memset(address, 1, 0, 1) == INVALID
    assert acl.rt.free_host(address) == INVALID


@pytest.mark.parametrize("change, code", [
    ({"count": N + 1}, INVALID),                      # more than dest_max
    ({"count": -1}, INVALID),
    ({"dest_max": -1}, INVALID),
    ({"dst": 0}, INVALID),
    ({"src": 0}, INVALID),
    ({"src": 64}, INVALID),                           # no such host memory
    ({"kind": 8}, INVALID),
    ({"kind": -1}, INVALID),
])
def test_wrong_copies(device: int, stream: int, change: dict[str, int], code: int) -> None:
    right = {"dst": malloc(), "dest_max": N, "src": malloc(), "count": N, "kind": DEVICE_TO_DEVICE}
    assert acl.rt.memcpy(*right.values()) == 0
    wrong = {**right, **change}
    assert acl.rt.memcpy(*wrong.values()) == code
    assert acl.rt.memcpy_async(*wrong.values(), stream) == code
    assert acl.get_recent_err_msg()


def test_a_range_stays_in_its_block(device: int, stream: int) -> None:
    dst, src = malloc(), malloc(2 * N)
    assert acl.rt.memcpy(dst + 1, N, src, N, DEFAULT) == INVALID
    assert f"{N - 1} left" in acl.get_recent_err_msg()
    assert acl.rt.memset(dst + N - 1, 2, 0, 2) == INVALID
    assert acl.rt.memset(dst + N - 1, 2, 0, 1) == 0
    assert acl.rt.memset(dst, 1, 0, 2) == INVALID


def test_queued_copies_must_say_what_they_are(device: int, stream: int) -> None:
    dst, src = malloc(), malloc()
    assert acl.rt.memcpy(dst, N, src, N, HOST_TO_DEVICE) == 0  # the blocking one looks at the addresses
    assert acl.rt.memcpy_async(dst, N, src, N, HOST_TO_DEVICE, stream) == INVALID
    assert "device memory from device memory" in acl.get_recent_err_msg()


def test_read_only_memory_is_not_written(device: int) -> None:
    constant = bytes(range(100))
    assert acl.rt.memcpy(malloc(), 100, acl.util.bytes_to_ptr(constant), 100, HOST_TO_DEVICE) == 0
    code = next(line for line in Path("/proc/self/maps").read_text().splitlines() if " r-xp " in line)
    assert acl.rt.memcpy(int(code.split("-")[0], 16), 8, malloc(), 8, DEVICE_TO_HOST) == INVALID
    assert "may write" in acl.get_recent_err_msg()


WILD = st.one_of(st.integers(), st.integers(-(1 << 65), 1 << 65), st.sampled_from([0, 1, -1, 1 << 63, 1 << 64]))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(offset=st.one_of(st.integers(-2 * N, 2 * N), WILD), count=st.one_of(st.integers(0, 2 * N), WILD))
def test_wild_addresses_near_a_block(device: int, offset: int, count: int) -> None:
    address = malloc()
    fits = offset >= 0 and count >= 0 and offset + count <= N and offset < N
    if count or 0 <= offset < N:
        assert (acl.rt.memset(address + offset, 1 << 70, 1, count) == 0) == fits
    assert acl.rt.free(address) == 0


@pytest.mark.parametrize("call", [
    lambda: acl.rt.malloc("8", 0),
    lambda: acl.rt.malloc(8.0, 0),
    lambda: acl.rt.memset(None, 1, 0, 1),
    lambda: acl.rt.memcpy(1, 1, 1, 1, "0"),
    lambda: acl.rt.free(b""),
    lambda: acl.util.numpy_to_ptr([1]),
    lambda: acl.util.bytes_to_ptr("a"),
])
def test_wrong_types_raise(device: int, call: Callable[[], Any]) -> None:
    with pytest.raises(TypeError):
        call()


def test_pointers_of_nothing_raise(device: int) -> None:
    with pytest.raises(ValueError, match="this process has no 8 bytes at 0x10"):
        acl.util.ptr_to_bytes(16, 8)
    with pytest.raises(ValueError, match="contiguous"):
        acl.util.numpy_to_ptr(np.zeros((4, 4))[:, 1])
