"""The device of this process: its place in the job, its memory, and what C-named calls have made on it.

`current()` joins the job when it is first called; acl and hccl share what it returns.
"""

import atexit
import os
import sys
import threading
from dataclasses import dataclass, field

from .. import settings as settings_module
from ..link.membership import Membership
from ..link.placement import place
from ..link.rendezvous import join
from .errors import ACL_ERROR_RT_CONTEXT_NULL, ACL_ERROR_RT_STREAM_CONTEXT, AclError
from .event import Event
from .handles import Handles, LiveMemory
from .memory import DeviceMemory
from .stream import Stream, abandon_streams, shut_down


class Context:
    """What streams belong to; it has a default stream, which is made when it is first used."""

    def __init__(self, *, is_default: bool) -> None:
        self.is_default = is_default
        self._default_stream: Stream | None = None
        self._lock = threading.Lock()

    @property
    def default_stream(self) -> Stream:
        with self._lock:
            if self._default_stream is None:
                self._default_stream = Stream(goes_on_after_failure=True)
            return self._default_stream


@dataclass
class OwnedStream:
    """A stream that a C-named call made, and the context it belongs to."""

    stream: Stream
    context: Context


@dataclass
class LocalDevice:
    """The device that this rank opens, and the tables of what is alive on it."""

    membership: Membership
    memory: DeviceMemory
    index: int
    uses: int = 0
    """set_device minus reset_device"""
    default_context: int = 0
    contexts: Handles[Context] = field(default_factory=lambda: Handles("context"))
    streams: Handles[OwnedStream] = field(default_factory=lambda: Handles("stream"))
    events: Handles[Event] = field(default_factory=lambda: Handles("event"))
    blocks: LiveMemory = field(default_factory=LiveMemory)

    def stream(self, handle: int) -> Stream:
        """The stream behind a handle; 0 is the default stream of the calling thread's context.

        AclError: no such stream (107017), it belongs to another context (107003), or there is no context (107002).
        """
        context = current_context(self)
        if handle == 0:
            return context.default_stream
        owned = self.streams.get(handle)
        if owned.context is not context:
            text = f"stream {handle:#x} belongs to another context than the calling thread's current one"
            raise AclError(ACL_ERROR_RT_STREAM_CONTEXT, text)
        return owned.stream

    def release(self) -> None:
        """Nothing is set any more: contexts, streams and events are dead; blocks too, once no queued task uses them."""
        self.uses, self.default_context = 0, 0
        self.contexts, self.streams, self.events = Handles("context"), Handles("stream"), Handles("event")
        self.blocks = LiveMemory()

    def streams_of(self, context: Context) -> list[Stream]:
        """Every stream that was made in `context`, the default stream included if it exists."""
        default = [] if context._default_stream is None else [context._default_stream]
        return default + [owned.stream for _, owned in self.streams.items() if owned.context is context]


_device: LocalDevice | None = None
_lock = threading.Lock()
_thread = threading.local()


def current() -> LocalDevice:
    """The device of this process. The first call joins the job: it blocks until every rank has joined, at most
    HCCL_CONNECT_TIMEOUT seconds, and raises JoinError or SettingError if that fails."""
    global _device
    with _lock:
        if _device is None:
            settings = settings_module.read()
            membership = join(settings)
            index = own_device_id(settings)
            memory = DeviceMemory(membership.segment, index, membership.rank)
            _device = LocalDevice(membership, memory, index)
            atexit.register(leave)
        return _device


def own_rank(settings: settings_module.Settings) -> int:
    """The rank of this process in its job, 0 where there is none. JoinError if what is said of it cannot be."""
    placement = place(settings)
    return 0 if placement is None else placement.rank


def own_device_id(settings: settings_module.Settings) -> int:
    """The device that this rank opens: DEVICE_ID, or the rank."""
    return own_rank(settings) if settings.device_id is None else settings.device_id


def in_use() -> LocalDevice:
    """The device, if set_device has opened it; AclError (107002) otherwise."""
    device = _device
    if device is None or not device.uses:
        raise AclError(ACL_ERROR_RT_CONTEXT_NULL, "no device is set; call acl.rt.set_device first")
    return device


def set_current_context(handle: int) -> None:
    """The context of the calling thread, 0 for none; whether it is alive shows when it is used."""
    _thread.context = handle


def current_context_handle() -> int:
    handle: int = getattr(_thread, "context", 0)
    return handle


def current_context(device: LocalDevice) -> Context:
    """AclError (107002) if the calling thread has no context, or its context was destroyed."""
    handle = current_context_handle()
    try:
        return device.contexts.get(handle)
    except AclError:
        why = "its context was destroyed" if handle else "this thread has none; each thread sets its own"
        text = f"no current context: {why}. Call acl.rt.set_device or acl.rt.set_context in this thread"
        raise AclError(ACL_ERROR_RT_CONTEXT_NULL, text) from None


def stop_streams() -> None:
    """Drop what is still queued on the streams of this process and tell it: the job's exit code is then not 0."""
    dropped = shut_down()
    if dropped and _device is not None:
        calls = "1 queued call" if dropped == 1 else f"{dropped} queued calls"
        print(f"rank {_device.membership.rank} left with {calls} not run", file=sys.stderr, flush=True)
        _device.membership.left_undone(dropped)


def leave() -> None:
    """Leave the job: waits for nobody, and calling it again does nothing. Handles of this process are dead."""
    global _device
    if _device is not None:
        stop_streams()
        _device.membership.close()
        _device = None


def _forget() -> None:
    """In a fork of a rank: it is no rank, its streams have no threads and its memory is the rank's."""
    global _device
    if _device is not None:
        abandon_streams()
        _device = None


os.register_at_fork(after_in_child=_forget)
