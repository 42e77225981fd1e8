"""acl.rt: copies and fills of device and host memory.

Device addresses lie inside one live block of a device that this process has opened, or in memory that it has imported;
anywhere in it is fine. Sizes are bytes.
"""

from typing import NamedTuple

import numpy as np

from .. import device as local
from ..addresses import Range, any_range, device_range, host_blocks, invalid
from ..constants import (
    ACL_MEMCPY_DEFAULT,
    ACL_MEMCPY_DEVICE_TO_DEVICE,
    ACL_MEMCPY_DEVICE_TO_HOST,
    ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE,
    ACL_MEMCPY_HOST_TO_DEVICE,
    ACL_MEMCPY_HOST_TO_HOST,
    ACL_MEMCPY_INNER_DEVICE_TO_DEVICE,
    ACL_MEMCPY_INTER_DEVICE_TO_DEVICE,
)
from ..recording import check_not_pageable, check_unsafe
from ..return_codes import integer, returns_code

# (destination on device, source on device) of each kind
KINDS = {
    ACL_MEMCPY_HOST_TO_HOST: (False, False),
    ACL_MEMCPY_HOST_TO_DEVICE: (True, False),
    ACL_MEMCPY_DEVICE_TO_HOST: (False, True),
    ACL_MEMCPY_DEVICE_TO_DEVICE: (True, True),
    ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE: (True, False),
    ACL_MEMCPY_INNER_DEVICE_TO_DEVICE: (True, True),
    ACL_MEMCPY_INTER_DEVICE_TO_DEVICE: (True, True),
}


@returns_code
def memcpy(dst: int, dest_max: int, src: int, count: int, kind: int, /) -> None:
    """Copy `count` bytes now, between any two memories: the addresses tell which, not `kind`. ret. Waits for no stream.
    Overlapping ranges are copied as if through a buffer. Between two devices, peer access must be enabled.

    107000: an address that is none, count over dest_max or negative, no such kind, no peer access.
    """
    check_unsafe("memcpy")
    copy = _check_copy(dst, dest_max, src, count, kind)
    np.copyto(copy.to.array(), copy.source.array())


@returns_code
def memcpy_async(dst: int, dest_max: int, src: int, count: int, kind: int, stream: int, /) -> None:
    """memcpy queued on a stream; `kind` must fit the addresses. ret.

    Blocks of malloc and malloc_host live until it is done; other host memory must be kept by the caller. As memcpy, and
    107017, 107003 for the stream.
    """
    queue = local.find_stream(integer("stream", stream))
    copy = _check_copy(dst, dest_max, src, count, kind)
    _check_kind(copy)
    _check_pinned("memcpy_async", copy)
    queue.copy(copy.to.address, copy.source.address, copy.to.nbytes, (copy.to.kept, copy.source.kept))


@returns_code
def memcpy2d(dst: int, dpitch: int, src: int, spitch: int, width: int, height: int, kind: int, /) -> None:
    """Copy `height` rows of `width` bytes now; rows begin dpitch and spitch bytes after one another. ret: as memcpy;
    107000 too if a pitch is less than width."""
    check_unsafe("memcpy2d")
    copy = _check_rows(dst, dpitch, src, spitch, width, height, kind)
    if copy.width and copy.height:
        np.copyto(copy.rows_of(copy.to, copy.to_pitch), copy.rows_of(copy.source, copy.source_pitch))


@returns_code
def memcpy2d_async(
    dst: int, dpitch: int, src: int, spitch: int, width: int, height: int, kind: int, stream: int, /
) -> None:
    """memcpy2d queued on a stream. ret: as memcpy_async. Rows that overlap are copied one after another."""
    queue = local.find_stream(integer("stream", stream))
    copy = _check_rows(dst, dpitch, src, spitch, width, height, kind)
    _check_kind(copy)
    _check_pinned("memcpy2d_async", copy)
    to, source, keep = copy.to.address, copy.source.address, (copy.to.kept, copy.source.kept)
    queue.copy_rows(to, copy.to_pitch, source, copy.source_pitch, copy.width, copy.height, keep)


@returns_code
def memset(address: int, max_count: int, value: int, count: int, /) -> None:
    """Set `count` bytes of device or malloc_host memory to the low 8 bits of `value` now. ret: 107000, see memcpy."""
    check_unsafe("memset")
    to, byte = _check_fill(address, max_count, value, count)
    to.array()[...] = byte


@returns_code
def memset_async(address: int, max_count: int, value: int, count: int, stream: int, /) -> None:
    """memset queued on a stream. ret: as memset, and 107017, 107003 for the stream."""
    queue = local.find_stream(integer("stream", stream))
    to, byte = _check_fill(address, max_count, value, count)
    queue.fill(to.address, byte, to.nbytes, to.kept)


class _Copy(NamedTuple):
    to: Range
    source: Range
    kind: int


class _Rows(NamedTuple):
    to: Range
    source: Range
    kind: int
    to_pitch: int
    source_pitch: int
    width: int
    height: int

    def rows_of(self, memory: Range, pitch: int) -> "np.ndarray[tuple[int, int], np.dtype[np.uint8]]":
        return np.lib.stride_tricks.as_strided(memory.array(), (self.height, self.width), (pitch, 1))


def check_peers(to: Range, source: Range) -> None:
    """AclError (107000) unless they lie on one device, or one of the two devices may access the other."""
    if to.device is None or source.device is None or to.device == source.device:
        return
    pairs = {(device.host_id, peer) for device in local.opened() for peer in device.peers}
    if not pairs & {(to.device, source.device), (source.device, to.device)}:
        raise invalid(
            f"a copy from {local.name_of(source.device)} to {local.name_of(to.device)}, which may not access each "
            "other: on one of them call acl.rt.device_enable_peer_access of the other first"
        )


def _check_copy(dst: int, dest_max: int, src: int, count: int, kind: int) -> _Copy:
    dst, src, kind = integer("dst", dst), integer("src", src), integer("kind", kind)
    count = _check_count("dest_max", integer("dest_max", dest_max), integer("count", count))
    local.in_use()
    _check_is_kind(kind)
    to = any_range("dst", dst, count, writes=True)
    source = any_range("src", src, count, writes=False)
    check_peers(to, source)
    return _Copy(to, source, kind)


def _check_rows(dst: int, dpitch: int, src: int, spitch: int, width: int, height: int, kind: int) -> _Rows:
    dst, src, kind = integer("dst", dst), integer("src", src), integer("kind", kind)
    dpitch, spitch = integer("dpitch", dpitch), integer("spitch", spitch)
    width, height = integer("width", width), integer("height", height)
    if not 0 <= width <= min(dpitch, spitch) or height < 0:
        text = f"width={width}, height={height}, dpitch={dpitch}, spitch={spitch}; expected 0 <= width <= both pitches"
        raise invalid(f"{text} and 0 <= height")
    local.in_use()
    _check_is_kind(kind)
    to_nbytes, source_nbytes = ((height - 1) * pitch + width if height else 0 for pitch in (dpitch, spitch))
    to = any_range("dst", dst, to_nbytes, writes=True)
    source = any_range("src", src, source_nbytes, writes=False)
    check_peers(to, source)
    if height <= 1:
        dpitch = spitch = width  # they lead nowhere, and may be any numbers
    return _Rows(to, source, kind, dpitch, spitch, width, height)


def _check_is_kind(kind: int) -> None:
    if kind not in KINDS and kind != ACL_MEMCPY_DEFAULT:
        raise invalid(f"kind={kind}; expected one of ACL_MEMCPY_*")


def _check_kind(copy: _Copy | _Rows) -> None:
    """What is queued must say what it is."""
    places = copy.to.on_device, copy.source.on_device
    if copy.kind in KINDS and KINDS[copy.kind] != places:
        names = " from ".join("device memory" if place else "host memory" for place in places)
        raise invalid(f"kind={copy.kind}, and the addresses are a copy to {names}; ACL_MEMCPY_DEFAULT fits all")


def _check_pinned(call: str, copy: _Copy | _Rows) -> None:
    if any(not place.on_device and place.live is None for place in (copy.to, copy.source)):
        check_not_pageable(call)


def _check_fill(address: int, max_count: int, value: int, count: int) -> tuple[Range, int]:
    address, value = integer("address", address), integer("value", value)
    count = _check_count("max_count", integer("max_count", max_count), integer("count", count))
    local.in_use()
    if host_blocks.around(address) is not None:
        return any_range("address", address, count, writes=True), value & 0xFF
    return device_range("address", address, count), value & 0xFF


def _check_count(name: str, most: int, count: int) -> int:
    if not 0 <= count <= most:
        raise invalid(f"count={count} and {name}={most}; expected 0 <= count <= {name}")
    return count
