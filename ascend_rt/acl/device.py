"""The devices of this process: its place in the job, memory of each, and the context of each thread.

Devices are numbered from 0 among those that the program sees (link/devices.py); rank i is at home on device i, which
`current()` opens when it joins the job. A process may open any other too, also one that another process has opened, as
CANN allows: each rank has its own part of every device's memory, and the budget of a device counts all of them.
"""

import atexit
import os
import sys
import threading
from collections.abc import Mapping, Sequence

from .. import settings as settings_module
from ..core._core import Segment
from ..diag.log import INFO, WARNING, open_log
from ..link.devices import host_devices, visible_devices
from ..link.membership import Membership
from ..link.placement import place
from ..link.rendezvous import enter
from ..link.segment import is_same_memory
from .errors import ACL_ERROR_RT_CONTEXT_NULL, ACL_ERROR_RT_INVALID_DEVICEID, ACL_ERROR_RT_STREAM_CONTEXT, AclError
from .exported import forget as forget_exports
from .memory import DeviceMemory
from .objects import Context as Context
from .objects import LocalDevice as LocalDevice
from .objects import OwnedEvent as OwnedEvent
from .objects import OwnedNotify as OwnedNotify
from .objects import OwnedStream as OwnedStream
from .objects import contexts as contexts
from .objects import events as events
from .objects import notifies as notifies
from .objects import streams as streams
from .stream import Stream, abandon_streams, shut_down, take_failures

_membership: Membership | None = None
# Every job that this process has joined: it may have moved from one to another.
_joined: list[Membership] = []
_devices: dict[int, LocalDevice] = {}
_home: LocalDevice | None = None
_lock = threading.Lock()
_thread = threading.local()


def current() -> LocalDevice:
    """The device that this process is at home on. The first call joins the job, and waits for no other rank; raises
    JoinError or SettingError if that fails."""
    global _home
    if _home is None:
        _home = open_device(own_device_id(settings_module.read()))
    return _home


def open_device(index: int, of_rank: Membership | None = None) -> LocalDevice:
    """A device of the job, which is joined if it has not been: see `current`. AclError (107001): there is none such.

    of_rank: whose part of its memory is taken, where this process is several ranks.
    """
    with _lock:
        device = _devices.get(index)
        if device is not None:
            return device
        settings = settings_module.read()
        if _membership is None:
            check_device(index, settings)
        membership = of_rank or _enter(settings)
        check_device(index, settings)
        memory = DeviceMemory(membership.segment, host_id(index, settings), membership.rank, index)
        _devices[index] = LocalDevice(membership, memory, index)
        return _devices[index]


def move_to(membership: Membership, by_device: Mapping[int, Membership] | None = None) -> bool:
    """Have this process's devices in another job from here on, if it is a world of one and nothing is allocated on
    them; whether that is so. It is at home then on the device that is set in the calling thread, if one is. If it is a
    rank of that job already, that device alone becomes the other rank's.

    by_device: where it becomes several ranks at once, whose a device is; the others are of `membership`.
    """
    global _home
    settings = settings_module.read()
    with _lock:
        own = current_context().device if current_context_handle() else None
        is_first = _membership is None or _membership.size == 1
        if not is_first and (own is None or not is_same_memory(own.membership.segment, membership.segment)):
            return False
        moving = list(_devices.values()) if is_first or own is None else [own]
        if any(device.memory.device.in_use for device in moving):
            return False
        if is_first:
            _join(membership, settings)
            _home = own or _home
        else:
            join_besides(membership)
        for device in moving:
            on_host = host_id(device.index % device_count(settings), settings)
            device.membership = (by_device or {}).get(device.index, membership)
            device.memory = DeviceMemory(membership.segment, on_host, device.membership.rank, device.index)
        return True


def join_besides(membership: Membership) -> None:
    """Leave this job, too, when the process leaves its own; its devices stay where they are."""
    if not _joined:
        atexit.register(leave)
    _joined.append(membership)


def joined_segment() -> Segment | None:
    """The memory of the job that this process is in, if it has joined one."""
    return None if _membership is None else _membership.segment


def enter_job(settings: settings_module.Settings) -> Membership:
    """This process as a rank of its job, which it has joined then: see `current`. JoinError if that fails."""
    with _lock:
        return _enter(settings)


def _enter(settings: settings_module.Settings) -> Membership:
    if _membership is None:
        log = open_log(settings)
        _join(enter(settings), settings)
        assert _membership is not None
        log.write(INFO, f"rank {_membership.rank} of {_membership.size} has joined its job; {settings}")
        for notice in settings_module.notices():
            log.write(WARNING, notice)
            if _membership.rank == 0:
                print(f"rank 0: {notice}", file=sys.stderr, flush=True)
    return _membership


def _join(membership: Membership, settings: settings_module.Settings) -> None:
    global _membership
    _membership = membership
    join_besides(membership)
    open_log(settings).rank = membership.rank


def device_count(settings: settings_module.Settings) -> int:
    """How many devices this program sees. Joins nothing; JoinError, SettingError if the environment makes no sense."""
    return len(_visible(settings))


def check_device(index: int, settings: settings_module.Settings) -> int:
    """`index`, if it is a device of the job; AclError (107001) otherwise. Joins nothing."""
    count = device_count(settings)
    if 0 <= index < count:
        return index
    text = f"rank {own_rank(settings)} was asked for device {index}; expected 0 to {count - 1}: the job has {count}"
    raise AclError(ACL_ERROR_RT_INVALID_DEVICEID, text)


def host_id(index: int, settings: settings_module.Settings) -> int:
    """The number among the devices of the host of one that this program sees."""
    return _visible(settings)[index]


def index_of(device: int) -> int:
    """What this program calls a device of the host; the number of devices that it sees if it does not see this one."""
    seen = _visible(settings_module.read())
    return seen.index(device) if device in seen else len(seen)


def name_of(device: int) -> str:
    """What this program calls a device of the host."""
    seen = _visible(settings_module.read())
    own = f"device {seen.index(device)}" if device in seen else "a device that this process does not see"
    return own if list(seen[: device + 1]) == list(range(device + 1)) else f"{own} ({device} of the host)"


def _visible(settings: settings_module.Settings) -> Sequence[int]:
    if _membership is not None:
        return visible_devices(settings, _membership.segment.devices)
    placement = place(settings)
    return visible_devices(settings, host_devices(settings, 1 if placement is None else placement.size))


def own_rank(settings: settings_module.Settings) -> int:
    """The rank of this process in its job, 0 where there is none. JoinError if what is said of it cannot be."""
    placement = place(settings)
    return 0 if placement is None else placement.rank


def own_device_id(settings: settings_module.Settings) -> int:
    """The device that this rank is at home on: DEVICE_ID, or the rank."""
    return own_rank(settings) if settings.device_id is None else settings.device_id


def opened() -> list[LocalDevice]:
    """Devices that this process has opened."""
    return list(_devices.values())


def set_device_of(index: int) -> LocalDevice:
    """A device that set_device has opened; AclError if it is no device (107001) or not set (107002)."""
    device = _devices.get(check_device(index, settings_module.read()))
    if device is None or not device.uses:
        raise AclError(ACL_ERROR_RT_CONTEXT_NULL, f"device {index} is not set; call acl.rt.set_device({index}) first")
    return device


def in_use() -> LocalDevice:
    """The device of the calling thread's context; AclError (107002) if it has none."""
    try:
        return current_context().device
    except AclError:
        if any(device.uses for device in _devices.values()):
            raise
        raise AclError(ACL_ERROR_RT_CONTEXT_NULL, "no device is set; call acl.rt.set_device first") from None


def set_current_context(handle: int) -> None:
    """The context of the calling thread, 0 for none; whether it is alive shows when it is used."""
    _thread.context = handle


def current_context_handle() -> int:
    handle: int = getattr(_thread, "context", 0)
    return handle


def current_context() -> Context:
    """AclError (107002) if the calling thread has no context, or its context was destroyed."""
    handle = current_context_handle()
    try:
        return contexts.get(handle)
    except AclError:
        why = "its context was destroyed" if handle else "this thread has none; each thread sets its own"
        text = f"no current context: {why}. Call acl.rt.set_device or acl.rt.set_context in this thread"
        raise AclError(ACL_ERROR_RT_CONTEXT_NULL, text) from None


def find_stream(handle: int) -> Stream:
    """The stream behind a handle; 0 is the default stream of the calling thread's context.

    AclError: no such stream (107017), it belongs to another context (107003), or there is no context (107002).
    """
    return find_owned_stream(handle).stream


def find_owned_stream(handle: int) -> OwnedStream:
    """`find_stream`, with whose it is."""
    context = current_context()
    owned = streams.get(handle or context.default_stream)
    if owned.context is not context:
        text = f"stream {handle:#x} belongs to another context than the calling thread's current one"
        raise AclError(ACL_ERROR_RT_STREAM_CONTEXT, text)
    return owned


def stop_streams() -> None:
    """Drop what is still queued on the streams of this process and tell it, and what has failed there and was told to
    nobody: the job's exit code is then not 0."""
    failures = take_failures()
    dropped = shut_down()
    if _membership is None or not (failures or dropped):
        return
    for failure in failures:
        text = f"rank {_membership.rank} left without synchronizing a stream in which this failed: {failure}"
        print(text, file=sys.stderr, flush=True)
    if dropped:
        calls = "1 queued call" if dropped == 1 else f"{dropped} queued calls"
        print(f"rank {_membership.rank} left with {calls} not run", file=sys.stderr, flush=True)
    for membership in _joined:
        membership.left_undone(dropped + len(failures))


def leave() -> None:
    """Leave the job: waits for nobody, and calling it again does nothing. Handles of this process are dead."""
    global _membership
    if _joined:
        stop_streams()
        forget_exports(withdraw=True)
        for membership in _joined:
            membership.close()
        _membership = None
        _forget_objects()


def _forget() -> None:
    """In a fork of a rank: it is no rank, its streams have no threads and its memory is the rank's."""
    global _membership
    if _membership is not None:
        abandon_streams()
        forget_exports(withdraw=False)
        _membership = None
        _forget_objects()


def _forget_objects() -> None:
    global _home
    _home = None
    _joined.clear()
    _devices.clear()
    for handles in (contexts, streams, events, notifies):
        handles.clear()


os.register_at_fork(after_in_child=_forget)
