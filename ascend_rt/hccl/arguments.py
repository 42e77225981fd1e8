"""The argument checks of all collectives: one function that reads the table of collectives.

A wrong argument is not raised here and now: the other ranks are already waiting, so `RefusedError` is caught by the
communicator, which tells everybody and then raises on every rank.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..acl.memory import Array
from ..acl.stream import Stream
from ..plan.collectives import Collective, InPlace
from .errors import HcclResult
from .types import DTYPE_NAMES, OPS, number_of_dtype


class RefusedError(Exception):
    """Arguments that no collective can be made of."""

    def __init__(self, text: str, code: HcclResult = HcclResult.HCCL_E_PARA) -> None:
        self.code = code
        super().__init__(text)


def told(error: RefusedError | MemoryError) -> str:
    """What the other ranks are told of a refusal, from which `code_of_refusal` reads the code."""
    code = error.code if isinstance(error, RefusedError) else HcclResult.HCCL_E_MEMORY
    return str(error) if code is HcclResult.HCCL_E_PARA else f"{code.name}: {error}"


def code_of_refusal(why: str) -> HcclResult:
    """The code with which another rank has refused a call, by what it told."""
    return HcclResult.__members__.get(why.partition(":")[0], HcclResult.HCCL_E_PARA)


@dataclass(frozen=True)
class Call:
    """One collective call with arguments that are right; `count` is elements of one block, as in HCCL.

    An array of no elements stands for the buffer that this rank, not being the root, has not.
    """

    spec: Collective
    dtype: int
    op: int
    root: int
    count: int
    x: Array
    out: Array

    @property
    def nbytes(self) -> int:
        """Bytes of one block: what algorithms are chosen by."""
        return self.count * self.out.itemsize


MakeArray = Callable[[tuple[int, ...], "np.dtype[np.generic]", Array], Array]


def check(spec: Collective, rank: int, size: int, x: Any, out: Any, op: Any, root: Any, make: MakeArray) -> Call:
    """The call that these arguments mean, or RefusedError.

    `make(shape, dtype, like)` makes the result where `out` is None and x cannot hold it.
    """
    op_number = check_op(op) if spec.reduces else 0
    root = _root(root, size) if spec.rooted else 0
    has_x, has_out = (blocks.on(rank, size, root) > 0 for blocks in (spec.blocks_in, spec.blocks_out))
    if has_x:
        x = check_array("x", x)
        count = _count(spec, x, size)
    else:
        out = check_array("out", out)
        x, count = np.empty(0, out.dtype), out.size
    dtype = dtype_number(x)
    if not has_out and has_x:
        out = np.empty(0, x.dtype)
    elif has_x:
        out = _out(spec, x, out, size, make)
        _check_overlap(spec, rank, count, x, out)
    if not out.flags.writeable:
        raise RefusedError("the result cannot be stored: out (or x, in place) is read-only")
    return Call(spec, dtype, op_number, root, count, x, out)


def check_stream(stream: Any) -> None:
    if stream is not None and not isinstance(stream, Stream):
        raise RefusedError(f"stream is a {type(stream).__name__}; expected an rt.Stream or None")
    if stream is not None and stream.closed:
        raise RefusedError("its stream was destroyed")


def check_array(name: str, x: Any) -> Array:
    if not isinstance(x, np.ndarray):
        raise RefusedError(f"{name} is a {type(x).__name__}; expected a NumPy array, such as rt.array makes")
    return x


def dtype_number(x: Array) -> int:
    number = number_of_dtype(x.dtype)
    if number is None:
        names = ", ".join(DTYPE_NAMES.values())
        raise RefusedError(f"dtype {x.dtype}; expected one of {names}", HcclResult.HCCL_E_NOT_SUPPORT)
    return number


def check_op(op: Any) -> int:
    if isinstance(op, str) and op in OPS:
        return int(OPS[op])
    if isinstance(op, int) and not isinstance(op, bool) and op in OPS.values():
        return int(op)
    raise RefusedError(f"op {op!r}; expected one of {', '.join(OPS)} or a HcclReduceOp", HcclResult.HCCL_E_NOT_SUPPORT)


def _root(root: Any, size: int) -> int:
    try:
        number = int(root.__index__())
    except (AttributeError, TypeError):
        raise RefusedError(f"root is a {type(root).__name__}; expected a rank, 0 to {size - 1}") from None
    if not 0 <= number < size:
        raise RefusedError(f"root={number}; expected a rank, 0 to {size - 1}")
    return number


def _count(spec: Collective, x: Array, size: int) -> int:
    if not spec.blocks_in.per_rank:
        return x.size
    if x.ndim == 0 or x.shape[0] % size:
        raise RefusedError(f"x has the shape {x.shape}; expected a first dimension that is a multiple of {size} ranks")
    return x.size // size


def _shape_of_out(spec: Collective, x: Array, size: int) -> tuple[int, ...]:
    if spec.blocks_in.per_rank == spec.blocks_out.per_rank:
        return x.shape
    return (x.shape[0] // size, *x.shape[1:]) if spec.blocks_in.per_rank else (size, *x.shape)


def _out(spec: Collective, x: Array, out: Any, size: int, make: MakeArray) -> Array:
    shape = _shape_of_out(spec, x, size)
    if out is None:
        return x if spec.in_place is InPlace.SAME else make(shape, x.dtype, x)
    given = check_array("out", out)
    if given.dtype != x.dtype:
        raise RefusedError(f"out has dtype={given.dtype} and x has dtype={x.dtype}; expected the same")
    if given.size != math.prod(shape):
        raise RefusedError(f"out has the shape {given.shape}; expected {shape}, or another shape of as many elements")
    return given


def _check_overlap(spec: Collective, rank: int, count: int, x: Array, out: Array) -> None:
    if spec.in_place is InPlace.NONE:
        if np.may_share_memory(x, out):
            raise RefusedError(f"x and out overlap; expected separate memory: {spec.in_place.value}")
        return
    if x is out or not np.may_share_memory(x, out):
        return
    first_in, first_out = spec.in_place.first_blocks(rank)
    nbytes = count * x.itemsize
    contiguous = x.flags.c_contiguous and out.flags.c_contiguous
    if not contiguous or address_of(x) - first_in * nbytes != address_of(out) - first_out * nbytes:
        raise RefusedError(f"x and out overlap; expected separate memory, or in place: {spec.in_place.value}")


def address_of(x: Array) -> int:
    return int(x.__array_interface__["data"][0])
