"""Random calls, everything about them random, against a NumPy oracle that knows nothing of plans.

World size, dtype, op, count or counts, algorithm, root, blocking or queued on one to three streams: the same on all
ranks. Among them are messages between two ranks and round the ring, which take no part in the order of the others.
Memory of x and of out (device or plain; contiguous, strided, reversed, transposed or not aligned), in place or not, the
streams a rank takes for its calls and the events between them: each rank for itself. In the world, and in communicators
of some of its ranks in another order, which work beside one another.

A plain run makes DEFAULT_CASES of them; `pytest -m thorough` makes 5,000, and some in worlds of up to 64 ranks;
--oracle-cases makes any number.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt import hccl
from ascend_rt.hccl.device_dtypes import REDUCIBLE
from ascend_rt.hccl.types import HcclDataType, dtype_of_number
from ascend_rt.plan.choice import TABLE, Row
from ascend_rt.plan.registry import names, parameters
from ascend_rt.testing import RankPool

pytestmark = pytest.mark.processes

Array = np.ndarray[Any, Any]

SIZES = range(1, 10)
# Small pieces, and plans for the smallest calls too; small calls within the round; plain arrays where they lie.
TUNING = (
    {"ASCEND_RT_PIECE_KIB": "1", "ASCEND_RT_PACKET_BYTES": "0", "ASCEND_RT_REACH_KIB": "0"},
    {"ASCEND_RT_PACKET_BYTES": "4096", "ASCEND_RT_REACH_KIB": "0"},
    {"ASCEND_RT_PIECE_KIB": "1", "ASCEND_RT_REACH_KIB": "1"},
)
DEFAULT_CASES = 270
MOST_COUNT = 70_000
KINDS = ("all_reduce", "broadcast", "all_gather", "reduce_scatter", "reduce", "scatter", "gather", "all_to_all")
SPLITS = ("all_gather_v", "reduce_scatter_v", "all_to_all_v", "all_to_all_vc")
MESSAGES = ("ring", "message")
REDUCING = ("all_reduce", "reduce_scatter", "reduce", "reduce_scatter_v")
ROOTED = ("broadcast", "reduce", "scatter", "gather")
OPS = ("sum", "prod", "max", "min", "avg")
LAYOUTS = ("contiguous", "contiguous", "strided", "reversed", "transposed", "unaligned")
BORDER = 77


def fold(parts: list[Array], op: str) -> Array:
    """The values are so small that every order of folding gives the same bits."""
    if op != "avg":
        ufunc = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[op]
        result = parts[0].copy()
        for part in parts[1:]:
            result = ufunc(result, part)
        return result
    mean: Array = np.sum([part.astype(np.float64) for part in parts], axis=0) / len(parts)
    return (np.trunc(mean) if parts[0].dtype.kind in "iu" else mean).astype(parts[0].dtype)


def oracle(kind: str, rank: int, inputs: list[Array], op: str, root: int, table: Array) -> Array | None:
    """What `rank` gets: None where only the root gets something. `table[i, j]`: what rank i sends to rank j."""
    match kind:
        case "ring":
            return inputs[(rank - 1) % len(inputs)]
        case "message":
            return inputs[root] if rank == (root + 1) % len(inputs) else None
        case "all_gather_v":
            return np.concatenate(inputs)
        case "reduce_scatter_v":
            return np.split(fold(inputs, op), np.cumsum(table[0])[:-1])[rank]
        case "all_to_all_v" | "all_to_all_vc":
            parts = zip(inputs, table, strict=True)
            return np.concatenate([np.split(x, np.cumsum(counts)[:-1])[rank] for x, counts in parts])
        case "reduce":
            return fold(inputs, op) if rank == root else None
        case "gather":
            return np.concatenate(inputs) if rank == root else None
        case "scatter":
            return np.split(inputs[root], len(inputs))[rank]
        case "all_to_all":
            return np.concatenate([np.split(x, len(inputs))[rank] for x in inputs])
        case "all_reduce":
            return fold(inputs, op)
        case "broadcast":
            return inputs[root]
        case "all_gather":
            return np.concatenate(inputs)
        case _:
            return np.split(fold(inputs, op), len(inputs))[rank]


@dataclass
class Buffer:
    """An array of `length` elements somewhere in a base, whose other elements are BORDER."""

    base: Array
    array: Array
    layout: str

    @classmethod
    def make(cls, own: np.random.Generator, length: int, dtype: Any, layout: str | None = None) -> "Buffer":
        layout = str(own.choice(LAYOUTS)) if layout is None else layout
        offset = int(own.integers(5))
        base = (rt.empty if own.integers(2) else np.empty)(3 * length + 16, dtype)
        if layout == "unaligned":
            base = base.view(np.uint8)[1 : 1 - base.itemsize].view(dtype) if base.itemsize > 1 else base
        base[...] = BORDER
        if layout == "strided":
            array = base[offset : offset + 3 * length : 3][:length]
        elif layout == "reversed":
            array = base[offset : offset + length][::-1]
        elif layout == "transposed" and length % 2 == 0:
            array = base[offset : offset + length].reshape(length // 2, 2).T
        else:
            array = base[offset : offset + length]
        return cls(base, array, layout)

    def put(self, values: Array) -> "Buffer":
        self.array[...] = values.reshape(self.array.shape)
        return self

    def holds(self, values: Array) -> bool:
        """Whether it holds `values`, in the order of its elements, and its borders are as they were."""
        right = np.array_equal(self.array.reshape(-1), values)
        self.array[...] = BORDER
        return right and bool((self.base == np.full(1, BORDER).astype(self.base.dtype)).all())


@dataclass
class Case:
    """One call: what all ranks know of it, and this rank's part. No x or out: it has none, or gives none."""

    kind: str
    op: str
    count: int
    root: int
    inputs: list[Array]
    x: Buffer | None
    out: Buffer | None
    table: Array
    result: Array | None = None

    def wrong(self, rank: int) -> str:
        want = oracle(self.kind, rank, self.inputs, self.op, self.root, self.table)
        if want is None:
            right = self.result is None
        else:
            right = self.result is not None and np.array_equal(self.result.reshape(-1), want)
            right = (self.out is None or self.out.holds(want)) and right
        right = (self.x is None or self.x.holds(self._left_in_x(rank, want))) and right
        where = " -> ".join(buffer.layout if buffer else "None" for buffer in (self.x, self.out))
        dtype = self.inputs[self.root].dtype
        return "" if right else f"rank {rank}: {self.kind} {dtype} {self.op} count={self.count} {self.root=} {where}"

    def _left_in_x(self, rank: int, want: Array | None) -> Array:
        if want is None:
            return self.inputs[rank]
        if self.out is None and self.kind in ("all_reduce", "broadcast", "reduce"):
            return want
        if isinstance(self.out, InPlace):
            blocks = np.split(self.inputs[rank], len(self.inputs))
            return np.concatenate([*blocks[:rank], want, *blocks[rank + 1 :]])
        return self.inputs[rank]


def kinds_in_turn(common: np.random.Generator) -> Iterator[str]:
    """Each once, then each once more."""
    while True:
        yield from map(str, common.permutation([*KINDS, *SPLITS, *MESSAGES]))


def draw(comm: rt.Communicator, kind: str, common: np.random.Generator, own: np.random.Generator, most: int) -> Case:
    op = str(common.choice(OPS))
    numbers = sorted(REDUCIBLE if kind in REDUCING else HcclDataType)
    dtype = dtype_of_number(numbers[common.integers(len(numbers))])
    few: list[Any] = [0, 1, 2, 3, 7, 33, 64, comm.size, common.integers(300), common.integers(300)]
    many = [common.integers(most + 1)] if common.integers(3) == 0 else few
    count, root = int(many[common.integers(len(many))]), int(common.integers(comm.size))
    length = count * comm.size if kind in ("reduce_scatter", "scatter", "all_to_all") else count
    table = draw_table(kind, common, comm.size) if kind in SPLITS else np.zeros(0)
    sent = table[:, :1] if kind == "all_gather_v" else table
    per_rank = sent.sum(axis=1) if kind in SPLITS else [length] * comm.size
    values = [common.integers(-2, 3, n) for n in per_rank]
    inputs = [(np.abs(v) if dtype.kind == "u" else v).astype(dtype) for v in values]
    out_length = {"all_gather": count * comm.size, "gather": count * comm.size}.get(
        kind, count if kind in ("reduce_scatter", "scatter") else length
    )
    if kind in SPLITS:
        received = {"reduce_scatter_v": table[0, comm.rank]}.get(kind, table[:, comm.rank].sum())
        x, out = Buffer.make(own, int(per_rank[comm.rank]), dtype), Buffer.make(own, int(received), dtype)
    elif kind in MESSAGES:
        gets = kind == "ring" or comm.rank == (root + 1) % comm.size
        x, out = Buffer.make(own, length, dtype), Buffer.make(own, length, dtype) if gets else None
    else:
        x, out = buffers(comm, own, kind, root, length, out_length, dtype)
    if x is not None:
        x.put(inputs[comm.rank])
    return Case(kind, op, count, root, inputs, x, out, table)


def draw_table(kind: str, common: np.random.Generator, size: int) -> Array:
    """What each rank sends to each: often nothing."""
    table = common.integers(0, common.choice([2, 40, 3000]), (size, size)) * (common.integers(0, 4, (size, size)) > 0)
    if kind == "all_gather_v":
        return np.repeat(table[:, :1], size, axis=1)
    return np.repeat(table[:1], size, axis=0) if kind == "reduce_scatter_v" else table


def buffers(
    comm: rt.Communicator, own: np.random.Generator, kind: str, root: int, length: int, out_length: int, dtype: Any
) -> tuple[Buffer | None, Buffer | None]:
    if kind == "scatter" and comm.rank != root:
        return None, Buffer.make(own, out_length, dtype)
    gets = comm.rank == root or kind not in ("reduce", "gather")
    has_out = gets and kind != "broadcast" and bool(own.integers(2))
    if has_out and kind != "all_to_all" and own.integers(3) == 0:
        return in_place(comm, own, kind, length, out_length, dtype)
    x = Buffer.make(own, length, dtype)
    if kind in ("reduce_scatter", "scatter", "all_to_all"):  # its first dimension is counted in ranks
        x = Buffer.make(own, length, dtype, "contiguous") if x.array.ndim > 1 else x
    return x, Buffer.make(own, out_length, dtype) if has_out else None


def in_place(
    comm: rt.Communicator, own: np.random.Generator, kind: str, length: int, out_length: int, dtype: Any
) -> tuple[Buffer, Buffer | None]:
    """x is a part of out or out of x; an all_reduce or reduce has it with out=None anyway."""
    larger = Buffer.make(own, max(length, out_length), dtype, "contiguous")
    count = min(length, out_length)
    if kind in ("all_reduce", "reduce"):
        return larger, None
    part = larger.array[comm.rank * count : (comm.rank + 1) * count]
    inside = InPlace(part, part, "in place")
    return (inside, larger) if kind in ("all_gather", "gather") else (larger, inside)


class InPlace(Buffer):
    """The part of a larger buffer: checked with that."""

    def holds(self, values: Array) -> bool:
        return True


def submit(comm: rt.Communicator, case: Case, stream: rt.Stream | None) -> None:
    x, out = (None if buffer is None else buffer.array for buffer in (case.x, case.out))
    keywords: dict[str, Any] = {"stream": stream}
    if case.kind in MESSAGES:
        exchange(comm, case, x, out, stream)
        return
    if case.kind in SPLITS:
        sent, received = case.table[comm.rank].tolist(), case.table[:, comm.rank].tolist()
        keywords |= {
            "all_gather_v": {"counts": received},
            "reduce_scatter_v": {"counts": sent},
            "all_to_all_v": {"send_counts": sent, "recv_counts": received},
            "all_to_all_vc": {"counts": case.table.tolist()},
        }[case.kind]
    if case.kind in REDUCING:
        keywords["op"] = case.op
    if case.kind in ROOTED:
        keywords["root"] = case.root
    if case.kind != "broadcast":
        keywords["out"] = out
    case.result = getattr(comm, case.kind)(x, **keywords)


def exchange(comm: rt.Communicator, case: Case, x: Any, out: Any, stream: rt.Stream | None) -> None:
    dest = (case.root + 1) % comm.size
    if case.kind == "ring" or comm.size == 1:
        items = [hccl.Send(x, (comm.rank + 1) % comm.size), hccl.Recv(out, (comm.rank - 1) % comm.size)]
        comm.batch_send_recv(items, stream=stream)
    elif comm.rank == case.root:
        comm.send(x, dest, stream=stream)
    elif comm.rank == dest:
        comm.recv(out, case.root, stream=stream)
    case.result = out


def draw_algorithm(kind: str, common: np.random.Generator, size: int) -> Row:
    """One of the collective's; one for several servers has some, of equally many ranks each unless it is AHC."""
    name = str(common.choice(names(kind)))
    if "servers" not in parameters(kind, name):
        return Row(kind, name)
    each = int(common.choice([ranks for ranks in range(1, size + 1) if name == "AHC" or size % ranks == 0]))
    servers = tuple(tuple(range(first, min(first + each, size))) for first in range(0, size, each))
    return Row(kind, name, options=(("servers", servers),))


def run_cases(comm: rt.Communicator, seed: int, cases: int, most: int = MOST_COUNT) -> list[str]:
    common, own = np.random.default_rng(seed), np.random.default_rng([seed, comm.rank])
    comm._table = (*(draw_algorithm(kind, common, comm.size) for kind in KINDS), *TABLE)
    streams, kinds = [rt.Stream() for _ in range(3)], kinds_in_turn(common)
    wrong = []
    while cases > 0:
        batch = [draw(comm, next(kinds), common, own, most) for _ in range(min(cases, int(common.integers(1, 7))))]
        cases -= len(batch)
        blocking = common.integers(3, size=len(batch)) == 0
        used = streams[: int(own.integers(1, 4))]
        for case, blocks in zip(batch, blocking, strict=True):
            stream = None if blocks else used[own.integers(len(used))]
            if own.integers(3) == 0:
                used[own.integers(len(used))].wait(used[own.integers(len(used))].record())
            submit(comm, case, stream)
        for stream in used:
            stream.synchronize()
        wrong += [said for case in batch if (said := case.wrong(comm.rank))]
    assert comm._statistics()["late_sleeps"] == 0 and not any(stream.late_sleeps for stream in streams)
    return wrong


def run_cases_beside_others(world: rt.Communicator, seed: int, cases: int) -> list[str]:
    """Even and odd ranks apart, in an order of their own."""
    comm = world.split(world.rank % 2, int(np.random.default_rng([seed, world.rank]).integers(100)))
    assert comm is not None
    return run_cases(comm, seed + world.rank % 2, cases)


@pytest.mark.parametrize("environ", TUNING, ids=["small pieces", "packets", "reached"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("total", [DEFAULT_CASES, pytest.param(5000, marks=pytest.mark.thorough)])
def test_random_calls(
    ranks: RankPool, pytestconfig: pytest.Config, total: int, size: int, environ: dict[str, str]
) -> None:
    total = pytestconfig.getoption("--oracle-cases", None) or total
    cases, seed = -(-total // (len(SIZES) * len(TUNING))), random.randrange(2**32)
    print(f"seed {seed}")
    assert ranks.run(size, run_cases, seed, cases, timeout=200, environ=environ) == [[]] * size


@pytest.mark.parametrize("size", [5, pytest.param(9, marks=pytest.mark.thorough)])
def test_random_calls_in_communicators_of_some_ranks(ranks: RankPool, size: int) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    cases = 14 if size == 5 else 200
    assert ranks.run(size, run_cases_beside_others, seed, cases, timeout=100, environ=TUNING[0]) == [[]] * size


@pytest.mark.thorough
@pytest.mark.parametrize(("size", "cases", "most"), [(16, 56, 7000), (64, 14, 300)])
def test_random_calls_of_many_ranks(ranks: RankPool, size: int, cases: int, most: int) -> None:
    """Few elements: every rank draws what all ranks send to all, to know what must come."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    assert ranks.run(size, run_cases, seed, cases, most, timeout=200) == [[]] * size
