"""The C spellings: that they are the same functions, and where they differ."""

from typing import Any

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt import acl, capi, hccl
from ascend_rt.acl import util
from ascend_rt.testing import RankPool


@pytest.mark.proof
def test_the_aliases_are_the_functions() -> None:
    assert capi.aclInit is acl.init and capi.aclFinalize is acl.finalize
    assert capi.aclrtSetCurrentContext is acl.rt.set_context and capi.aclrtMalloc is acl.rt.malloc
    assert capi.hcclFinalize is hccl.HcclCommDestroy
    assert (capi.size_of(capi.ACL_FLOAT16), capi.size_of(0), capi.size_of(11)) == (2, 4, 8)


@pytest.mark.proof
def test_every_alias_has_its_name_in_acl() -> None:
    for name in dir(capi):
        if name.startswith("aclrt"):
            words = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name[len("aclrt"):])
            short = {"set_current_context": "set_context", "get_current_context": "get_context"}
            word = words.removeprefix("_")
            room = acl if word == "get_soc_name" else acl.rt
            assert getattr(capi, name) is getattr(room, short.get(word, word)), name


def buffer(values: Any) -> int:
    address, ret = capi.aclrtMalloc(values.nbytes, capi.ACL_MEM_MALLOC_HUGE_FIRST)
    assert ret == 0
    util.ptr_to_numpy(address, values.shape, values.dtype)[...] = values
    return address


def values_of(rank: int) -> Any:
    return np.random.default_rng(rank).integers(-9, 10, 500).astype(np.float16)


def plain_integers(comm: rt.Communicator) -> None:
    """1 is ACL_FLOAT16 here and int16 in HcclAllReduce: halves that are added as int16 come out as other numbers."""
    assert capi.aclrtSetDevice(comm.rank) == 0
    handle, ret = capi.hcclInit(comm.rank, comm.size, "default_hccl_group")
    assert ret == 0
    expected = values_of(0) + values_of(1)
    for function, right in ((capi.hcclAllReduce, True), (hccl.HcclAllReduce, False)):
        x = buffer(values_of(comm.rank))
        assert function(x, x, 500, 1, capi.HCCL_REDUCE_SUM, handle, 0) == 0
        assert capi.aclrtSynchronizeStream(0) == 0
        assert np.array_equal(util.ptr_to_numpy(x, (500,), np.float16), expected) == right

    send, recv = buffer(values_of(comm.rank)), buffer(np.zeros(500, np.float16))
    assert capi.hcclBroadcast(send, recv, 500, hccl.HcclDataType.HCCL_DATA_TYPE_FP16, 1, handle, 0) == 0
    assert capi.aclrtSynchronizeStream(0) == 0
    assert np.array_equal(util.ptr_to_numpy(recv, (500,), np.float16), values_of(1))
    assert np.array_equal(util.ptr_to_numpy(send, (500,), np.float16), values_of(comm.rank))

    # A root that has nothing to send is told to everybody.
    wrong = 3 if comm.rank == 1 else send
    assert capi.hcclBroadcast(wrong, recv, 500, capi.ACL_FLOAT16, 1, handle, 0) == (1 if comm.rank == 1 else 0)
    assert capi.aclrtSynchronizeStream(0) == acl.ACL_ERROR_RT_PARAM_INVALID

    assert capi.hcclAllReduce(send, send, 500, 5, 0, handle, 0) == hccl.HcclResult.HCCL_E_NOT_SUPPORT
    assert capi.aclrtSynchronizeStream(0) == acl.ACL_ERROR_RT_FEATURE_NOT_SUPPORT
    assert capi.hcclInit(comm.rank, comm.size, "other") == (0, hccl.HcclResult.HCCL_E_NOT_SUPPORT)
    assert "default_hccl_group" in capi.aclGetRecentErrMsg()


@pytest.mark.processes
def test_a_plain_integer_is_an_acl_type(ranks: RankPool) -> None:
    ranks.run(2, plain_integers)


def test_every_function_of_acl_rt_has_its_c_spelling() -> None:
    others = {"set_context": "SetCurrentContext", "get_context": "GetCurrentContext"}
    for name in acl.rt.__all__:
        spelling = others.get(name) or "".join(word.capitalize() for word in name.split("_"))
        assert getattr(capi, f"aclrt{spelling}") is getattr(acl.rt, name)
