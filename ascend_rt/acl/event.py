"""Events: points in a stream, for other streams and for the program to wait for, and to measure time between."""

from typing import Any, Protocol

from ..core import _core
from .errors import ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, AclError


class RecordedPoint(Protocol):
    """A recording of an event that is a task of a capture: see recording.RecordedMark."""

    waits: int

    @property
    def failed(self) -> bool: ...
    @property
    def stamp_ns(self) -> int: ...
    def is_complete(self) -> bool: ...
    def finish(self, seconds: float, /) -> bool: ...
    def join(self, stream: Any, /) -> None:
        """A stream that is not captured yet waits for it: it is from here on."""


AnyMark = _core.Mark | RecordedPoint
"""What a recording of an event is: a point in a stream, or a task of a capture."""


class Event:
    """A point in a stream. Stream.record sets it; recorded again, it means the new point; never recorded, it is
    complete, as in CUDA."""

    def __init__(self) -> None:
        self._mark: AnyMark | None = None
        self._earlier: list[AnyMark] = []
        """recordings before the latest that streams were waiting for still"""

    def move_to(self, mark: AnyMark | None) -> None:
        """The event means this recording from here on, or none."""
        self._earlier = [earlier for earlier in (*self._earlier, self._mark) if earlier is not None and earlier.waits]
        self._mark = mark

    @property
    def is_waited_for(self) -> bool:
        """Whether a stream waits for it, or has a wait for it queued."""
        return any(mark.waits for mark in (*self._earlier, self._mark) if mark is not None)

    @property
    def stamp_ns(self) -> int:
        """When it completed, by the monotonic clock; 0 before."""
        return 0 if self._mark is None else self._mark.stamp_ns

    @property
    def recorded(self) -> bool:
        """Whether a stream has recorded it at least once."""
        return self._mark is not None

    def query(self) -> bool:
        """Whether all that was queued before it is done, or failed."""
        return self._mark is None or self._mark.is_complete()

    @property
    def failed(self) -> bool:
        """Whether it completed behind a failure."""
        return self._mark is not None and self._mark.failed

    def synchronize(self, timeout: float | None = None) -> None:
        """Block until it is complete; timeout in seconds, AclError (ACL_ERROR_RT_EVENT_SYNC_TIMEOUT) when they are
        over. What failed before it comes out of its stream."""
        if self._mark is not None and not self._mark.finish(0.0 if timeout is None else max(timeout, 1e-9)):
            raise AclError(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, f"the event did not complete within {timeout:g} s")

    def elapsed_ms(self, end: "Event") -> float:
        """Milliseconds from this event to `end`; both must have been recorded and be complete (ValueError)."""
        if self._mark is None or end._mark is None:
            raise ValueError("the time between two events is asked for, and one was never recorded")
        if not (self.query() and end.query()):
            raise ValueError("the time between two events is asked for, and one is not complete; synchronize it first")
        return (end._mark.stamp_ns - self._mark.stamp_ns) * 1e-6
