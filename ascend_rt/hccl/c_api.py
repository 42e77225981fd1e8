"""HCCL's C API by its own names and argument order: integers for addresses and handles, HcclResult for exceptions.

    comm, ret = hccl.HcclCommInitRootInfo(size, root_info, rank)
    ret = hccl.HcclAllReduce(send, recv, count, acl.ACL_FLOAT16, HCCL_REDUCE_SUM, comm, stream)
    ret = acl.rt.synchronize_stream(stream)

What C returns through a pointer stands before the result: (value, ret). Collectives only queue, or are collected
between HcclGroupStart and HcclGroupEnd; counts are elements.
Buffers are device memory of this process, contiguous, aligned to their elements. dtype, send_type and recv_type are
HcclDataType or aclDataType, a plain integer HcclDataType; op is HcclReduceOp; stream 0 the thread's default stream.

A wrong argument gives its code here, and all other ranks learn of it, as in the Python methods: the call of every rank
fails, and synchronize_stream tells it on each. acl.get_recent_err_msg() has the words.

    HCCL_E_PTR (2)           an address or communicator is 0
    HCCL_E_PARA (1)          address, count, root, communicator or stream is wrong
    HCCL_E_NOT_SUPPORT (5)   dtype or reduce operation is unknown
    HCCL_E_RUNTIME (15)      no device is set, or this thread has no context
    HCCL_E_SUSPENDING (22)   the communicator is suspended
"""

# ruff: noqa: N802  the functions have their C names
from collections.abc import Callable

from ..acl.return_codes import integer
from ..acl.stream import Stream
from ..plan.collectives import COLLECTIVES
from .arguments import RefusedError, address_of, told
from .c_conventions import (
    MOST_ELEMENTS,
    Elements,
    device_of,
    dtype_of,
    number_of,
    op_of,
    returns_result,
    root_of,
)
from .communicator import Communicator
from .device_dtypes import check_dtype
from .errors import HcclResult
from .grouping import issue, target
from .types import OPS

# ---- collectives ----


@returns_result
def HcclAllReduce(send: int, recv: int, count: int, dtype: int, op: int, comm: int, stream: int, /) -> None:
    """Fold `count` elements of every rank's send into every rank's recv, which may be send."""

    def queue(communicator: Communicator, on: Stream, elements: Elements) -> None:
        communicator.all_reduce(elements.at("send", send), elements.at("recv", recv), op_of(op), on)

    _queue("all_reduce", count, dtype, comm, stream, queue, op)


def HcclBroadcast(buffer: int, count: int, dtype: int, root: int, comm: int, stream: int, /) -> HcclResult:
    """The root's `count` elements at buffer come to every rank's buffer."""
    return broadcast_out_of_place(buffer, buffer, count, dtype, root, comm, stream)


@returns_result
def broadcast_out_of_place(
    send: int, recv: int, count: int, dtype: int, root: int, comm: int, stream: int, /
) -> None:
    """The root's `count` elements at send come to every rank's recv, the root's included; off the root send is unused.
    HCCL's first generation broadcast so (capi.hcclBroadcast)."""

    def queue(communicator: Communicator, on: Stream, elements: Elements) -> None:
        number = root_of(root, communicator)
        out = elements.at("recv", recv)
        if communicator.rank == number and send != recv:
            x = elements.at("send", send)
            on.copy(address_of(out), address_of(x), x.nbytes, (out, x))
        communicator.broadcast(out, number, on)

    _queue("broadcast", count, dtype, comm, stream, queue)


@returns_result
def HcclReduce(send: int, recv: int, count: int, dtype: int, op: int, root: int, comm: int, stream: int, /) -> None:
    """Fold `count` elements of every rank's send into the root's recv, which may be send. Elsewhere recv is unused."""

    def queue(communicator: Communicator, on: Stream, elements: Elements) -> None:
        number = root_of(root, communicator)
        out = elements.at("recv", recv) if communicator.rank == number else None
        communicator.reduce(elements.at("send", send), out, op_of(op), number, on)

    _queue("reduce", count, dtype, comm, stream, queue, op)


@returns_result
def HcclScatter(send: int, recv: int, recv_count: int, dtype: int, root: int, comm: int, stream: int, /) -> None:
    """The root's send has `recv_count` elements for each rank's recv; off the root send is unused."""

    def queue(communicator: Communicator, on: Stream, elements: Elements) -> None:
        number, size = root_of(root, communicator), communicator.size
        x = elements.at("send", send, size) if communicator.rank == number else None
        communicator.scatter(x, elements.at("recv", recv), number, on)

    _queue("scatter", recv_count, dtype, comm, stream, queue)


@returns_result
def HcclAlltoAll(
    send: int, send_count: int, send_type: int, recv: int, recv_count: int, recv_type: int, comm: int, stream: int, /
) -> None:
    """send has `send_count` elements for each rank's recv, which gets `recv_count` from each, in rank order.

    Counts are per peer. Both must be equal, and send_type and recv_type too (HCCL_E_PARA); recv must not lie on send.
    """

    def queue(communicator: Communicator, on: Stream, elements: Elements) -> None:
        if (send_count, dtype_of(send_type)) != (recv_count, dtype_of(recv_type)):
            given = f"send_count={send_count}, recv_count={recv_count}, send_type={send_type}, recv_type={recv_type}"
            raise RefusedError(f"{given}; expected equal counts and equal types")
        if send == recv and send_count:
            raise RefusedError(f"send and recv are both {send:#x}; expected separate memory")
        size = communicator.size
        communicator.all_to_all(elements.at("send", send, size), elements.at("recv", recv, size), on)

    _queue("all_to_all", send_count, send_type, comm, stream, queue)


@returns_result
def HcclAllGather(send: int, recv: int, send_count: int, dtype: int, comm: int, stream: int, /) -> None:
    """Every rank's `send_count` elements, one behind another in rank order, in every rank's recv."""

    def queue(communicator: Communicator, on: Stream, elements: Elements) -> None:
        size = communicator.size
        communicator.all_gather(elements.at("send", send), elements.at("recv", recv, size), on)

    _queue("all_gather", send_count, dtype, comm, stream, queue)


@returns_result
def HcclReduceScatter(send: int, recv: int, recv_count: int, dtype: int, op: int, comm: int, stream: int, /) -> None:
    """Fold send, which has `recv_count` elements for each rank; each rank's recv gets its own of the result."""

    def queue(communicator: Communicator, on: Stream, elements: Elements) -> None:
        x, out = elements.at("send", send, communicator.size), elements.at("recv", recv)
        communicator.reduce_scatter(x, out, op_of(op), on)

    _queue("reduce_scatter", recv_count, dtype, comm, stream, queue, op)


@returns_result
def HcclBarrier(comm: int, stream: int, /) -> None:
    """What is queued on the stream from here on runs when every rank's stream is here."""
    to = target(comm, stream)
    issue(to, lambda on: to[0].barrier(on))


def _queue(
    kind: str,
    count: int,
    dtype: int,
    comm: int,
    stream: int,
    queue: Callable[[Communicator, Stream, Elements], None],
    op: int = 0,
) -> None:
    """Queues one collective. If its arguments are wrong, what is queued is the refusal: nobody is left waiting."""
    to = target(comm, stream)
    issue(to, lambda on: _issue(kind, count, dtype, to[0], on, queue, op))


def _issue(
    kind: str,
    count: int,
    dtype: int,
    communicator: Communicator,
    on: Stream,
    queue: Callable[[Communicator, Stream, Elements], None],
    op: int,
) -> None:
    try:
        count = integer("count", count)
        if not 0 <= count <= MOST_ELEMENTS:
            raise RefusedError(f"count={count}; expected 0 to {MOST_ELEMENTS}")
        elements = Elements(count, dtype_of(dtype), device_of(communicator))
        check_dtype(kind, number_of(dtype), OPS[op_of(op)], communicator._strict_dtypes)
        queue(communicator, on, elements)
    except RefusedError as error:
        communicator._refuse(COLLECTIVES[kind].number, told(error), on)
        raise
