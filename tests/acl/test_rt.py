"""acl.rt's devices, contexts, streams and events: states, codes, and what is dead afterwards."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ascend_rt import acl
from ascend_rt.acl.device import find_stream

from ..answers import made

INVALID, HANDLE, NO_CONTEXT = acl.ACL_ERROR_RT_PARAM_INVALID, acl.ACL_ERROR_RT_INVALID_HANDLE, 107002
FOREIGN = acl.ACL_ERROR_RT_STREAM_CONTEXT
Hold = Callable[[int], Callable[[], None]]


# ---- the runtime ----


def test_init_is_counted(tmp_path: Any) -> None:
    assert acl.init() == 0 and acl.init() == 0
    assert acl.finalize_reference() == (1, 0)
    assert acl.finalize() == 0
    assert acl.finalize() == acl.ACL_ERROR_REPEAT_FINALIZE
    assert acl.init(str(tmp_path / "none.json")) == acl.ACL_ERROR_INVALID_FILE
    (tmp_path / "bad.json").write_text("{")
    assert acl.init(str(tmp_path / "bad.json")) == acl.ACL_ERROR_PARSE_FILE
    (tmp_path / "good.json").write_text("{}")
    assert acl.init(str(tmp_path / "good.json")) == 0 and acl.finalize() == 0


def test_sizes_of_types_and_version() -> None:
    sizes = {dtype.name: acl.data_type_size(dtype) for dtype in acl.aclDataType}
    assert sizes["ACL_FLOAT16"] == 2 and sizes["ACL_DOUBLE"] == 8 and sizes["ACL_STRING"] == 0
    assert acl.data_type_size(1) == 2 and acl.data_type_size(5) == acl.data_type_size(-1) == 0
    assert len(acl.get_version()) == 4 and acl.get_version()[-1] == 0


# ---- device and context ----


def test_without_a_device_there_is_a_code(world: None) -> None:
    assert acl.rt.malloc(8, 0) == (0, NO_CONTEXT)
    assert "set_device" in acl.get_recent_err_msg()
    for call in (acl.rt.get_device, acl.rt.create_stream, acl.rt.create_event, acl.rt.get_context):
        assert call() == (0, NO_CONTEXT)
    assert acl.rt.synchronize_device() == acl.rt.synchronize_stream(0) == acl.rt.reset_device(0) == NO_CONTEXT
    assert acl.rt.create_context(0) == (0, NO_CONTEXT)


def test_set_device_is_counted(device: int) -> None:
    assert acl.rt.get_device() == (0, 0) and acl.rt.get_device_count() == (3, 0)
    address = made(acl.rt.malloc(8, 0))
    assert acl.rt.set_device(0) == 0 and acl.rt.reset_device(0) == 0
    assert acl.rt.memset(address, 8, 0, 8) == 0
    assert acl.rt.reset_device(0) == 0
    assert acl.rt.get_device() == (0, NO_CONTEXT)
    assert acl.rt.set_device(0) == 0
    assert acl.rt.memset(address, 8, 0, 8) == INVALID


def test_each_thread_has_its_context(device: int) -> None:
    seen: list[Any] = []

    def other() -> None:
        seen.append(acl.rt.create_stream())
        seen.append(acl.rt.set_device(0))
        seen.append(acl.rt.get_context())
        seen.append(acl.rt.reset_device(0))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen == [(0, NO_CONTEXT), 0, acl.rt.get_context(), 0]


def test_streams_belong_to_their_context(device: int, stream: int) -> None:
    default = made(acl.rt.get_context())
    context = made(acl.rt.create_context(0))
    assert acl.rt.get_context() == (context, 0)
    inner = made(acl.rt.create_stream())
    assert acl.rt.synchronize_stream(stream) == FOREIGN and acl.rt.destroy_stream(stream) == FOREIGN
    assert acl.rt.synchronize_stream(inner) == acl.rt.synchronize_stream(0) == 0
    assert acl.rt.destroy_context(context) == 0
    assert acl.rt.get_context() == acl.rt.create_stream() == (0, NO_CONTEXT)
    assert acl.rt.set_context(context) == acl.rt.destroy_context(context) == HANDLE
    assert acl.rt.set_context(default) == 0
    assert acl.rt.synchronize_stream(inner) == HANDLE
    assert acl.rt.synchronize_stream(stream) == 0
    assert acl.rt.destroy_context(default) == INVALID


# ---- streams ----


def test_a_destroyed_stream_is_dead(device: int, stream: int, hold: Hold) -> None:
    release, address = hold(stream), made(acl.rt.malloc(8, 0))
    assert acl.rt.stream_query(stream) == (acl.ACL_STREAM_STATUS_NOT_READY, 0)
    assert acl.rt.memset_async(address, 8, 3, 8, stream) == 0
    threading.Timer(0.02, release).start()
    assert acl.rt.destroy_stream(stream) == 0  # waits for what is queued
    assert acl.util.ptr_to_bytes(address, 8) == b"\3" * 8
    assert acl.rt.destroy_stream(stream) == acl.rt.synchronize_stream(stream) == HANDLE
    assert acl.rt.stream_query(stream) == (0, HANDLE)
    assert acl.rt.memset_async(address, 8, 3, 8, stream) == HANDLE
    assert acl.rt.destroy_stream(0) == INVALID


def test_time_that_is_over_has_its_code(device: int, stream: int, hold: Hold) -> None:
    release = hold(stream)
    event = made(acl.rt.create_event())
    assert acl.rt.record_event(event, stream) == 0
    assert acl.rt.synchronize_stream_with_timeout(stream, 1) == acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT
    assert acl.rt.synchronize_event_with_timeout(event, 0) == acl.ACL_ERROR_RT_EVENT_SYNC_TIMEOUT
    release()
    assert acl.rt.synchronize_stream_with_timeout(stream, -1) == acl.rt.synchronize_event_with_timeout(event, -1) == 0
    for milliseconds in (-2, 1 << 31):
        assert acl.rt.synchronize_stream_with_timeout(stream, milliseconds) == INVALID


def test_a_failure_comes_out_once_and_the_stream_goes_on(device: int, stream: int) -> None:
    address = made(acl.rt.malloc(1, 0))
    find_stream(stream).launch(lambda: 1 // 0)
    assert acl.rt.memset_async(address, 1, 5, 1, stream) == 0
    assert acl.rt.synchronize_stream(stream) == acl.ACL_ERROR_RT_INTERNAL_ERROR
    message = acl.get_recent_err_msg()
    assert "division" in message and "test_rt.py" in message
    assert acl.util.ptr_to_bytes(address, 1) == b"\5"
    assert acl.rt.synchronize_stream(stream) == 0


def test_a_device_is_synchronised_on_all_its_streams(device: int, stream: int, hold: Hold) -> None:
    releases = [hold(stream), hold(0)]
    threading.Timer(0.02, lambda: [release() for release in releases]).start()
    find_stream(stream).launch(lambda: 1 // 0)
    assert acl.rt.synchronize_device() == acl.ACL_ERROR_RT_INTERNAL_ERROR
    assert acl.rt.stream_query(stream) == acl.rt.stream_query(0) == (acl.ACL_STREAM_STATUS_COMPLETE, 0)
    assert acl.rt.synchronize_device() == 0


# ---- events ----


def test_the_two_queries_count_the_other_way_round(device: int, stream: int, hold: Hold) -> None:
    event, release = made(acl.rt.create_event()), hold(stream)
    assert acl.rt.record_event(event, stream) == 0
    assert acl.rt.query_event(event) == (acl.ACL_EVENT_STATUS_NOT_READY, 0) == (1, 0)
    assert acl.rt.query_event_status(event) == (acl.ACL_EVENT_RECORDED_STATUS_NOT_READY, 0) == (0, 0)
    release()
    assert acl.rt.synchronize_event(event) == 0
    assert acl.rt.query_event(event) == (0, 0) and acl.rt.query_event_status(event) == (1, 0)


def test_a_stream_waits_for_an_event_of_another(device: int, stream: int, hold: Hold) -> None:
    other, event = made(acl.rt.create_stream()), made(acl.rt.create_event())
    address, release = made(acl.rt.malloc(2, 0)), hold(stream)
    assert acl.rt.memset_async(address, 2, 1, 2, stream) == 0
    assert acl.rt.record_event(event, stream) == acl.rt.stream_wait_event(other, event) == 0
    assert acl.rt.memset_async(address, 1, 2, 1, other) == 0
    assert acl.rt.destroy_event(event) == 0
    assert acl.rt.stream_query(other)[0] == acl.ACL_STREAM_STATUS_NOT_READY
    release()
    assert acl.rt.synchronize_stream(other) == 0
    assert acl.util.ptr_to_bytes(address, 2) == b"\2\1"


def test_elapsed_time_and_its_codes(device: int, stream: int, hold: Hold) -> None:
    start, end = made(acl.rt.create_event()), made(acl.rt.create_event())
    assert acl.rt.event_elapsed_time(start, end) == (0, acl.ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID)
    assert acl.rt.record_event(start, stream) == acl.rt.synchronize_event(start) == 0
    release = hold(stream)
    assert acl.rt.record_event(end, stream) == 0
    assert acl.rt.event_elapsed_time(start, end) == (0, acl.ACL_ERROR_RT_EVENT_NOT_COMPLETE)
    assert acl.rt.synchronize_stream_with_timeout(stream, 5) == acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT
    release()
    assert acl.rt.synchronize_stream(stream) == 0
    elapsed, ret = acl.rt.event_elapsed_time(start, end)
    assert ret == 0 and 4 < elapsed < 10_000
    assert acl.rt.event_elapsed_time(end, start) == (0, acl.ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL)


def test_a_destroyed_event_is_dead(device: int, stream: int) -> None:
    event = made(acl.rt.create_event())
    assert acl.rt.destroy_event(event) == 0
    for call in (acl.rt.destroy_event, acl.rt.synchronize_event):
        assert call(event) == HANDLE
    assert acl.rt.record_event(event, stream) == acl.rt.stream_wait_event(stream, event) == HANDLE
    assert acl.rt.query_event(event) == acl.rt.query_event_status(event) == (0, HANDLE)
    assert acl.rt.event_elapsed_time(event, event) == (0, HANDLE)


# ---- wild arguments ----

WILD = st.one_of(st.integers(), st.integers(-(1 << 65), 1 << 65), st.sampled_from([1, -1, 1 << 63, 1 << 64]))
CALLS = {
    acl.rt.destroy_context: 1,
    acl.rt.set_context: 1,
    acl.rt.destroy_stream: 1,
    acl.rt.synchronize_stream: 1,
    acl.rt.synchronize_stream_with_timeout: 2,
    acl.rt.stream_query: 1,
    acl.rt.destroy_event: 1,
    acl.rt.record_event: 2,
    acl.rt.stream_wait_event: 2,
    acl.rt.synchronize_event: 1,
    acl.rt.synchronize_event_with_timeout: 2,
    acl.rt.query_event: 1,
    acl.rt.query_event_status: 1,
    acl.rt.event_elapsed_time: 2,
}


@pytest.mark.parametrize("function", CALLS)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_wild_handles_give_codes(device: int, function: Callable[..., Any], data: Any) -> None:
    arguments = data.draw(st.lists(WILD.filter(bool), min_size=CALLS[function], max_size=CALLS[function]))
    answer = function(*arguments)
    assert (answer if isinstance(answer, int) else answer[-1]) in (HANDLE, INVALID)


@pytest.mark.parametrize("function", CALLS)
def test_handles_of_wrong_types_raise(device: int, function: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match="expected an integer"):
        function(*["1"] * CALLS[function])
    with pytest.raises(TypeError):
        function()


def test_handles_of_another_kind_are_no_handles(device: int, stream: int) -> None:
    event, context = made(acl.rt.create_event()), made(acl.rt.get_context())
    assert acl.rt.synchronize_stream(event) == acl.rt.synchronize_event(context) == acl.rt.set_context(stream) == HANDLE
