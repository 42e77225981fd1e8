"""acl.rt: contexts. Each thread has a current one, in which its streams are made and used."""

from .. import device as local
from ..addresses import invalid
from ..return_codes import integer, returns_code, returns_value_and_code
from .stream import free_streams


@returns_value_and_code
def create_context(device_id: int, /) -> int:
    """(context, ret): a new context, which becomes the calling thread's.

    107001: no such device; 107002: the device is not set.
    """
    device = local.set_device_of(integer("device_id", device_id))
    handle = local.contexts.add(local.Context(device, is_default=False))
    local.set_current_context(handle)
    return handle


@returns_code
def destroy_context(context: int, /) -> None:
    """Wait for the streams of a context, then end it and them. ret: what failed on them, released all the same.

    107017: no such context; 107000: it is the default context, which reset_device ends.
    """
    handle = integer("context", context)
    held = local.contexts.get(handle)
    if held.is_default:
        raise invalid(f"context {handle:#x} is the default context of its device; reset_device ends it")
    streams = held.streams()
    local.contexts.remove(handle)
    for stream, _ in streams:
        local.streams.remove(stream)
    free_streams([stream for _, stream in streams])


@returns_code
def set_context(context: int, /) -> None:
    """Make a context the calling thread's, and its device. ret. 107017: no such context."""
    handle = integer("context", context)
    local.contexts.get(handle)
    local.set_current_context(handle)


@returns_value_and_code
def get_context() -> int:
    """(context, ret): the calling thread's. 107002: it has none."""
    local.in_use()
    return local.current_context_handle()


@returns_value_and_code
def ctx_get_current_default_stream() -> int:
    """(stream, ret): the default stream of the calling thread's context, which stream 0 means. 107002: it has none."""
    local.in_use()
    return local.current_context().default_stream
