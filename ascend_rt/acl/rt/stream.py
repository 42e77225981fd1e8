"""acl.rt: streams. They go on after a failure, as CANN's do: the first failure is the next synchronisation's code."""

import time
from collections.abc import Sequence

from .. import device as local
from ..addresses import invalid
from ..constants import (
    ACL_CONTINUE_ON_FAILURE,
    ACL_STOP_ON_FAILURE,
    ACL_STREAM_DEVICE_USE_ONLY,
    ACL_STREAM_STATUS_COMPLETE,
    ACL_STREAM_STATUS_NOT_READY,
)
from ..errors import ACL_ERROR_RT_NO_STREAM_RESOURCE, AclError
from ..return_codes import integer, ranged, returns_code, returns_value_and_code
from ..stream import Stream

INT32_MAX = (1 << 31) - 1
MOST_STREAMS = 2048  # of a device, as on training chips
LOWEST_PRIORITY = 7
EVERY_FLAG = 2 * ACL_STREAM_DEVICE_USE_ONLY - 1


@returns_value_and_code
def create_stream() -> int:
    """(stream, ret): a new stream of the calling thread's context. 107002: it has none; 207008: its device has 2048."""
    return _create()


@returns_value_and_code
def create_stream_with_config(priority: int, flag: int, /) -> int:
    """create_stream. Priorities are 0 to 7 and flags those of ACL_STREAM_*; neither changes anything here. 107000: any
    other."""
    ranged("priority", priority, 0, LOWEST_PRIORITY)
    ranged("flag", flag, 0, EVERY_FLAG)
    return _create()


@returns_code
def destroy_stream(stream: int, /) -> None:
    """Wait for all that is queued on a stream, then end it. ret: what failed on it; it is destroyed all the same.

    107017: no such stream; 107003: of another context; 107000: the default stream, which its context ends.
    """
    free_streams([_remove(integer("stream", stream))])


@returns_code
def destroy_stream_force(stream: int, /) -> None:
    """destroy_stream, and what is queued is dropped. ret: as destroy_stream, but for what failed."""
    held = _remove(integer("stream", stream))
    held.drop_queued()
    held.end()


@returns_code
def synchronize_stream(stream: int, /) -> None:
    """Block until all that is queued on a stream is done. ret: the code of what failed, once."""
    local.find_stream(integer("stream", stream)).synchronize()


@returns_code
def synchronize_stream_with_timeout(stream: int, milliseconds: int, /) -> None:
    """synchronize_stream for at most so long, -1: for ever. ret: 507046 when the time is over; the stream goes on."""
    held = local.find_stream(integer("stream", stream))
    held.synchronize(seconds_of(integer("milliseconds", milliseconds)))


@returns_value_and_code
def stream_query(stream: int, /) -> int:
    """(ACL_STREAM_STATUS_COMPLETE or NOT_READY, ret): whether all that was queued is done, or failed."""
    done = local.find_stream(integer("stream", stream)).query()
    return ACL_STREAM_STATUS_COMPLETE if done else ACL_STREAM_STATUS_NOT_READY


@returns_code
def stream_abort(stream: int, /) -> None:
    """Drop what is queued on a stream and wait until what runs has given up. ret. Its next synchronisation gives
    107023, and what is queued from here on runs. A collective that is under way ends its communicator on every rank;
    after one that was not, the ranks' next calls do not agree, until comm.resync()."""
    held = local.find_stream(integer("stream", stream))
    held.drop_queued()
    held.finish(0.0)


@returns_value_and_code
def stream_get_id(stream: int, /) -> int:
    """(id of a stream, counted on its device, ret)."""
    return local.find_owned_stream(integer("stream", stream)).number


@returns_value_and_code
def get_stream_available_num() -> int:
    """(how many more streams this thread's device can have, ret). 107002: the thread has no context."""
    return MOST_STREAMS - len(local.in_use().streams())


@returns_code
def set_stream_failure_mode(stream: int, mode: int, /) -> None:
    """ACL_CONTINUE_ON_FAILURE (0, as made): tasks run although one before them failed. ACL_STOP_ON_FAILURE (1): they do
    not, until the stream is synchronised. ret. 107000: no such mode."""
    held = local.find_stream(integer("stream", stream))
    mode = ranged("mode", mode, ACL_CONTINUE_ON_FAILURE, ACL_STOP_ON_FAILURE)
    held.set_goes_on_after_failure(mode == ACL_CONTINUE_ON_FAILURE)


def seconds_of(milliseconds: int) -> float | None:
    """A timeout of C in seconds, None for -1; AclError (107000) if it is none."""
    if not -1 <= milliseconds <= INT32_MAX:
        raise invalid(f"a timeout of {milliseconds} ms; expected -1 (for ever), or 0 to {INT32_MAX}")
    return None if milliseconds == -1 else milliseconds * 1e-3


def finish_all(streams: Sequence[Stream], seconds: float | None = None) -> None:
    """Wait for all of them, so many seconds in all; raise the first failure."""
    deadline = None if seconds is None else time.monotonic() + seconds
    failures = []
    for stream in streams:
        try:
            stream.synchronize(None if deadline is None else max(deadline - time.monotonic(), 0.0))
        except Exception as error:
            failures.append(error)
    if failures:
        raise failures[0]


def free_streams(streams: Sequence[Stream]) -> None:
    """Wait for all of them and end them; raise the first failure."""
    try:
        finish_all(streams)
    finally:
        for stream in streams:
            stream.end()


def _create() -> int:
    device = local.in_use()
    if len(local.streams) >= MOST_STREAMS and len(device.streams()) >= MOST_STREAMS:
        text = f"device {device.index} has {MOST_STREAMS} streams; destroy those that are not needed"
        raise AclError(ACL_ERROR_RT_NO_STREAM_RESOURCE, text)
    stream = Stream(goes_on_after_failure=True)
    return local.streams.add(local.OwnedStream(stream, local.current_context(), device.next_id()))


def _remove(handle: int) -> Stream:
    owned = local.find_owned_stream(handle)
    if owned.is_default:
        raise invalid(f"stream={handle:#x} is the default stream; destroy_context and reset_device end it")
    owned.stream.check_may_end()
    local.streams.remove(handle)
    return owned.stream
