"""How many devices a host has, and which of them a program sees."""

import pytest

from ascend_rt.link.devices import host_devices, visible_devices
from ascend_rt.settings import SettingError, read

pytestmark = pytest.mark.proof


@pytest.mark.parametrize("environ, ranks, count, seen", [
    ({}, 4, 4, [0, 1, 2, 3]),
    ({"ASCEND_RT_DEVICES": "6"}, 4, 6, [0, 1, 2, 3, 4, 5]),
    ({"ASCEND_RT_VISIBLE_DEVICES": "4,5,6,7"}, 4, 8, [4, 5, 6, 7]),
    ({"ASCEND_RT_VISIBLE_DEVICES": "0,2"}, 1, 3, [0, 2]),
    ({"ASCEND_RT_VISIBLE_DEVICES": "0,2", "ASCEND_RT_DEVICES": "8"}, 2, 8, [0, 2]),
])
def test_devices(environ: dict[str, str], ranks: int, count: int, seen: list[int]) -> None:
    assert host_devices(read(environ), ranks) == count
    assert list(visible_devices(read(environ), count)) == seen


@pytest.mark.parametrize("environ, ranks, told", [
    ({"ASCEND_RT_DEVICES": "2"}, 3, "ASCEND_RT_DEVICES is 2; expected at least 3 devices"),
    ({"ASCEND_RT_VISIBLE_DEVICES": "5,6"}, 3, "ASCEND_RT_VISIBLE_DEVICES is '5,6'; expected at least 3 devices"),
    ({"ASCEND_RT_VISIBLE_DEVICES": "0,4", "ASCEND_RT_DEVICES": "4"}, 1, "0 to 3 .*; 4 is none of them"),
])
def test_devices_that_are_not_there(environ: dict[str, str], ranks: int, told: str) -> None:
    with pytest.raises(SettingError, match=told) as error:
        host_devices(read(environ), ranks)
    assert error.value.code == "EI0001"
