"""acl.rt: events by flag, who waits for them, their times, and how long streams wait."""

from collections.abc import Callable, Iterator

import pytest

from ascend_rt import acl
from ascend_rt.acl.device import find_stream
from ascend_rt.acl.stream import Stream

from ..answers import made

INVALID = acl.ACL_ERROR_RT_PARAM_INVALID
Hold = Callable[[int], Callable[[], None]]
NO_TIME = acl.ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID


@pytest.fixture
def usual_limit() -> Iterator[None]:
    """Streams wait as long as before afterwards."""
    yield
    Stream.event_seconds = None


def test_events_measure_time_if_made_for_it(device: int, stream: int) -> None:
    timed, untimed = made(acl.rt.create_event_with_flag(acl.ACL_EVENT_TIME_LINE | acl.ACL_EVENT_SYNC)), made(
        acl.rt.create_event_ex_with_flag(acl.ACL_EVENT_SYNC)
    )
    assert acl.rt.event_get_timestamp(timed) == (0, NO_TIME)
    assert acl.rt.record_event(timed, stream) == acl.rt.record_event(untimed, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    first = made(acl.rt.event_get_timestamp(timed))
    assert acl.rt.event_elapsed_time(timed, untimed) == (0, NO_TIME)
    assert "made without ACL_EVENT_TIME_LINE" in acl.get_recent_err_msg()
    assert acl.rt.event_get_timestamp(untimed) == (0, NO_TIME)
    assert acl.rt.record_event(timed, stream) == acl.rt.synchronize_event(timed) == 0
    assert made(acl.rt.event_get_timestamp(timed)) >= first > 0


@pytest.mark.parametrize("flag, code", [(-1, INVALID), (0x80, INVALID), (0x40, acl.ACL_ERROR_FEATURE_UNSUPPORTED)])
def test_wrong_flags(device: int, flag: int, code: int) -> None:
    assert acl.rt.create_event_with_flag(flag) == acl.rt.create_event_ex_with_flag(flag) == (0, code)


def test_the_time_of_what_is_not_complete(device: int, stream: int, hold: Hold) -> None:
    event, release = made(acl.rt.create_event()), hold(stream)
    assert acl.rt.record_event(event, stream) == 0
    assert acl.rt.event_get_timestamp(event) == (0, acl.ACL_ERROR_RT_EVENT_NOT_COMPLETE)
    release()


def test_who_waits_for_an_event(device: int, stream: int, hold: Hold) -> None:
    event, other = made(acl.rt.create_event()), made(acl.rt.create_stream())
    assert acl.rt.query_event_wait_status(event) == (acl.ACL_EVENT_WAIT_STATUS_COMPLETE, 0)
    release = hold(stream)
    assert acl.rt.record_event(event, stream) == 0
    assert acl.rt.query_event_wait_status(event) == (acl.ACL_EVENT_WAIT_STATUS_COMPLETE, 0)
    assert acl.rt.stream_wait_event(other, event) == acl.rt.record_event(event, other) == 0
    # The wait is for the recording before the latest.
    assert acl.rt.query_event_wait_status(event) == (acl.ACL_EVENT_WAIT_STATUS_NOT_READY, 0)
    release()
    assert acl.rt.synchronize_stream(other) == 0
    assert acl.rt.query_event_wait_status(event) == (acl.ACL_EVENT_WAIT_STATUS_COMPLETE, 0)


def test_the_latest_recording_counts(device: int, stream: int, hold: Hold) -> None:
    event, other = made(acl.rt.create_event()), made(acl.rt.create_stream())
    assert acl.rt.record_event(event, stream) == acl.rt.synchronize_event(event) == 0
    release = hold(stream)
    assert acl.rt.record_event(event, stream) == acl.rt.stream_wait_event(other, event) == 0
    assert acl.rt.stream_query(other) == (acl.ACL_STREAM_STATUS_NOT_READY, 0)
    release()
    assert acl.rt.synchronize_stream(other) == 0


def test_a_reset_event_was_never_recorded(device: int, stream: int, hold: Hold) -> None:
    event, release = made(acl.rt.create_event()), hold(stream)
    assert acl.rt.record_event(event, stream) == 0
    assert acl.rt.query_event(event) == (acl.ACL_EVENT_STATUS_NOT_READY, 0)
    assert acl.rt.reset_event(event, stream) == 0
    assert acl.rt.query_event(event) == (acl.ACL_EVENT_STATUS_COMPLETE, 0)
    assert acl.rt.event_get_timestamp(event) == (0, NO_TIME)
    release()


def test_streams_that_wait_for_each_other_are_told(device: int, stream: int, usual_limit: None) -> None:
    other, first, second = made(acl.rt.create_stream()), made(acl.rt.create_event()), made(acl.rt.create_event())
    notify = made(acl.rt.create_notify(0))
    assert acl.rt.set_op_wait_timeout(1) == 0
    # Each stream waits for what the other does only behind its own wait.
    for queue in (stream, other):
        assert acl.rt.wait_and_reset_notify(notify, queue, 200) == 0
    assert acl.rt.record_event(first, stream) == acl.rt.record_event(second, other) == 0
    assert acl.rt.stream_wait_event(stream, second) == acl.rt.stream_wait_event(other, first) == 0
    for queue in (stream, other):
        assert acl.rt.synchronize_stream(queue) == acl.ACL_ERROR_RT_FFTS_PLUS_TIMEOUT
        assert "a wait for a notify, queued at test_rt_events.py" in acl.get_recent_err_msg()


def test_a_wait_for_an_event_has_a_limit(device: int, stream: int, hold: Hold, usual_limit: None) -> None:
    event, other = made(acl.rt.create_event()), made(acl.rt.create_stream())
    assert acl.rt.set_op_wait_timeout(1) == 0
    find_stream(other).set_event_timeout(20_000_000)  # not so long, for a test
    release = hold(stream)
    assert acl.rt.record_event(event, stream) == acl.rt.stream_wait_event(other, event) == 0
    assert acl.rt.synchronize_stream(other) == acl.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT
    assert "longer than 1 s (set_op_wait_timeout)" in acl.get_recent_err_msg()
    release()
    for seconds in (-1, 1 << 31):
        assert acl.rt.set_op_wait_timeout(seconds) == INVALID


@pytest.mark.thorough
def test_a_process_has_65535_events(device: int) -> None:
    events = [acl.rt.create_event()[0] for _ in range(65535)]
    assert acl.rt.create_event() == (0, acl.ACL_ERROR_RT_NO_EVENT_RESOURCE)
    assert [acl.rt.destroy_event(event) for event in events] == [0] * len(events)
