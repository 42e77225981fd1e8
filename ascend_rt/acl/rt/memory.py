"""acl.rt: device memory, host memory, and copies between them.

Device addresses lie inside one live block of this rank's device; anywhere in it is fine. Sizes are bytes.
"""

from typing import NamedTuple

import numpy as np

from .. import device as local
from ..addresses import Range, any_range, device_range, host_blocks, invalid
from ..constants import (
    ACL_MEM_ACCESS_USER_SPACE_READONLY,
    ACL_MEM_MALLOC_HUGE1G_ONLY_P2P,
    ACL_MEM_TYPE_HIGH_BAND_WIDTH,
    ACL_MEM_TYPE_LOW_BAND_WIDTH,
    ACL_MEMCPY_DEFAULT,
    ACL_MEMCPY_DEVICE_TO_DEVICE,
    ACL_MEMCPY_DEVICE_TO_HOST,
    ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE,
    ACL_MEMCPY_HOST_TO_DEVICE,
    ACL_MEMCPY_HOST_TO_HOST,
    ACL_MEMCPY_INNER_DEVICE_TO_DEVICE,
    ACL_MEMCPY_INTER_DEVICE_TO_DEVICE,
)
from ..device import LocalDevice
from ..errors import (
    ACL_ERROR_FEATURE_UNSUPPORTED,
    ACL_ERROR_RT_INVALID_MALLOC_TYPE,
    ACL_ERROR_RT_MEMORY_ALLOCATION,
    AclError,
)
from ..handles import Live
from ..return_codes import integer, returns_code, returns_value_and_code

POLICY_FLAGS = ACL_MEM_TYPE_LOW_BAND_WIDTH | ACL_MEM_TYPE_HIGH_BAND_WIDTH | ACL_MEM_ACCESS_USER_SPACE_READONLY
LAST_MEMORY_ATTRIBUTE = 17

# (destination on device, source on device) of each kind
KINDS = {
    ACL_MEMCPY_HOST_TO_HOST: (False, False),
    ACL_MEMCPY_HOST_TO_DEVICE: (True, False),
    ACL_MEMCPY_DEVICE_TO_HOST: (False, True),
    ACL_MEMCPY_DEVICE_TO_DEVICE: (True, True),
    ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE: (True, False),
    ACL_MEMCPY_INNER_DEVICE_TO_DEVICE: (True, True),
}


@returns_value_and_code
def malloc(size: int, policy: int, /) -> int:
    """(address, ret): `size` bytes of undefined values on this rank's device, 512-byte aligned.

    All policies mean the same memory. 107000: size is not positive; 107018: no such policy; 207001: no room, the
    message tells who holds what.
    """
    size, policy, device = integer("size", size), integer("policy", policy), _device()
    if size <= 0:
        raise invalid(f"size={size}; expected a positive number of bytes")
    if not 0 <= policy & ~POLICY_FLAGS <= ACL_MEM_MALLOC_HUGE1G_ONLY_P2P:
        raise AclError(ACL_ERROR_RT_INVALID_MALLOC_TYPE, f"policy={policy:#x}; expected one of ACL_MEM_MALLOC_*")
    block = device.memory.allocate(size)
    device.blocks.add(Live(block.address, size, block))
    return block.address


@returns_code
def free(address: int, /) -> None:
    """Free a block of malloc. ret. Does not block: what is queued already may still use it, and it is reused only then.

    107000: no block of malloc begins there.
    """
    address = integer("address", address)
    if not _device().blocks.remove(address):
        raise invalid(f"{address:#x} is not the beginning of a live block of acl.rt.malloc; was it freed before?")


@returns_value_and_code
def malloc_host(size: int, /) -> int:
    """(address, ret): `size` bytes of host memory. 107000: size is not positive; 207001: no room. Needs no device."""
    size = integer("size", size)
    if size <= 0:
        raise invalid(f"size={size}; expected a positive number of bytes")
    try:
        memory = np.empty(size, np.uint8)
    except (MemoryError, OverflowError, ValueError):
        raise AclError(ACL_ERROR_RT_MEMORY_ALLOCATION, f"no room for {size} bytes of host memory") from None
    address: int = memory.__array_interface__["data"][0]
    host_blocks.add(Live(address, size, memory))
    return address


@returns_code
def free_host(address: int, /) -> None:
    """Free a block of malloc_host. ret. Queued copies may still use it. 107000: no such block begins there."""
    address = integer("address", address)
    if not host_blocks.remove(address):
        raise invalid(f"{address:#x} is not the beginning of a live block of acl.rt.malloc_host; was it freed before?")


@returns_code
def memcpy(dst: int, dest_max: int, src: int, count: int, kind: int, /) -> None:
    """Copy `count` bytes now, between any two memories of this process: the addresses tell which, not `kind`. ret.
    Waits for no stream. Overlapping ranges are copied as if through a buffer.

    107000: an address that is none of this process's, count over dest_max or negative, no such kind.
    """
    copy = _check_copy(_device(), dst, dest_max, src, count, kind)
    np.copyto(copy.to.array(), copy.source.array())


@returns_code
def memcpy_async(dst: int, dest_max: int, src: int, count: int, kind: int, stream: int, /) -> None:
    """memcpy queued on a stream; `kind` must fit the addresses. ret.

    Blocks of malloc and malloc_host live until it is done; other host memory must be kept by the caller. As memcpy, and
    107017, 107003 for the stream.
    """
    device = _device()
    queue = device.stream(integer("stream", stream))
    copy = _check_copy(device, dst, dest_max, src, count, kind)
    places = copy.to.on_device, copy.source.on_device
    if copy.kind in KINDS and KINDS[copy.kind] != places:
        names = " from ".join("device memory" if place else "host memory" for place in places)
        raise invalid(f"kind={copy.kind}, and the addresses are a copy to {names}; ACL_MEMCPY_DEFAULT fits all")
    queue.copy(copy.to.address, copy.source.address, copy.to.nbytes, (copy.to.live, copy.source.live))


@returns_code
def memset(address: int, max_count: int, value: int, count: int, /) -> None:
    """Set `count` bytes of device or malloc_host memory to the low 8 bits of `value` now. ret: 107000, see memcpy."""
    to, byte = _check_fill(_device(), address, max_count, value, count)
    to.array()[...] = byte


@returns_code
def memset_async(address: int, max_count: int, value: int, count: int, stream: int, /) -> None:
    """memset queued on a stream. ret: as memset, and 107017, 107003 for the stream."""
    device = _device()
    queue = device.stream(integer("stream", stream))
    to, byte = _check_fill(device, address, max_count, value, count)
    queue.fill(to.address, byte, to.nbytes, to.live)


def get_mem_info(attribute: int, /) -> tuple[int, int, int]:
    """(free bytes, all bytes, ret) of this rank's device; one memory under every attribute (ACL_HBM_MEM ...).

    Free is what the budgets of the device and of the job leave. 107000: no such attribute.
    """
    answer, ret = _memory_info(attribute)
    free_nbytes, all_nbytes = answer if isinstance(answer, tuple) else (0, 0)
    return free_nbytes, all_nbytes, ret


@returns_value_and_code
def _memory_info(attribute: int) -> tuple[int, int]:
    attribute, device = integer("attribute", attribute), _device()
    if not 0 <= attribute <= LAST_MEMORY_ATTRIBUTE:
        raise invalid(f"attribute={attribute}; expected one of ACL_HBM_MEM and its like")
    segment, held = device.memory.segment, device.memory.device.in_use
    left = min(segment.hbm_device_limit - held, segment.hbm_limit - segment.hbm_in_use)
    return max(left, 0), segment.hbm_device_limit


class _Copy(NamedTuple):
    to: Range
    source: Range
    kind: int


def _device() -> LocalDevice:
    device = local.in_use()
    local.current_context(device)
    return device


def _check_copy(device: LocalDevice, dst: int, dest_max: int, src: int, count: int, kind: int) -> _Copy:
    dst, src, kind = integer("dst", dst), integer("src", src), integer("kind", kind)
    count = _check_count("dest_max", integer("dest_max", dest_max), integer("count", count))
    if kind == ACL_MEMCPY_INTER_DEVICE_TO_DEVICE:
        text = "ACL_MEMCPY_INTER_DEVICE_TO_DEVICE: a process reaches no other device by address yet"
        raise AclError(ACL_ERROR_FEATURE_UNSUPPORTED, text)
    if kind not in KINDS and kind != ACL_MEMCPY_DEFAULT:
        raise invalid(f"kind={kind}; expected one of ACL_MEMCPY_*")
    to = any_range(device, "dst", dst, count, writes=True)
    return _Copy(to, any_range(device, "src", src, count, writes=False), kind)


def _check_fill(device: LocalDevice, address: int, max_count: int, value: int, count: int) -> tuple[Range, int]:
    address, value = integer("address", address), integer("value", value)
    count = _check_count("max_count", integer("max_count", max_count), integer("count", count))
    if host_blocks.around(address) is not None:
        return any_range(device, "address", address, count, writes=True), value & 0xFF
    return device_range(device, "address", address, count), value & 0xFF


def _check_count(name: str, most: int, count: int) -> int:
    if not 0 <= count <= most:
        raise invalid(f"count={count} and {name}={most}; expected 0 <= count <= {name}")
    return count
