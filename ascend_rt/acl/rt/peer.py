"""acl.rt: which devices may copy from and to each other. All can; a program says which do, as on real devices."""

from ... import settings as settings_module
from .. import device as local
from ..addresses import invalid
from ..constants import ACL_RT_DEVS_TOPOLOGY_HCCS
from ..return_codes import integer, ranged, returns_code, returns_value_and_code


@returns_value_and_code
def device_can_access_peer(device_id: int, peer_id: int, /) -> int:
    """(1, or 0 for a device and itself, ret). 107001: no such device. Joins nothing."""
    return int(_check("device_id", device_id) != _check("peer_id", peer_id))


@returns_code
def device_enable_peer_access(peer_id: int, flags: int, /) -> None:
    """Copies between the calling thread's device and `peer_id` are allowed from here on. ret. Again: nothing.

    107001: no such device; 107000: it is the thread's own, or flags is not 0.
    """
    device, peer = local.in_use(), _check("peer_id", peer_id)
    ranged("flags", flags, 0, 0)
    if peer == device.index:
        raise invalid(f"peer_id={peer} is the calling thread's own device")
    device.peers.add(_host_id(peer))


@returns_code
def device_disable_peer_access(peer_id: int, /) -> None:
    """Undo device_enable_peer_access. ret. 107001: no such device; 107000: it was not enabled on this device."""
    device, peer = local.in_use(), _check("peer_id", peer_id)
    if _host_id(peer) not in device.peers:
        raise invalid(f"access of device {device.index} to device {peer} was not enabled")
    device.peers.remove(_host_id(peer))


@returns_value_and_code
def device_peer_access_status(device_id: int, peer_id: int, /) -> int:
    """(1 if this process has enabled access of device_id to peer_id, else 0, ret). 107001: no such device."""
    index, peer = _check("device_id", device_id), _check("peer_id", peer_id)
    return int(any(device.index == index and _host_id(peer) in device.peers for device in local.opened()))


@returns_value_and_code
def get_devices_topo(device_id: int, other_id: int, /) -> int:
    """(ACL_RT_DEVS_TOPOLOGY_HCCS, ret): every device reaches every other directly. 107001: no such device."""
    _check("device_id", device_id), _check("other_id", other_id)
    return ACL_RT_DEVS_TOPOLOGY_HCCS


def _check(name: str, device_id: int) -> int:
    return local.check_device(integer(name, device_id), settings_module.read())


def _host_id(index: int) -> int:
    return local.host_id(index, settings_module.read())
