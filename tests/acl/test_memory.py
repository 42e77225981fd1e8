"""Device memory as NumPy arrays: values, lifetimes, what is held, and what is said when it is full."""

import gc

import ml_dtypes
import numpy as np
import pytest

from ascend_rt.acl.errors import AclError, DeviceMemoryError
from ascend_rt.acl.memory import DeviceMemory
from ascend_rt.core._core import Segment

pytestmark = pytest.mark.threads

MIB = 1 << 20


@pytest.fixture
def memory() -> DeviceMemory:
    return DeviceMemory(Segment.create(2, 2, 64 * MIB, 48 * MIB, 32 * MIB), 1, 0)


def test_arrays_are_ordinary_and_aligned(memory: DeviceMemory) -> None:
    for dtype in (np.float32, np.int8, ml_dtypes.bfloat16, np.complex128):
        x = memory.empty((3, 5), dtype)
        assert type(x) is np.ndarray and x.shape == (3, 5) and x.dtype == np.dtype(dtype)
        assert x.flags.c_contiguous and x.flags.writeable and x.__array_interface__["data"][0] % 512 == 0


def test_values(memory: DeviceMemory) -> None:
    values = np.arange(12, dtype=np.int16).reshape(3, 4)
    assert np.array_equal(memory.array(values), values)
    assert memory.array([1.5, 2.5], ml_dtypes.bfloat16).tolist() == [1.5, 2.5]
    dirty = memory.array(np.arange(1, 1001))
    address = dirty.__array_interface__["data"][0]
    del dirty
    clean = memory.zeros(1000, np.int64)
    assert clean.__array_interface__["data"][0] == address and not clean.any()


def test_scalars_and_empty_arrays(memory: DeviceMemory) -> None:
    assert memory.array(7).shape == () and memory.array(7).item() == 7
    assert memory.empty(0).shape == (0,) and memory.empty((3, 0, 2)).size == 0


def test_memory_lives_as_long_as_any_view(memory: DeviceMemory) -> None:
    view = memory.array(np.arange(100))[10:20:3]
    gc.collect()
    assert memory.device.in_use == 1024
    assert view.tolist() == [10, 13, 16, 19]
    del view
    assert memory.device.in_use == 0 and memory.segment.hbm_in_use == 0


def test_what_is_held(memory: DeviceMemory) -> None:
    x = memory.empty(100, np.float32)
    assert memory.holds(x) and memory.holds(x[50:]) and memory.holds(x[:0])
    assert not memory.holds(np.empty(100))
    other = DeviceMemory(memory.segment, 0, 1)
    assert not other.holds(x)


def test_over_the_device_budget(memory: DeviceMemory) -> None:
    kept = memory.empty(20 * MIB, np.int8)
    with pytest.raises(DeviceMemoryError) as error:
        memory.empty(20 * MIB, np.int8)
    assert isinstance(error.value, MemoryError) and isinstance(error.value, AclError) and error.value.code == 207001
    text = str(error.value)
    assert "rank 0 asked for 20.0 MiB of device 1: over the budget" in text
    assert "budget of a device   32.0 MiB, in use on this one 20.0 MiB" in text
    assert "rank 0 holds 20.0 MiB" in text and "hccl-run --hbm" in text
    del kept
    assert memory.empty(20 * MIB, np.int8).nbytes == 20 * MIB


def test_the_budget_of_the_job_is_shared(memory: DeviceMemory) -> None:
    other = DeviceMemory(memory.segment, 0, 1)
    kept = [memory.empty(30 * MIB, np.int8), other.empty(16 * MIB, np.int8)]
    with pytest.raises(DeviceMemoryError, match=r"rank 1 asked for 10.0 MiB") as error:
        other.empty(10 * MIB, np.int8)
    assert "rank 0 holds 30.0 MiB\n  rank 1 holds 16.0 MiB" in str(error.value)
    assert len(kept) == 2 and memory.segment.hbm_in_use == 46 * MIB


@pytest.mark.parametrize("shape", [1 << 40, (1 << 31, 1 << 31), (1 << 62, 8)])
def test_silly_sizes(memory: DeviceMemory, shape: tuple[int, ...]) -> None:
    with pytest.raises(DeviceMemoryError):
        memory.empty(shape, np.float64)


def test_negative_shapes(memory: DeviceMemory) -> None:
    with pytest.raises(ValueError, match="negative dimensions"):
        memory.empty((-1, -5))
