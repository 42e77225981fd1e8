"""acl.rt: devices. A process may open any device of the job, and several."""

import os
import time

from ... import settings as settings_module
from ...link.errors import JoinError
from ...link.segment import JobMemoryError
from ...settings import SettingError
from .. import device as local
from ..constants import ACL_HOST
from ..errors import (
    ACL_ERROR_RT_DEV_SETUP_ERROR,
    ACL_ERROR_RT_DEVICE_TASK_ABORT,
    ACL_ERROR_RT_TIMEOUT,
    AclError,
)
from ..return_codes import integer, ranged, returns_code, returns_value_and_code
from .stream import finish_all, free_streams, seconds_of

UINT32_MAX = (1 << 32) - 1


@returns_code
def set_device(device_id: int, /) -> None:
    """Open a device; its default context becomes the calling thread's. ret.

    The first call joins the job, and waits for no other rank. Calls are
    counted, see reset_device. 107001: no such device; 507033: the job could not be joined.
    """
    index = integer("device_id", device_id)
    try:
        device = local.open_device(index)
    except (JoinError, SettingError, JobMemoryError) as error:
        raise AclError(ACL_ERROR_RT_DEV_SETUP_ERROR, f"the device cannot be opened: {error}") from None
    if not device.uses:
        device.default_context = local.contexts.add(local.Context(device, is_default=True))
    device.uses += 1
    local.set_current_context(device.default_context)


@returns_code
def reset_device(device_id: int, /) -> None:
    """Undo one set_device. ret. The last one waits for the streams of this device, ends its contexts, streams, events
    and notifies and frees its memory; what failed on a stream is the code then, and all is released all the same.

    107001: no such device; 107002: it is not set.
    """
    device = local.set_device_of(integer("device_id", device_id))
    if device.uses > 1:
        device.uses -= 1
        return
    try:
        free_streams([stream for _, stream in device.streams()])
    finally:
        device.release()


@returns_code
def reset_device_force(device_id: int, /) -> None:
    """reset_device, however often the device was set; what is queued on its streams is dropped. ret: 107001, 107002."""
    device = local.set_device_of(integer("device_id", device_id))
    streams = [stream for _, stream in device.streams()]
    for stream in streams:
        stream.drop_queued()
    for stream in streams:
        stream.end()
    device.release()


@returns_value_and_code
def get_device() -> int:
    """(device id, ret) of the calling thread's context. 107002: it has none."""
    return local.in_use().index


@returns_value_and_code
def get_device_count() -> int:
    """(devices of the job, ret): as many as ranks, or what hccl-run --devices says. Joins nothing."""
    return local.device_count(settings_module.read())


@returns_value_and_code
def get_run_mode() -> int:
    """(ACL_HOST, 0): programs run on the host."""
    return ACL_HOST


@returns_code
def set_ts_device(ts_id: int, /) -> None:
    """ret. 0 (AI core) and 1 (vector core) mean the same here. 107000: any other."""
    ranged("ts_id", ts_id, 0, 1)


@returns_code
def synchronize_device() -> None:
    """Block until all that C-named calls have queued on this thread's device is done. ret: the first failure of a
    stream."""
    finish_all([stream for _, stream in local.in_use().streams()])


@returns_code
def synchronize_device_with_timeout(milliseconds: int, /) -> None:
    """synchronize_device for at most so long, -1: for ever. ret: 507046 when the time is over."""
    seconds = seconds_of(integer("milliseconds", milliseconds))
    finish_all([stream for _, stream in local.in_use().streams()], seconds)


@returns_code
def device_task_abort(device_id: int, milliseconds: int, /) -> None:
    """Drop what is queued on the streams of a device and wait, at most so long, until what runs there gives up. ret.

    The next synchronisation of each stream gives 107022. 107001, 107002 for the device; 207020: the time is over.
    """
    device = local.set_device_of(integer("device_id", device_id))
    deadline = time.monotonic() + ranged("milliseconds", milliseconds, 0, UINT32_MAX) * 1e-3
    streams = [stream for _, stream in device.streams()]
    for stream in streams:
        stream.drop_queued(ACL_ERROR_RT_DEVICE_TASK_ABORT)
    for stream in streams:
        if not stream.finish(max(deadline - time.monotonic(), 1e-9)):
            raise AclError(ACL_ERROR_RT_TIMEOUT, f"a task on device {device.index} goes on after {milliseconds} ms")


@returns_value_and_code
def device_get_bare_tgid() -> int:
    """(id of this process, ret), by which ipc_mem_set_import_pid and notify_set_import_pid know it."""
    return os.getpid()
