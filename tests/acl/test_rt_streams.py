"""acl.rt: streams that are aborted, stopped by a failure, numbered and limited; and the life of many."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from ascend_rt import acl
from ascend_rt.acl.device import find_stream

from ..answers import made

INVALID, HANDLE = acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_ERROR_RT_INVALID_HANDLE


def test_abort_drops_what_is_queued_and_the_stream_goes_on(device: int, stream: int) -> None:
    notify, address = made(acl.rt.create_notify(0)), made(acl.rt.malloc(1, 0))
    assert acl.rt.memset(address, 1, 1, 1) == 0
    assert acl.rt.wait_and_reset_notify(notify, stream, 0) == 0  # would wait for ever
    assert acl.rt.memset_async(address, 1, 2, 1, stream) == 0
    event = made(acl.rt.create_event())
    assert acl.rt.record_event(event, stream) == 0
    assert acl.rt.stream_abort(stream) == 0
    assert acl.rt.stream_query(stream) == (acl.ACL_STREAM_STATUS_COMPLETE, 0)
    assert acl.rt.query_event(event) == (acl.ACL_EVENT_STATUS_COMPLETE, 0)
    assert acl.rt.synchronize_stream(stream) == acl.ACL_ERROR_RT_STREAM_ABORT
    assert "dropped at test_rt_streams.py" in acl.get_recent_err_msg()
    assert acl.util.ptr_to_bytes(address, 1) == b"\1"
    assert acl.rt.memset_async(address, 1, 3, 1, stream) == acl.rt.synchronize_stream(stream) == 0
    assert acl.util.ptr_to_bytes(address, 1) == b"\3"


def test_who_waits_for_an_aborted_event_is_told(device: int, stream: int) -> None:
    notify, event, other = made(acl.rt.create_notify(0)), made(acl.rt.create_event()), made(acl.rt.create_stream())
    assert acl.rt.wait_and_reset_notify(notify, stream, 0) == acl.rt.record_event(event, stream) == 0
    assert acl.rt.stream_wait_event(other, event) == acl.rt.stream_abort(stream) == 0
    assert acl.rt.synchronize_stream(other) == acl.ACL_ERROR_RT_STREAM_ABORT
    assert acl.rt.synchronize_stream(stream) == acl.ACL_ERROR_RT_STREAM_ABORT


def test_abort_of_the_default_stream_while_another_thread_waits(device: int) -> None:
    notify = made(acl.rt.create_notify(0))
    assert acl.rt.wait_and_reset_notify(notify, 0, 0) == 0
    context, codes = made(acl.rt.get_context()), []

    def wait() -> None:
        assert acl.rt.set_context(context) == 0
        codes.append(acl.rt.synchronize_stream(0))

    thread = threading.Thread(target=wait)
    thread.start()
    assert acl.rt.stream_abort(0) == 0
    thread.join()
    # Whoever synchronises first is told.
    assert sorted([*codes, acl.rt.synchronize_stream(0)]) == [0, acl.ACL_ERROR_RT_STREAM_ABORT]


def test_abort_of_a_device(device: int, stream: int) -> None:
    notify, other = made(acl.rt.create_notify(0)), made(acl.rt.create_stream())
    for queue in (stream, other):
        assert acl.rt.wait_and_reset_notify(notify, queue, 0) == 0
    assert acl.rt.device_task_abort(0, 10_000) == 0
    for queue in (stream, other):
        assert acl.rt.synchronize_stream(queue) == acl.ACL_ERROR_RT_DEVICE_TASK_ABORT
    begun, gate = threading.Event(), threading.Event()
    find_stream(stream).launch(lambda: (begun.set(), gate.wait()))  # it cannot be made to give up
    assert begun.wait(10)
    assert acl.rt.device_task_abort(0, 1) == acl.ACL_ERROR_RT_TIMEOUT
    gate.set()
    assert acl.rt.device_task_abort(0, -1) == INVALID


def test_destroy_by_force_waits_for_nothing_queued(device: int, stream: int) -> None:
    notify = made(acl.rt.create_notify(0))
    for _ in range(10):
        assert acl.rt.wait_and_reset_notify(notify, stream, 0) == 0
    assert acl.rt.destroy_stream_force(stream) == 0
    assert acl.rt.destroy_stream_force(stream) == acl.rt.synchronize_stream(stream) == HANDLE
    assert acl.rt.destroy_stream_force(0) == INVALID


def test_a_stream_stops_on_failure_if_told_so(device: int, stream: int) -> None:
    address = made(acl.rt.malloc(1, 0))
    assert acl.rt.memset(address, 1, 1, 1) == 0
    assert acl.rt.set_stream_failure_mode(stream, acl.ACL_STOP_ON_FAILURE) == 0
    find_stream(stream).launch(lambda: 1 // 0)
    assert acl.rt.memset_async(address, 1, 2, 1, stream) == 0
    assert acl.rt.synchronize_stream(stream) == acl.ACL_ERROR_RT_INTERNAL_ERROR
    assert acl.util.ptr_to_bytes(address, 1) == b"\1"
    assert acl.rt.set_stream_failure_mode(stream, acl.ACL_CONTINUE_ON_FAILURE) == 0
    find_stream(stream).launch(lambda: 1 // 0)
    assert acl.rt.memset_async(address, 1, 3, 1, stream) == 0
    assert acl.rt.synchronize_stream(stream) == acl.ACL_ERROR_RT_INTERNAL_ERROR
    assert acl.util.ptr_to_bytes(address, 1) == b"\3"
    for mode in (-1, 2):
        assert acl.rt.set_stream_failure_mode(stream, mode) == INVALID


def test_priorities_and_flags(device: int) -> None:
    every_flag = acl.ACL_STREAM_FAST_LAUNCH | acl.ACL_STREAM_FAST_SYNC | acl.ACL_STREAM_DEVICE_USE_ONLY
    for priority, flag in ((0, 0), (7, every_flag)):
        stream = made(acl.rt.create_stream_with_config(priority, flag))
        assert acl.rt.synchronize_stream(stream) == acl.rt.destroy_stream(stream) == 0
    for priority, flag in ((-1, 0), (8, 0), (0, 64), (0, -1)):
        assert acl.rt.create_stream_with_config(priority, flag) == (0, INVALID)


def test_ids_and_the_default_stream(device: int, stream: int) -> None:
    other, default = made(acl.rt.create_stream()), made(acl.rt.ctx_get_current_default_stream())
    numbers = [made(acl.rt.stream_get_id(queue)) for queue in (stream, other, default)]
    assert len(set(numbers)) == 3 and made(acl.rt.stream_get_id(0)) == numbers[2]
    assert acl.rt.destroy_stream(default) == INVALID
    assert acl.rt.synchronize_stream(default) == 0


@pytest.mark.thorough
def test_a_device_has_2048_streams(device: int, stream: int) -> None:
    left = made(acl.rt.get_stream_available_num())
    assert left == 2047
    streams = [made(acl.rt.create_stream()) for _ in range(left)]
    assert acl.rt.create_stream() == (0, acl.ACL_ERROR_RT_NO_STREAM_RESOURCE)
    assert [acl.rt.destroy_stream(queue) for queue in streams] == [0] * left
    assert acl.rt.get_stream_available_num() == (left, 0)


def test_many_streams_one_after_another(device: int) -> None:
    for _ in range(500):
        assert acl.rt.destroy_stream(acl.rt.create_stream()[0]) == 0


@pytest.mark.parametrize("milliseconds, code", [(0, 0), (-1, 0), (-2, INVALID)])
def test_synchronize_device_with_timeout(device: int, stream: int, milliseconds: int, code: int) -> None:
    assert acl.rt.synchronize_device_with_timeout(milliseconds) == code


def test_synchronize_device_for_too_short_a_time(device: int, stream: int, hold: Callable[..., Any]) -> None:
    release = hold(stream)
    assert acl.rt.synchronize_device_with_timeout(1) == acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT
    release()
    assert acl.rt.synchronize_device_with_timeout(10_000) == 0
