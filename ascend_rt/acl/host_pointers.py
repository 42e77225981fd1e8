"""acl.util: addresses of NumPy arrays and of bytes, arrays over addresses, and threads."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from .addresses import array_at, invalid, is_mapped
from .report import LOOK_SECONDS
from .return_codes import integer, returns_code, returns_value_and_code

__all__ = [
    "bytes_to_ptr",
    "numpy_contiguous_to_ptr",
    "numpy_to_ptr",
    "ptr_to_bytes",
    "ptr_to_numpy",
    "start_thread",
    "stop_thread",
]

TYPES_BY_NUMBER: dict[int, Any] = {np.dtype(code).num: np.dtype(code) for code in np.typecodes["All"]}

_threads: dict[int, threading.Thread] = {}


def numpy_contiguous_to_ptr(array: "np.ndarray[Any, Any]", /) -> int:
    """Address of a contiguous array, which the caller keeps alive. TypeError if it is no array, ValueError if its
    elements do not lie one behind another."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"a {type(array).__name__}; expected a NumPy array")
    if not array.flags.c_contiguous:
        raise ValueError(f"an array of the strides {array.strides}; expected a contiguous one: np.ascontiguousarray")
    address: int = array.__array_interface__["data"][0]
    return address


numpy_to_ptr = numpy_contiguous_to_ptr


def ptr_to_numpy(address: int, shape: tuple[int, ...], dtype: Any, /) -> "np.ndarray[Any, Any]":
    """An array over memory of this process, device memory included, which the caller keeps alive.

    dtype: anything that np.dtype takes, or a type number of NumPy, as in pyACL (NPY_FLOAT is 11). ValueError if this
    process has no such memory.
    """
    kind = np.dtype(TYPES_BY_NUMBER.get(dtype, dtype) if isinstance(dtype, int) else dtype)
    nbytes = int(np.prod(shape, dtype=object)) * kind.itemsize
    view: np.ndarray[Any, Any] = _bytes_at(integer("address", address), nbytes).view(kind).reshape(shape)
    return view


def bytes_to_ptr(data: bytes, /) -> int:
    """Address of the first byte; the caller keeps `data` alive and nobody writes there. TypeError if it is no bytes."""
    if not isinstance(data, bytes):
        raise TypeError(f"a {type(data).__name__}; expected bytes")
    return numpy_contiguous_to_ptr(np.frombuffer(data, np.uint8)) if data else 0


def ptr_to_bytes(address: int, size: int, /) -> bytes:
    """A copy of `size` bytes. ValueError if this process has no such memory."""
    return _bytes_at(integer("address", address), integer("size", size)).tobytes()


@returns_value_and_code
def start_thread(function: Callable[[Any], object], arguments: Any, /) -> int:
    """(thread id, ret): function(arguments) runs in a new thread; its arguments come as one list. The process ends
    without waiting for it."""
    if not callable(function):
        raise TypeError(f"function is a {type(function).__name__}; expected something to call")
    thread = threading.Thread(target=function, args=(arguments,), daemon=True)
    thread.start()
    assert thread.ident is not None
    _threads[thread.ident] = thread
    return thread.ident


@returns_code
def stop_thread(thread_id: int, /) -> None:
    """Wait until a thread of start_thread has ended, which the program sees to; other threads run meanwhile. ret.

    107000: no such thread, or the calling one.
    """
    number = integer("thread_id", thread_id)
    thread = _threads.get(number)
    if thread is None or thread is threading.current_thread():
        raise invalid(f"thread_id={number}; expected another thread, of acl.util.start_thread")
    while thread.is_alive():
        thread.join(LOOK_SECONDS)
    _threads.pop(number, None)


def _bytes_at(address: int, nbytes: int) -> "np.ndarray[Any, Any]":
    if address <= 0 or nbytes < 0 or not is_mapped(address, nbytes, writes=False):
        raise ValueError(f"this process has no {nbytes} bytes at {address:#x}")
    return array_at(address, np.dtype(np.uint8), nbytes)
