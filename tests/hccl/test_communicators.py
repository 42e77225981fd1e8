"""Communicators by HCCL's C names: root info, rank table, sub-communicators, configuration, names, ends."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt import acl, hccl
from ascend_rt.acl import util
from ascend_rt.hccl import HcclCommConfig, HcclResult, rank_table
from ascend_rt.testing import RankPool

from ..answers import made

pytestmark = pytest.mark.processes

OK, PARA, PTR, AGAIN = (HcclResult[f"HCCL_{name}"] for name in ("SUCCESS", "E_PARA", "E_PTR", "E_AGAIN"))
FP32, SUM = hccl.HcclDataType.HCCL_DATA_TYPE_FP32, hccl.HcclReduceOp.HCCL_REDUCE_SUM


def all_reduced(handle: int, value: float) -> list[float]:
    """What an all-reduce of `value` and twice it gives."""
    address = made(acl.rt.malloc(8, 0))
    x = util.ptr_to_numpy(address, (2,), np.float32)
    x[...] = value, 2 * value
    assert hccl.HcclAllReduce(address, address, 2, FP32, SUM, handle, 0) is OK, acl.get_recent_err_msg()
    assert acl.rt.synchronize_stream(0) == 0, acl.get_recent_err_msg()
    return [float(each) for each in x]


# ---- root info ----


def two_pairs(comm: Any) -> tuple[int, int, list[float]]:
    """Ranks 3, 1 and 0, 2 meet by root infos of ranks 1 and 2, which travel by the world's broadcast."""
    assert acl.rt.set_device(comm.rank) == 0
    infos = []
    for root in (1, 2):
        info = np.frombuffer(made(hccl.HcclGetRootInfo()) if comm.rank == root else bytes(4108), np.uint8).copy()
        infos.append(bytes(comm.broadcast(info, root)))
    info, rank = {0: (infos[1], 0), 1: (infos[0], 1), 2: (infos[1], 1), 3: (infos[0], 0)}[comm.rank]
    handle = made(hccl.HcclCommInitRootInfo(2, info, rank))
    sums = all_reduced(handle, comm.rank)
    assert hccl.HcclCommDestroy(handle) is OK
    return made(hccl.HcclGetRankSize(hccl.handle_of(comm))), rank, sums


def test_root_info_inside_a_job(ranks: RankPool) -> None:
    sums = [[2.0, 4.0], [4.0, 8.0]]
    assert ranks.run(4, two_pairs) == [(4, 0, sums[0]), (4, 1, sums[1]), (4, 1, sums[0]), (4, 0, sums[1])]


BY_ROOT_INFO = """
import sys
import numpy as np
import ascend_rt as rt
from ascend_rt import acl, hccl
from ascend_rt.acl import util
rank, size, when = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
assert acl.rt.set_device(0) == 0
early = acl.rt.malloc(8, 0)[0] if when == "early" else 0
if rank == 1:
    info, ret = hccl.HcclGetRootInfo()
    print(info.hex(), flush=True)
else:
    info = bytes.fromhex(sys.stdin.readline())
comm, ret = hccl.HcclCommInitRootInfo(size, info, rank)
assert ret == 0, acl.get_recent_err_msg()
address = early or acl.rt.malloc(8, 0)[0]
x = util.ptr_to_numpy(address, (2,), np.float32)
x[...] = rank + 1, 10
assert hccl.HcclAllReduce(address, address, 2, 4, 0, comm, 0) == 0, acl.get_recent_err_msg()
assert acl.rt.synchronize_stream(0) == 0, acl.get_recent_err_msg()
print(x.tolist(), hccl.HcclGetRankId(comm), flush=True)
assert hccl.HcclCommDestroy(comm) == 0
"""


@pytest.mark.parametrize("when", ["late", "early"])
def test_root_info_over_any_channel(tmp_path: Path, when: str) -> None:
    """Processes that nobody launched: rank 1 hands the bytes out through pipes. Memory may be allocated before."""
    program = tmp_path / "program.py"
    program.write_text(BY_ROOT_INFO)
    pipe = subprocess.PIPE
    words = [[sys.executable, str(program), str(rank), "3", when] for rank in range(3)]
    started = [subprocess.Popen(each, stdin=pipe, stdout=pipe, stderr=pipe, text=True) for each in words]
    assert started[1].stdout is not None
    info = started[1].stdout.readline()
    for process in started:
        assert process.stdin is not None
        process.stdin.write(info)
        process.stdin.flush()
    ended = [process.communicate(timeout=30) for process in started]
    assert [each.returncode for each in started] == [0, 0, 0], ended
    assert [out for out, _ in ended] == [f"[6.0, 30.0] ({rank}, <HcclResult.HCCL_SUCCESS: 0>)\n" for rank in range(3)]


def root_infos_that_are_wrong(comm: Any) -> list[str]:
    told = []
    good = made(hccl.HcclGetRootInfo())
    infos = (bytes(4108), good[:-1], b"x" + good[1:])
    for size, info, rank in (*((2, each, 0) for each in infos), (2, good, 2), (0, good, 0)):
        assert hccl.HcclCommInitRootInfo(size, info, rank) == (0, PARA)
        told.append(acl.get_recent_err_msg())
    return told


def test_wrong_root_infos(ranks: RankPool) -> None:
    for told in ranks.run(2, root_infos_that_are_wrong):
        assert all("expected what HcclGetRootInfo returned on one rank, 4108 bytes" in text for text in told[:3])
        assert "rank=2, n_ranks=2" in told[3] and "rank=0, n_ranks=0" in told[4]


# ---- sub-communicators, configuration, names ----


def sub_communicators(comm: Any) -> list[Any]:
    assert acl.rt.set_device(comm.rank) == 0
    world, config = hccl.handle_of(comm), HcclCommConfig()
    assert hccl.HcclCreateSubCommConfig(world, 0, None, 0xFFFFFFFF, 0, config) == (0, OK)
    for wrong in ((2, [0, 1, 2], 7, 0), (3, [2, 1, 0], 7, 0), (2, [0, 9], 7, 0), (3, [0, 1, 2], 7, 3 - comm.rank)):
        assert hccl.HcclCreateSubCommConfig(world, *wrong) == (0, PARA)
    assert hccl.HcclCreateSubCommConfig(world, 1, None, 7, 0) == (0, PTR)
    if comm.rank == 1:
        return []
    hccl.HcclCommConfigInit(config)
    config.hcclCommName, config.hcclExecTimeOut, config.hcclBufferSize = "tensor", 7, 20
    place = {0: 0, 2: 1}[comm.rank]
    handle = made(hccl.HcclCreateSubCommConfig(world, 2, [0, 2], 7, place, config))
    assert hccl.HcclCreateSubCommConfig(world, 2, [0, 2], 8, place, config) == (0, PARA)  # its name is taken
    other = made(hccl.HcclCreateSubCommConfig(world, 2, [0, 2], 8, place))
    assert hccl.HcclCommGetHandleWithName("tensor") == (handle, OK)
    assert hccl.HcclCommGetHandleWithName("nobody")[1] is HcclResult.HCCL_E_NOT_FOUND
    answer = [made(hccl.HcclGetCommName(each)) for each in (world, handle, other)]
    answer += [made(hccl.HcclGetRankId(handle)), all_reduced(handle, comm.rank + 1)]
    timeouts = [hccl.c_conventions.communicators.get(each)._timeout for each in (handle, other)]
    assert hccl.HcclCommDestroy(handle) is OK and hccl.HcclGetCommName(handle) == (0, PARA)
    return [*answer, timeouts]


def test_sub_communicators(ranks: RankPool) -> None:
    names = ["world", "tensor", "world_sub_8"]
    first, none, second = ranks.run(3, sub_communicators)
    assert (first, none, second) == (
        [*names, 0, [4.0, 8.0], [7, 1836]], [], [*names, 1, [4.0, 8.0], [7, 1836]]
    )


def in_use(comm: Any) -> list[int]:
    assert acl.rt.set_device(comm.rank) == 0
    handle, x = hccl.handle_of(comm.split(0)), made(acl.rt.malloc(4, 0))
    waits = made(acl.rt.create_notify(0))
    assert acl.rt.wait_and_reset_notify(waits, 0, 0) == 0
    assert hccl.HcclAllReduce(x, x, 1, FP32, SUM, handle, 0) is OK
    stream, _ = acl.rt.create_stream()
    results = [hccl.HcclCommDestroy(handle)]
    assert acl.rt.record_notify(waits, stream) == 0 and acl.rt.synchronize_stream(0) == 0
    return [*map(int, results), int(hccl.HcclCommDestroy(handle)), int(hccl.HcclCommDestroy(handle))]


def test_a_communicator_in_use_is_not_destroyed(ranks: RankPool) -> None:
    assert ranks.run(2, in_use) == [[AGAIN, OK, PARA]] * 2


def configured(_comm: Any) -> None:
    assert hccl.HcclGetCommConfigCapability() == 12
    assert hccl.HcclGetConfig(0) == (0, OK) and hccl.HcclGetConfig(1) == (0, PARA)
    assert hccl.HcclSetConfig(0, 3) is PARA and hccl.HcclSetConfig(1, 0) is PARA
    assert hccl.HcclSetConfig(0, 2) is OK and hccl.HcclGetConfig(0) == (2, OK)
    info = made(hccl.HcclGetRootInfo())
    wrong = {"hcclBufferSize": 0, "hcclDeterministic": 5, "hcclAlgo": "ring", "hcclCommName": "a b"}
    for field, value in wrong.items():
        config = HcclCommConfig()
        setattr(config, field, value)
        assert hccl.HcclCommInitRootInfoConfig(1, info, 0, config) == (0, PARA)
        told = acl.get_recent_err_msg()
        assert "EI0016" in told and field in told
    handle = made(hccl.HcclCommInitRootInfo(1, info, 0))
    assert hccl.c_conventions.communicators.get(handle)._settings.hccl_deterministic == "strict"


def test_configuration(ranks: RankPool) -> None:
    ranks.run(1, configured)


# ---- rank table ----


def table_of(*servers: int, **changes: Any) -> dict[str, Any]:
    """A table of version 1.0 with so many ranks on each server."""
    rank, listed = 0, []
    for number, devices in enumerate(servers):
        device = [{"device_id": str(each), "device_ip": f"192.168.{number}.{each}", "rank_id": str(rank + each)}
                  for each in range(devices)]
        listed.append({"server_id": f"node_{number}", "device": device})
        rank += devices
    table = {"status": "completed", "version": "1.0", "server_count": str(len(servers)), "server_list": listed}
    return {**table, **changes}


OLD = {
    "status": "completed", "group_count": "1", "group_list": [{
        "group_name": "", "instance_count": "3", "device_count": "3", "instance_list": [
            {"pod_name": "a", "server_id": "10.0.0.1", "devices": [{"device_id": "4", "device_ip": "10.0.1.1"}]},
            {"pod_name": "b", "server_id": "10.0.0.2", "devices": [
                {"device_id": "0", "device_ip": "10.0.1.2"}, {"device_id": "1", "device_ip": "10.0.1.3"}]},
        ],
    }],
}


@pytest.fixture
def written(tmp_path: Path) -> Callable[[Any], str]:
    def write(table: Any) -> str:
        path = tmp_path / "table.json"
        path.write_text(table if isinstance(table, str) else json.dumps(table))
        return str(path)

    return write


def test_tables_that_are_right(written: Callable[[Any], str]) -> None:
    table = rank_table.read(written(table_of(2, 3)))
    assert table.servers == ("node_0",) * 2 + ("node_1",) * 3 and table.devices == (0, 1, 0, 1, 2)
    superpod = table_of(2, version="1.2", super_pod_list=[])
    superpod["server_list"][0]["device"][0].pop("device_ip")
    assert rank_table.read(written(superpod)).size == 2
    old = rank_table.read(written(OLD))
    assert old.servers == ("10.0.0.1", "10.0.0.2", "10.0.0.2") and old.devices == (4, 0, 1)


def changed(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """A table of 2 and 2 ranks in which one value is another; None: it is missing."""
    table: Any = table_of(2, 2)
    at = table
    for step in path[:-1]:
        at = at[step]
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return dict(table)


DEVICE = ("server_list", 1, "device", 0)


@pytest.mark.parametrize(("table", "code", "says"), [
    ("{", "EI0004", "is no JSON"),
    ("[]", "EI0014", "the table is []; expected an object"),
    (changed(("status",), "initializing"), "EI0014", "status is 'initializing'; expected 'completed'"),
    (changed(("status",), None), "EI0017", "status is missing"),
    (changed(("version",), "3.0"), "EI0014", "version is '3.0'; expected '1.0' or '1.2' or '2.0'"),
    (changed(("server_count",), "3"), "EI0014", "server_count is '3'; expected 2, the length of server_list"),
    (changed(("server_count",), 2), "EI0014", "server_count is 2; expected a string"),
    (changed(("server_list",), []), "EI0014", "server_list is []; expected a list that is not empty"),
    (changed(("server_list", 1, "server_id"), "node_0"), "EI0014", "server_list[0].server_id is 'node_0'"),
    (changed((*DEVICE, "rank_id"), None), "EI0017", "server_list[1].device[0].rank_id is missing"),
    (changed((*DEVICE, "rank_id"), "7"), "EI0014", "rank_id is [0, 1, 3, 7]; expected each of 0 to 3 once"),
    (changed((*DEVICE, "device_id"), "one"), "EI0014", "server_list[1].device[0].device_id is 'one'; expected a whole"),
    (changed((*DEVICE, "device_id"), "1"), "EI0014", "device_id is 1 twice on node_1"),
    (changed((*DEVICE, "device_ip"), "192.168.1.300"), "EI0014", "is '192.168.1.300'; expected an IP address"),
])
def test_tables_that_are_wrong(written: Callable[[Any], str], table: Any, code: str, says: str) -> None:
    path = written(table)
    with pytest.raises(rt.HcclError) as raised:
        rank_table.read(path)
    assert (raised.value.code, raised.value.ei) == (PARA, code)
    assert f"rank table {path}" in str(raised.value) and says in str(raised.value)


def test_a_table_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(rt.HcclError, match=r"EI0004: rank table .* cannot be read: No such file"):
        rank_table.read(str(tmp_path / "none.json"))


def by_rank_table(comm: Any, path: str) -> list[Any]:
    """The ranks of the table are not those of the job."""
    assert acl.rt.set_device(comm.rank) == 0
    rank = (comm.rank + 1) % comm.size
    assert hccl.HcclCommInitClusterInfo(path, 4) == (0, PARA)
    handle = made(hccl.HcclCommInitClusterInfo(path, rank))
    assert hccl.HcclCommInitClusterInfo(path, rank) == (0, PARA)
    answer = [made(hccl.HcclGetRankId(handle)), hccl.c_conventions.communicators.get(handle).servers]
    return [*answer, all_reduced(handle, comm.rank)]


def test_by_a_rank_table_inside_a_job(ranks: RankPool, written: Callable[[Any], str]) -> None:
    answers = ranks.run(4, by_rank_table, written(table_of(2, 2)))
    assert answers == [[(rank + 1) % 4, (0, 0, 1, 1), [6.0, 12.0]] for rank in range(4)]


def test_by_a_rank_table_alone(written: Callable[[Any], str], tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\nimport numpy as np\nfrom ascend_rt import hccl\n"
        "comm = hccl.c_conventions.communicators.get(hccl.HcclCommInitClusterInfo(sys.argv[1], int(sys.argv[2]))[0])\n"
        "print(comm.all_reduce(np.arange(3.0) + comm.rank).tolist())"
    )
    path = written(table_of(2))
    words = [[sys.executable, str(program), path, str(rank)] for rank in range(2)]
    started = [subprocess.Popen(each, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) for each in words]
    assert [process.communicate(timeout=30)[0] for process in started] == ["[1.0, 3.0, 5.0]\n"] * 2
