"""Device memory as NumPy arrays: what a device allocates lies in shared memory, where its peers load and store it."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core import _core
from .errors import DeviceMemoryError

Shape = int | Sequence[int]
Array = npt.NDArray[Any]

MIB = 1 << 20


class DeviceMemory:
    """The HBM of one device: makes ordinary NumPy arrays over it, which free their memory when they are collected.

    Blocks are 512-byte aligned and taken best fit. What all devices of the job hold together is bounded by its budget.
    """

    def __init__(self, segment: _core.Segment, device: int, rank: int, seen_as: int | None = None) -> None:
        self.segment, self.index, self.rank = segment, device, rank
        self.name = f"device {device}" if seen_as in (None, device) else f"device {seen_as} ({device} of the host)"
        self.device = _core.Device(segment, device, rank)

    def empty(self, shape: Shape, dtype: npt.DTypeLike = np.float32) -> Array:
        """An array of undefined values over device memory. DeviceMemoryError (207001) when there is no room."""
        dimensions = (shape,) if isinstance(shape, int) else tuple(shape)
        if any(length < 0 for length in dimensions):
            raise ValueError(f"shape {dimensions}: negative dimensions are not allowed")
        dtype = np.dtype(dtype)
        block = self.allocate(math.prod(dimensions) * dtype.itemsize)
        return np.ndarray(dimensions, dtype, buffer=memoryview(block))

    def zeros(self, shape: Shape, dtype: npt.DTypeLike = np.float32) -> Array:
        """An array of zeros over device memory. DeviceMemoryError (207001) when there is no room."""
        x = self.empty(shape, dtype)
        x[...] = 0
        return x

    def array(self, values: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> Array:
        """A copy of `values` in device memory, of their own type unless `dtype` is given."""
        values = np.asarray(values, dtype)
        x = self.empty(values.shape, values.dtype)
        x[...] = values
        return x

    def allocate(self, nbytes: int) -> _core.Block:
        """A block of at least `nbytes` bytes, freed when the last array over it is collected."""
        try:
            return self.device.malloc(nbytes)
        except (MemoryError, OverflowError) as error:
            raise DeviceMemoryError(self._explain(nbytes, str(error))) from None

    def holds(self, x: Array) -> bool:
        """Whether all of a contiguous array lies in one live block of this device."""
        return self.device.holds(x.__array_interface__["data"][0], x.nbytes)

    def _explain(self, nbytes: int, why: str) -> str:
        segment = self.segment
        lines = [
            f"rank {self.rank} asked for {_mib(nbytes)} of {self.name}: {why}; the largest free block has "
            f"{_mib(self.device.largest_free)}",
            f"  budget of the job    {_mib(segment.hbm_limit)}, in use {_mib(segment.hbm_in_use)}",
            f"  budget of a device   {_mib(segment.hbm_device_limit)}, in use on this one "
            f"{_mib(segment.device_in_use(self.index))}",
        ]
        held = [(segment.rank_line(rank).hbm_in_use, rank) for rank in range(segment.ranks)]
        lines += [f"  rank {rank} holds {_mib(amount)}" for amount, rank in sorted(held, reverse=True)[:8] if amount]
        lines.append("Free arrays that are not needed, use fewer ranks, or raise the budget with hccl-run --hbm.")
        return "\n".join(lines)


def _mib(nbytes: int) -> str:
    return f"{nbytes / MIB:,.1f} MiB" if nbytes >= MIB else f"{nbytes} bytes"
