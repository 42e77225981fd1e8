"""HCCL's C API of memory that a communicator knows: symmetric windows, and ranges of virtual addresses.

    window, ret = hccl.HcclCommSymWinRegister(comm, address, nbytes, 1)         every rank
    there, ret = hccl.HcclSymWinGetPeerPointer(window, offset, peer)
    ret = acl.rt.memcpy(there, n, address, n, acl.ACL_MEMCPY_DEVICE_TO_DEVICE)  one-sided: the peer does nothing

Nobody is told when something is stored into his window: that is what HcclBarrier, notifies and values are for.
"""

# ruff: noqa: N802  the functions have their C names
import contextlib
from dataclasses import dataclass

import numpy as np

from ..acl.addresses import invalid, own_range
from ..acl.errors import AclError
from ..acl.exported import KEY_NBYTES, close, export, follow
from ..acl.handles import Handles
from ..acl.return_codes import integer
from ..core import _core
from ..plan.collectives import COLLECTIVES
from .c_conventions import (
    CodedError,
    device_of,
    returns_result,
    returns_value_and_result,
    returns_values_and_result,
    usable_communicator,
)
from .communicator import Communicator
from .errors import HcclResult

# ---- symmetric memory ----

WIN_FLAG = 1
"""The only flag that CANN knows."""


@dataclass
class Window:
    """Memory of every rank of a communicator, as this one knows it."""

    communicator: Communicator
    address: int
    nbytes: int
    keys: list[str]
    """by rank; its own too"""
    addresses: list[int]
    """by rank, in this process"""


_windows: Handles[Window] = Handles("window")


@returns_value_and_result
def HcclCommSymWinRegister(comm: int, address: int, size: int, flag: int, /) -> int:
    """(window, ret): `size` bytes of a block of acl.rt.malloc of every rank, which all may read and store.

    Every rank calls it, with the same size; it blocks until all do. The addresses of HcclSymWinGetPeerPointer are those
    of acl.rt.memcpy and of values then, without anything else enabled, until the window is deregistered by, or the
    memory is freed by, the rank whose memory it is. flag: 1. HCCL_E_PARA, on every rank: a rank has no such memory, or
    another size.
    """
    communicator = usable_communicator(comm)
    device = device_of(communicator)
    own = ""
    try:
        own = _exported(communicator, integer("address", address), integer("size", size), integer("flag", flag))
    except AclError as error:
        communicator._refuse(COLLECTIVES["all_gather"].number, f"HcclCommSymWinRegister: {error}", None)
    mine = np.frombuffer(f"{own}{size:020d}".encode(), np.uint8)
    rows = [bytes(row).decode() for row in communicator.all_gather(mine)]
    keys, sizes = ([row[part] for row in rows] for part in (slice(0, KEY_NBYTES - 1), slice(KEY_NBYTES - 1, None)))
    if len(set(sizes)) > 1:
        close(own)
        text = f"size is {[int(each) for each in sizes]} on the ranks, in their order; expected the same on all"
        raise CodedError(HcclResult.HCCL_E_PARA, text)
    segment, addresses = communicator._membership.segment, []
    for rank, key in enumerate(keys):
        there = address if rank == communicator.rank else follow(segment, _core.EXPORT_MEMORY, key)[0]
        device.peers.add(segment.device_at(there))
        addresses.append(there)
    device.peers.discard(device.host_id)
    communicator.barrier()  # only now may a rank free its memory
    return _windows.add(Window(communicator, address, size, keys, addresses))


@returns_result
def HcclCommSymWinDeregister(window: int, /) -> None:
    """The window is no more, on this rank: the addresses that it has given lead nowhere, nor do those of its memory on
    the other ranks. Waits for nobody."""
    held = _windows.remove(integer("window", window))
    for key in held.keys:
        _forget(key)


@returns_values_and_result
def HcclCommSymWinGet(comm: int, pointer: int, size: int, /) -> tuple[int, int]:
    """(window, offset, ret): the window in which `size` bytes at a pointer of this rank lie, and how far from its
    beginning. HCCL_E_NOT_FOUND: in none of the communicator."""
    communicator = usable_communicator(comm)
    pointer, size = integer("pointer", pointer), integer("size", size)
    for handle, window in _windows.items():
        offset = pointer - window.address
        if window.communicator is communicator and offset >= 0 and 0 < size <= window.nbytes - offset:
            return handle, offset
    text = f"pointer={pointer:#x}, size={size}: in no window of communicator \"{communicator.name}\""
    raise CodedError(HcclResult.HCCL_E_NOT_FOUND, text)


@returns_value_and_result
def HcclSymWinGetPeerPointer(window: int, offset: int, peer_rank: int, /) -> int:
    """(address, ret): where the byte at `offset` of the window of rank peer_rank is in this process."""
    held = _windows.get(integer("window", window))
    if not 0 <= integer("peer_rank", peer_rank) < len(held.addresses):
        text = f"peer_rank={peer_rank}; expected a rank, 0 to {len(held.addresses) - 1}"
        raise CodedError(HcclResult.HCCL_E_PARA, text)
    if not 0 <= integer("offset", offset) < held.nbytes:
        raise CodedError(HcclResult.HCCL_E_PARA, f"offset={offset}; expected 0 to {held.nbytes - 1}, in the window")
    return held.addresses[peer_rank] + offset


def _exported(communicator: Communicator, address: int, size: int, flag: int) -> str:
    """A key of this rank's part of a window; AclError if there cannot be one."""
    device = device_of(communicator)
    if flag != WIN_FLAG or size <= 0:
        raise invalid(f"size={size}, flag={flag}; expected a positive number of bytes, and flag 1")
    if own_range(device, "address", address, size).live is None:  # an array's, which nobody frees by name
        raise invalid(f"address={address:#x} is memory of an array; expected a block of acl.rt.malloc")
    return export(device.memory, _core.EXPORT_MEMORY, address, size, to_all=True)


def _forget(key: str) -> None:
    with contextlib.suppress(AclError):  # the memory was freed, which has ended the export
        close(key)


# ---- ranges of virtual addresses ----


@returns_result
def HcclCommSetMemoryRange(comm: int, base: int, size: int, alignment: int, flags: int, /) -> None:
    """Unsupported: it is of addresses that aclrtReserveMemAddress has reserved, which pyACL has not. What it is for,
    collectives that copy nothing, is so here for all memory of acl.rt.malloc."""
    raise _no_virtual_memory("HcclCommSetMemoryRange", base)


@returns_result
def HcclCommUnsetMemoryRange(comm: int, base: int, /) -> None:
    """Unsupported: see HcclCommSetMemoryRange."""
    raise _no_virtual_memory("HcclCommUnsetMemoryRange", base)


@returns_result
def HcclCommActivateCommMemory(
    comm: int, address: int, size: int, offset: int, handle: int, flags: int, /
) -> None:
    """Unsupported: it is of physical memory that aclrtMallocPhysical has made, which pyACL has not; see
    HcclCommSetMemoryRange."""
    raise _no_virtual_memory("HcclCommActivateCommMemory", address)


@returns_result
def HcclCommDeactivateCommMemory(comm: int, address: int, /) -> None:
    """Unsupported: see HcclCommActivateCommMemory."""
    raise _no_virtual_memory("HcclCommDeactivateCommMemory", address)


def _no_virtual_memory(function: str, address: int) -> CodedError:
    text = (
        f"{function}({integer('address', address):#x}): acl.rt has no virtual addresses to reserve and map; "
        "collectives use all memory of acl.rt.malloc where it lies"
    )
    return CodedError(HcclResult.HCCL_E_NOT_SUPPORT, text)
