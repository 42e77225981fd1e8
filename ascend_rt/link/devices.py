"""Which devices a job has: those of its host, or those that ASCEND_RT_VISIBLE_DEVICES lets it see.

A program knows a device by its place among those it sees; rank i is at home on the i-th. The host has as many devices
as ASCEND_RT_DEVICES says, or just enough for the ranks and for every device that is named.
"""

from collections.abc import Sequence

from ..settings import SettingError, Settings


def host_devices(settings: Settings, ranks: int) -> int:
    """Devices of the host of a job of so many ranks.

    SettingError (EI0001): a device is named that the host does not have, or there is not one for each rank.
    """
    seen = settings.ascend_rt_visible_devices
    count = settings.ascend_rt_devices or max(ranks, seen[-1] + 1 if seen else 0)
    if len(visible_devices(settings, count)) < ranks:
        name = "ASCEND_RT_DEVICES" if seen is None else "ASCEND_RT_VISIBLE_DEVICES"
        given = str(count) if seen is None else repr(",".join(map(str, seen)))
        raise SettingError(name, given, f"at least {ranks} devices, one for each rank")
    return count


def visible_devices(settings: Settings, count: int) -> Sequence[int]:
    """The ids on the host of the devices that the program sees, of `count` that there are.

    SettingError (EI0001): one is named that the host does not have.
    """
    seen: tuple[int, ...] | None = settings.ascend_rt_visible_devices
    if seen is None:
        return range(count)
    if seen[-1] >= count:
        given = repr(",".join(map(str, seen)))
        expected = f"devices of the host, 0 to {count - 1} (ASCEND_RT_DEVICES); {seen[-1]} is none of them"
        raise SettingError("ASCEND_RT_VISIBLE_DEVICES", given, expected)
    return seen
