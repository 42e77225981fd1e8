"""acl.rt: notifies and values between streams, and folds of memory."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ascend_rt import acl
from ascend_rt.acl.stream import Stream

from ..answers import made

INVALID, HANDLE = acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_ERROR_RT_INVALID_HANDLE
H2D, D2H = acl.ACL_MEMCPY_HOST_TO_DEVICE, acl.ACL_MEMCPY_DEVICE_TO_HOST
GEQ, EQ, AND, NOR = range(4)
SUM, MAX, MIN = 10, 11, 12


@pytest.fixture
def other(stream: int) -> int:
    return int(made(acl.rt.create_stream()))


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams wait 50 ms for a value."""
    monkeypatch.setattr(Stream, "longest_wait_ns", classmethod(lambda cls, settings: 50_000_000))


def upload(values: Any) -> int:
    address = made(acl.rt.malloc(values.nbytes, 0))
    assert acl.rt.memcpy(address, values.nbytes, acl.util.numpy_to_ptr(values), values.nbytes, H2D) == 0
    return int(address)


def waits(stream: int) -> bool:
    return acl.rt.synchronize_stream_with_timeout(stream, 10) == acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT


def test_a_notify_frees_one_wait(device: int, stream: int, other: int) -> None:
    notify = made(acl.rt.create_notify(0))
    for _ in range(2):
        assert acl.rt.wait_and_reset_notify(notify, stream, 0) == 0
    for _ in range(2):
        assert waits(stream)
        assert acl.rt.record_notify(notify, other) == acl.rt.synchronize_stream(other) == 0
    assert acl.rt.synchronize_stream(stream) == 0


def test_a_notify_that_is_set_twice_is_set_once(device: int, stream: int, other: int) -> None:
    notify = made(acl.rt.create_notify(1))
    for _ in range(2):
        assert acl.rt.record_notify(notify, other) == 0
    assert acl.rt.synchronize_stream(other) == 0
    assert acl.rt.wait_and_reset_notify(notify, stream, 0) == acl.rt.synchronize_stream(stream) == 0
    assert acl.rt.wait_and_reset_notify(notify, stream, 1) == 0
    assert acl.rt.synchronize_stream(stream) == acl.ACL_ERROR_RT_FFTS_PLUS_TIMEOUT


def test_data_behind_a_notify(device: int, stream: int, other: int) -> None:
    n, notify, back = 1 << 16, made(acl.rt.create_notify(0)), made(acl.rt.create_notify(0))
    box, kept = made(acl.rt.malloc(n, 0)), made(acl.rt.malloc(30 * n, 0))
    for number in range(30):
        assert acl.rt.memset_async(box, n, number, n, stream) == acl.rt.record_notify(notify, stream) == 0
        assert acl.rt.wait_and_reset_notify(back, stream, 0) == acl.rt.wait_and_reset_notify(notify, other, 0) == 0
        assert acl.rt.memcpy_async(kept + number * n, n, box, n, 3, other) == acl.rt.record_notify(back, other) == 0
    assert acl.rt.synchronize_device() == 0
    found = np.frombuffer(acl.util.ptr_to_bytes(kept, 30 * n), np.uint8).reshape(30, n)
    assert (found == np.arange(30, dtype=np.uint8)[:, None]).all()


def test_ids_and_ends_of_notifies(device: int, stream: int) -> None:
    first, second = made(acl.rt.create_notify(0)), made(acl.rt.create_notify(0))
    assert made(acl.rt.get_notify_id(first)) != made(acl.rt.get_notify_id(second))
    assert acl.rt.destroy_notify(first) == 0
    assert acl.rt.destroy_notify(first) == acl.rt.record_notify(first, stream) == HANDLE
    assert acl.rt.wait_and_reset_notify(first, stream, 0) == HANDLE and acl.rt.get_notify_id(first) == (0, HANDLE)
    assert acl.rt.wait_and_reset_notify(second, stream, -1) == INVALID
    assert acl.rt.create_notify(2) == (0, INVALID)


def test_a_destroyed_notify_is_not_used_again_by_what_waits(device: int, stream: int) -> None:
    notify = made(acl.rt.create_notify(0))
    assert acl.rt.wait_and_reset_notify(notify, stream, 50) == acl.rt.destroy_notify(notify) == 0
    fresh = made(acl.rt.create_notify(0))
    assert acl.rt.record_notify(fresh, 0) == acl.rt.synchronize_stream(0) == 0
    assert acl.rt.synchronize_stream(stream) == acl.ACL_ERROR_RT_FFTS_PLUS_TIMEOUT


@pytest.mark.parametrize("before, after, value, test", [
    (4, 5, 5, GEQ),
    (0, 7, 5, GEQ),
    (7, 5, 5, EQ),
    (0b0101, 0b0010, 0b1010, AND),
    ((1 << 64) - 1, (1 << 64) - 2, 0, NOR),
    (0, 1 << 40, 1 << 40, EQ),
])
def test_a_value_frees_who_waits_for_it(
    device: int, stream: int, other: int, before: int, after: int, value: int, test: int
) -> None:
    word = upload(np.array([before], np.uint64))
    assert acl.rt.value_wait(word, value, test, stream) == 0
    assert waits(stream)
    assert acl.rt.value_write(word, after, 0, other) == acl.rt.synchronize_stream(other) == 0
    assert acl.rt.synchronize_stream(stream) == 0


def test_a_value_that_is_copied_frees_too(device: int, stream: int, other: int) -> None:
    word, three = upload(np.array([1], np.uint64)), upload(np.array([3], np.uint64))
    assert acl.rt.value_wait(word, 3, EQ, stream) == 0
    assert acl.rt.memcpy_async(word, 8, three, 8, 3, other) == acl.rt.synchronize_stream(stream) == 0


def test_a_value_that_never_comes(device: int, stream: int, brief: None) -> None:
    word = upload(np.array([1], np.uint64))
    assert acl.rt.value_wait(word, 3, EQ, stream) == 0
    assert acl.rt.synchronize_stream(stream) == acl.ACL_ERROR_RT_WAIT_TIMEOUT
    assert "a wait for a value, queued at test_rt_words.py" in acl.get_recent_err_msg()


def test_wrong_values(device: int, stream: int) -> None:
    word = upload(np.array([1, 2], np.uint64))
    for value in (-1, 1 << 64):
        assert acl.rt.value_write(word, value, 0, stream) == acl.rt.value_wait(word, value, 0, stream) == INVALID
    assert acl.rt.value_write(word + 4, 1, 0, stream) == acl.ACL_ERROR_RT_ADDR_UNALIGNED
    assert acl.rt.value_write(word + 16, 1, 0, stream) == acl.rt.value_write(0, 1, 0, stream) == INVALID
    assert acl.rt.value_write(word, 1, 1, stream) == INVALID
    for test in (-1, 4):
        assert acl.rt.value_wait(word, 1, test, stream) == INVALID


# ---- folds ----

FOLDS: dict[int, Callable[..., Any]] = {SUM: np.add, MAX: np.maximum, MIN: np.minimum}
DTYPES = {
    "ACL_INT8": np.int8, "ACL_INT16": np.int16, "ACL_INT32": np.int32, "ACL_INT64": np.int64,
    "ACL_UINT8": np.uint8, "ACL_UINT64": np.uint64, "ACL_FLOAT16": np.float16, "ACL_FLOAT": np.float32,
    "ACL_DOUBLE": np.float64, "ACL_BF16": ml_dtypes.bfloat16,
}


@pytest.mark.parametrize("kind", FOLDS)
@pytest.mark.parametrize("name", DTYPES)
def test_folds(device: int, stream: int, kind: int, name: str) -> None:
    dice, dtype, n = np.random.default_rng(7), np.dtype(DTYPES[name]), 1001
    x, y = (dice.integers(-50, 50, n).astype(dtype) for _ in range(2))
    to, source = upload(x), upload(y)
    number = int(getattr(acl, name))
    assert acl.rt.reduce_async(to, source, x.nbytes, kind, number, stream, 0) == acl.rt.synchronize_stream(stream) == 0
    found = np.frombuffer(acl.util.ptr_to_bytes(to, x.nbytes), dtype)
    assert np.array_equal(found, FOLDS[kind](x, y).astype(dtype))
    assert acl.util.ptr_to_bytes(source, y.nbytes) == y.tobytes()


@pytest.mark.parametrize("change, code", [
    ({"count": 398}, INVALID),                     # half an element
    ({"count": 404}, INVALID),                     # more than the block
    ({"count": -4}, INVALID),
    ({"dst": 0}, INVALID),
    ({"src": 8}, INVALID),
    ({"kind": 9}, INVALID),
    ({"kind": 13}, acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT),
    ({"dtype": 12}, acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT),
    ({"dtype": -1}, acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT),
    ({"reserve": 1}, INVALID),
    ({"stream": 5}, HANDLE),
])
def test_wrong_folds(device: int, stream: int, change: dict[str, int], code: int) -> None:
    x = np.zeros(100, np.float32)
    right = {"dst": upload(x), "src": upload(x), "count": 400, "kind": SUM, "dtype": 0, "stream": stream, "reserve": 0}
    assert acl.rt.reduce_async(*right.values()) == 0
    assert acl.rt.reduce_async(*{**right, **change}.values()) == code


def test_folds_of_memory_that_overlaps(device: int, stream: int) -> None:
    x = np.arange(100, dtype=np.float32)
    both = upload(x)
    assert acl.rt.reduce_async(both, both + 4, 396, SUM, 0, stream, 0) == INVALID
    assert acl.rt.reduce_async(both, both, 400, SUM, 0, stream, 0) == acl.rt.synchronize_stream(stream) == 0
    assert np.array_equal(np.frombuffer(acl.util.ptr_to_bytes(both, 400), np.float32), 2 * x)
