"""The container: GE's header of 256 bytes and its table of partitions, little-endian.

    bytes 0..255    magic, sizes, version, checksum, counts (struct below)
    u32             number of partitions
    each 20 bytes   type u32, offset u64 (from the end of the table), size u64
    partitions      one behind another, without gaps

GE's own files have the same magic; ours say "ascend_rt" where GE keeps what the user has defined. The checksum is the
SHA-256 of everything behind the header.
"""

import hashlib
import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from .errors import ModelFileError

MAGIC = 0x444F4D49
"""on disk: IMOD"""
HEAD_NBYTES = 256
VERSION = 2
"""1, of before 0.1.0 was released, did not say what it was made from"""
MAKER = b"ascend_rt"
FLOW = 3
"""modeltype of a file that holds several models: here, one for each rank"""

# magic, headsize, version, checksum, length, is_encrypt, is_checksum, modeltype, genmode, name, ops, userdefineinfo,
# om_ir_version, model_num, platform_version, platform_type, model_length, need_check_os_cpu_info, is_unknow_model
_HEAD = struct.Struct("<III64sIBBBB32sI32sII20sB3xQBB62x")
_COUNT = struct.Struct("<I")
_ENTRY = struct.Struct("<IQQ")
MOST_PARTITIONS = 4 * 4096


class PartitionType(IntEnum):
    """What a partition holds, by GE's numbers."""

    WEIGHTS_DATA = 1
    """bytes of constants"""
    FLOW_MODEL = 6
    """JSON: what all ranks have in common"""
    FLOW_SUBMODEL = 7
    """JSON: the graph of a rank and its memory plan; one for each, in rank order"""


class Partition(NamedTuple):
    type: PartitionType
    data: bytes


class Header(NamedTuple):
    """What the header says, beyond what is the same in all files."""

    name: str
    ops: int
    """nodes of all ranks"""
    models: int
    """ranks"""


def pack(header: Header, partitions: Sequence[Partition]) -> bytes:
    """The file."""
    table, offset = [_COUNT.pack(len(partitions))], 0
    for partition in partitions:
        table.append(_ENTRY.pack(partition.type, offset, len(partition.data)))
        offset += len(partition.data)
    body = b"".join([*table, *(partition.data for partition in partitions)])
    name = short(header.name).encode()
    length = len(body) & 0xFFFFFFFF
    counts = header.ops, MAKER, 0, header.models
    head = _HEAD.pack(
        MAGIC, HEAD_NBYTES, VERSION, _checksum(body), length, 0, 1, FLOW, 0, name, *counts, b"", 0, len(body), 0, 0
    )
    return head + body


def unpack(data: bytes) -> tuple[Header, list[Partition]]:
    """ModelFileError, with the field that is wrong, for what is no file of `pack`."""
    if len(data) < HEAD_NBYTES:
        raise ModelFileError(f"no .om: {len(data)} bytes; expected a header of {HEAD_NBYTES} bytes")
    fields = _HEAD.unpack_from(data)
    magic, headsize, version, checksum, length, encrypted, has_checksum, modeltype, genmode, name = fields[:10]
    ops, maker, ir_version, models, platform, platform_type, model_length, needs_os, is_unknown = fields[10:]
    body = data[HEAD_NBYTES:]
    _expect("magic", hex(magic), hex(MAGIC))
    if maker.rstrip(b"\0") != MAKER:
        raise ModelFileError("an .om that ascend_rt has not made: it holds code for devices; build it with hccl-atc")
    if version != VERSION:
        raise ModelFileError(f"version is {version}; expected {VERSION}: compile it again with this release's hccl-atc")
    _expect("headsize", headsize, HEAD_NBYTES)
    _expect("is_encrypt", encrypted, 0)
    _expect("is_checksum", has_checksum, 1)
    _expect("modeltype", modeltype, FLOW)
    constant = {"genmode": genmode, "om_ir_version": ir_version, "platform_type": platform_type}
    constant |= {"need_check_os_cpu_info": needs_os, "is_unknow_model": is_unknown}
    constant |= {"platform_version": len(platform.rstrip(b"\0")), "reserved bytes": sum(_reserved(data))}
    for field, value in constant.items():
        _expect(field, value, 0)
    if model_length != len(body) or length != len(body) & 0xFFFFFFFF:
        raise ModelFileError(
            f"model_length is {model_length}, length {length}, and {len(body)} bytes follow the header: the file is "
            "cut short or has something behind it"
        )
    _expect("checksum", checksum.decode("ascii", "replace"), _checksum(body).decode())
    header = Header(_text("name", name), ops, models)
    return header, _partitions(body)


def short(name: str) -> str:
    """As much of a name as the header has room for."""
    return name.encode()[:31].decode(errors="ignore").rstrip("\0")


def _partitions(body: bytes) -> list[Partition]:
    count = _COUNT.unpack_from(body)[0] if len(body) >= _COUNT.size else -1
    start = _COUNT.size + count * _ENTRY.size
    if not 0 <= count <= MOST_PARTITIONS or start > len(body):
        raise ModelFileError(f"number of partitions is {count}; there is no room for their table")
    found: list[Partition] = []
    end = start
    for number in range(count):
        kind, offset, size = _ENTRY.unpack_from(body, _COUNT.size + number * _ENTRY.size)
        if kind not in set(PartitionType):
            raise ModelFileError(f"partition {number} is of type {kind}; expected {_listed(PartitionType)}")
        if start + offset != end or end + size > len(body):
            place = f"offset {offset}, size {size}"
            raise ModelFileError(f"partition {number} ({place}) does not follow the one before it, or leaves the file")
        found.append(Partition(PartitionType(kind), body[end : end + size]))
        end += size
    if end != len(body):
        raise ModelFileError(f"{len(body) - end} bytes behind the last partition")
    return found


def _checksum(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest().encode()


def _reserved(data: bytes) -> bytes:
    return data[181:184] + data[194:256]


def _text(field: str, raw: bytes) -> str:
    try:
        return raw.rstrip(b"\0").decode()
    except UnicodeDecodeError:
        raise ModelFileError(f"{field} is no text") from None


def _expect(field: str, given: object, expected: object) -> None:
    if given != expected:
        raise ModelFileError(f"{field} is {given}; expected {expected}")


def _listed(types: type[PartitionType]) -> str:
    return ", ".join(f"{int(kind)} ({kind.name})" for kind in types)
