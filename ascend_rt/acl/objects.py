"""What C-named calls make, by handle: contexts, streams, events, notifies; and the device that they belong to."""

import itertools
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..core._core import Block
from ..link.membership import Membership
from .event import Event
from .exported import close_exports
from .external_event import ExternalEvent
from .handles import Handles, LiveMemory
from .memory import DeviceMemory
from .stream import Stream


class Context:
    """What streams belong to; it has a default stream, which is made when it is first used."""

    def __init__(self, device: "LocalDevice", *, is_default: bool) -> None:
        self.device, self.is_default = device, is_default
        self._default_stream = 0
        self._lock = threading.Lock()

    @property
    def default_stream(self) -> int:
        """Handle of the default stream."""
        with self._lock:
            if not self._default_stream:
                stream = Stream(goes_on_after_failure=True)
                self._default_stream = streams.add(OwnedStream(stream, self, self.device.next_id(), is_default=True))
            return self._default_stream

    def streams(self) -> list[tuple[int, Stream]]:
        """Every stream that was made in it, by handle; the default stream if it exists."""
        return [(handle, owned.stream) for handle, owned in streams.items() if owned.context is self]


@dataclass
class OwnedStream:
    """A stream that a C-named call made."""

    stream: Stream
    context: Context
    number: int
    """its id on the device"""
    is_default: bool = False


@dataclass
class OwnedEvent:
    """An event that a C-named call made."""

    event: Event
    device: "LocalDevice"
    measures_time: bool = True
    is_external: bool = False
    """ACL_EVENT_EXTERNAL: ties graphs to what is outside of them"""
    external: ExternalEvent | None = None
    """what graphs that wait for it have of it"""


@dataclass
class OwnedNotify:
    """A flag in device memory that a C-named call made, or imported."""

    device: "LocalDevice"
    address: int
    number: int
    """its id on the device"""
    block: Block | None
    """None: another process's"""
    key: str = ""
    """by which it was imported"""

    def freed_at(self, address: int) -> Block | None:
        """For close_exports, once it is destroyed."""
        return self.block if address == self.address else None


@dataclass
class LocalDevice:
    """A device that this process has opened."""

    membership: Membership
    memory: DeviceMemory
    index: int
    uses: int = 0
    """set_device minus reset_device"""
    default_context: int = 0
    blocks: LiveMemory = field(default_factory=LiveMemory)
    peers: set[int] = field(default_factory=set)
    """devices whose memory may be copied from and to here, by their number on the host"""
    _ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def host_id(self) -> int:
        """Its number among the devices of the host, by which the job's memory knows it."""
        return self.memory.index

    def next_id(self) -> int:
        """A number for a stream or a notify of this device."""
        return next(self._ids)

    def contexts(self) -> list[tuple[int, Context]]:
        return [(handle, context) for handle, context in contexts.items() if context.device is self]

    def streams(self) -> list[tuple[int, Stream]]:
        """Every stream of its contexts, by handle."""
        return [(handle, owned.stream) for handle, owned in streams.items() if owned.context.device is self]

    def release(self) -> None:
        """Nothing is set any more: contexts, streams and events are dead; blocks too, once no queued task uses them."""
        self.uses, self.default_context = 0, 0
        for handle, _ in self.streams():
            streams.remove(handle)
        for handle, _ in self.contexts():
            contexts.remove(handle)
        for handle, owned in events.items():
            if owned.device is self:
                events.remove(handle)
        for handle, notify in notifies.items():
            if notify.device is self:
                notifies.remove(handle)
                close_exports(notify.freed_at)
        close_exports(lambda address: live.memory if (live := self.blocks.around(address)) else None)
        self.blocks, self.peers = LiveMemory(), set()


contexts: Handles[Context] = Handles("context")
streams: Handles[OwnedStream] = Handles("stream")
events: Handles[OwnedEvent] = Handles("event")
notifies: Handles[OwnedNotify] = Handles("notify")
