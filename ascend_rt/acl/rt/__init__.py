"""acl.rt: the device runtime by pyACL's names and conventions, one file per noun.

A function returns ret, or (value, ret) with ret last; 0 is success, and acl.get_recent_err_msg() tells what failed.
Devices and memory are named by integers, as are contexts, streams and events (handles; stream 0 is the default stream).
Arguments are positional. One of the wrong type is a TypeError, one with a wrong value gives a code.
"""

from .context import create_context, destroy_context, get_context, set_context
from .device import get_device, get_device_count, get_run_mode, reset_device, set_device, synchronize_device
from .event import (
    create_event,
    destroy_event,
    event_elapsed_time,
    query_event,
    query_event_status,
    record_event,
    stream_wait_event,
    synchronize_event,
    synchronize_event_with_timeout,
)
from .memory import (
    free,
    free_host,
    get_mem_info,
    malloc,
    malloc_host,
    memcpy,
    memcpy_async,
    memset,
    memset_async,
)
from .stream import (
    create_stream,
    destroy_stream,
    stream_query,
    synchronize_stream,
    synchronize_stream_with_timeout,
)

__all__ = [
    "create_context",
    "create_event",
    "create_stream",
    "destroy_context",
    "destroy_event",
    "destroy_stream",
    "event_elapsed_time",
    "free",
    "free_host",
    "get_context",
    "get_device",
    "get_device_count",
    "get_mem_info",
    "get_run_mode",
    "malloc",
    "malloc_host",
    "memcpy",
    "memcpy_async",
    "memset",
    "memset_async",
    "query_event",
    "query_event_status",
    "record_event",
    "reset_device",
    "set_context",
    "set_device",
    "stream_query",
    "stream_wait_event",
    "synchronize_device",
    "synchronize_event",
    "synchronize_event_with_timeout",
    "synchronize_stream",
    "synchronize_stream_with_timeout",
]
