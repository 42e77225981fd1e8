"""ASCEND_RT_VISIBLE_DEVICES: a program sees the devices that are listed, numbered by their place, and no fewer."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ascend_rt import acl
from ascend_rt.testing import RankPool

from ..answers import made

pytestmark = pytest.mark.processes


def sees(comm: Any, count: int, last_on_host: int) -> None:
    assert acl.rt.get_device_count() == (count, 0)
    addresses = []
    for index in range(count):
        assert acl.rt.set_device(index) == 0 and acl.rt.get_device() == (index, 0)
        addresses.append(made(acl.rt.malloc(64, 0)))
        assert made(acl.rt.pointer_get_attributes(addresses[-1]))["location"]["id"] == index
    assert acl.rt.set_device(count) == acl.rt.set_device(-1) == acl.ACL_ERROR_RT_INVALID_DEVICEID
    assert acl.rt.malloc(1 << 50, 0)[1] == acl.ACL_ERROR_RT_MEMORY_ALLOCATION
    assert f"of device {count - 1} ({last_on_host} of the host)" in acl.get_recent_err_msg()
    assert acl.rt.memcpy(addresses[-1], 64, addresses[0], 64, 3) == acl.ACL_ERROR_RT_PARAM_INVALID
    assert f"to device {count - 1} ({last_on_host} of the host)" in acl.get_recent_err_msg()
    assert acl.rt.device_enable_peer_access(0, 0) == 0
    assert acl.rt.device_peer_access_status(count - 1, 0) == (1, 0)
    assert acl.rt.memcpy(addresses[-1], 64, addresses[0], 64, 3) == 0
    # Memory of a device stays where it is when another is current.
    assert acl.rt.set_device(1) == acl.rt.memset(addresses[0], 64, comm.rank, 64) == 0
    assert acl.util.ptr_to_bytes(addresses[0], 64) == bytes([comm.rank]) * 64
    x = np.full(3, comm.rank, np.int32)
    assert comm.all_reduce(x).tolist() == [sum(range(comm.size))] * 3


@pytest.mark.parametrize("listed, size", [("0,1,3,9", 4), ("4,5,6,7", 2)])
def test_devices_are_those_that_are_listed(ranks: RankPool, listed: str, size: int) -> None:
    last = int(listed.split(",")[-1])
    ranks.run(size, sees, 4, last, environ={"ASCEND_RT_VISIBLE_DEVICES": listed})


@pytest.mark.parametrize("listed, options, told", [
    ("0,1,3", "-n 4", "is '0,1,3'; expected at least 4 devices, one for each rank"),
    ("0,1,3,9", "-n 4 --devices 8", "is '0,1,3,9'; expected devices of the host, 0 to 7 (ASCEND_RT_DEVICES); 9 is"),
    ("1,0", "-n 2", "is '1,0'; expected device ids that ascend"),
    ("", "-n 1", "is set but empty"),
])
def test_a_list_that_cannot_be_is_refused(
    ranks: RankPool, tmp_path: Path, listed: str, options: str, told: str
) -> None:
    (tmp_path / "program.py").write_text("")
    words = [*options.split(), str(tmp_path / "program.py")]
    ended = ranks.hccl_run(words, environ={"ASCEND_RT_VISIBLE_DEVICES": listed})
    assert ended.exit_code == 2 and f"ASCEND_RT_VISIBLE_DEVICES {told}" in ended.stderr
