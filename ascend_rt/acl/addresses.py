"""Integer addresses, looked up before anything touches them.

Device memory is known to the byte: acl.rt.malloc's blocks on the devices that this process has opened, those behind
arrays of rt.empty, and what was imported from other ranks. Host memory is known if it came from acl.rt.malloc_host; any
other host address is looked up in the map of this process, which costs 0.1 ms.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from . import device as local
from .device import LocalDevice
from .errors import ACL_ERROR_RT_PARAM_INVALID, AclError
from .exported import Use, imported_range
from .handles import Live, LiveMemory

UINT8 = np.dtype(np.uint8)
HUGE = 1 << 63
ALIGNMENT = 512  # of blocks of device memory

# Blocks of acl.rt.malloc_host. They need no device and outlive reset_device.
host_blocks = LiveMemory()


class Range(NamedTuple):
    """Bytes that may be used: where they are, and the memory they lie in as far as it is ours."""

    address: int
    nbytes: int
    device: int | None
    """whose memory it is, by its number on the host; None: the host's own"""
    live: Live | None
    use: Use | None = None
    """of imported memory"""

    @property
    def kept(self) -> tuple[Live | None, Use | None]:
        """What a task keeps that works on it."""
        return self.live, self.use

    @property
    def on_device(self) -> bool:
        return self.device is not None

    def array(self, dtype: "np.dtype[Any]" = UINT8) -> "np.ndarray[Any, Any]":
        """The range as an array; it keeps memory of acl.rt.malloc and malloc_host alive."""
        count = self.nbytes // dtype.itemsize
        if self.live is not None:
            return self.live.array(self.address, dtype, count)
        return array_at(self.address, UINT8, self.nbytes).view(dtype)


def own_range(device: LocalDevice, name: str, address: int, nbytes: int) -> Range:
    """`nbytes` bytes inside one live block of this device of this process; AclError (107000) otherwise."""
    found = _in_block(device, name, address, nbytes)
    if found is not None:
        return found
    if 0 < address < HUGE and nbytes < HUGE and device.memory.device.holds(address, nbytes):
        return Range(address, nbytes, device.host_id, None)
    known = "a null pointer." if address == 0 else f"in no live block of device {device.index}; was it freed?"
    raise invalid(f"{name}={address:#x} ({nbytes} bytes) is {known} Expected device memory of acl.rt.malloc")


def device_range(name: str, address: int, nbytes: int) -> Range:
    """`nbytes` bytes of one live block of any device: this process's, or imported. AclError (107000) otherwise."""
    for device in local.opened():
        found = _in_block(device, name, address, nbytes)
        if found is not None:
            return found
    segment = local.in_use().memory.segment
    index = segment.device_at(address) if 0 < address < HUGE else -1
    if index >= 0 and (use := imported_range(segment, address, nbytes)):
        return Range(address, nbytes, index, None, use)
    for device in local.opened():
        if device.host_id == index:
            return own_range(device, name, address, nbytes)
    what = "a null pointer" if address == 0 else "no device memory"
    if index >= 0:
        what = f"memory of {local.name_of(index)}, which this process has neither opened nor imported"
    raise invalid(f"{name}={address:#x} ({nbytes} bytes) is {what}. Expected device memory of acl.rt.malloc")


def any_range(name: str, address: int, nbytes: int, *, writes: bool) -> Range:
    """`nbytes` bytes of device memory or of this process's host memory; AclError (107000) otherwise."""
    for device in local.opened():
        found = _in_block(device, name, address, nbytes)
        if found is not None:
            return found
    live = host_blocks.around(address)
    if live is not None:
        return _inside(name, address, nbytes, live, None)
    segment = local.in_use().memory.segment
    if segment.base <= address < segment.base + segment.nbytes:
        return device_range(name, address, nbytes)
    if address <= 0:
        raise invalid(f"{name}={address:#x}; expected an address of device or host memory")
    if not is_mapped(address, nbytes, writes=writes):
        what = "write" if writes else "read"
        raise invalid(f"{name}={address:#x}: this process has no {nbytes} bytes there that it may {what}")
    return Range(address, nbytes, None, None)


def is_mapped(address: int, nbytes: int, *, writes: bool) -> bool:
    """Whether this process may read (and write) all of these bytes just now."""
    end = address + nbytes
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, permissions = line.split(None, 2)[:2]
        start, stop = (int(number, 16) for number in span.split("-"))
        if start <= address < stop:
            if permissions[0] != "r" or (writes and permissions[1] != "w"):
                return False
            if end <= stop:
                return True
            address = stop
    return False


def array_at(address: int, dtype: "np.dtype[Any]", count: int) -> "np.ndarray[Any, Any]":
    """An array over memory that somebody else keeps alive; the caller has checked the address."""
    view: np.ndarray[Any, Any] = np.asarray(_Memory(address, dtype, count))
    return view


def invalid(text: str) -> AclError:
    return AclError(ACL_ERROR_RT_PARAM_INVALID, text)


class _Memory:
    def __init__(self, address: int, dtype: "np.dtype[Any]", count: int) -> None:
        self.__array_interface__ = {"version": 3, "data": (address, False), "shape": (count,), "typestr": dtype.str}


def _in_block(device: LocalDevice, name: str, address: int, nbytes: int) -> Range | None:
    """The range, if a block of acl.rt.malloc lies at its address; AclError (107000) if it leaves the block."""
    # The unit's beginning: what lies behind the last byte of a block, up to the next unit, is in no block.
    live = device.blocks.around(address - address % ALIGNMENT)
    return None if live is None else _inside(name, address, nbytes, live, device.host_id)


def _inside(name: str, address: int, nbytes: int, live: Live, device: int | None) -> Range:
    room = live.address + live.nbytes - address
    if nbytes > room:
        raise invalid(
            f"{name}={address:#x}: {nbytes} bytes from there leave their block, which has {live.nbytes} bytes at "
            f"{live.address:#x} and {room} left"
        )
    return Range(address, nbytes, device, live)
