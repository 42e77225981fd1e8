"""acl.rt: streams. They go on after a failure, as CANN's do: the first failure is the next synchronisation's code."""

from collections.abc import Sequence

from .. import device as local
from ..addresses import invalid
from ..constants import ACL_STREAM_STATUS_COMPLETE, ACL_STREAM_STATUS_NOT_READY
from ..return_codes import integer, returns_code, returns_value_and_code
from ..stream import Stream

INT32_MAX = (1 << 31) - 1


@returns_value_and_code
def create_stream() -> int:
    """(stream, ret): a new stream of the calling thread's context. 107002: it has none."""
    device = local.in_use()
    context = local.current_context(device)
    return device.streams.add(local.OwnedStream(Stream(goes_on_after_failure=True), context))


@returns_code
def destroy_stream(stream: int, /) -> None:
    """Wait for all that is queued on a stream, then end it. ret: what failed on it; it is destroyed all the same.

    107017: no such stream; 107003: of another context; 107000: 0, the default stream, which its context ends.
    """
    handle, device = integer("stream", stream), local.in_use()
    if handle == 0:
        raise invalid("stream=0 is the default stream; destroy_context and reset_device end it")
    held = device.stream(handle)
    device.streams.remove(handle)
    free_streams([held])


@returns_code
def synchronize_stream(stream: int, /) -> None:
    """Block until all that is queued on a stream is done. ret: the code of what failed, once."""
    local.in_use().stream(integer("stream", stream)).synchronize()


@returns_code
def synchronize_stream_with_timeout(stream: int, milliseconds: int, /) -> None:
    """synchronize_stream for at most so long, -1: for ever. ret: 507046 when the time is over; the stream goes on."""
    held = local.in_use().stream(integer("stream", stream))
    held.synchronize(seconds_of(integer("milliseconds", milliseconds)))


@returns_value_and_code
def stream_query(stream: int, /) -> int:
    """(ACL_STREAM_STATUS_COMPLETE or NOT_READY, ret): whether all that was queued is done, or failed."""
    done = local.in_use().stream(integer("stream", stream)).query()
    return ACL_STREAM_STATUS_COMPLETE if done else ACL_STREAM_STATUS_NOT_READY


def seconds_of(milliseconds: int) -> float | None:
    """A timeout of C in seconds, None for -1; AclError (107000) if it is none."""
    if not -1 <= milliseconds <= INT32_MAX:
        raise invalid(f"a timeout of {milliseconds} ms; expected -1 (for ever), or 0 to {INT32_MAX}")
    return None if milliseconds == -1 else milliseconds * 1e-3


def finish_all(streams: Sequence[Stream]) -> None:
    """Wait for all of them; raise the first failure."""
    failures = []
    for stream in streams:
        try:
            stream.synchronize()
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
