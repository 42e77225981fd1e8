"""HCCL's C API by its own names and argument order: integers for addresses and handles, HcclResult for exceptions.

    comm, ret = hccl.HcclCommInitRootInfo(size, root_info, rank)
    ret = hccl.HcclAllReduce(send, recv, count, acl.ACL_FLOAT16, HCCL_REDUCE_SUM, comm, stream)
    ret = acl.rt.synchronize_stream(stream)

What C returns through a pointer stands before the result: (value, ret). Collectives only queue; counts are elements.
Buffers are device memory of this process, contiguous, aligned to their elements. dtype, send_type and recv_type are
HcclDataType or aclDataType, a plain integer HcclDataType; op is HcclReduceOp; stream 0 the thread's default stream.

A wrong argument gives its code here, and all other ranks learn of it, as in the Python methods: the call of every rank
fails, and synchronize_stream tells it on each. acl.get_recent_err_msg() has the words.

    HCCL_E_PTR (2)           an address or communicator is 0
    HCCL_E_PARA (1)          address, count, root, communicator or stream is wrong
    HCCL_E_NOT_SUPPORT (5)   dtype or reduce operation is unknown
    HCCL_E_RUNTIME (15)      no device is set, or this thread has no context
"""

# ruff: noqa: N802  the functions have their C names
import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np

from ..acl import device as local
from ..acl.addresses import array_at, own_range
from ..acl.constants import aclDataType
from ..acl.errors import ACL_ERROR_RT_CONTEXT_NULL, AclError
from ..acl.handles import Handles
from ..acl.memory import Array
from ..acl.return_codes import integer, set_recent_err_msg
from ..acl.stream import Stream
from ..plan.collectives import COLLECTIVES
from .arguments import RefusedError, told
from .communicator import Communicator
from .device_dtypes import check_dtype
from .errors import HcclError, HcclResult
from .types import DATA_TYPE_OF_ACL, OP_NAMES, OPS, HcclDataType, dtype_of_number

MOST_ELEMENTS = 0x7FFFFFFFF  # HCCL's own limit of a count

DATA_TYPES = {int(number) for number in HcclDataType}

P = ParamSpec("P")
Value = TypeVar("Value")

_communicators: Handles[Communicator] = Handles("communicator")


class _Error(Exception):
    """What makes a function return `code`."""

    def __init__(self, code: HcclResult, text: str) -> None:
        self.code = code
        super().__init__(text)


def _returns_result(function: Callable[P, None]) -> Callable[P, HcclResult]:
    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> HcclResult:
        try:
            function(*args, **kwargs)
        except (_Error, AclError, HcclError, RefusedError) as error:
            return _tell(error)
        return HcclResult.HCCL_SUCCESS

    return call


def _returns_value_and_result(function: Callable[P, Value]) -> Callable[P, tuple[Value | int, HcclResult]]:
    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> tuple[Value | int, HcclResult]:
        try:
            return function(*args, **kwargs), HcclResult.HCCL_SUCCESS
        except (_Error, AclError, HcclError) as error:
            return 0, _tell(error)

    return call


def _tell(error: AclError | HcclError | RefusedError | _Error) -> HcclResult:
    set_recent_err_msg(str(error))
    if isinstance(error, AclError):
        no_device = error.code == ACL_ERROR_RT_CONTEXT_NULL
        return HcclResult.HCCL_E_RUNTIME if no_device else HcclResult.HCCL_E_PARA
    return error.code


# ---- collectives ----


@_returns_result
def HcclAllReduce(send: int, recv: int, count: int, dtype: int, op: int, comm: int, stream: int, /) -> None:
    """Fold `count` elements of every rank's send into every rank's recv, which may be send."""

    def queue(communicator: Communicator, on: Stream, elements: "_Elements") -> None:
        communicator.all_reduce(elements.at("send", send), elements.at("recv", recv), _op(op), on)

    _queue("all_reduce", count, dtype, comm, stream, queue, op)


def HcclBroadcast(buffer: int, count: int, dtype: int, root: int, comm: int, stream: int, /) -> HcclResult:
    """The root's `count` elements at buffer come to every rank's buffer."""
    return broadcast_out_of_place(buffer, buffer, count, dtype, root, comm, stream)


@_returns_result
def broadcast_out_of_place(
    send: int, recv: int, count: int, dtype: int, root: int, comm: int, stream: int, /
) -> None:
    """The root's `count` elements at send come to every rank's recv, the root's included; off the root send is unused.
    HCCL's first generation broadcast so (capi.hcclBroadcast)."""

    def queue(communicator: Communicator, on: Stream, elements: "_Elements") -> None:
        number = _root(root, communicator)
        out = elements.at("recv", recv)
        if communicator.rank == number and send != recv:
            x = elements.at("send", send)
            on.copy(_address(out), _address(x), x.nbytes, (out, x))
        communicator.broadcast(out, number, on)

    _queue("broadcast", count, dtype, comm, stream, queue)


@_returns_result
def HcclReduce(send: int, recv: int, count: int, dtype: int, op: int, root: int, comm: int, stream: int, /) -> None:
    """Fold `count` elements of every rank's send into the root's recv, which may be send. Elsewhere recv is unused."""

    def queue(communicator: Communicator, on: Stream, elements: "_Elements") -> None:
        number = _root(root, communicator)
        out = elements.at("recv", recv) if communicator.rank == number else None
        communicator.reduce(elements.at("send", send), out, _op(op), number, on)

    _queue("reduce", count, dtype, comm, stream, queue, op)


@_returns_result
def HcclScatter(send: int, recv: int, recv_count: int, dtype: int, root: int, comm: int, stream: int, /) -> None:
    """The root's send has `recv_count` elements for each rank's recv; off the root send is unused."""

    def queue(communicator: Communicator, on: Stream, elements: "_Elements") -> None:
        number, size = _root(root, communicator), communicator.size
        x = elements.at("send", send, size) if communicator.rank == number else None
        communicator.scatter(x, elements.at("recv", recv), number, on)

    _queue("scatter", recv_count, dtype, comm, stream, queue)


@_returns_result
def HcclAlltoAll(
    send: int, send_count: int, send_type: int, recv: int, recv_count: int, recv_type: int, comm: int, stream: int, /
) -> None:
    """send has `send_count` elements for each rank's recv, which gets `recv_count` from each, in rank order.

    Counts are per peer. Both must be equal, and send_type and recv_type too (HCCL_E_PARA); recv must not lie on send.
    """

    def queue(communicator: Communicator, on: Stream, elements: "_Elements") -> None:
        if (send_count, _dtype(send_type)) != (recv_count, _dtype(recv_type)):
            given = f"send_count={send_count}, recv_count={recv_count}, send_type={send_type}, recv_type={recv_type}"
            raise RefusedError(f"{given}; expected equal counts and equal types")
        if send == recv and send_count:
            raise RefusedError(f"send and recv are both {send:#x}; expected separate memory")
        size = communicator.size
        communicator.all_to_all(elements.at("send", send, size), elements.at("recv", recv, size), on)

    _queue("all_to_all", send_count, send_type, comm, stream, queue)


@_returns_result
def HcclAllGather(send: int, recv: int, send_count: int, dtype: int, comm: int, stream: int, /) -> None:
    """Every rank's `send_count` elements, one behind another in rank order, in every rank's recv."""

    def queue(communicator: Communicator, on: Stream, elements: "_Elements") -> None:
        size = communicator.size
        communicator.all_gather(elements.at("send", send), elements.at("recv", recv, size), on)

    _queue("all_gather", send_count, dtype, comm, stream, queue)


@_returns_result
def HcclReduceScatter(send: int, recv: int, recv_count: int, dtype: int, op: int, comm: int, stream: int, /) -> None:
    """Fold send, which has `recv_count` elements for each rank; each rank's recv gets its own of the result."""

    def queue(communicator: Communicator, on: Stream, elements: "_Elements") -> None:
        x, out = elements.at("send", send, communicator.size), elements.at("recv", recv)
        communicator.reduce_scatter(x, out, _op(op), on)

    _queue("reduce_scatter", recv_count, dtype, comm, stream, queue, op)


@_returns_result
def HcclBarrier(comm: int, stream: int, /) -> None:
    """What is queued on the stream from here on runs when every rank's stream is here."""
    _find_communicator(comm).barrier(_find_stream(stream))


class _Elements:
    """Elements of one type in device memory."""

    def __init__(self, count: int, dtype: "np.dtype[Any]") -> None:
        self._count, self._dtype = count, dtype

    def at(self, name: str, address: int, blocks: int = 1) -> Array:
        """`blocks` times `count` elements at an address, as an array that keeps their block alive."""
        address = integer(name, address)
        if not self._count:
            return np.empty(0, self._dtype)
        if address == 0:
            raise RefusedError(f"{name} is a null pointer", HcclResult.HCCL_E_PTR)
        if address % self._dtype.itemsize:
            raise RefusedError(f"{name}={address:#x}; expected a multiple of the {self._dtype.itemsize} bytes of dtype")
        device, nbytes = local.current(), blocks * self._count * self._dtype.itemsize
        try:
            found = own_range(device, name, address, nbytes)
        except AclError as error:
            raise RefusedError(str(error)) from None
        if found.live is None:
            return array_at(address, np.dtype(np.uint8), nbytes).view(self._dtype)
        return found.live.array(address, self._dtype, blocks * self._count)


def _queue(
    kind: str,
    count: int,
    dtype: int,
    comm: int,
    stream: int,
    queue: Callable[[Communicator, Stream, _Elements], None],
    op: int = 0,
) -> None:
    """Queues one collective. If its arguments are wrong, what is queued is the refusal: nobody is left waiting."""
    communicator, on = _find_communicator(comm), _find_stream(stream)
    try:
        count = integer("count", count)
        if not 0 <= count <= MOST_ELEMENTS:
            raise RefusedError(f"count={count}; expected 0 to {MOST_ELEMENTS}")
        elements = _Elements(count, _dtype(dtype))
        check_dtype(kind, _number(dtype), OPS[_op(op)], communicator._strict_dtypes)
        queue(communicator, on, elements)
    except RefusedError as error:
        communicator._refuse(COLLECTIVES[kind].number, told(error), on)
        raise


def _address(x: Array) -> int:
    return int(x.__array_interface__["data"][0])


def _dtype(dtype: int) -> "np.dtype[Any]":
    return _numpy_dtype(_number(dtype))


def _number(dtype: int) -> int:
    number = DATA_TYPE_OF_ACL.get(dtype) if isinstance(dtype, aclDataType) else integer("dtype", dtype)
    if number not in DATA_TYPES:
        text = f"dtype={dtype!r}; expected one of HcclDataType or its like of aclDataType"
        raise RefusedError(text, HcclResult.HCCL_E_NOT_SUPPORT)
    return int(number)


@functools.cache
def _numpy_dtype(number: int) -> "np.dtype[Any]":
    return dtype_of_number(number)


def _op(op: int) -> str:
    number = integer("op", op)
    if number not in OP_NAMES:
        raise RefusedError(f"op={number}; expected one of HcclReduceOp, 0 to 4", HcclResult.HCCL_E_NOT_SUPPORT)
    return OP_NAMES[number]


def _root(root: int, communicator: Communicator) -> int:
    number = integer("root", root)
    if not 0 <= number < communicator.size:
        raise RefusedError(f"root={number}; expected a rank, 0 to {communicator.size - 1}")
    return number


def _find_communicator(comm: int) -> Communicator:
    handle = integer("comm", comm)
    if handle == 0:
        raise _Error(HcclResult.HCCL_E_PTR, "comm is a null pointer")
    return _communicators.get(handle)


def _find_stream(stream: int) -> Stream:
    return local.find_stream(integer("stream", stream))
