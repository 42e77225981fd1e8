"""acl.rt: contexts. Each thread has a current one, in which its streams are made and used."""

from .. import device as local
from ..addresses import invalid
from ..return_codes import integer, returns_code, returns_value_and_code
from .device import check_own
from .stream import free_streams


@returns_value_and_code
def create_context(device_id: int, /) -> int:
    """(context, ret): a new context, which becomes the calling thread's.

    107001: no device of this rank; 107002: the device is not set.
    """
    check_own(integer("device_id", device_id))
    handle = local.in_use().contexts.add(local.Context(is_default=False))
    local.set_current_context(handle)
    return handle


@returns_code
def destroy_context(context: int, /) -> None:
    """Wait for the streams of a context, then end it and them. ret: what failed on them, released all the same.

    107017: no such context; 107000: it is the default context, which reset_device ends.
    """
    handle, device = integer("context", context), local.in_use()
    held = device.contexts.get(handle)
    if held.is_default:
        raise invalid(f"context {handle:#x} is the default context of its device; reset_device ends it")
    streams = device.streams_of(held)
    device.contexts.remove(handle)
    for stream, owned in device.streams.items():
        if owned.context is held:
            device.streams.remove(stream)
    free_streams(streams)


@returns_code
def set_context(context: int, /) -> None:
    """Make a context the calling thread's. ret. 107017: no such context."""
    handle = integer("context", context)
    local.in_use().contexts.get(handle)
    local.set_current_context(handle)


@returns_value_and_code
def get_context() -> int:
    """(context, ret): the calling thread's. 107002: it has none."""
    local.current_context(local.in_use())
    return local.current_context_handle()
