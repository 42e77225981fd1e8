"""acl.rt: copies of rows, kinds of memory, and the variants of malloc."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ascend_rt import acl

from ..answers import made

INVALID = acl.ACL_ERROR_RT_PARAM_INVALID
H2D, D2H, D2D, DEFAULT = 1, 2, 3, 4


@pytest.fixture(params=["now", "queued"])
def copy_rows(request: pytest.FixtureRequest, device: int, stream: int) -> Callable[..., int]:
    """memcpy2d, or memcpy2d_async and its stream's synchronisation."""

    def queued(*arguments: int) -> int:
        return acl.rt.memcpy2d_async(*arguments, stream) or acl.rt.synchronize_stream(stream)

    return acl.rt.memcpy2d if request.param == "now" else queued


def test_rows_go_to_the_device_and_back(copy_rows: Callable[..., int]) -> None:
    dice = np.random.default_rng(3)
    for width, height, dpitch, spitch in ((7, 5, 16, 9), (1, 1, 1, 1), (64, 3, 64, 64), (5, 0, 8, 8), (0, 4, 8, 8)):
        source = dice.integers(0, 256, (6, spitch), np.uint8)
        back = np.zeros((6, spitch), np.uint8)
        on_device = made(acl.rt.malloc(6 * dpitch, 0))
        assert acl.rt.memset(on_device, 6 * dpitch, 0xEE, 6 * dpitch) == 0
        assert copy_rows(on_device, dpitch, acl.util.numpy_to_ptr(source), spitch, width, height, H2D) == 0
        there = np.frombuffer(acl.util.ptr_to_bytes(on_device, 6 * dpitch), np.uint8).reshape(6, dpitch)
        assert np.array_equal(there[:height, :width], source[:height, :width])
        assert (there[height:] == 0xEE).all() and (there[:, width:] == 0xEE).all()
        assert copy_rows(acl.util.numpy_to_ptr(back), spitch, on_device, dpitch, width, height, D2H) == 0
        assert np.array_equal(back[:height, :width], source[:height, :width])
        assert not back[height:].any() and not back[:, width:].any()


def test_a_last_row_may_end_with_its_block(copy_rows: Callable[..., int]) -> None:
    exact, next_row = made(acl.rt.malloc(2 * 10 + 4, 0)), made(acl.rt.malloc(64, 0))
    assert copy_rows(exact, 10, next_row, 10, 4, 3, D2D) == 0
    assert copy_rows(exact, 10, next_row, 10, 5, 3, D2D) == INVALID


@pytest.mark.parametrize("change", [
    {"width": 11}, {"width": -1}, {"height": -1}, {"height": 7}, {"dpitch": 9}, {"spitch": -10}, {"dst": 0}, {"src": 0},
    {"kind": 9}, {"height": 1 << 64}, {"dpitch": 1 << 62},
])
def test_wrong_rows(copy_rows: Callable[..., int], change: dict[str, int]) -> None:
    right = {"dst": made(acl.rt.malloc(60, 0)), "dpitch": 10, "src": made(acl.rt.malloc(60, 0)), "spitch": 10,
             "width": 10, "height": 6, "kind": D2D}
    assert copy_rows(*right.values()) == 0
    assert copy_rows(*{**right, **change}.values()) == INVALID


def test_queued_rows_must_say_what_they_are(device: int, stream: int) -> None:
    a, b = made(acl.rt.malloc(60, 0)), made(acl.rt.malloc(60, 0))
    assert acl.rt.memcpy2d(a, 10, b, 10, 10, 6, H2D) == 0
    assert acl.rt.memcpy2d_async(a, 10, b, 10, 10, 6, H2D, stream) == INVALID
    assert acl.rt.memcpy2d_async(a, 10, b, 10, 10, 6, DEFAULT, stream) == acl.rt.synchronize_stream(stream) == 0


def test_rows_of_freed_memory_are_copied_before_it_is_reused(device: int, stream: int) -> None:
    n = 1 << 20
    source, target = made(acl.rt.malloc(n, 0)), made(acl.rt.malloc(n, 0))
    assert acl.rt.memset(source, n, 5, n) == 0
    assert acl.rt.memcpy2d_async(target, 1024, source, 1024, 1024, 1024, D2D, stream) == acl.rt.free(source) == 0
    fresh = made(acl.rt.malloc(n, 0))
    assert acl.rt.memset(fresh, n, 9, n) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    assert acl.util.ptr_to_bytes(target, n) == b"\5" * n


@pytest.mark.parametrize("malloc", [
    acl.rt.malloc,
    acl.rt.malloc_align32,
    acl.rt.malloc_cached,
    lambda size, policy: acl.rt.malloc_with_cfg(size, policy, None),
])
def test_every_malloc(device: int, malloc: Callable[..., Any]) -> None:
    for size in (1, 4095, 4096, 4097):
        address = made(malloc(size, 0))
        assert address % 512 == 0
        assert acl.rt.memset(address, size, 1, size) == 0
        assert acl.rt.memset(address, size + 1, 1, size + 1) == acl.rt.memset(address + size, 1, 1, 1) == INVALID
        assert acl.rt.free(address) == 0
    for size in (0, -1):
        assert malloc(size, 0) == (0, INVALID)
    for size in (1 << 63, 1 << 45):
        assert malloc(size, 0) == (0, acl.ACL_ERROR_RT_MEMORY_ALLOCATION)
    assert malloc(8, 99) == (0, acl.ACL_ERROR_RT_INVALID_MALLOC_TYPE)


def test_attributes_of_memory(device: int) -> None:
    assert acl.rt.malloc_with_cfg(8, 0, {"module_id": 3}) == (0, acl.ACL_ERROR_FEATURE_UNSUPPORTED)
    assert acl.rt.malloc_with_cfg(8, 0, {})[1] == 0
    with pytest.raises(TypeError):
        acl.rt.malloc_with_cfg(8, 0, 1)


def test_kinds_of_memory(device: int) -> None:
    host, own = made(acl.rt.malloc_host(8)), np.zeros(8, np.uint8)
    places = [
        (made(acl.rt.malloc(8, 0)), acl.ACL_MEM_LOCATION_TYPE_DEVICE),
        (host, acl.ACL_MEM_LOCATION_TYPE_HOST),
        (acl.util.numpy_to_ptr(own), acl.ACL_MEM_LOCATION_TYPE_UNREGISTERED),
    ]
    for address, kind in places:
        assert made(acl.rt.pointer_get_attributes(address))["location"] == {"id": 0, "type": kind}
    for address in (0, 16, -1, 1 << 64):
        assert acl.rt.pointer_get_attributes(address)[1] == INVALID
    assert acl.rt.free_host(host) == 0


def test_type_numbers_of_numpy(device: int) -> None:
    x = np.arange(6, dtype=np.float32)
    view = acl.util.ptr_to_numpy(acl.util.numpy_to_ptr(x), (2, 3), 11)  # NPY_FLOAT
    assert view.dtype == np.float32 and view.tolist() == x.reshape(2, 3).tolist()
