"""acl.rt: device memory and host memory. Sizes are bytes."""

from typing import Any

import numpy as np

from .. import device as local
from ..addresses import HUGE, any_range, host_blocks, invalid
from ..constants import (
    ACL_MEM_ACCESS_USER_SPACE_READONLY,
    ACL_MEM_LOCATION_TYPE_DEVICE,
    ACL_MEM_LOCATION_TYPE_HOST,
    ACL_MEM_LOCATION_TYPE_UNREGISTERED,
    ACL_MEM_MALLOC_HUGE1G_ONLY_P2P,
    ACL_MEM_TYPE_HIGH_BAND_WIDTH,
    ACL_MEM_TYPE_LOW_BAND_WIDTH,
)
from ..errors import (
    ACL_ERROR_FEATURE_UNSUPPORTED,
    ACL_ERROR_RT_INVALID_MALLOC_TYPE,
    ACL_ERROR_RT_MEMORY_ALLOCATION,
    AclError,
)
from ..exported import close_exports, let_go
from ..handles import Live
from ..return_codes import integer, returns_code, returns_value_and_code

POLICY_FLAGS = ACL_MEM_TYPE_LOW_BAND_WIDTH | ACL_MEM_TYPE_HIGH_BAND_WIDTH | ACL_MEM_ACCESS_USER_SPACE_READONLY
LAST_MEMORY_ATTRIBUTE = 17
PAGE_NBYTES = 4096


@returns_value_and_code
def malloc(size: int, policy: int, /) -> int:
    """(address, ret): `size` bytes of undefined values on the calling thread's device, 512-byte aligned.

    All policies mean the same memory. 107000: size is not positive; 107018: no such policy; 207001: no room, the
    message tells who holds what.
    """
    return _malloc(size, policy)


@returns_value_and_code
def malloc_align32(size: int, policy: int, /) -> int:
    """malloc."""
    return _malloc(size, policy)


@returns_value_and_code
def malloc_cached(size: int, policy: int, /) -> int:
    """malloc. Programs and devices share the caches here, so there is nothing to flush."""
    return _malloc(size, policy)


@returns_value_and_code
def malloc_with_cfg(size: int, policy: int, cfg: dict[str, Any] | None, /) -> int:
    """malloc. 200006: cfg has attributes; None and {} have none."""
    if cfg is not None and not isinstance(cfg, dict):
        raise TypeError(f"cfg is a {type(cfg).__name__}; expected a dict or None")
    if cfg:
        raise AclError(ACL_ERROR_FEATURE_UNSUPPORTED, f"cfg={cfg!r}; there are no attributes of memory here, pass None")
    return _malloc(size, policy)


@returns_code
def free(address: int, /) -> None:
    """Free a block of malloc. ret. Does not block: what is queued already, on ranks that have imported it too, may
    still use it, and it is reused only then. Keys that were exported of it lead nowhere. 107000: no block begins there.
    """
    address = integer("address", address)
    segment = local.in_use().memory.segment
    index = segment.device_at(address) if 0 < address < HUGE else -1
    for device in local.opened():
        live = device.blocks.around(address) if device.host_id == index else None
        if live is not None and device.blocks.remove(address):
            close_exports(live.freed_at)
            return
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


def get_mem_info(attribute: int, /) -> tuple[int, int, int]:
    """(free bytes, all bytes, ret) of the calling thread's device; one memory under every attribute (ACL_HBM_MEM ...).

    Free is what the budgets of the device and of the job leave, whoever holds the rest. 107000: no such attribute.
    """
    answer, ret = _memory_info(attribute)
    free_nbytes, all_nbytes = answer if isinstance(answer, tuple) else (0, 0)
    return free_nbytes, all_nbytes, ret


def pointer_get_attributes(address: int, /) -> tuple[dict[str, Any], int]:
    """({"location": {"id", "type"}, "page_size", "rsv"}, ret).

    The type is ACL_MEM_LOCATION_TYPE_DEVICE, with the device's id; or, with id 0, _HOST for malloc_host, _UNREGISTERED
    for other host memory. 107000: no memory of this process.
    """
    place, ret = _location(address)
    index, kind = place if isinstance(place, tuple) else (0, ACL_MEM_LOCATION_TYPE_UNREGISTERED)
    return {"location": {"id": index, "type": kind}, "page_size": PAGE_NBYTES, "rsv": [0, 0, 0, 0]}, ret


@returns_value_and_code
def _memory_info(attribute: int) -> tuple[int, int]:
    attribute, device = integer("attribute", attribute), local.in_use()
    if not 0 <= attribute <= LAST_MEMORY_ATTRIBUTE:
        raise invalid(f"attribute={attribute}; expected one of ACL_HBM_MEM and its like")
    segment = device.memory.segment
    left = min(
        segment.hbm_device_limit - segment.device_in_use(device.host_id), segment.hbm_limit - segment.hbm_in_use
    )
    return max(left, 0), segment.hbm_device_limit


@returns_value_and_code
def _location(address: int) -> tuple[int, int]:
    found = any_range("address", integer("address", address), 1, writes=False)
    if found.device is not None:
        return local.index_of(found.device), ACL_MEM_LOCATION_TYPE_DEVICE
    return 0, ACL_MEM_LOCATION_TYPE_HOST if found.live is not None else ACL_MEM_LOCATION_TYPE_UNREGISTERED


def _malloc(size: int, policy: int) -> int:
    size, policy, device = integer("size", size), integer("policy", policy), local.in_use()
    if size <= 0:
        raise invalid(f"size={size}; expected a positive number of bytes")
    if not 0 <= policy & ~POLICY_FLAGS <= ACL_MEM_MALLOC_HUGE1G_ONLY_P2P:
        raise AclError(ACL_ERROR_RT_INVALID_MALLOC_TYPE, f"policy={policy:#x}; expected one of ACL_MEM_MALLOC_*")
    let_go()
    block = device.memory.allocate(size)
    device.blocks.add(Live(block.address, size, block))
    return block.address
