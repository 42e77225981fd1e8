"""Device memory and notifies that ranks hand to one another by keys.

A key is text that the program carries to another rank in any way it likes. It spells where a record of the export lies
in the job's memory, and a random token that the record must hold: a key that was closed, or invented, leads nowhere.
"""

import os
import secrets
from collections.abc import Callable
from typing import NamedTuple

from ..core import _core
from .errors import ACL_ERROR_RT_NO_PERMISSION, ACL_ERROR_RT_OVER_LIMIT, ACL_ERROR_RT_PARAM_INVALID, AclError
from .memory import DeviceMemory

KEY_NBYTES = 65  # with the NUL behind it that C wants
RECORD_NBYTES = 384
HEX_DIGITS = frozenset("0123456789abcdef")


class Export(NamedTuple):
    """What this process has exported: it lives until it is closed, or the memory is freed."""

    segment: _core.Segment
    block: _core.Block
    """the record's"""
    address: int


class Import(NamedTuple):
    """What this process has imported."""

    key: tuple[int, int, int]
    address: int
    nbytes: int


_exports: dict[str, Export] = {}
_imports: dict[str, Import] = {}


def export(memory: DeviceMemory, kind: int, address: int, nbytes: int, *, to_all: bool) -> str:
    """A key of bytes of a device (kind EXPORT_MEMORY or EXPORT_FLAG). It takes 384 bytes there.

    to_all: any process of the job may import it; else those that `allow` names.
    """
    segment, block = memory.segment, memory.allocate(RECORD_NBYTES)
    token = (secrets.randbits(64) | 1, secrets.randbits(64) | 1)
    segment.publish((block.offset, *token), kind, address - segment.base, nbytes, to_all)
    text = _spell(block.offset, token)
    _exports[text] = Export(segment, block, address)
    return text


def allow(key: str, pids: list[int]) -> None:
    """Let processes import what this one has exported. AclError: it has exported nothing under this key (107000), or
    more than 64 processes (207012)."""
    held = _exports.get(key)
    if held is None:
        raise _unknown(key, "this process has exported nothing under it")
    if any(not 0 < pid < 1 << 31 for pid in pids):
        raise AclError(ACL_ERROR_RT_PARAM_INVALID, f"pids={pids}; expected process ids")
    if not held.segment.allow(held.block.offset, tuple(pids)):
        raise AclError(ACL_ERROR_RT_OVER_LIMIT, f"{len(pids)} more processes; a key may have 64 in all")


def follow(segment: _core.Segment, kind: int, key: str) -> tuple[int, int]:
    """(address, bytes) of what another process has exported; it stays imported until `close`.

    AclError: nothing of this kind is exported under this key (107000), or not to this process (207006).
    """
    numbers = _numbers(key)
    end, offset, nbytes = segment.find(numbers, kind, os.getpid())
    if end == _core.IMPORT_NOT_ALLOWED:
        text = f"key {key!r} was exported, but not to process {os.getpid()}: its exporter has to call set_import_pid"
        raise AclError(ACL_ERROR_RT_NO_PERMISSION, text)
    if end == _core.IMPORT_OTHER_KIND:
        raise _unknown(key, "it is of the other kind: of a notify instead of memory, or the other way round")
    if end != _core.IMPORT_DONE:
        raise _unknown(key, "nothing is exported under it; was it closed, or its memory freed?")
    _imports[key] = Import(numbers, segment.base + offset, nbytes)
    return segment.base + offset, nbytes


def close(key: str) -> None:
    """End this process's import of a key or, if it has none, its export. AclError (107000): it has neither."""
    if _imports.pop(key, None) is not None:
        return
    held = _exports.pop(key, None)
    if held is None:
        raise _unknown(key, "this process has neither imported nor exported it")
    held.segment.withdraw(held.block.offset)


def close_exports(is_freed: Callable[[int], bool]) -> None:
    """Memory is freed: keys that lead to such addresses lead nowhere."""
    for key, held in list(_exports.items()):
        if is_freed(held.address):
            del _exports[key]
            held.segment.withdraw(held.block.offset)


def key_of(address: int) -> str | None:
    """The key under which this process has exported what lies at an address."""
    return next((key for key, held in _exports.items() if held.address == address), None)


def imported_range(segment: _core.Segment, address: int, nbytes: int) -> bool:
    """Whether these bytes are imported, and exported still."""
    for held in list(_imports.values()):
        if held.address <= address and address + nbytes <= held.address + held.nbytes:
            return segment.lives(held.key)
    return False


def forget(*, withdraw: bool) -> None:
    """The job is left: this process exports and imports nothing any more. In a fork what it had stays the rank's."""
    for held in _exports.values() if withdraw else ():
        held.segment.withdraw(held.block.offset)
    _exports.clear()
    _imports.clear()


def _spell(record: int, token: tuple[int, int]) -> str:
    return "".join(f"{number:016x}" for number in (record, *token)).ljust(KEY_NBYTES - 1, "0")


def _numbers(key: str) -> tuple[int, int, int]:
    if len(key) != KEY_NBYTES - 1 or not set(key) <= HEX_DIGITS:
        raise _unknown(key, f"expected the {KEY_NBYTES - 1} digits of a key")
    return int(key[:16], 16), int(key[16:32], 16), int(key[32:48], 16)


def _unknown(key: str, why: str) -> AclError:
    return AclError(ACL_ERROR_RT_PARAM_INVALID, f"key {key!r}: {why}")
