"""What is queued on a stream can be recorded instead: how streams and who records them speak with each other.

A stream that is recorded is a RecordedStream until the recording ends: the same object, which has changed its class. So
streams that are not recorded, which is nearly always all of them, look for nothing and pay nothing.

Who records is a Recorder (ascend_rt.ge has the one that makes graphs). Recordings begin and end here, so that whatever
they forbid, in which threads, is decided here too.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple, Protocol

from ..diag.call_site import call_site
from .errors import (
    ACL_ERROR_RT_CAPTURE_DEPENDENCY,
    ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC,
    ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT,
    ACL_ERROR_RT_EVENT_CAPTURED,
    ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
    ACL_ERROR_RT_STREAM_CAPTURED,
    ACL_ERROR_STREAM_CAPTURE_CONFLICT,
    AclError,
)
from .event import Event
from .external_event import Gate
from .stream import Stream


class Mode(IntEnum):
    """In which threads calls that are unsafe while a stream is recorded are forbidden: aclmdlRICaptureMode.

    Unsafe is what uses memory at once and not in the order of a stream (memcpy, memset), and a collective that blocks.
    """

    GLOBAL = 0
    """in all"""
    THREAD_LOCAL = 1
    """in the one that records"""
    RELAXED = 2
    """in none"""


class Launch(NamedTuple):
    """A function of the program, as Stream.launch was given it."""

    function: Callable[..., object]
    arguments: Sequence[Any]
    keywords: Mapping[str, Any]
    reads: Sequence[Any] | None
    writes: Sequence[Any] | None


class Recorder(Protocol):
    """Takes down what is queued. Each call is one task behind those of its stream; nothing is carried out."""

    mode: Mode
    thread: int
    """which began it"""
    why_invalid: str
    """what was done that is forbidden, and where; "" if nothing was"""

    def kernel(self, stream: Stream, launched: Launch) -> None: ...
    def copy(
        self, stream: Stream, to: int, to_pitch: int, source: int, source_pitch: int, nbytes: int, rows: int, keep: Any
    ) -> None: ...
    def fill(self, stream: Stream, to: int, value: int, nbytes: int, keep: Any) -> None: ...
    def record(self, stream: Stream, event: Event) -> "RecordedMark": ...
    def wait(self, stream: Stream, mark: "RecordedMark") -> None: ...
    def gate(self, stream: Stream, gate: Gate) -> None:
        """A wait for what is recorded outside, after the graph was launched."""
    def join(self, stream: Stream, mark: "RecordedMark") -> None:
        """A stream that is not recorded yet waits for an event that is: it is from here on."""
    def collective(self, stream: Stream, communicator: Any, call: Any) -> None:
        """A hccl call, checked."""
    def split(
        self, stream: Stream, communicator: Any, name: str, kind: tuple[int, int], x: Any, out: Any, table: bytes
    ) -> None:
        """One whose blocks differ; kind: dtype and op."""
    def transfer(self, stream: Stream, communicator: Any, name: str, items: Sequence[Any]) -> None: ...
    def invalidate(self, why: str) -> None:
        """Something forbidden was done: the recording can only be ended, which fails and says why."""


class RecordedMark:
    """The recording of an event that is a task of a recording, and can be waited for by streams alone."""

    waits = 0

    def __init__(self, recorder: Recorder, number: int) -> None:
        self.recorder, self.number = recorder, number

    def is_complete(self) -> bool:
        raise self._refusal("asked for")

    def finish(self, seconds: float, /) -> bool:
        raise self._refusal("waited for by the program")

    @property
    def failed(self) -> bool:
        raise self._refusal("asked for")

    @property
    def stamp_ns(self) -> int:
        raise self._refusal("measured")

    def join(self, stream: Stream, /) -> None:
        """A stream that is not recorded yet waits for it: it is from here on."""
        self.recorder.join(stream, self)

    def _refusal(self, what: str) -> AclError:
        text = f"an event that a recorded stream has recorded was {what} at {call_site()}; end the capture first"
        self.recorder.invalidate(text)
        return AclError(ACL_ERROR_RT_EVENT_CAPTURED, f"ACL_ERROR_RT_EVENT_CAPTURED (107028): {text}")


class RecordedStream(Stream):
    """A stream whose tasks are recorded and not carried out."""

    recorder: Recorder

    def record(self, event: Event | None = None) -> Event:
        event = Event() if event is None else event
        event.move_to(self.recorder.record(self, event))
        return event

    def wait(self, event: Event) -> None:
        mark = event._mark
        if mark is None:
            return
        if not isinstance(mark, RecordedMark):
            text = "an event was waited for that was recorded before the capture, or on a stream that is not in it"
            raise self._refusal(ACL_ERROR_RT_CAPTURE_DEPENDENCY, "ACL_ERROR_RT_CAPTURE_DEPENDENCY", text)
        if mark.recorder is not self.recorder:
            text = "an event of another capture was waited for"
            raise self._refusal(ACL_ERROR_STREAM_CAPTURE_CONFLICT, "ACL_ERROR_STREAM_CAPTURE_CONFLICT", text)
        self.recorder.wait(self, mark)

    def launch(
        self,
        function: Callable[..., object],
        *arguments: Any,
        reads: Sequence[Any] | None = None,
        writes: Sequence[Any] | None = None,
        **keywords: Any,
    ) -> None:
        self.recorder.kernel(self, Launch(function, arguments, keywords, reads, writes))

    def copy(self, to: int, source: int, nbytes: int, keep: Any, /) -> None:
        self.recorder.copy(self, to, nbytes, source, nbytes, nbytes, 1, keep)

    def copy_rows(
        self, to: int, to_pitch: int, source: int, source_pitch: int, nbytes: int, rows: int, keep: Any, /
    ) -> None:
        self.recorder.copy(self, to, to_pitch, source, source_pitch, nbytes, rows, keep)

    def fill(self, to: int, value: int, nbytes: int, keep: Any, /) -> None:
        self.recorder.fill(self, to, value, nbytes, keep)

    # ---- what cannot be recorded ----

    def reduce(self, to: int, source: int, count: int, dtype: int, op: int, keep: Any, /) -> None:
        raise self.not_recorded("reduce_async")

    def set_flag(self, address: int, keep: Any, /) -> None:
        raise self.not_recorded("record_notify")

    def take_flag(self, address: int, timeout_ns: int, keep: Any, /) -> None:
        raise self.not_recorded("wait_and_reset_notify")

    def write_value(self, address: int, value: int, keep: Any, /) -> None:
        raise self.not_recorded("value_write")

    def wait_value(self, address: int, value: int, test: int, timeout_ns: int, keep: Any, /) -> None:
        raise self.not_recorded("value_wait")

    # ---- what must not be done to it ----

    def synchronize(self, timeout: float | None = None) -> None:
        raise self._captured("synchronized")

    def query(self) -> bool:
        raise self._captured("asked whether it is done")

    def drop_queued(self, code: int = 0) -> None:
        raise self._captured("aborted")

    def check_may_end(self) -> None:
        raise self._captured("destroyed")

    def _captured(self, what: str) -> AclError:
        text = f"a stream was {what} while it is captured"
        return self._refusal(ACL_ERROR_RT_STREAM_CAPTURED, "ACL_ERROR_RT_STREAM_CAPTURED", text)

    def not_recorded(self, what: str) -> AclError:
        """To be raised for a task that no capture has."""
        text = f"{what} cannot be captured; queue it on a stream that is not in the capture"
        return self._refusal(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "ACL_ERROR_RT_FEATURE_NOT_SUPPORT", text)

    def _refusal(self, code: int, name: str, text: str) -> AclError:
        text = f"{text} ({call_site()})"
        self.recorder.invalidate(text)
        return AclError(code, f"{name} ({code}): {text}")


# ---- which recordings there are ----

_under_way: list[Recorder] = []
_thread = threading.local()
watchers: list[Callable[[bool], None]] = []
"""Told when there is a recording (True) and when there is none any more (False)."""


def is_recording(recorder: Recorder) -> bool:
    """Whether a recording has begun and not ended."""
    return recorder in _under_way


def is_active() -> bool:
    """Whether anything of this process is recorded just now."""
    return bool(_under_way)


def begin(recorder: Recorder) -> None:
    """A recording begins."""
    _under_way.append(recorder)
    if len(_under_way) == 1:
        _tell(True)


def end(recorder: Recorder) -> None:
    """It has ended, and its streams are left."""
    _under_way.remove(recorder)
    if not _under_way:
        _tell(False)


def _tell(active: bool) -> None:
    for watcher in watchers:
        watcher(active)


def enter(stream: Stream, recorder: Recorder) -> None:
    """What is queued on the stream from here on is recorded."""
    stream.__class__ = RecordedStream
    stream.recorder = recorder  # type: ignore[attr-defined]  # it is a RecordedStream now


def leave(stream: Stream) -> None:
    """What is queued on the stream from here on runs."""
    stream.__class__ = Stream
    del stream.recorder  # type: ignore[attr-defined]  # it was a RecordedStream until now


def recorder_of(stream: Stream | None) -> Recorder | None:
    """Who records a stream, None if nobody does."""
    return stream.recorder if isinstance(stream, RecordedStream) else None


def mode_of_thread() -> Mode:
    """The calling thread's own mode, which exchange_mode sets: GLOBAL at first."""
    return getattr(_thread, "mode", Mode.GLOBAL)


def exchange_mode(mode: Mode) -> Mode:
    """Set the calling thread's own mode and return the one before. Of GLOBAL it sees captures of all threads that
    forbid it something, of THREAD_LOCAL its own, of RELAXED none."""
    before = mode_of_thread()
    _thread.mode = mode
    return before


def check_unsafe(call: str) -> None:
    """AclError (107030) if a capture forbids the calling thread a call that does not keep to the order of streams."""
    name = "ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT"
    _check(call, "does not wait for the order of streams", name, ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT)


def check_not_pageable(call: str) -> None:
    """AclError (107041) if a capture forbids the calling thread a call which uses host memory that is not of
    malloc_host: devices carry it out at once, though it is queued."""
    name = "ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC"
    _check(call, "uses host memory that is not of malloc_host", name, ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC)


def _check(call: str, why: str, name: str, code: int) -> None:
    recorder = _who_forbids()
    if recorder is not None:
        text = f"{call} at {call_site()} {why}, {_forbidden(recorder)}"
        recorder.invalidate(text)
        raise AclError(code, f"{name} ({code}): {text}")


def _who_forbids() -> Recorder | None:
    """The recording that forbids the calling thread what is unsafe."""
    if not _under_way:
        return None
    own, me = mode_of_thread(), threading.get_ident()
    for recorder in _under_way:
        mine = recorder.thread == me and recorder.mode is not Mode.RELAXED and own is not Mode.RELAXED
        if mine or (recorder.mode is Mode.GLOBAL and own is Mode.GLOBAL):
            return recorder
    return None


def _forbidden(recorder: Recorder) -> str:
    return f"and a stream is captured in mode {recorder.mode.name}; queue it on a stream, or capture in mode RELAXED"
