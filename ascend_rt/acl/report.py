"""Callbacks of streams, which run in a thread of the program: the one that is subscribed to the stream.

A stream that reaches a callback reports it to that thread, which runs it in process_report. If the callback blocks, the
stream waits for its end, or until the program drops what is queued or ends the subscription.
"""

import queue
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .errors import (
    ACL_ERROR_RT_PARAM_INVALID,
    ACL_ERROR_RT_REPORT_TIMEOUT,
    ACL_ERROR_RT_STREAM_NO_CB_REG,
    ACL_ERROR_RT_STREAM_SUBSCRIBE,
    ACL_ERROR_RT_THREAD_SUBSCRIBE,
    AclError,
)
from .stream import Stream

LOOK_SECONDS = 0.05  # how often a wait looks at what else may end it


@dataclass
class Report:
    """One callback that a stream has reached."""

    function: Callable[[Any], object]
    argument: Any
    subscription: "Subscription"
    done: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None


@dataclass
class Subscription:
    """A stream whose callbacks one thread runs."""

    thread: int
    reports: "queue.SimpleQueue[Report]"
    ended: bool = False


_subscriptions: "weakref.WeakKeyDictionary[Stream, Subscription]" = weakref.WeakKeyDictionary()


def subscribe(thread: int, stream: Stream) -> None:
    """From here on a thread (threading.get_ident) runs the callbacks of a stream. AclError: there is no such thread
    (107000), or another is subscribed to the stream (107011)."""
    if all(living.ident != thread for living in threading.enumerate()):
        raise AclError(ACL_ERROR_RT_PARAM_INVALID, f"thread_id={thread}: no thread of this process has this id")
    if stream in _subscriptions:
        text = f"thread {_subscriptions[stream].thread} is subscribed to this stream; unsubscribe_report ends that"
        raise AclError(ACL_ERROR_RT_STREAM_SUBSCRIBE, text)
    known = next((other for other in _subscriptions.values() if other.thread == thread), None)
    reports: queue.SimpleQueue[Report] = queue.SimpleQueue() if known is None else known.reports
    _subscriptions[stream] = Subscription(thread, reports)


def unsubscribe(thread: int, stream: Stream) -> None:
    """End a subscription: callbacks that have not run do not, and a stream that waits for one goes on with a failure.
    AclError (107011): there is none."""
    subscription = _subscriptions.get(stream)
    if subscription is None or subscription.thread != thread:
        raise AclError(ACL_ERROR_RT_STREAM_SUBSCRIBE, f"thread {thread} is not subscribed to this stream")
    subscription.ended = True
    del _subscriptions[stream]


def launch(function: Callable[[Any], object], argument: Any, stream: Stream, *, blocks: bool) -> None:
    """Queue a callback. AclError (107015): no thread is subscribed to the stream."""
    subscription = _subscriptions.get(stream)
    if subscription is None:
        text = "no thread runs the callbacks of this stream; call acl.rt.subscribe_report first"
        raise AclError(ACL_ERROR_RT_STREAM_NO_CB_REG, text)
    aborts, held = stream.aborts, weakref.ref(stream)

    def reached() -> None:
        report = Report(function, argument, subscription)
        subscription.reports.put(report)
        if blocks:
            _wait(report, lambda: _is_dropped(held(), aborts))

    stream.launch(reached)


def next_report(seconds: float | None) -> Report:
    """The next callback of the streams that the calling thread is subscribed to.

    seconds: longest wait for one; None: for ever. AclError: the thread is subscribed to none (107012), or the time is
    over (507012).
    """
    thread = threading.get_ident()
    subscription = next((one for one in list(_subscriptions.values()) if one.thread == thread), None)
    if subscription is None:
        raise AclError(ACL_ERROR_RT_THREAD_SUBSCRIBE, f"thread {thread} is subscribed to no stream")
    deadline = None if seconds is None else time.monotonic() + seconds
    while True:
        left = LOOK_SECONDS if deadline is None else deadline - time.monotonic()
        try:
            report = subscription.reports.get(timeout=min(max(left, 0.0), LOOK_SECONDS))
        except queue.Empty:
            if deadline is not None and time.monotonic() >= deadline:
                raise AclError(ACL_ERROR_RT_REPORT_TIMEOUT, f"no callback came within {seconds:g} s") from None
            continue
        if not report.subscription.ended:
            return report


def run(report: Report) -> None:
    """Run a callback; what it raises comes out here, and if the stream waits for it, out of the stream too."""
    try:
        report.function(report.argument)
    except BaseException as error:
        report.error = error
        raise
    finally:
        report.done.set()


def _wait(report: Report, is_dropped: Callable[[], bool]) -> None:
    """On the stream's worker: what is raised here is the failure of the stream."""
    while not report.done.wait(LOOK_SECONDS):
        if is_dropped():
            return
        if report.subscription.ended:
            text = "the subscription ended before the callback ran; synchronise the stream before unsubscribe_report"
            raise AclError(ACL_ERROR_RT_STREAM_NO_CB_REG, text)
    if report.error is not None:
        raise report.error


def _is_dropped(stream: Stream | None, aborts: int) -> bool:
    return stream is None or stream.cancelled or stream.aborts != aborts
