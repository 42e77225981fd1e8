"""Which types collectives take: fp8 is moved and not folded; ASCEND_RT_STRICT_DTYPES refuses what a device refuses."""

import re
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt import acl, hccl
from ascend_rt.hccl.arguments import RefusedError
from ascend_rt.hccl.device_dtypes import FP8, GENERATIONS, REDUCIBLE, check_dtype
from ascend_rt.hccl.types import OPS, HcclDataType, dtype_of_number, number_of_dtype
from ascend_rt.plan.collectives import COLLECTIVES
from ascend_rt.testing import RankPool

PROD, SUM, AVG = OPS["prod"], OPS["sum"], OPS["avg"]
FP8_TYPES = {"float8_e4m3fn": 15, "float8_e5m2": 16}


def takes(collective: str, name: str, op: int, strict: str) -> bool:
    number = number_of_dtype(np.dtype(getattr(ml_dtypes, name, name)))
    assert number is not None
    try:
        check_dtype(collective, number, op, strict)
    except RefusedError as error:
        assert error.code is hccl.HcclResult.HCCL_E_NOT_SUPPORT
        assert f"{collective} dtype={name}" in str(error)
        return False
    return True


@pytest.mark.proof
@pytest.mark.parametrize("strict, refused", [
    ("0", set()),
    ("1", {"uint64", "uint8", "uint16", "uint32", "float64"}),
    ("910", {"int16", "bfloat16", "uint64", "uint8", "uint16", "uint32", "float64"}),
    ("910B", {"uint64", "uint8", "uint16", "uint32", "float64"}),
    ("950", {"uint8", "uint16", "uint32"}),
])
def test_sums_that_a_device_refuses(strict: str, refused: set[str]) -> None:
    names = {dtype_of_number(number).name for number in REDUCIBLE}
    for collective in (name for name, spec in COLLECTIVES.items() if spec.reduces and name != "reduce_scatter_v"):
        for op in (SUM, AVG):
            assert {name for name in names if not takes(collective, name, op, strict)} == refused


@pytest.mark.proof
def test_products_that_a_device_refuses() -> None:
    products = ("int8", "int16", "int32", "float32", "bfloat16")
    assert [takes("all_reduce", name, PROD, "910B") for name in products] == [True, False, True, True, False]
    assert [takes("all_reduce", name, PROD, "0") for name in products] == [True] * 5


@pytest.mark.proof
def test_blocks_that_differ_in_count_are_less_on_devices() -> None:
    assert [takes("reduce_scatter_v", name, SUM, "910B") for name in ("float32", "int64")] == [True, False]
    assert not takes("reduce_scatter_v", "float32", PROD, "910B")
    assert not takes("all_gather_v", "float32", SUM, "910") and takes("all_gather_v", "float32", SUM, "950")
    assert not takes("reduce_scatter_v", "float8_e5m2", SUM, "0") and takes("all_to_all_v", "float8_e5m2", SUM, "0")


@pytest.mark.proof
def test_what_a_device_moves() -> None:
    for name in ("uint8", "uint64", "float64", "int16"):
        assert all(takes("broadcast", name, SUM, strict) for strict in ("0", "1", *GENERATIONS))
    assert [takes("all_gather", "bfloat16", SUM, strict) for strict in GENERATIONS] == [False, True, True, True]
    assert [takes("send", "float8_e5m2", SUM, strict) for strict in GENERATIONS] == [False, False, False, True]


@pytest.mark.proof
def test_every_number_is_a_type_and_every_type_a_number() -> None:
    for number in HcclDataType:
        assert number_of_dtype(dtype_of_number(number)) == number
    assert {dtype_of_number(number).name: int(number) for number in FP8} == FP8_TYPES
    assert (int(acl.ACL_FLOAT8_E5M2), int(acl.ACL_FLOAT8_E4M3FN)) == (35, 36)


def move_and_fold(comm: rt.Communicator, name: str) -> Any:
    dtype = np.dtype(getattr(ml_dtypes, name))
    every = np.random.default_rng(8).integers(0, 256, (comm.size, 1031), dtype=np.uint8).view(dtype)
    mine = every[comm.rank]
    device, out = rt.empty(mine.shape, dtype), np.empty(mine.shape, dtype)
    device[...] = mine
    comm.broadcast(device, root=1)
    gathered = comm.all_gather(mine)
    if comm.rank == 0:
        comm.send(mine, dest=1)
    elif comm.rank == 1:
        comm.recv(out, source=0)
    try:
        comm.all_reduce(mine.copy())
    except rt.HcclError as error:
        return (
            device.tobytes() == every[1].tobytes(),
            gathered.tobytes() == every.tobytes(),
            comm.rank != 1 or out.tobytes() == every[0].tobytes(),
            error.name,
            str(error),
        )


@pytest.mark.processes
@pytest.mark.parametrize("name", FP8_TYPES)
def test_fp8_is_moved_bit_by_bit_and_not_folded(ranks: RankPool, name: str) -> None:
    for *moved, code, text in ranks.run(3, move_and_fold, name):
        assert moved == [True, True, True] and code == "HCCL_E_NOT_SUPPORT"
        assert f"all_reduce dtype={name} op=sum is not supported: no rank folds it" in text


UNKNOWN = ("bool", "complex64", ">f4", "U3", "O", "M8[s]", "longdouble")


def calls_of_unknown_types(comm: rt.Communicator) -> dict[str, list[str]]:
    """What each call says of each type."""
    told: dict[str, list[str]] = {}
    for name in UNKNOWN:
        x, out = np.zeros(4, name), np.zeros(4, name)
        calls = [
            *(partial(getattr(comm, kind), x) for kind in ("all_reduce", "reduce", "broadcast", "reduce_scatter")),
            *(partial(getattr(comm, kind), x) for kind in ("all_gather", "gather", "all_to_all")),
            partial(comm.scatter, x, out),
            partial(comm.all_gather_v, x, out, [4]),
            partial(comm.reduce_scatter_v, x, out, [4]),
            partial(comm.all_to_all_v, x, [4], out, [4]),
            partial(comm.all_to_all_vc, x, [[4]], out),
            partial(comm.batch_send_recv, [hccl.Send(x, 0), hccl.Recv(out, 0)]),
        ]
        for call in calls:
            with pytest.raises(rt.HcclError) as caught:
                call()
            found = re.search(r"dtype [^;]*; expected one of .*", str(caught.value))
            told.setdefault(name, []).append(f"{caught.value.name} {found and found[0]}")
    return told


@pytest.mark.processes
def test_what_is_no_type_of_hccl_is_none_in_any_call(ranks: RankPool) -> None:
    [told] = ranks.run(1, calls_of_unknown_types)
    for name, texts in told.items():
        assert len(texts) == 13 and len(set(texts)) == 1
        assert texts[0].startswith("HCCL_E_NOT_SUPPORT dtype ") and "bfloat16" in texts[0], name


def fold_bytes(comm: rt.Communicator) -> Any:
    x = rt.array(np.arange(6, dtype=np.uint8) + comm.rank)
    names = []
    fp8, other = x.view(ml_dtypes.float8_e5m2), 1 - comm.rank
    transfer = comm.send if comm.rank == 0 else comm.recv
    for call in (lambda: comm.all_reduce(x), lambda: transfer(fp8, other)):
        try:
            call()
        except rt.HcclError as error:
            names.append((error.name, error.ranks, "ASCEND_RT_STRICT_DTYPES" in str(error)))
    acl.rt.set_device(comm.rank)
    handle, _ = hccl.HcclCommInitRootInfo(comm.size, hccl.HcclGetRootInfo()[0], comm.rank)
    address, _ = acl.rt.malloc(64, 0)
    number = hccl.HcclDataType.HCCL_DATA_TYPE_UINT8
    ret = hccl.HcclAllReduce(address, address, 6, number, hccl.HcclReduceOp.HCCL_REDUCE_SUM, handle, 0)
    acl.rt.synchronize_stream(0)
    comm.all_gather(x)
    return names, ret.name, x.tolist()


@pytest.mark.processes
def test_a_program_that_a_device_would_refuse_is_refused_with_its_code(ranks: RankPool) -> None:
    for rank, (names, code, x) in enumerate(ranks.run(2, fold_bytes, environ={"ASCEND_RT_STRICT_DTYPES": "910B"})):
        assert names[0] == ("HCCL_E_NOT_SUPPORT", (0, 1), True)
        assert names[1][0] == "HCCL_E_NOT_SUPPORT" and names[1][2]
        assert code == "HCCL_E_NOT_SUPPORT"
        assert x == [rank + value for value in range(6)]
