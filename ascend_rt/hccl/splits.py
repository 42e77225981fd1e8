"""Collectives whose blocks differ in count: the checks of their tables, the methods."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..acl import recording
from ..acl.memory import Array, DeviceMemory
from ..acl.stream import Stream
from ..core import _core
from ..plan.collectives import InPlace
from ..plan.split import NUMBERS, split_spec
from . import choices
from .arguments import RefusedError, address_of, check_array, check_op, check_stream, dtype_number, told
from .device_dtypes import check_dtype
from .errors import HcclResult
from .recorded import refuse_recorded, refuse_while_recording

Counts = Sequence[int]


@dataclass(frozen=True)
class Blocks:
    """The blocks of one buffer, in elements: how many there are in each, and where each begins."""

    counts: tuple[int, ...]
    starts: tuple[int, ...]


class Splits(_core.Communicator):
    """What a communicator does with blocks that differ in count. How the calls behave is told at Communicator.

    Counts and displacements are elements of the flattened array, as in HCCL, one of each per rank. Without
    displacements the blocks lie one behind another and fill the array; with them there may be gaps, and blocks of x
    may overlap.
    Every rank compares all tables before a byte moves: two ranks that do not agree are named, with both numbers.
    """

    rank: int
    size: int
    _memory: DeviceMemory
    _piece_nbytes: int
    _has_table: bool
    _strict_dtypes: str

    def all_gather_v(
        self, x: Array, out: Array, counts: Counts, displs: Counts | None = None, stream: Stream | None = None
    ) -> Array:
        """Every rank's x, which has counts[rank] elements, as block `rank` of every rank's out; returns out.

        counts: of the blocks of out, in elements, the same on every rank. displs: where they begin, one behind another
        by default. In place, x is block `rank` of out.
        """
        arguments = [(lambda: one_block("x", x, counts, self.rank)), (lambda: blocks("out", out, counts, displs))]
        return self._split("all_gather_v", x, out, arguments, "sum", stream)

    def reduce_scatter_v(
        self,
        x: Array,
        out: Array,
        counts: Counts,
        op: str = "sum",
        displs: Counts | None = None,
        stream: Stream | None = None,
    ) -> Array:
        """Fold x over all ranks; out, which has counts[rank] elements, gets block `rank` of the result; returns out.

        counts: of the blocks of x, in elements, the same on every rank. displs: where they begin, one behind another by
        default. op: sum, prod, max, min or avg. In place, out is block `rank` of x.
        """
        arguments = [(lambda: blocks("x", x, counts, displs)), (lambda: one_block("out", out, counts, self.rank))]
        return self._split("reduce_scatter_v", x, out, arguments, op, stream)

    def all_to_all_v(
        self,
        x: Array,
        send_counts: Counts,
        out: Array,
        recv_counts: Counts,
        send_displs: Counts | None = None,
        recv_displs: Counts | None = None,
        stream: Stream | None = None,
    ) -> Array:
        """Block i of x, of send_counts[i] elements, goes to rank i; block i of out comes from rank i; returns out.

        recv_counts[i] must be what rank i sends. send_displs, recv_displs: where the blocks begin, in elements, one
        behind another by default. x and out must not overlap.
        """
        arguments = [
            (lambda: blocks("x", x, send_counts, send_displs)),
            (lambda: blocks("out", out, recv_counts, recv_displs)),
        ]
        return self._split("all_to_all_v", x, out, arguments, "sum", stream)

    def all_to_all_vc(self, x: Array, counts: Sequence[Counts], out: Array, stream: Stream | None = None) -> Array:
        """all_to_all_v by one table for all: counts[i][j] elements go from rank i to rank j; returns out.

        The blocks of x and of out lie one behind another.
        """
        arguments = [
            (lambda: blocks("x", x, matrix(counts, self.size)[self.rank], None)),
            (lambda: blocks("out", out, [row[self.rank] for row in matrix(counts, self.size)], None)),
        ]
        return self._split("all_to_all_vc", x, out, arguments, "sum", stream)

    def _split(self, name: str, x: Any, out: Any, tables: Any, op: Any, stream: Any) -> Array:
        refuse_while_recording(name, stream)
        try:
            check_stream(stream)
            kind = self._check_split(name, x, out, op)
            check_dtype(name, *kind, self._strict_dtypes)
            into, onto = (table() for table in tables)
            check_places(name, self.rank, x, into, out, onto)
            self._submit_split(name, kind, x, out, packed(into, onto, self.size), stream)
        except (RefusedError, MemoryError) as error:
            why = told(error)
        else:
            result: Array = out
            return result
        refuse_recorded(self, name, why, stream)
        self._refuse(NUMBERS[name], why, stream)  # behind the handler: all ranks raise the same
        return out  # type: ignore[no-any-return]  # a queued refusal: synchronize tells

    def _check_split(self, name: str, x: Any, out: Any, op: Any) -> tuple[int, int]:
        """dtype and op"""
        if check_array("out", out).dtype != check_array("x", x).dtype:
            raise RefusedError(f"out has dtype={out.dtype} and x has dtype={x.dtype}; expected the same")
        if not out.flags.writeable:
            raise RefusedError("the result cannot be stored: out is read-only")
        return dtype_number(x), check_op(op) if split_spec(name).reduces else 0

    def _submit_split(
        self, name: str, kind: tuple[int, int], x: Array, out: Array, table: bytes, stream: Stream | None
    ) -> None:
        recorder = recording.recorder_of(stream)
        if recorder is not None and stream is not None:
            recorder.split(stream, self, name, kind, x, out, table)
            return
        attempt = functools.partial(self._call, NUMBERS[name], *kind, 0, 0, x, out, stream, table)
        self._provide_split(name, kind, x, out, table, attempt)

    def _provide_split(
        self, name: str, kind: tuple[int, int], x: Array, out: Array, table: bytes, attempt: Callable[[], int | None]
    ) -> None:
        """Makes what is missing until the attempt misses nothing."""
        if not self._has_table:
            block = self._memory.allocate(len(table))
            self._set_table(block, block.offset)
            self._has_table = True
        while (missing := attempt()) is not None:
            if missing == _core.CALL_NO_CHOICE:
                choices.add_split(self, name, *kind, self._piece_nbytes)
            elif missing == _core.CALL_NO_STAGING:
                block = self._memory.allocate(2 * self._piece_nbytes)
                self._set_staging(block, block.offset)
            else:
                text = f"x has {x.size} and out {out.size} elements; expected no more than the job has bytes of memory"
                raise RefusedError(text)


def blocks(name: str, array: Array, counts: Counts, displs: Counts | None) -> Blocks:
    """The blocks of a buffer; RefusedError unless they lie in it."""
    numbers = whole_numbers(f"the counts of {name}", counts)
    if displs is None:
        if sum(numbers) != array.size:
            text = f"{name} has {array.size} elements and its counts {list(numbers)} add up to {sum(numbers)}"
            raise RefusedError(f"{text}; expected the same")
        ends = np.cumsum(numbers, dtype=object)
        return Blocks(numbers, tuple(int(end) - count for end, count in zip(ends, numbers, strict=True)))
    starts = whole_numbers(f"the displacements of {name}", displs)
    if len(starts) != len(numbers):
        raise RefusedError(f"{len(starts)} displacements and {len(numbers)} counts of {name}; expected as many")
    for block, (start, count) in enumerate(zip(starts, numbers, strict=True)):
        if count and start + count > array.size:
            text = f"block {block} of {name}, {count} elements from {start} on, ends behind its {array.size} elements"
            raise RefusedError(text)
    return Blocks(numbers, tuple(start if count else 0 for start, count in zip(starts, numbers, strict=True)))


def one_block(name: str, array: Array, counts: Counts, rank: int) -> Blocks:
    """All of a buffer; RefusedError unless it is block `rank` of those that `counts` describes."""
    numbers = whole_numbers("counts", counts)
    if rank < len(numbers) and numbers[rank] != array.size:
        raise RefusedError(f"{name} has {array.size} elements; expected counts[{rank}]={numbers[rank]}")
    return Blocks((array.size,), (0,))


def matrix(counts: Sequence[Counts], size: int) -> list[tuple[int, ...]]:
    """A table of `size` rows of `size` counts; RefusedError otherwise."""
    try:
        rows = [whole_numbers(f"row {number} of counts", row) for number, row in enumerate(counts)]
    except TypeError:
        raise RefusedError(f"counts is a {type(counts).__name__}; expected {size} rows of {size} counts") from None
    if len(rows) != size or any(len(row) != size for row in rows):
        raise RefusedError(f"counts has rows of {[len(row) for row in rows]} counts; expected {size} rows of {size}")
    return rows


def whole_numbers(name: str, values: Any) -> tuple[int, ...]:
    try:
        numbers = tuple(int(value.__index__()) for value in values)
    except (AttributeError, TypeError):
        text = f"{name}: {values!r}; expected a sequence of whole numbers, one per rank"
        raise RefusedError(text) from None
    if any(number < 0 for number in numbers):
        raise RefusedError(f"{name}: {list(numbers)}; expected none below 0")
    return numbers


def check_places(name: str, rank: int, x: Array, into: Blocks, out: Array, onto: Blocks) -> None:
    """RefusedError where two stores, or a store and a load of another rank, would meet in the same memory."""
    ends = 0
    for start, count in sorted(zip(onto.starts, onto.counts, strict=True)):
        if count and start < ends:
            raise RefusedError(f"blocks of out overlap: {list(onto.counts)} elements from {list(onto.starts)} on")
        ends = max(ends, start + count)
    if not np.may_share_memory(x, out):
        return
    in_place = split_spec(name).in_place
    first_in, first_out = (blocks.starts[rank] if len(blocks.starts) > 1 else 0 for blocks in (into, onto))
    same = address_of(x) + first_in * x.itemsize == address_of(out) + first_out * x.itemsize
    if in_place is InPlace.NONE or not (same and x.flags.c_contiguous and out.flags.c_contiguous):
        raise RefusedError(f"x and out overlap; expected separate memory: {in_place.value}")


def packed(into: Blocks, onto: Blocks, size: int) -> bytes:
    """The four rows of a rank's table, as the core reads them."""
    rows = (into.counts, into.starts, onto.counts, onto.starts)
    for row in rows:
        if len(row) not in (1, size):
            text = f"{len(row)} counts; expected {size}, one per rank"
            raise RefusedError(text, HcclResult.HCCL_E_PARA)
    return b"".join(np.array([*row, *[0] * (size - len(row))], np.uint64).tobytes() for row in rows)
