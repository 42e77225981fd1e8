"""Arrays of no dimension and of no element: every call takes them, or says what it needs."""

from typing import Any

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt import hccl
from ascend_rt.testing import RankPool

pytestmark = pytest.mark.processes

ANY_SHAPE = ("all_reduce", "broadcast", "reduce", "all_gather", "gather")
SHARED = ("reduce_scatter", "all_to_all")  # the first dimension is cut into a part for each rank
EMPTY = ((0,), (0, 3), (6, 0), (6, 0, 2))


def make(comm: rt.Communicator, shape: tuple[int, ...], plain: bool) -> Any:
    """Full of the rank's number and 1: where there is an element at all, there is only one."""
    values = np.full(shape, comm.rank + 1, np.float64)
    return values if plain else rt.array(values)


def scalars(comm: rt.Communicator, plain: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in ANY_SHAPE:
        result = getattr(comm, name)(make(comm, (), plain))
        found[name] = None if result is None else (result.shape, result.tolist())
    for name in SHARED:
        with pytest.raises(rt.HcclError, match=r"x has the shape \(\); expected a first dimension"):
            getattr(comm, name)(make(comm, (), plain))
    source, own = np.arange(comm.size) * 10.0, make(comm, (), plain)
    found["scatter"] = comm.scatter(source if comm.rank == 0 else None, own).tolist()
    counts = [1] * comm.size
    found["all_gather_v"] = comm.all_gather_v(make(comm, (), plain), np.zeros(comm.size), counts).tolist()
    found["reduce_scatter_v"] = comm.reduce_scatter_v(source, make(comm, (), plain), counts).tolist()
    received = make(comm, (), plain)
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    comm.batch_send_recv([hccl.Send(make(comm, (), plain), right), hccl.Recv(received, left)])
    found["message"] = received.item()
    return found


def device_and_plain(comm: rt.Communicator, name: str) -> list[Any]:
    return [{"scalars": scalars, "empties": empties}[name](comm, plain) for plain in (False, True)]


@pytest.mark.parametrize("size", [1, 3])
def test_arrays_of_no_dimension(ranks: RankPool, size: int) -> None:
    gathered, total = [float(rank + 1) for rank in range(size)], size * (size + 1) / 2
    for rank, found in enumerate(ranks.run(size, device_and_plain, "scalars")):
        want = {
            "all_reduce": ((), total),
            "broadcast": ((), 1.0),
            "reduce": ((), total) if rank == 0 else None,
            "all_gather": ((size,), gathered),
            "gather": ((size,), gathered) if rank == 0 else None,
            "scatter": 10.0 * rank,
            "all_gather_v": gathered,
            "reduce_scatter_v": 10.0 * size * rank,
            "message": float((rank - 1) % size + 1),
        }
        assert found == [want, want]


def empties(comm: rt.Communicator, plain: bool) -> list[Any]:
    found: list[Any] = []
    stream = rt.Stream()
    for shape in EMPTY:
        for name in (*ANY_SHAPE, *SHARED):
            for where in (None, stream):
                result = getattr(comm, name)(make(comm, shape, plain), stream=where)
                found.append((name, shape, None if result is None else result.shape))
        comm.scatter(make(comm, shape, plain) if comm.rank == 0 else None, make(comm, (0,), plain))
        comm.all_to_all_v(make(comm, shape, plain), [0] * comm.size, make(comm, shape, plain), [0] * comm.size)
        own = make(comm, shape, plain)
        comm.batch_send_recv([hccl.Send(own, comm.rank), hccl.Recv(own, comm.rank)])
    comm.batch_send_recv([])
    stream.synchronize()
    total = comm.all_reduce(make(comm, (2,), plain))
    assert total.tolist() == [comm.size * (comm.size + 1) / 2] * 2
    return found


@pytest.mark.parametrize("size", [1, 3])
def test_arrays_of_no_element(ranks: RankPool, size: int) -> None:
    for rank, (device, plain) in enumerate(ranks.run(size, device_and_plain, "empties")):
        assert device == plain
        for name, shape, got in device:
            match name:
                case "all_gather" | "gather":
                    want: Any = (size, *shape)
                case "reduce_scatter":
                    want = (shape[0] // size, *shape[1:])
                case _:
                    want = shape
            assert got == (None if name in ("reduce", "gather") and rank else want), (name, shape)
