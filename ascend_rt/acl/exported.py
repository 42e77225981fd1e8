"""Device memory and notifies that ranks hand to one another by keys.

A key is text that the program carries to another rank in any way it likes. It spells where a record of the export lies
in the job's memory, and a random token that the record must hold: a key that was closed, or invented, leads nowhere.
"""

import os
import secrets
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

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
    owner: DeviceMemory


@dataclass
class Withdrawn:
    """What an importer was using when it was closed: the record and, once it is freed, the memory stay until that is
    over."""

    export: Export
    memory: Any = None


class Use:
    """A use of imported memory: while somebody refers to it the exporter, which may free the memory, keeps it."""

    def __init__(self, segment: _core.Segment, record: int) -> None:
        """One that `begin_use` has begun."""
        self._segment, self._record, self._process = segment, record, os.getpid()
        _uses.add(self)

    def end(self) -> None:
        """Again: nothing. In a fork of the process: nothing, since the use is the process's."""
        if self._process == os.getpid():
            self._process = 0
            self._segment.end_use(self._record)

    def __del__(self) -> None:
        self.end()


class Import(NamedTuple):
    """What this process has imported."""

    key: tuple[int, int, int]
    address: int
    nbytes: int


_uses: "weakref.WeakSet[Use]" = weakref.WeakSet()
_exports: dict[str, Export] = {}
_withdrawn: list[Withdrawn] = []
# A record never becomes other memory: who has an old key still looks at it.
_records: dict[DeviceMemory, list[_core.Block]] = {}
"""free ones"""
_imports: dict[str, Import] = {}


def export(memory: DeviceMemory, kind: int, address: int, nbytes: int, *, to_all: bool) -> str:
    """A key of bytes of a device (kind EXPORT_MEMORY or EXPORT_FLAG). It takes 384 bytes there, which other keys take
    over.

    to_all: any process of the job may import it; else those that `allow` names.
    """
    let_go()
    spare = _records.setdefault(memory, [])
    segment, block = memory.segment, spare.pop() if spare else memory.allocate(RECORD_NBYTES)
    token = (secrets.randbits(64) | 1, secrets.randbits(64) | 1)
    segment.publish((block.offset, *token), kind, address - segment.base, nbytes, to_all)
    text = _spell(block.offset, token)
    _exports[text] = Export(segment, block, address, memory)
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
    _withdraw(held)


def close_exports(freed_at: Callable[[int], Any]) -> None:
    """Memory is freed: keys that lead to it lead nowhere, and what importers are using just now stays until they have.

    freed_at: the memory of an address, None if it is not freed.
    """
    for key, held in list(_exports.items()):
        if freed_at(held.address) is not None:
            del _exports[key]
            _withdraw(held)
    for withdrawn in _withdrawn:
        withdrawn.memory = withdrawn.memory or freed_at(withdrawn.export.address)
    let_go()


def let_go() -> None:
    """Give back what importers were using when it was freed, where they have."""
    for withdrawn in _withdrawn[:]:
        if not withdrawn.export.segment.is_used(withdrawn.export.block.offset):
            _withdrawn.remove(withdrawn)
            _records.setdefault(withdrawn.export.owner, []).append(withdrawn.export.block)


def _withdraw(held: Export) -> None:
    if held.segment.withdraw(held.block.offset):
        _withdrawn.append(Withdrawn(held))
    else:
        _records.setdefault(held.owner, []).append(held.block)


def key_of(address: int) -> str | None:
    """The key under which this process has exported what lies at an address."""
    return next((key for key, held in _exports.items() if held.address == address), None)


def imported_range(segment: _core.Segment, address: int, nbytes: int) -> Use | None:
    """A use of these bytes, if they are imported, and exported still."""
    for held in list(_imports.values()):
        if held.address <= address and address + nbytes <= held.address + held.nbytes:
            return Use(segment, held.key[0]) if segment.begin_use(held.key) else None
    return None


def forget(*, withdraw: bool) -> None:
    """The job is left: this process exports and imports nothing any more. In a fork what it had stays the rank's."""
    for held in _exports.values() if withdraw else ():
        held.segment.withdraw(held.block.offset)
    for use in list(_uses):
        use.end()
    for known in (_exports, _imports, _withdrawn, _records):
        known.clear()


def _spell(record: int, token: tuple[int, int]) -> str:
    return "".join(f"{number:016x}" for number in (record, *token)).ljust(KEY_NBYTES - 1, "0")


def _numbers(key: str) -> tuple[int, int, int]:
    if len(key) != KEY_NBYTES - 1 or not set(key) <= HEX_DIGITS:
        raise _unknown(key, f"expected the {KEY_NBYTES - 1} digits of a key")
    return int(key[:16], 16), int(key[16:32], 16), int(key[32:48], 16)


def _unknown(key: str, why: str) -> AclError:
    return AclError(ACL_ERROR_RT_PARAM_INVALID, f"key {key!r}: {why}")
