"""Arrays are read where they lie: what was changed about an array since the last call is seen, whatever it is."""

from typing import Any

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt.hccl.communicator import _SAMPLES
from ascend_rt.testing import RankPool

pytestmark = pytest.mark.processes


def ramp(comm: rt.Communicator, count: int, dtype: type) -> "np.ndarray[Any, Any]":
    return np.arange(count, dtype=dtype) * (comm.rank + 1)


def trusts(comm: rt.Communicator) -> tuple[bool, bool, bool]:
    class Other(np.ndarray[Any, Any]):
        pass

    other = np.arange(3).view(Other)
    return comm._trust_arrays(_SAMPLES), comm._trust_arrays([]), comm._trust_arrays([_SAMPLES[0], other])


def test_this_numpy_is_as_expected(ranks: RankPool) -> None:
    """If not, calls are slower by 50 ns and nothing is wrong but ascend_rt/core/binding_array.c."""
    assert ranks.run(1, trusts) == [(True, False, False)]


def changed_in_between(comm: rt.Communicator) -> list[list[int]]:
    x = rt.array(np.zeros(8, np.float32))
    results = []
    x[:] = ramp(comm, 8, np.float32)
    results.append(comm.all_reduce(x).astype(int).tolist())
    x.shape = (2, 4)
    results.append(comm.all_reduce(x).ravel().astype(int).tolist())
    x.dtype = np.int32
    x[:] = ramp(comm, 8, np.int32).reshape(2, 4)
    results.append(comm.all_reduce(x).ravel().tolist())
    x = x.reshape(4, 2).T
    x[:] = ramp(comm, 8, np.int32).reshape(2, 4)
    results.append(comm.all_reduce(x).ravel().tolist())
    return results


def test_shape_type_and_order_may_change(ranks: RankPool) -> None:
    first = [3 * i for i in range(8)]
    assert ranks.run(2, changed_in_between) == [[first, [2 * i for i in first], first, first]] * 2


def views_of_it(comm: rt.Communicator) -> list[list[int]]:
    class Tagged(np.ndarray[Any, Any]):
        pass

    whole = rt.array(ramp(comm, 12, np.int64))
    kinds = [
        whole[3:6],
        whole[::5],
        whole[2:2],
        whole[11:].reshape(()),
        whole[6:8].view(Tagged),
        np.asfortranarray(np.eye(2)[:, :1]),
    ]
    return [np.asarray(comm.all_gather(kind)).astype(int).ravel().tolist() for kind in kinds]


def test_every_kind_of_array(ranks: RankPool) -> None:
    """Offset, strided, empty, 0-d, a subclass, one column in Fortran's order."""
    want = [[3, 4, 5, 6, 8, 10], [0, 5, 10, 0, 10, 20], [], [11, 22], [6, 7, 12, 14], [1, 0, 1, 0]]
    assert ranks.run(2, views_of_it) == [want] * 2


def read_only(comm: rt.Communicator) -> tuple[str, list[int]]:
    x = rt.array(ramp(comm, 4, np.float32))
    comm.all_reduce(x)
    x.setflags(write=comm.rank != 1)
    try:
        comm.all_reduce(x)
        said = "nothing"
    except rt.HcclError as error:
        said = str(error)
    return said, comm.all_reduce(np.asarray(x).copy()).astype(int).tolist()


def test_read_only_on_one_rank_is_told_to_all(ranks: RankPool) -> None:
    (first, sums), (second, same_sums) = ranks.run(2, read_only)
    assert "rank 1" in first and "read-only" in first and "rank 1" in second
    assert sums == same_sums == [0, 6, 12, 18]
