"""Data buffers: an address and a size, as models take their inputs and outputs (aclDataBuffer)."""

from typing import NamedTuple

from .handles import Handles
from .return_codes import integer, returns_code


class DataBuffer(NamedTuple):
    """Bytes at an address, which the program keeps alive."""

    address: int
    nbytes: int


data_buffers: Handles[DataBuffer] = Handles("data buffer")


def create_data_buffer(ptr: int, size: int, /) -> int:
    """A handle for `size` bytes at an address; what lies there is looked at when it is used. No ret."""
    return data_buffers.add(DataBuffer(integer("ptr", ptr), integer("size", size)))


def get_data_buffer_addr(buffer: int, /) -> int:
    """The address; 0 if there is no such buffer. No ret."""
    return _find(buffer).address


def get_data_buffer_size(buffer: int, /) -> int:
    """The size in bytes; 0 if there is no such buffer. No ret."""
    return _find(buffer).nbytes


get_data_buffer_size_v2 = get_data_buffer_size


@returns_code
def update_data_buffer(buffer: int, ptr: int, size: int, /) -> None:
    """Another address and size. ret: 107017: no such buffer."""
    data_buffers.replace(integer("buffer", buffer), DataBuffer(integer("ptr", ptr), integer("size", size)))


@returns_code
def destroy_data_buffer(buffer: int, /) -> None:
    """ret; the memory stays. 107017: no such buffer."""
    data_buffers.remove(integer("buffer", buffer))


def _find(buffer: int) -> DataBuffer:
    return dict(data_buffers.items()).get(integer("buffer", buffer), DataBuffer(0, 0))
