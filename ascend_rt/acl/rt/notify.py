"""acl.rt: notifies: flags that one stream sets and one stream waits for and clears, of any device and any rank.

Setting one that is set already does nothing. Of several waits one gets it.
"""

from ...core import _core
from .. import device as local
from ..constants import (
    ACL_RT_NOTIFY_EXPORT_FLAG_DEFAULT,
    ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION,
    ACL_RT_NOTIFY_IMPORT_FLAG_DEFAULT,
    ACL_RT_NOTIFY_IMPORT_FLAG_ENABLE_PEER_ACCESS,
)
from ..errors import ACL_ERROR_RT_INVALID_HANDLE, ACL_ERROR_RT_PARAM_INVALID, AclError
from ..exported import KEY_NBYTES, Use, allow, close, close_exports, export, follow, imported_range, key_of
from ..return_codes import integer, ranged, returns_code, returns_value_and_code
from .ipc_memory import integers

FLAG_NBYTES = 4
LONGEST_KEY_NBYTES = 1024
UINT32_MAX = (1 << 32) - 1
LAST_CREATE_FLAG = 1  # ACL_NOTIFY_DEVICE_USE_ONLY


@returns_value_and_code
def create_notify(flag: int, /) -> int:
    """(notify, ret) in the memory of the calling thread's device, not set. flag: 0, or 1, which means the same.

    107000: no such flag; 207001: no room for its 512 bytes.
    """
    ranged("flag", flag, 0, LAST_CREATE_FLAG)
    device = local.in_use()
    block = device.memory.allocate(FLAG_NBYTES)
    memoryview(block)[:] = bytes(FLAG_NBYTES)
    return local.notifies.add(local.OwnedNotify(device, block.address, device.next_id(), block))


@returns_code
def destroy_notify(notify: int, /) -> None:
    """ret. What is queued with it already goes on using it; its key leads nowhere. 107017: no such notify."""
    owned = local.notifies.remove(integer("notify", notify))
    if owned.block is not None:
        close_exports(owned.freed_at)
    elif all(other.key != owned.key for _, other in local.notifies.items()):
        close(owned.key)


@returns_code
def record_notify(notify: int, stream: int, /) -> None:
    """The notify is set when all that is queued on the stream so far is done. ret: 107017, 107003."""
    owned = _find(notify)
    local.find_stream(integer("stream", stream)).set_flag(owned.address, _kept(notify, owned))


@returns_code
def wait_and_reset_notify(notify: int, stream: int, timeout: int, /) -> None:
    """What is queued on the stream from here on waits until the notify is set, and clears it. ret: 107017, 107003.

    timeout: milliseconds, 0 for ever; 107000: it is negative or no 32-bit number. After so long the stream goes on, and
    its synchronisation gives 507048.
    """
    owned = _find(notify)
    queue = local.find_stream(integer("stream", stream))
    queue.take_flag(owned.address, ranged("timeout", timeout, 0, UINT32_MAX) * 1_000_000, _kept(notify, owned))


@returns_value_and_code
def get_notify_id(notify: int, /) -> int:
    """(id of a notify, counted on its device, ret). 107017: no such notify."""
    return _find(notify).number


@returns_value_and_code
def notify_get_export_key(notify: int, key_len: int, flag: int, /) -> str:
    """(key, ret) by which another process of the job gets the notify. key_len: at least 65. Again: the same key.

    flag 0: only processes of notify_set_import_pid may import it; 2: all. 107017: no such notify; 107000: it was
    imported, key_len is too small, no such flag.
    """
    owned = _own(notify)
    ranged("key_len", key_len, KEY_NBYTES, LONGEST_KEY_NBYTES - 1)
    to_all = _flag(flag, ACL_RT_NOTIFY_EXPORT_FLAG_DEFAULT, ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION)
    known = key_of(owned.address)
    return known or export(owned.device.memory, _core.EXPORT_FLAG, owned.address, FLAG_NBYTES, to_all=to_all)


@returns_code
def notify_set_import_pid(notify: int, pids: list[int], /) -> None:
    """Let processes (by device_get_bare_tgid) import an exported notify; more with each call, 64 in all. ret.

    107017: no such notify; 107000: it was not exported, or a number is no process id; 207012: more than 64.
    """
    numbers, owned = integers(pids), _own(notify)
    key = key_of(owned.address)
    if key is None:
        text = f"notify {notify:#x} has no key; call acl.rt.notify_get_export_key first"
        raise AclError(ACL_ERROR_RT_PARAM_INVALID, text)
    allow(key, numbers)


@returns_value_and_code
def notify_import_by_key(key: str, flag: int, /) -> int:
    """(notify, ret) of another process, for destroy_notify to end. flag: 0, or 2, which means the same.

    107000: no notify is exported under this key, no such flag; 207006: not to this process.
    """
    if not isinstance(key, str):
        raise TypeError(f"key is a {type(key).__name__}; expected a str")
    _flag(flag, ACL_RT_NOTIFY_IMPORT_FLAG_DEFAULT, ACL_RT_NOTIFY_IMPORT_FLAG_ENABLE_PEER_ACCESS)
    device = local.in_use()
    address, _ = follow(device.memory.segment, _core.EXPORT_FLAG, key)
    return local.notifies.add(local.OwnedNotify(device, address, device.next_id(), None, key))


def _find(notify: int) -> local.OwnedNotify:
    owned = local.notifies.get(integer("notify", notify))
    _kept(notify, owned)
    return owned


def _kept(notify: int, owned: local.OwnedNotify) -> _core.Block | Use:
    """What a task keeps that works on it."""
    kept = owned.block or imported_range(owned.device.memory.segment, owned.address, FLAG_NBYTES)
    if kept is None:
        text = f"notify {notify:#x} was imported, and the process that made it has destroyed it"
        raise AclError(ACL_ERROR_RT_INVALID_HANDLE, text)
    return kept


def _own(notify: int) -> local.OwnedNotify:
    owned = _find(notify)
    if owned.block is None:
        raise AclError(ACL_ERROR_RT_PARAM_INVALID, f"notify {notify:#x} is another process's; its owner exports it")
    return owned


def _flag(flag: int, unset: int, is_set: int) -> bool:
    number = integer("flag", flag)
    if number not in (unset, is_set):
        raise AclError(ACL_ERROR_RT_PARAM_INVALID, f"flag={number}; expected {unset} or {is_set}")
    return number == is_set
