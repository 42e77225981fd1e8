"""What all functions with C names share: handles, numbers and addresses in, results instead of exceptions out."""

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
from .arguments import RefusedError
from .communicator import Communicator
from .errors import HcclError, HcclResult
from .types import DATA_TYPE_OF_ACL, OP_NAMES, HcclDataType, dtype_of_number

MOST_ELEMENTS = 0x7FFFFFFFF  # HCCL's own limit of a count

DATA_TYPES = {int(number) for number in HcclDataType}

P = ParamSpec("P")
Value = TypeVar("Value")

communicators: Handles[Communicator] = Handles("communicator")


class CodedError(Exception):
    """What makes a function return `code`."""

    def __init__(self, code: HcclResult, text: str) -> None:
        self.code = code
        super().__init__(text)


def returns_result(function: Callable[P, None]) -> Callable[P, HcclResult]:
    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> HcclResult:
        try:
            function(*args, **kwargs)
        except (CodedError, AclError, HcclError, RefusedError) as error:
            return result_of(error)
        return HcclResult.HCCL_SUCCESS

    return call


def returns_value_and_result(function: Callable[P, Value]) -> Callable[P, tuple[Value | int, HcclResult]]:
    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> tuple[Value | int, HcclResult]:
        try:
            return function(*args, **kwargs), HcclResult.HCCL_SUCCESS
        except (CodedError, AclError, HcclError) as error:
            return 0, result_of(error)

    return call


def result_of(error: AclError | HcclError | RefusedError | CodedError) -> HcclResult:
    set_recent_err_msg(str(error))
    if isinstance(error, AclError):
        no_device = error.code == ACL_ERROR_RT_CONTEXT_NULL
        return HcclResult.HCCL_E_RUNTIME if no_device else HcclResult.HCCL_E_PARA
    return error.code


# ---- arguments ----


class Elements:
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


def dtype_of(dtype: int) -> "np.dtype[Any]":
    return numpy_dtype_of(number_of(dtype))


def number_of(dtype: int) -> int:
    number = DATA_TYPE_OF_ACL.get(dtype) if isinstance(dtype, aclDataType) else integer("dtype", dtype)
    if number not in DATA_TYPES:
        text = f"dtype={dtype!r}; expected one of HcclDataType or its like of aclDataType"
        raise RefusedError(text, HcclResult.HCCL_E_NOT_SUPPORT)
    return int(number)


@functools.cache
def numpy_dtype_of(number: int) -> "np.dtype[Any]":
    return dtype_of_number(number)


def op_of(op: int) -> str:
    number = integer("op", op)
    if number not in OP_NAMES:
        raise RefusedError(f"op={number}; expected one of HcclReduceOp, 0 to 4", HcclResult.HCCL_E_NOT_SUPPORT)
    return OP_NAMES[number]


def root_of(root: int, communicator: Communicator) -> int:
    number = integer("root", root)
    if not 0 <= number < communicator.size:
        raise RefusedError(f"root={number}; expected a rank, 0 to {communicator.size - 1}")
    return number


def find_communicator(comm: int) -> Communicator:
    handle = integer("comm", comm)
    if handle == 0:
        raise CodedError(HcclResult.HCCL_E_PTR, "comm is a null pointer")
    return communicators.get(handle)


def find_stream(stream: int) -> Stream:
    return local.find_stream(integer("stream", stream))
