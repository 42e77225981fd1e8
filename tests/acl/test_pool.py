"""MemoryPool: bytes go to the next task of a stream at once, to others when it has come so far, and are counted."""

import gc
import threading
from typing import Any

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt.acl.device import current
from ascend_rt.acl.errors import DeviceMemoryError
from ascend_rt.acl.pool import MemoryPool
from ascend_rt.testing import RankPool

pytestmark = pytest.mark.processes

MIB = 1 << 20


def address(x: np.ndarray[Any, Any]) -> int:
    return int(x.__array_interface__["data"][0])


def in_the_order_of_streams(comm: rt.Communicator) -> None:
    pool = MemoryPool(current().memory)
    own, other = rt.Stream(), rt.Stream()
    gate = threading.Event()
    own.launch(gate.wait, 10)
    x = pool.empty((10, 25), stream=own)
    own.launch(np.copyto, x, 1.0)
    pool.free(x)
    y = pool.empty((10, 25), stream=own)
    assert address(y) == address(x)  # the gate is closed: nothing has run yet
    pool.free(y)
    z = pool.empty((10, 25), stream=other)
    assert address(z) != address(x)
    del y
    y = pool.empty((10, 25), stream=own)
    assert address(y) == address(x)
    del y
    gc.collect()
    assert address(pool.empty((10, 25))) != address(x)  # collected, but what had the bytes before has not run
    pool.used_on(z, own)
    pool.free(z)
    assert address(pool.empty((10, 25), stream=other)) not in (address(x), address(z))
    gate.set()
    own.synchronize()
    other.synchronize()
    taken = {address(array) for array in [pool.empty((10, 25), stream=other) for _ in range(2)]}
    assert taken == {address(x), address(z)}


def counted(comm: rt.Communicator) -> None:
    memory = current().memory
    before = memory.device.in_use
    pool = MemoryPool(memory)
    small = [pool.empty(MIB // 4) for _ in range(2)]
    large = pool.empty((3, MIB), "uint8")
    assert comm.all_reduce(large, op="max") is large
    told = pool.statistics()
    assert (told.in_use, told.reserved, told.peak_in_use) == (5 * MIB, 22 * MIB, 5 * MIB)
    assert memory.device.in_use - before >= 22 * MIB
    assert [nbytes for _, nbytes in told.sources] == [3 * MIB, 2 * MIB]
    assert all(line.startswith("test_pool.py:") for line, _ in told.sources)
    del large
    gc.collect()
    small.pop()
    told = pool.statistics()
    assert (told.in_use, told.peak_in_use, told.peak_reserved) == (MIB, 5 * MIB, 22 * MIB)
    assert 0 < told.fragmentation < 0.2
    assert "in use 1,048,576 (peak 5,242,880), reserved 23,068,672" in str(told)
    assert pool.empty(17 * MIB, "uint8").nbytes == 17 * MIB  # all of a segment's pieces are one again
    gc.collect()
    assert pool.defragment() == 20 * MIB
    assert pool.statistics().reserved == 2 * MIB


def used_wrongly(comm: rt.Communicator) -> None:
    pool = MemoryPool(current().memory)
    x = pool.empty(10)
    pool.free(x[2:4])
    with pytest.raises(ValueError, match=r"the array of test_pool.py:\d+ has been freed before"):
        pool.free(x)
    with pytest.raises(ValueError, match="no array of this pool"):
        pool.free(rt.zeros(10))
    with pytest.raises(DeviceMemoryError, match="The pool that asked: in use 0") as caught:
        pool.empty(1 << 50, "uint8")
    assert caught.value.code == 207001


def random_use(comm: rt.Communicator) -> None:
    """Arrays keep what was written into them as long as they are in use."""
    draw, pool = np.random.default_rng(7), MemoryPool(current().memory)
    streams = [None, rt.Stream(), rt.Stream()]
    held: list[tuple[np.ndarray[Any, Any], int]] = []
    for number in range(300):
        stream = streams[draw.integers(3)]
        x = pool.empty(int(2 ** draw.uniform(1, 20)), "int32", stream=stream)
        if stream is None:
            x[...] = number
        else:
            stream.launch(np.copyto, x, number)
        held.append((x, number))
        while len(held) > draw.integers(12):
            x, value = held.pop(int(draw.integers(len(held))))
            for stream in streams[1:]:
                assert stream is not None
                stream.synchronize()
            assert x.min() == x.max() == value
            if draw.random() < 0.5:
                pool.free(x)
    assert pool.statistics().reserved <= 64 * MIB


@pytest.mark.parametrize("function", [in_the_order_of_streams, counted, used_wrongly, random_use])
def test_a_pool(ranks: RankPool, function: Any) -> None:
    ranks.run(1, function)
