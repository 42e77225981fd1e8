"""acl.rt: callbacks, functions that a stream has a thread of the program call."""

from collections.abc import Callable
from typing import Any

from .. import device as local
from ..addresses import invalid
from ..constants import ACL_CALLBACK_BLOCK, ACL_CALLBACK_NO_BLOCK
from ..report import Report, launch, next_report, run, subscribe, unsubscribe
from ..return_codes import integer, ranged, returns_code, returns_value_and_code
from .stream import seconds_of


@returns_code
def launch_callback(function: Callable[[Any], object], user_data: Any, block_type: int, stream: int, /) -> None:
    """When all that is queued on the stream so far is done, function(user_data) runs in the subscribed thread. ret.

    block_type: ACL_CALLBACK_BLOCK (1), the stream waits for its end, and what it raises is the stream's failure too;
    ACL_CALLBACK_NO_BLOCK (0), it goes on. 107000: any other; 107015: no thread is subscribed; 107017, 107003 for the
    stream.
    """
    if not callable(function):
        raise TypeError(f"function is a {type(function).__name__}; expected something to call")
    queue = local.find_stream(integer("stream", stream))
    blocks = ranged("block_type", block_type, ACL_CALLBACK_NO_BLOCK, ACL_CALLBACK_BLOCK) == ACL_CALLBACK_BLOCK
    launch(function, user_data, queue, blocks=blocks)


@returns_code
def subscribe_report(thread_id: int, stream: int, /) -> None:
    """The thread (acl.util.start_thread, threading.get_ident) runs the callbacks of the stream. ret.

    107000: no such thread; 107011: a thread is subscribed to the stream; 107017, 107003 for the stream.
    """
    thread = integer("thread_id", thread_id)
    subscribe(thread, local.find_stream(integer("stream", stream)))


@returns_code
def unsubscribe_report(thread_id: int, stream: int, /) -> None:
    """End a subscription. ret. Callbacks that have not run do not: synchronise the stream first.

    107011: the thread is not subscribed to the stream; 107017, 107003 for the stream.
    """
    thread = integer("thread_id", thread_id)
    unsubscribe(thread, local.find_stream(integer("stream", stream)))


def process_report(timeout: int, /) -> int:
    """Wait for the next callback of this thread's streams and run it; other threads run meanwhile. ret.

    timeout: milliseconds, -1 for ever. 107000: 0 or less than -1; 107012: the thread is subscribed to no stream, told
    at once; 507012: the time is over. An exception of the callback comes out of here.
    """
    report, ret = _next(timeout)
    if isinstance(report, Report):
        run(report)
    return ret


@returns_value_and_code
def _next(timeout: int) -> Report:
    milliseconds = integer("timeout", timeout)
    if milliseconds == 0:
        raise invalid("timeout=0; expected milliseconds, or -1 for ever")
    return next_report(seconds_of(milliseconds))
