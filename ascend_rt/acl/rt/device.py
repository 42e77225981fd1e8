"""acl.rt: the device.

A rank has one device: set_device takes its rank and its DEVICE_ID, which mean the same, and no other device of the job
yet.
"""

from ... import settings as settings_module
from ...link.errors import JoinError
from ...link.placement import place
from ...settings import SettingError
from .. import device as local
from ..constants import ACL_HOST
from ..errors import ACL_ERROR_RT_DEV_SETUP_ERROR, ACL_ERROR_RT_INVALID_DEVICEID, AclError
from ..return_codes import integer, returns_code, returns_value_and_code
from .stream import finish_all, free_streams


@returns_code
def set_device(device_id: int, /) -> None:
    """Open this rank's device; its default context becomes the calling thread's. ret.

    The first call joins the job: it blocks until every rank has, at most HCCL_CONNECT_TIMEOUT seconds. Calls are
    counted, see reset_device. 107001: no device of this rank; 507033: the job could not be joined.
    """
    check_own(integer("device_id", device_id))
    try:
        device = local.current()
    except (JoinError, SettingError) as error:
        raise AclError(ACL_ERROR_RT_DEV_SETUP_ERROR, f"the device cannot be opened: {error}") from None
    if not device.uses:
        device.default_context = device.contexts.add(local.Context(is_default=True))
    device.uses += 1
    local.set_current_context(device.default_context)


@returns_code
def reset_device(device_id: int, /) -> None:
    """Undo one set_device. ret. The last one waits for the streams of this device, then ends its contexts, streams and
    events and frees its memory; what failed on a stream is the code then, and all is released all the same.

    107001: no device of this rank; 107002: it is not set.
    """
    check_own(integer("device_id", device_id))
    device = local.in_use()
    if device.uses > 1:
        device.uses -= 1
        return
    streams = [stream for _, context in device.contexts.items() for stream in device.streams_of(context)]
    try:
        free_streams(streams)
    finally:
        device.release()


@returns_value_and_code
def get_device() -> int:
    """(device id, ret) of the calling thread. 107002: it has no context."""
    device = local.in_use()
    local.current_context(device)
    return device.index


@returns_value_and_code
def get_device_count() -> int:
    """(devices of the job, ret). Joins nothing."""
    placement = place(settings_module.read())
    return 1 if placement is None else placement.size


@returns_code
def synchronize_device() -> None:
    """Block until all that C-named calls have queued on this device is done. ret: the first failure of a stream."""
    device = local.in_use()
    local.current_context(device)
    finish_all([stream for _, context in device.contexts.items() for stream in device.streams_of(context)])


@returns_value_and_code
def get_run_mode() -> int:
    """(ACL_HOST, 0): programs run on the host."""
    return ACL_HOST


def check_own(device_id: int) -> None:
    """AclError (107001) unless `device_id` names this rank's device."""
    settings = settings_module.read()
    try:
        rank, own = local.own_rank(settings), local.own_device_id(settings)
    except JoinError as error:
        raise AclError(ACL_ERROR_RT_DEV_SETUP_ERROR, str(error)) from None
    if device_id not in (rank, own):
        text = (
            f"rank {rank} was asked for device {device_id}; expected its own, {own}. A process opens no other device "
            "of its job yet"
        )
        raise AclError(ACL_ERROR_RT_INVALID_DEVICEID, text)
