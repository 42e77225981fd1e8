"""Streams: tasks that run in order, each stream on a native thread of its own.

    s = Stream()                        comm.all_reduce(x, stream=s)       queued, returns at once
    e = s.record()                      complete when all queued before it is done
    other.wait(e)                       what is queued on `other` from here on comes after it
    s.synchronize()                     waits; raises what failed, once

A task that fails poisons its stream: what is queued behind it does not run, events recorded behind it complete as
failed, and a stream that waits for one of those is poisoned by the same failure, until it is synchronised.
"""

import functools
import itertools
import math
import sys
import time
import weakref
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, ClassVar, NamedTuple

from .. import settings as settings_module
from ..core import _core
from ..diag.call_site import instruction, line_of
from ..link.limits import usable_cpus
from .errors import (
    ACL_ERROR_RT_FFTS_PLUS_TIMEOUT,
    ACL_ERROR_RT_STREAM_ABORT,
    ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
    ACL_ERROR_RT_WAIT_TIMEOUT,
    AclError,
)
from .event import Event

SPINS = 100
JOIN_SECONDS = 0.05
NOTICE_SECONDS = 10.0
"""How long the end of a stream waits for a function before it says for which."""


Running = tuple[Callable[..., object], tuple[CodeType | None, int]]
"""A function of the program on a stream, and the instruction that queued it."""


class Failure(NamedTuple):
    """What failed on a stream, as the core keeps it."""

    communicator: int
    """id() of the communicator object, 0 if it was no call"""
    how: int
    """CALL_DIFFERS, CALL_ABORTED, EVENT_LATE, WORD_LATE, STREAM_ABORTED or FUNCTION_FAILED"""
    number: int
    collective: int
    abort: int
    where: str
    """the line of the program that queued it"""
    statements: list[tuple[Any, ...]]
    """what every rank said; of a message, its sender and its receiver"""
    uneven: tuple[int, int, int, int] = (0, 0, 0, 0)
    """(from, to, sent, expected) of two ranks whose splits do not agree, in elements; sent equals expected if all do"""


class Stream(_core.Stream):
    """An in-order queue with a worker thread, which is started by the first task."""

    explain: ClassVar[Callable[[Failure], Exception]]
    """Words a collective that failed; set by the room that knows them."""
    attend: ClassVar[Callable[[], None]] = staticmethod(lambda: None)
    """Called while a stream is waited for."""
    _live: ClassVar["weakref.WeakSet[Stream]"] = weakref.WeakSet()
    event_seconds: ClassVar[int | None] = None
    """longest wait for an event or a value, 0 for ever; None: HCCL_EXEC_TIMEOUT"""
    take_turns: ClassVar[bool] = False
    """whether workers give their core away after each function of the program"""
    _running: "list[Running]"
    """the function that the worker carries out now, if it is one"""
    goes_on_after_failure: bool
    """whether tasks run although one before them has failed"""
    beside: "list[Stream]"
    """streams that carry out a part of what is queued here: other streams of launched graphs"""
    cancelled = False
    """what is queued is dropped for good"""
    aborts = 0
    """how often what was queued has been dropped"""
    abort_code = ACL_ERROR_RT_STREAM_ABORT

    def __new__(cls, *, goes_on_after_failure: bool = False) -> "Stream":
        settings = settings_module.read()
        spins = spins_for(settings.ascend_rt_spin, settings.rank_size or 1)
        self = super().__new__(
            cls,
            spins,
            settings.ascend_rt_yields,
            settings.ascend_rt_sleep_ms * 1_000_000,
            cls.longest_wait_ns(settings),
            goes_on_after_failure,
        )
        self._running = []
        self.goes_on_after_failure = goes_on_after_failure
        self.beside = []
        self.set_gives_way(cls.take_turns)
        cls._live.add(self)
        _release_dropped()
        return self

    def __del__(self) -> None:
        # What is queued runs all the same: other ranks wait for its calls.
        if self.closed:
            return
        if not self.is_idle():
            Stream._live.add(self)
            _dropped.add(self)
        else:
            self._tell_what_nobody_can_synchronize()

    @classmethod
    def longest_wait_ns(cls, settings: settings_module.Settings) -> int:
        """How long a stream waits for an event or a value; 0: for ever."""
        seconds = settings.hccl_exec_timeout if cls.event_seconds is None else cls.event_seconds
        return seconds * 1_000_000_000

    @classmethod
    def limit_waits(cls, seconds: int) -> None:
        """Set how long all streams of this process wait for an event or a value; 0: for ever."""
        cls.event_seconds = seconds
        for stream in cls._live:
            stream.set_event_timeout(seconds * 1_000_000_000)

    @classmethod
    def set_turns(cls, take_turns: bool) -> None:
        """Whether all streams of this process give their core away after each function of the program."""
        cls.take_turns = take_turns
        for stream in cls._live:
            stream.set_gives_way(take_turns)

    def record(self, event: Event | None = None) -> Event:
        """An event (a new one by default) that completes when all that is queued so far is done."""
        event = Event() if event is None else event
        event.move_to(self.mark())
        return event

    def wait(self, event: Event) -> None:
        """What is queued from here on waits for the latest recording of `event`; for nothing if there was none.

        An event that a captured stream has recorded makes this stream part of the capture (ascend_rt.ge).
        """
        mark = event._mark
        if isinstance(mark, _core.Mark):
            self.wait_for(mark)
        elif mark is not None:
            mark.join(self)

    def launch(
        self,
        function: Callable[..., object],
        *arguments: Any,
        reads: Sequence[Any] | None = None,
        writes: Sequence[Any] | None = None,
        **keywords: Any,
    ) -> None:
        """Queue a function of the program: function(*arguments, **keywords) runs on the worker's thread, with the GIL.
        What it raises poisons the stream and comes out of synchronize.

        reads, writes: the arrays that it uses, for a capture, which otherwise takes every array among the arguments for
        both (ascend_rt.ge); they change nothing here.
        """
        task = functools.partial(function, *arguments, **keywords) if arguments or keywords else function
        self.call(as_task(function, task, instruction(), self._running))

    def set_goes_on_after_failure(self, goes_on: bool, /) -> None:
        self.goes_on_after_failure = goes_on
        super().set_goes_on_after_failure(goes_on)

    def check_may_end(self) -> None:
        """AclError if the stream must not be destroyed now."""

    def synchronize(self, timeout: float | None = None) -> None:
        """Block until all that is queued is done; raise what has failed, once.

        timeout: seconds; AclError (ACL_ERROR_RT_STREAM_SYNC_TIMEOUT) when they are over. Other threads run meanwhile,
        and so do signal handlers.
        """
        if not self.finish(0.0 if timeout is None else max(timeout, 1e-9)):
            raise AclError(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, f"the stream did not finish within {timeout:g} s")
        told = self.take_failure()
        if told is not None:
            raise self._error(Failure(*told))

    def query(self) -> bool:
        """Whether all that was queued is done."""
        return self.is_idle()

    def drop_queued(self, code: int = ACL_ERROR_RT_STREAM_ABORT) -> None:
        """Drop what is queued, and make what runs give up if it waits. Returns at once; synchronize then raises
        AclError (`code`) once. What is queued from here on runs."""
        self.abort_code = code
        self.aborts += 1
        self.abort()
        for stream in self.beside:
            if not stream.is_idle():
                stream.drop_queued(code)

    def cancel(self) -> None:
        """Drop what is queued for good: the process ends."""
        self.cancelled = True
        super().cancel()

    def end(self) -> None:
        """Wait for all that is queued and end the worker thread; nothing can be queued any more. Raises nothing:
        synchronize first. A function that runs for long keeps it waiting; it is told on stderr which."""
        notice_at = time.monotonic() + NOTICE_SECONDS
        while not self.close(JOIN_SECONDS):
            Stream.attend()
            if self._running and time.monotonic() >= notice_at:
                self._tell_what_runs()
                notice_at = math.inf

    def _tell_what_runs(self) -> None:
        for function, site in self._running[:]:
            name = getattr(function, "__qualname__", repr(function))
            place = "an unknown place" if site[0] is None else line_of(site[0], site[1])
            text = f"the end of a stream waits for {name}, queued at {place}, which has not returned"
            print(text, file=sys.stderr, flush=True)

    def _tell_what_nobody_can_synchronize(self) -> None:
        told = self.take_failure()
        if told is not None:
            error = self._error(Failure(*told))
            print(f"a stream was dropped, and not synchronized, in which this failed: {error}", file=sys.stderr)

    def _error(self, failure: Failure) -> BaseException:
        if failure.how == _core.FUNCTION_FAILED:
            error = _raised.get(failure.number) or RuntimeError("a function on a stream raised, long ago")
            note = f"raised in a function that was queued at {failure.where}"
            if note not in getattr(error, "__notes__", ()):
                error.add_note(note)
            return error
        if failure.how == _core.EVENT_LATE:
            return AclError(
                ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
                f"a wait for an event, queued at {failure.where}, took longer than {_limit_of_waits()}: is the event "
                "recorded behind something that waits for this stream?",
            )
        if failure.how == _core.WORD_LATE:
            what, code = WORDS[failure.number]
            return AclError(code, f"a wait for {what}, queued at {failure.where}, took too long: nobody has set it")
        if failure.how == _core.STREAM_ABORTED:
            return AclError(self.abort_code, f"what was queued was dropped at {failure.where}")
        return Stream.explain(failure)

    # ---- what the native base asks for ----

    def _attend(self, seconds: float) -> None:
        Stream.attend()

    def _site(self) -> tuple[CodeType | None, int]:
        return instruction()

    def _where(self, code: CodeType | str, instruction: int) -> str:
        return code if isinstance(code, str) else line_of(code, instruction)


# What a stream waited for that did not come, by the number of the failure, and its code: 507048 is what a notify wait
# that took too long gives on devices.
WORDS = {0: ("a notify", ACL_ERROR_RT_FFTS_PLUS_TIMEOUT), 1: ("a value", ACL_ERROR_RT_WAIT_TIMEOUT)}


def _limit_of_waits() -> str:
    return "HCCL_EXEC_TIMEOUT" if Stream.event_seconds is None else f"{Stream.event_seconds} s (set_op_wait_timeout)"


def spins_for(setting: int | None, ranks: int) -> int:
    """Pauses before the first yield. Where ranks share cores, the peer cannot arrive before its waiter yields: 8 bytes
    at 8 ranks on 2 cores take 5 us without a pause and 13 to 18 us after 100 of them."""
    return setting if setting is not None else SPINS if ranks <= usable_cpus() else 0


def shut_down() -> int:
    """Drop what is still queued on the streams of this process and end their workers: how many collectives were
    dropped, each told once however often this is called. Waits for no other rank, but for peers that are storing into
    this rank's memory just now."""
    streams = [stream for stream in Stream._live if not stream.closed]
    for stream in streams:
        stream.cancel()
    for stream in streams:
        stream.end()
    _release_dropped()
    return sum(stream.calls_not_run for stream in streams)


def take_failures() -> list[str]:
    """What has failed on streams of this process that were not synchronized: the head of each error, once."""
    heads: dict[str, None] = {}
    for stream in [stream for stream in Stream._live if not stream.closed]:
        told = stream.take_failure()
        if told is not None:
            error = stream._error(Failure(*told))
            heads[f"{type(error).__name__}: {error}".splitlines()[0]] = None
    return list(heads)


def abandon_streams() -> None:
    """In a fork of this process: its copies of the streams have no workers, and nothing to wait for."""
    for stream in list(Stream._live):
        stream.abandon()


# Streams that nobody refers to any more, and that have work to do.
_dropped: set[Stream] = set()


def _release_dropped() -> None:
    for stream in [stream for stream in _dropped if stream.is_idle()]:
        _dropped.discard(stream)
        stream._tell_what_nobody_can_synchronize()


# Exceptions that functions on streams raised: the worker carries a number. Every stream that events have poisoned
# raises the same one, so it is kept until many others have come.
KEPT_EXCEPTIONS = 64
_raised: dict[int, BaseException] = {}
_numbers = itertools.count(1)


def as_task(
    function: Callable[..., object],
    call: Callable[[], object],
    site: tuple[CodeType | None, int],
    running: list[Running],
) -> Callable[[], int]:
    """`call` as the core runs it, which returns the number of what it raises; `function` names it while it runs."""
    return functools.partial(_number_of_error, function, call, site, running)


def _number_of_error(
    function: Callable[..., object],
    call: Callable[[], object],
    site: tuple[CodeType | None, int],
    running: list[Running],
) -> int:
    running.append((function, site))
    try:
        call()
    except BaseException as error:
        number = next(_numbers)
        _raised[number] = error
        _raised.pop(number - KEPT_EXCEPTIONS, None)
        return number
    finally:
        running.clear()
    return 0
