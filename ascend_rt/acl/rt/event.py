"""acl.rt: events."""

from .. import device as local
from ..constants import (
    ACL_EVENT_RECORDED_STATUS_COMPLETE,
    ACL_EVENT_RECORDED_STATUS_NOT_READY,
    ACL_EVENT_STATUS_COMPLETE,
    ACL_EVENT_STATUS_NOT_READY,
)
from ..errors import (
    ACL_ERROR_RT_EVENT_NOT_COMPLETE,
    ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
    ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL,
    AclError,
)
from ..event import Event
from ..return_codes import integer, returns_code, returns_value_and_code
from .stream import seconds_of


@returns_value_and_code
def create_event() -> int:
    """(event, ret). 107002: the calling thread has no context."""
    device = local.in_use()
    local.current_context(device)
    return device.events.add(Event())


@returns_code
def destroy_event(event: int, /) -> None:
    """ret. What waits for it already goes on waiting. 107017: no such event."""
    local.in_use().events.remove(integer("event", event))


@returns_code
def record_event(event: int, stream: int, /) -> None:
    """The event completes when all that is queued on the stream so far is done. ret: 107017, 107003."""
    event, stream, device = integer("event", event), integer("stream", stream), local.in_use()
    device.stream(stream).record(device.events.get(event))


@returns_code
def stream_wait_event(stream: int, event: int, /) -> None:
    """What is queued on the stream from here on waits for the event's latest recording; for nothing if there is none.
    ret: 107017, 107003. Does not block."""
    stream, event, device = integer("stream", stream), integer("event", event), local.in_use()
    device.stream(stream).wait(device.events.get(event))


@returns_code
def synchronize_event(event: int, /) -> None:
    """Block until the event is complete; at once if it was never recorded. ret: 107017. What failed before it is the
    code of its stream's synchronisation."""
    local.in_use().events.get(integer("event", event)).synchronize()


@returns_code
def synchronize_event_with_timeout(event: int, milliseconds: int, /) -> None:
    """synchronize_event for at most so long, -1: for ever. ret: 507047 when the time is over."""
    held = local.in_use().events.get(integer("event", event))
    held.synchronize(seconds_of(integer("milliseconds", milliseconds)))


@returns_value_and_code
def query_event(event: int, /) -> int:
    """(ACL_EVENT_STATUS_COMPLETE 0 or NOT_READY 1, ret). An event that was never recorded is complete."""
    complete = local.in_use().events.get(integer("event", event)).query()
    return ACL_EVENT_STATUS_COMPLETE if complete else ACL_EVENT_STATUS_NOT_READY


@returns_value_and_code
def query_event_status(event: int, /) -> int:
    """(ACL_EVENT_RECORDED_STATUS_COMPLETE 1 or NOT_READY 0, ret): the numbers of query_event the other way round."""
    complete = local.in_use().events.get(integer("event", event)).query()
    return ACL_EVENT_RECORDED_STATUS_COMPLETE if complete else ACL_EVENT_RECORDED_STATUS_NOT_READY


@returns_value_and_code
def event_elapsed_time(start: int, end: int, /) -> float:
    """(milliseconds from start to end, ret).

    107006: one was never recorded; 507006: one is not complete; 107007: end lies before start.
    """
    start, end, events = integer("start", start), integer("end", end), local.in_use().events
    first, last = events.get(start), events.get(end)
    if not (first.recorded and last.recorded):
        raise AclError(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "the time between two events, and one was never recorded")
    if not (first.query() and last.query()):
        text = "the time between two events, and one is not complete; synchronize it first"
        raise AclError(ACL_ERROR_RT_EVENT_NOT_COMPLETE, text)
    elapsed = first.elapsed_ms(last)
    if elapsed < 0:
        text = f"event {end:#x} (end) was reached {-elapsed:g} ms before event {start:#x} (start)"
        raise AclError(ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, text)
    return elapsed
