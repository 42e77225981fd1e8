"""acl.rt: events."""

from .. import device as local
from ..constants import (
    ACL_EVENT_EXTERNAL,
    ACL_EVENT_IPC,
    ACL_EVENT_RECORDED_STATUS_COMPLETE,
    ACL_EVENT_RECORDED_STATUS_NOT_READY,
    ACL_EVENT_STATUS_COMPLETE,
    ACL_EVENT_STATUS_NOT_READY,
    ACL_EVENT_TIME_LINE,
    ACL_EVENT_WAIT_STATUS_COMPLETE,
    ACL_EVENT_WAIT_STATUS_NOT_READY,
)
from ..errors import (
    ACL_ERROR_FEATURE_UNSUPPORTED,
    ACL_ERROR_RT_EVENT_NOT_COMPLETE,
    ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
    ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL,
    ACL_ERROR_RT_NO_EVENT_RESOURCE,
    AclError,
)
from ..event import Event
from ..external_event import ExternalEvent
from ..recording import RecordedStream
from ..return_codes import integer, ranged, returns_code, returns_value_and_code
from ..stream import Stream
from .stream import INT32_MAX, seconds_of

MOST_EVENTS = 65535  # of a process, as of a device among training chips
EVERY_FLAG = 2 * ACL_EVENT_IPC - 1


@returns_value_and_code
def create_event() -> int:
    """(event, ret) of the calling thread's device. 107002: it has no context; 207007: there are 65535 already."""
    return _create(measures_time=True)


@returns_value_and_code
def create_event_with_flag(flag: int, /) -> int:
    """(event, ret). The flags are those of ACL_EVENT_*; an event without ACL_EVENT_TIME_LINE measures no time.

    107000: no such flag; 200006: ACL_EVENT_IPC, whose events other processes wait for (use a notify); 107002, 207007.
    """
    flag = ranged("flag", flag, 0, EVERY_FLAG)
    if flag & ACL_EVENT_IPC:
        text = "ACL_EVENT_IPC: events stay in their process; a notify goes to others, see acl.rt.notify_get_export_key"
        raise AclError(ACL_ERROR_FEATURE_UNSUPPORTED, text)
    return _create(measures_time=bool(flag & ACL_EVENT_TIME_LINE), is_external=bool(flag & ACL_EVENT_EXTERNAL))


create_event_ex_with_flag = create_event_with_flag


@returns_code
def destroy_event(event: int, /) -> None:
    """ret. What waits for it already goes on waiting. 107017: no such event."""
    local.events.remove(integer("event", event))


@returns_code
def record_event(event: int, stream: int, /) -> None:
    """The event completes when all that is queued on the stream so far is done. ret: 107017, 107003."""
    owned, queue = local.events.get(integer("event", event)), local.find_stream(integer("stream", stream))
    if owned.external is not None and not isinstance(queue, RecordedStream):
        queue.launch(owned.external.recording())
    queue.record(owned.event)


@returns_code
def reset_event(event: int, stream: int, /) -> None:
    """The event is as if it had never been recorded, at once; waits that are queued already keep what they wait for.
    Captured, of an event of ACL_EVENT_EXTERNAL: each execution takes the recording that has let it pass, and the next
    one waits for another. ret: 107017, 107003."""
    owned, queue = local.events.get(integer("event", event)), local.find_stream(integer("stream", stream))
    if owned.external is not None and isinstance(queue, RecordedStream):
        owned.external.reset_in(queue.recorder)
    else:
        owned.event.move_to(None)


@returns_code
def stream_wait_event(stream: int, event: int, /) -> None:
    """What is queued on the stream from here on waits for the event's latest recording; for nothing if there is none.
    If the stream is captured and the event is of ACL_EVENT_EXTERNAL, each execution waits until it is recorded outside
    of the capture: until then task groups behind the wait are updated. ret: 107017, 107003. Does not block."""
    stream, owned = integer("stream", stream), local.events.get(integer("event", event))
    queue = local.find_stream(stream)
    if owned.is_external and isinstance(queue, RecordedStream):
        owned.external = owned.external or ExternalEvent()
        queue.recorder.gate(queue, owned.external.gate(queue.recorder))
    else:
        queue.wait(owned.event)


@returns_code
def synchronize_event(event: int, /) -> None:
    """Block until the event is complete; at once if it was never recorded. ret: 107017. What failed before it is the
    code of its stream's synchronisation."""
    _find(event).synchronize()


@returns_code
def synchronize_event_with_timeout(event: int, milliseconds: int, /) -> None:
    """synchronize_event for at most so long, -1: for ever. ret: 507047 when the time is over."""
    held = _find(event)
    held.synchronize(seconds_of(integer("milliseconds", milliseconds)))


@returns_value_and_code
def query_event(event: int, /) -> int:
    """(ACL_EVENT_STATUS_COMPLETE 0 or NOT_READY 1, ret). An event that was never recorded is complete."""
    return ACL_EVENT_STATUS_COMPLETE if _find(event).query() else ACL_EVENT_STATUS_NOT_READY


@returns_value_and_code
def query_event_status(event: int, /) -> int:
    """(ACL_EVENT_RECORDED_STATUS_COMPLETE 1 or NOT_READY 0, ret): the numbers of query_event the other way round."""
    return ACL_EVENT_RECORDED_STATUS_COMPLETE if _find(event).query() else ACL_EVENT_RECORDED_STATUS_NOT_READY


@returns_value_and_code
def query_event_wait_status(event: int, /) -> int:
    """(ACL_EVENT_WAIT_STATUS_COMPLETE 0 or NOT_READY 1, ret): whether no stream waits for it, or has a wait queued."""
    return ACL_EVENT_WAIT_STATUS_NOT_READY if _find(event).is_waited_for else ACL_EVENT_WAIT_STATUS_COMPLETE


@returns_value_and_code
def event_elapsed_time(start: int, end: int, /) -> float:
    """(milliseconds from start to end, ret).

    107006: one was never recorded, or made without ACL_EVENT_TIME_LINE; 507006: one is not complete; 107007: end lies
    before start.
    """
    handles = {"start": integer("start", start), "end": integer("end", end)}
    owned = [local.events.get(handle) for handle in handles.values()]
    first, last = (_timed(name, handles[name], event) for name, event in zip(handles, owned, strict=True))
    elapsed = first.elapsed_ms(last)
    if elapsed < 0:
        text = f"event {end:#x} (end) was reached {-elapsed:g} ms before event {start:#x} (start)"
        raise AclError(ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, text)
    return elapsed


@returns_value_and_code
def event_get_timestamp(event: int, /) -> int:
    """(microseconds, by the monotonic clock, when it was complete, ret). 107006, 507006 as event_elapsed_time."""
    handle = integer("event", event)
    return _timed("event", handle, local.events.get(handle)).stamp_ns // 1000


@returns_code
def set_op_wait_timeout(seconds: int, /) -> None:
    """How long streams of this process wait for an event or a value; 0 means for ever. ret. 107000: no such number.

    HCCL_EXEC_TIMEOUT before it is called. The synchronisation of a stream that waited so long gives 507046, or 107019
    for a value.
    """
    Stream.limit_waits(ranged("seconds", seconds, 0, INT32_MAX))


def _create(*, measures_time: bool, is_external: bool = False) -> int:
    device = local.in_use()
    if len(local.events) >= MOST_EVENTS:
        text = f"this process has {MOST_EVENTS} events; destroy those that are not needed"
        raise AclError(ACL_ERROR_RT_NO_EVENT_RESOURCE, text)
    return local.events.add(local.OwnedEvent(Event(), device, measures_time, is_external))


def _find(event: int) -> Event:
    return local.events.get(integer("event", event)).event


def _timed(name: str, handle: int, owned: local.OwnedEvent) -> Event:
    """The event, if it has a time."""
    if not owned.measures_time or not owned.event.recorded:
        why = "was never recorded" if owned.measures_time else "was made without ACL_EVENT_TIME_LINE"
        raise AclError(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, f"the time of event {handle:#x} ({name}), which {why}")
    if not owned.event.query():
        text = f"the time of event {handle:#x} ({name}), which is not complete; synchronize it first"
        raise AclError(ACL_ERROR_RT_EVENT_NOT_COMPLETE, text)
    return owned.event
