"""Every collective, dtype, op and algorithm on real ranks, against what the table of collectives says must come out."""

import functools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt.hccl.device_dtypes import REDUCIBLE
from ascend_rt.hccl.types import HcclDataType, dtype_of_number
from ascend_rt.plan.choice import TABLE, Row
from ascend_rt.plan.collectives import COLLECTIVES, Blocks
from ascend_rt.plan.registry import names
from ascend_rt.testing import RankPool

pytestmark = pytest.mark.processes

FOLDS = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
KINDS = [name for name, spec in COLLECTIVES.items() if spec.blocks_out is not Blocks.NONE]
BORDER = 5
HALVES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}


def contribution(rank: int, count: int, dtype: np.dtype[Any], seed: int) -> np.ndarray[Any, Any]:
    """Small whole numbers: exact in every dtype, whatever the order of folding."""
    values = np.random.default_rng([seed, rank]).integers(-2, 3, count)
    return (np.abs(values) if dtype.kind == "u" else values).astype(dtype)


def expected(kind: str, rank: int, size: int, root: int, op: str, inputs: list[Any], count: int) -> Any:
    """OUT of `rank`, block by block, from the table that also the prover reads."""
    spec = COLLECTIVES[kind]
    blocks = []
    for block in range(spec.blocks_out.on(rank, size, root)):
        sources, number = spec.result(rank, block, size, root)
        parts = [inputs[source][number * count : (number + 1) * count] for source in sources]
        if op == "avg":
            total = functools.reduce(np.add, [part.astype(np.float64) for part in parts])
            average = total / len(parts)
            blocks.append((np.trunc(average) if parts[0].dtype.kind in "iu" else average).astype(parts[0].dtype))
        else:
            blocks.append(functools.reduce(FOLDS[op], parts))
    return np.concatenate(blocks) if blocks else None


def bordered(values: Any, offset: int, plain: bool) -> tuple[Any, Any]:
    """`values` as a view into a larger buffer, and the buffer, whose other elements are 77."""
    buffer = (np.empty if plain else rt.empty)(len(values) + offset + BORDER, values.dtype)
    buffer[...] = 77
    view = buffer[offset : offset + len(values)]
    view[...] = values
    return view, buffer


def run_cases(comm: rt.Communicator, seed: int, cases: int, algorithm: str, plain_too: bool) -> list[str]:
    """`cases` random calls, the same on every rank; what went wrong, in words."""
    comm._table = (*(Row(kind, algorithm) for kind in KINDS if algorithm in names(kind)), *TABLE)
    common, wrong = np.random.default_rng(seed), []
    for case in range(cases):
        kind = KINDS[case % len(KINDS)]
        numbers = sorted(REDUCIBLE if COLLECTIVES[kind].reduces else HcclDataType)
        dtype = dtype_of_number(numbers[common.integers(len(numbers))])
        op = str(common.choice([*FOLDS, "avg"])) if COLLECTIVES[kind].reduces else "sum"
        count = int(common.choice([0, 1, 2, 7, comm.size, 33, 100, 1000, common.integers(20000)]))
        root, call_seed = int(common.integers(comm.size)), int(common.integers(1 << 30))
        own = np.random.default_rng([seed, case, comm.rank])
        offset, separate, plain = int(own.integers(4)), bool(own.integers(2)), plain_too and bool(own.integers(2))
        blocks_in = [COLLECTIVES[kind].blocks_in.on(rank, comm.size, root) for rank in range(comm.size)]
        inputs = [contribution(rank, blocks_in[rank] * count, dtype, call_seed) for rank in range(comm.size)]
        want = expected(kind, comm.rank, comm.size, root, op, inputs, count)
        x, x_buffer = bordered(inputs[comm.rank], offset, plain)
        keywords: dict[str, Any] = {}
        out_buffer = x_buffer
        if kind != "broadcast" and want is not None and (separate or not blocks_in[comm.rank]):
            keywords["out"], out_buffer = bordered(np.zeros_like(want), offset, plain)
        if COLLECTIVES[kind].reduces:
            keywords["op"] = op
        if COLLECTIVES[kind].rooted:
            keywords["root"] = root
        got = getattr(comm, kind)(x if blocks_in[comm.rank] else None, **keywords)
        borders = np.concatenate([b[i] for b in (x_buffer, out_buffer) for i in (slice(offset), slice(-BORDER, None))])
        kept = got is x or kind == "broadcast" or (x == inputs[comm.rank]).all()
        right = got is None if want is None else np.array_equal(got.reshape(-1), want)
        if not (right and (borders == np.full(1, 77).astype(borders.dtype)).all() and kept):
            what = f"{kind} {dtype} {op} count={count} root={root} {separate=} {plain=}"
            wrong.append(f"rank {comm.rank} case {case}: {what}")
    assert comm._statistics()["late_sleeps"] == 0
    return wrong


@pytest.mark.parametrize("algorithm", ["mesh", "ring"])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 8])
def test_device_memory(ranks: RankPool, size: int, algorithm: str) -> None:
    assert ranks.run(size, run_cases, 1000 + size, 40, algorithm, False, timeout=60) == [[]] * size


@pytest.mark.parametrize("size", [1, 2, 4])
def test_plain_and_device_memory_mixed_between_ranks(ranks: RankPool, size: int) -> None:
    assert ranks.run(size, run_cases, 2000 + size, 40, "mesh", True, timeout=60) == [[]] * size


def fold_halves(comm: rt.Communicator, dtype: str, big: float, counts: tuple[int, ...]) -> list[float]:
    """One rank holds a big number, the others 1: each in turn, at sizes with and without a plan."""
    results: set[float] = set()
    for count in counts:
        for holder in range(comm.size):
            x = rt.zeros(count * comm.size, HALVES[dtype])
            x[...] = big if comm.rank == holder else 1
            part, counts_of_all = np.empty(count, x.dtype), [count] * comm.size
            sums = [comm.all_reduce(x[:count], np.empty(count, x.dtype)), comm.reduce(x[:count], part, root=holder)]
            sums += [comm.reduce_scatter(x), comm.reduce_scatter_v(x, np.empty_like(part), counts_of_all)]
            results.update(value for each in sums if each is not None for value in np.unique(each.astype(np.float64)))
    return sorted(results)


@pytest.mark.parametrize("counts", [(1, 17, 4096), pytest.param((70_000, 1 << 20), marks=pytest.mark.thorough)])
@pytest.mark.parametrize(("dtype", "big", "sum_of_all"), [("float16", 2048.0, 2056.0), ("bfloat16", 256.0, 264.0)])
def test_halves_are_rounded_once(
    ranks: RankPool, dtype: str, big: float, sum_of_all: float, counts: tuple[int, ...]
) -> None:
    assert ranks.run(8, fold_halves, dtype, big, counts, timeout=100) == [[sum_of_all]] * 8


def fold_special(comm: rt.Communicator) -> dict[str, list[float]]:
    overflow = rt.array(np.full(64, 20000.0, np.float16))
    tiny = rt.array(np.full(64, 6e-8, np.float16))
    wrap = rt.array(np.full(64, 100, np.int8))
    exact = rt.array(np.full(64, 2**53 + 1 if comm.rank == 1 else 0, np.int64))
    negative = rt.array(np.full(64, -3 if comm.rank == 0 else 0, np.int32))
    results = {
        "avg": comm.all_reduce(overflow, np.empty(64, np.float16), op="avg"),
        "sum": comm.all_reduce(overflow, np.empty(64, np.float16)),
        "tiny": comm.all_reduce(tiny, op="avg"),
        "int8": comm.all_reduce(wrap),
        "int64": comm.all_reduce(exact),
        "toward zero": comm.all_reduce(negative, op="avg"),
    }
    return {name: np.unique(x).astype(object).tolist() for name, x in results.items()}


def test_overflow_wrapping_and_averages(ranks: RankPool) -> None:
    tiny = float(np.float16(6e-8))
    want = {
        "avg": [20000.0],
        "sum": [float("inf")],
        "tiny": [tiny],
        "int8": [-112.0],
        "int64": [2**53 + 1],
        "toward zero": [0.0],
    }
    assert ranks.run(4, fold_special) == [want] * 4


def fold_nan(comm: rt.Communicator) -> list[bool]:
    found = []
    for dtype in (np.dtype(np.float32), *HALVES.values()):
        for count in (1, 15, 64):
            for holder in range(comm.size):
                for op in ("max", "min"):
                    x = rt.array(np.arange(count) + comm.rank, dtype)
                    if comm.rank == holder:
                        x[count // 2] = np.nan
                    got = comm.all_reduce(x, op=op)
                    found.append(bool(np.isnan(got[count // 2]) and np.isnan(got).sum() == 1))
    return found


def test_nan_propagates_from_every_rank(ranks: RankPool) -> None:
    assert all(all(found) for found in ranks.run(3, fold_nan))


def results_and_shapes(comm: rt.Communicator) -> list[Any]:
    x = rt.array(np.arange(6.0).reshape(2, 3) + comm.rank)
    plain = np.arange(4) * (comm.rank + 1)
    return [
        comm.all_reduce(x) is x,
        comm.all_gather(x).shape,
        comm.reduce_scatter(rt.zeros((2 * comm.size, 3))).shape,
        comm._memory.holds(comm.all_gather(x)),
        comm._memory.holds(comm.all_gather(plain)),
        comm.all_reduce(np.arange(12).reshape(3, 4)[:, 1]).tolist(),
        comm.all_reduce(np.array(comm.rank)).item(),
        comm.all_reduce(np.arange(6).reshape((2, 3) if comm.rank else (3, 2))).tolist()[1],
        comm.barrier(),
        comm.broadcast(rt.array([comm.rank + 5]), root=1).tolist(),
    ]


def test_results_shapes_and_kinds_of_memory(ranks: RankPool) -> None:
    want = [True, (2, 2, 3), (2, 3), True, False, [2, 10, 18], 1, None, [6]]
    for rank, found in enumerate(ranks.run(2, results_and_shapes)):
        assert found.pop(7) == ([6, 8, 10] if rank else [4, 6])  # shapes are each rank's own: counts must agree
        assert found == want


def gather_in_place(comm: rt.Communicator) -> tuple[list[int], list[int]]:
    gathered = rt.zeros(3 * comm.size, np.int32)
    mine = gathered[3 * comm.rank : 3 * comm.rank + 3]
    mine[...] = np.arange(3) + 10 * comm.rank
    comm.all_gather(mine, gathered)
    scattered = rt.array(np.arange(3 * comm.size, dtype=np.int32) * (comm.rank + 1))
    own = scattered[3 * comm.rank : 3 * comm.rank + 3]
    comm.reduce_scatter(scattered, own)
    return gathered.tolist(), own.tolist()


def test_in_place_forms(ranks: RankPool) -> None:
    for rank, (gathered, own) in enumerate(ranks.run(3, gather_in_place)):
        assert gathered == [0, 1, 2, 10, 11, 12, 20, 21, 22]
        assert own == [6 * i for i in range(3 * rank, 3 * rank + 3)]


def rooted_in_place(comm: rt.Communicator) -> tuple[Any, ...]:
    root, x = 1, rt.array(np.arange(3) + 10 * comm.rank)
    reduced = comm.reduce(x, root=root)
    whole = rt.array(np.arange(3 * comm.size))
    part = whole[3 * root : 3 * root + 3] if comm.rank == root else rt.zeros(3, whole.dtype)
    comm.scatter(whole if comm.rank == root else None, part, root)
    mine = whole[3 * root : 3 * root + 3] if comm.rank == root else rt.array(np.full(3, comm.rank))
    gathered = comm.gather(mine, whole if comm.rank == root else None, root)
    return reduced is x, x.tolist(), part.tolist(), None if gathered is None else gathered.tolist()


def test_rooted_forms_in_place_on_the_root(ranks: RankPool) -> None:
    left, root, right = ranks.run(3, rooted_in_place)
    assert left == (False, [0, 1, 2], [0, 1, 2], None)
    assert root == (True, [30, 33, 36], [3, 4, 5], [0, 0, 0, 3, 4, 5, 2, 2, 2])
    assert right == (False, [20, 21, 22], [6, 7, 8], None)
