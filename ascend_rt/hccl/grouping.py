"""HcclGroupStart and HcclGroupEnd: calls that a thread makes in between are only noted, and issued together at the end.

    making and destroying    all at once, each in a thread of its own with the context in which it was called: so one
                             thread makes the communicators of several ranks, which wait for one another
    collectives              one behind another, in the order of the calls
    sends and receives       all at once: those of one communicator and stream are one batch; where a stream has batches
                             of several communicators, all but the first go beside it, and the stream waits for them

A call whose handles are wrong says so at once, any other says HCCL_SUCCESS; what fails first is what HcclGroupEnd says.
"""

import functools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ..acl import device as local
from ..acl.errors import AclError
from ..acl.stream import Stream
from .arguments import RefusedError
from .c_conventions import CodedError, communicators, find_stream, usable_communicator
from .communicator import Communicator
from .errors import HcclError, HcclResult

Target = tuple[Communicator, Stream]
Failure = CodedError | AclError | HcclError | RefusedError


class Kind(Enum):
    """What a group may hold, one of these at a time, as in CANN."""

    MAKING = "making or destroying communicators"
    COLLECTIVES = "collectives"
    TRANSFERS = "sends and receives"


@dataclass
class Batch:
    """Items of one communicator on one stream, and what issues them."""

    items: list[Any] = field(default_factory=list)
    issue: Callable[[Sequence[Any], Stream], None] = lambda items, on: None


class _Group(threading.local):
    """The group of a thread."""

    depth = 0
    kind: Kind | None = None

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []
        self.batches: dict[Stream, dict[Communicator, Batch]] = {}
        self.failures: list[Failure] = []


class Lane(Stream):
    """Carries a batch beside a stream that waits for it. What fails here poisons that one, which tells it: this one has
    nothing left to tell."""

    def take_failure(self) -> None:
        super().take_failure()


_group = _Group()


def start() -> None:
    """The calling thread's calls are collected until as many `end`s."""
    _group.depth += 1


def is_open() -> bool:
    """Whether the calling thread's calls are collected."""
    return _group.depth > 0


def end() -> None:
    """Issues what has been collected, if this is the outermost group; raises what has failed first. CodedError
    (HCCL_E_NOT_SUPPORT): no group is open."""
    if not _group.depth:
        raise CodedError(HcclResult.HCCL_E_NOT_SUPPORT, "HcclGroupEnd without HcclGroupStart")
    _group.depth -= 1
    if _group.depth:
        return
    kind, calls, batches, failures = _group.kind, _group.calls, _group.batches, _group.failures
    _group.kind, _group.calls, _group.batches, _group.failures = None, [], {}, []
    if kind is Kind.MAKING and calls:
        _call_all_at_once(calls, failures)
    for call in calls if kind is Kind.COLLECTIVES else ():
        _try(call, failures)
    for stream, by_communicator in batches.items():
        _issue_batches(stream, list(by_communicator.values()), failures)
    if failures:
        raise failures[0]


def target(comm: int, stream: int) -> Target:
    """The communicator and the stream of a call."""
    try:
        return usable_communicator(comm), find_stream(stream)
    except (CodedError, AclError) as error:
        _note(error)
        raise


def issue(to: Target, call: Callable[[Stream], None]) -> None:
    """Issues a collective on its stream: now, or at the end of the group."""
    _, on = to
    if _takes(Kind.COLLECTIVES):
        _group.calls.append(lambda: call(on))
    else:
        call(on)


def issue_items(to: Target, items: Sequence[Any], call: Callable[[Sequence[Any], Stream], None]) -> None:
    """Issues sends and receives: now, or in one batch with all others of the group."""
    communicator, on = to
    if not _takes(Kind.TRANSFERS):
        call(items, on)
        return
    batch = _group.batches.setdefault(on, {}).setdefault(communicator, Batch())
    batch.items += items
    batch.issue = call


def destroy(call: Callable[[], None]) -> None:
    """Destroys a communicator: now, or at the end of the group."""
    if _takes(Kind.MAKING):
        _group.calls.append(_in_this_context(call))
    else:
        call()


def make(call: Callable[[], Communicator]) -> int:
    """The handle of a communicator that is made now or, of a group, at its end; it is good from then on."""
    if not _takes(Kind.MAKING):
        return communicators.add(call())
    handle = communicators.reserve()
    _group.calls.append(_in_this_context(lambda: communicators.fill(handle, call())))
    return handle


def refuse_in_group(function: str) -> None:
    """CodedError (HCCL_E_NOT_SUPPORT) for what no group may hold."""
    if _group.depth:
        error = CodedError(HcclResult.HCCL_E_NOT_SUPPORT, f"{function} in a group; expected HcclSend and HcclRecv")
        _note(error)
        raise error


def _takes(kind: Kind) -> bool:
    """Whether a call is collected; CodedError (HCCL_E_NOT_SUPPORT) if the group holds calls of another kind."""
    if not _group.depth:
        return False
    if _group.kind is not None and _group.kind is not kind:
        text = f"{kind.value} in a group of {_group.kind.value}; expected calls of one kind"
        error = CodedError(HcclResult.HCCL_E_NOT_SUPPORT, text)
        _note(error)
        raise error
    _group.kind = kind
    return True


def _note(failure: Failure) -> None:
    if _group.depth:
        _group.failures.append(failure)


# ---- issuing ----


def _try(call: Callable[[], None], failures: list[Failure]) -> None:
    try:
        call()
    except (CodedError, AclError, HcclError, RefusedError) as error:
        failures.append(error)


def _call_all_at_once(calls: list[Callable[[], None]], failures: list[Failure]) -> None:
    with ThreadPoolExecutor(len(calls)) as threads:
        done = [threads.submit(_try, call, failures) for call in calls]
    for each in done:
        each.result()


def _in_this_context(call: Callable[[], None]) -> Callable[[], None]:
    """`call`, in whatever thread it runs, with the context that the calling thread has now."""
    context = local.current_context_handle()

    def in_context() -> None:
        local.set_current_context(context)
        call()

    return in_context


def _issue_batches(stream: Stream, batches: list[Batch], failures: list[Failure]) -> None:
    ready, done = stream.record(), []
    for batch in batches[1:]:
        lane = Lane()
        lane.wait(ready)
        _try(functools.partial(batch.issue, batch.items, lane), failures)
        done.append(lane.record())
    _try(functools.partial(batches[0].issue, batches[0].items, stream), failures)
    for event in done:
        stream.wait(event)
