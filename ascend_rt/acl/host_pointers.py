"""acl.util: addresses of NumPy arrays and of bytes, and arrays over addresses."""

from typing import Any

import numpy as np

from .addresses import array_at, is_mapped
from .return_codes import integer

__all__ = ["bytes_to_ptr", "numpy_contiguous_to_ptr", "numpy_to_ptr", "ptr_to_bytes", "ptr_to_numpy"]


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

    dtype: anything that np.dtype takes. ValueError if this process has no such memory.
    """
    kind = np.dtype(dtype)
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


def _bytes_at(address: int, nbytes: int) -> "np.ndarray[Any, Any]":
    if address <= 0 or nbytes < 0 or not is_mapped(address, nbytes, writes=False):
        raise ValueError(f"this process has no {nbytes} bytes at {address:#x}")
    return array_at(address, np.dtype(np.uint8), nbytes)
