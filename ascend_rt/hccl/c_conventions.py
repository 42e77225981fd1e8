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


def returns_values_and_result(
    function: Callable[P, tuple[int, int]],
) -> Callable[P, tuple[int, int, HcclResult]]:
    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> tuple[int, int, HcclResult]:
        try:
            return *function(*args, **kwargs), HcclResult.HCCL_SUCCESS
        except (CodedError, AclError, HcclError) as error:
            return 0, 0, result_of(error)

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

    def __init__(self, count: int, dtype: "np.dtype[Any]", device: local.LocalDevice) -> None:
        self._count, self._dtype, self._device = count, dtype, device

    def at(self, name: str, address: int, blocks: int = 1) -> Array:
        """`blocks` times `count` elements at an address, as an array that keeps their block alive."""
        address = integer(name, address)
        if not self._count:
            return np.empty(0, self._dtype)
        if address == 0:
            raise RefusedError(f"{name} is a null pointer", HcclResult.HCCL_E_PTR)
        if address % self._dtype.itemsize:
            raise RefusedError(f"{name}={address:#x}; expected a multiple of the {self._dtype.itemsize} bytes of dtype")
        nbytes = blocks * self._count * self._dtype.itemsize
        try:
            found = own_range(self._device, name, address, nbytes)
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
    """Also one that is suspended."""
    handle = integer("comm", comm)
    if handle == 0:
        raise CodedError(HcclResult.HCCL_E_PTR, "comm is a null pointer")
    return communicators.get(handle)


def usable_communicator(comm: int) -> Communicator:
    """For what a suspended communicator does not do."""
    communicator = find_communicator(comm)
    if communicator._suspended:
        text = f'communicator "{communicator.name}" is suspended; HcclCommResume, on every rank, ends that'
        raise CodedError(HcclResult.HCCL_E_SUSPENDING, text)
    return communicator


def device_of(communicator: Communicator) -> local.LocalDevice:
    """Whose memory its calls take. Where it has only memory of its own (root_info.memory_in), the calling thread's."""
    for device in local.opened():
        if device.memory is communicator._memory:
            return device
    return local.in_use()


def handle_named(name: str) -> int:
    """The handle of the latest communicator of this name; CodedError (HCCL_E_NOT_FOUND) if there is none."""
    if not isinstance(name, str):
        raise TypeError(f"name is a {type(name).__name__}; expected a str")
    for handle, communicator in reversed(communicators.items()):
        if communicator.name == name:
            return handle
    raise CodedError(HcclResult.HCCL_E_NOT_FOUND, f"name={name!r}: no communicator of this process has it")


def find_stream(stream: int) -> Stream:
    return local.find_stream(integer("stream", stream))
