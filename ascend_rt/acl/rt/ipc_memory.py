"""acl.rt: device memory that ranks of a job hand to one another by keys.

The exporter allows processes by their id, or all; the importer gets an address that copies and values take while the
export lives, which the exporter's ipc_mem_close or free ends. Bounds are those of the export, to the byte.
"""

from ...core import _core
from .. import device as local
from ..addresses import device_range, invalid, own_range
from ..constants import (
    ACL_RT_IPC_MEM_EXPORT_FLAG_DEFAULT,
    ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION,
    ACL_RT_IPC_MEM_IMPORT_FLAG_DEFAULT,
    ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS,
)
from ..exported import KEY_NBYTES, allow, close, export, follow
from ..return_codes import integer, ranged, returns_code, returns_value_and_code


@returns_value_and_code
def ipc_mem_get_export_key(address: int, size: int, key_len: int, flag: int, /) -> str:
    """(key, ret) of `size` bytes of a block of malloc. key_len is 65.

    flag 0: only processes of ipc_mem_set_import_pid may import it; 1: all of the job. 107000: no such memory (an
    array's, which nobody frees by name, is none), size is not positive, key_len is not 65, no such flag.
    """
    address, size = integer("address", address), integer("size", size)
    ranged("key_len", key_len, KEY_NBYTES, KEY_NBYTES)
    last_flag = ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION
    flag = ranged("flag", flag, ACL_RT_IPC_MEM_EXPORT_FLAG_DEFAULT, last_flag)
    if size <= 0:
        raise invalid(f"size={size}; expected a positive number of bytes")
    index = device_range("address", address, size).device
    device = next((opened for opened in local.opened() if opened.host_id == index), local.in_use())
    if own_range(device, "address", address, size).live is None:  # nor may be what was imported
        raise invalid(f"address={address:#x} is memory of an array; expected a block of acl.rt.malloc")
    return export(device.memory, _core.EXPORT_MEMORY, address, size, to_all=bool(flag))


@returns_code
def ipc_mem_set_import_pid(key: str, pids: list[int], /) -> None:
    """Let processes (by device_get_bare_tgid) import what this one has exported; more with each call, 64 in all. ret.

    107000: this process has exported nothing under this key, or a number is no process id; 207012: more than 64.
    """
    allow(_text(key), integers(pids))


@returns_value_and_code
def ipc_mem_import_by_key(key: str, flag: int, /) -> int:
    """(address, ret) of what another process has exported.

    flag 1 enables access between the calling thread's device and that of the memory, which copies between the two need;
    0 leaves that to device_enable_peer_access.

    107000: nothing is exported under this key, no such flag; 207006: not to this process.
    """
    last_flag = ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS
    flag = ranged("flag", flag, ACL_RT_IPC_MEM_IMPORT_FLAG_DEFAULT, last_flag)
    device = local.in_use()
    address, _ = follow(device.memory.segment, _core.EXPORT_MEMORY, _text(key))
    index = device.memory.segment.device_at(address)
    if flag and index != device.host_id:
        device.peers.add(index)
    return address


@returns_code
def ipc_mem_close(key: str, /) -> None:
    """End this process's import of a key or, if it has none, its export: then the importers' addresses are dead. ret.

    107000: it has neither imported nor exported it.
    """
    close(_text(key))


def integers(pids: list[int]) -> list[int]:
    """A list of ints; TypeError if it is none."""
    if not isinstance(pids, list | tuple):
        raise TypeError(f"pids is a {type(pids).__name__}; expected a list of integers")
    return [integer("pid", pid) for pid in pids]


def _text(key: str) -> str:
    if not isinstance(key, str):
        raise TypeError(f"key is a {type(key).__name__}; expected a str")
    return key
