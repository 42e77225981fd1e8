"""Arrays outside of device memory, or not contiguous: copied in, run, copied out.

A local matter: the peers see device memory of this rank as always, so one rank that passes a plain array changes
nothing for the others.
"""

import dataclasses
from collections.abc import Callable

from ..acl.memory import Array, DeviceMemory
from ..core import _core
from ..plan.collectives import InPlace
from .arguments import Call


def run(attempt: Callable[[Call], int], call: Call, memory: DeviceMemory) -> int:
    """Runs the call on copies in device memory; `call.out` is stored to only if it was done. Returns how it ended."""
    x = _in_device(call.x, memory)
    if call.out is call.x or (call.spec.in_place is InPlace.SAME and _same_memory(call.x, call.out)):
        out = x if x is not call.x else memory.array(x)
    else:
        out = call.out if _is_direct(call.out, memory) else memory.empty(call.out.shape, call.out.dtype)
    how = attempt(dataclasses.replace(call, x=x, out=out))
    if how == _core.CALL_DONE and out is not call.out:
        call.out[...] = out
    return how


def _is_direct(x: Array, memory: DeviceMemory) -> bool:
    return x.flags.c_contiguous and memory.holds(x)


def _in_device(x: Array, memory: DeviceMemory) -> Array:
    return x if _is_direct(x, memory) else memory.array(x)


def _same_memory(x: Array, out: Array) -> bool:
    return bool(x.__array_interface__["data"] == out.__array_interface__["data"])
