"""Calls while streams are captured: what is refused, and how a captured call becomes a task that can be launched.

A captured call says nothing to the other ranks, so a wrong argument is raised here and now and told to nobody.
"""

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..acl import recording
from ..acl.memory import Array
from ..core import _core
from ..diag.call_site import call_site
from ..diag.vocabulary import COLLECTIVES as NUMBERS_OF_CALLS
from ..plan.collectives import COLLECTIVES
from ..plan.split import NUMBERS
from .arguments import Call, code_of_refusal
from .errors import HcclError, HcclResult
from .types import OPS, number_of_dtype

if TYPE_CHECKING:
    from .communicator import Communicator

Place = tuple[int | tuple[int, int], str]
"""A stream of a graph, or a stream and which of its tasks is replaced; and the line of the program that queued it."""


class Holder(Protocol):
    """What has calls of a communicator prepared, and has to go before it: a graph."""

    name: str

    def destroy(self) -> None:
        """It has none any more."""


def refuse_held(communicator: "Communicator") -> None:
    """HcclError (HCCL_E_PARA) if a graph has calls of a communicator that is about to be destroyed."""
    for holder in communicator._holders:
        which = f"rank {communicator.rank}: communicator {communicator.name!r} cannot be destroyed"
        text = f"{which}: graph {holder.name!r} has calls of it; destroy that first"
        raise HcclError(HcclResult.HCCL_E_PARA, text, [communicator.rank])


def refuse_while_recording(name: str, stream: Any) -> None:
    """AclError (107030) for a call that blocks, where a capture forbids it."""
    if stream is None:
        recording.check_unsafe(f"{name} without a stream")


def refuse_recorded(communicator: Any, name: str, why: str, stream: Any) -> None:
    """HcclError for a call on a captured stream whose arguments are wrong."""
    if recording.recorder_of(stream) is not None:
        text = f"rank {communicator.rank}: {name} ({call_site()}): {why}"
        raise HcclError(code_of_refusal(why), text, [communicator.rank], "EI0003")


def defer_calls_of(live: Callable[[], "Sequence[Communicator]"]) -> None:
    """While anything is recorded, native bases hand every call to Python, where those on captured streams are seen."""

    def defer(deferred: bool) -> None:
        for communicator in live():
            communicator._defer(deferred)

    recording.watchers.append(defer)


# ---- into a graph, behind what it has; DeviceMemoryError where memory for scratch or staging is missing ----


def add_collective(graph: _core.Graph, place: Place, communicator: "Communicator", call: Call) -> None:
    kind = (call.spec.number, call.dtype, call.op, call.root, call.count)
    attempt = functools.partial(graph.call, *place, communicator, *kind, call.x, call.out, None)
    communicator._provide(call, attempt)


def add_meeting(graph: _core.Graph, place: Place, communicator: "Communicator", identity: int) -> None:
    """A barrier that fails on all ranks unless all of them give the same identity, 1 to 2**32 - 1: as its root, which
    the core compares as it does all arguments."""
    nothing = np.empty(0, np.int8)
    call = call_of("barrier", "sum", 0, 0, nothing, nothing)
    kind = (call.spec.number, call.dtype, call.op, identity, 0)
    communicator._provide(call, functools.partial(graph.call, *place, communicator, *kind, nothing, nothing, None))


def add_split(
    graph: _core.Graph,
    place: Place,
    communicator: "Communicator",
    name: str,
    op: str,
    x: Array,
    out: Array,
    table: bytes,
) -> None:
    kind = (number_of_dtype(out.dtype) or 0, OPS[op])
    attempt = functools.partial(graph.call, *place, communicator, NUMBERS[name], *kind, 0, 0, x, out, table)
    communicator._provide_split(name, kind, x, out, table, attempt)


def add_transfer(
    graph: _core.Graph,
    place: Place,
    communicator: "Communicator",
    name: str,
    messages: Sequence[tuple[bool, int, Array]],
) -> None:
    """messages: whether it is received, the other rank, the array."""
    number = next(number for number, called in NUMBERS_OF_CALLS.items() if called == name)
    items = tuple((int(receives), peer, number_of_dtype(x.dtype) or 0, x.size, x) for receives, peer, x in messages)
    communicator._provide_channel(functools.partial(graph.transfer, *place, communicator, number, items))


def call_of(name: str, op: str, root: int, count: int, x: Array, out: Array) -> Call:
    """A checked call again, from what a graph keeps of it."""
    spec = COLLECTIVES[name]
    return Call(spec, number_of_dtype(out.dtype) or 0, int(OPS[op]) if spec.reduces else 0, root, count, x, out)
