"""Collectives whose blocks differ in count, against NumPy; tables that do not agree, and tables that are wrong."""

import random
import re
from typing import Any

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt.plan.split import SPLIT
from ascend_rt.testing import RankPool

pytestmark = pytest.mark.processes

Array = np.ndarray[Any, Any]
BORDER = 77


def data(rank: int, count: int, dtype: Any) -> Array:
    return ((np.arange(count) * 7 + rank * 31) % 50).astype(dtype)


def buffer(own: np.random.Generator, count: int, dtype: Any) -> tuple[Array, Array]:
    """(array of `count` elements in memory of any kind, all of that memory), filled with BORDER."""
    step, offset = int(own.integers(1, 3)), int(own.integers(4))
    base = (rt.empty if own.integers(2) else np.empty)(step * count + 8, dtype)
    base[...] = BORDER
    return base[offset : offset + step * count : step][:count], base


def spread(own: np.random.Generator, counts: list[int]) -> list[int]:
    """Displacements of blocks in any order, with gaps."""
    starts, at = [0] * len(counts), 0
    for block in own.permutation(len(counts)):
        starts[block] = at = at + int(own.integers(3))
        at += counts[block]
    return starts


def fold(parts: list[Array], op: str) -> Array:
    return np.array(getattr(np, {"sum": "add", "max": "maximum", "min": "minimum"}[op]).reduce(parts), parts[0].dtype)


def random_split(comm: rt.Communicator, common: np.random.Generator, own: np.random.Generator, stream: Any) -> str:
    size, rank = comm.size, comm.rank
    name, op = str(common.choice(sorted(SPLIT))), str(common.choice(["sum", "max", "min"]))
    dtype = common.choice([np.int32, np.float32, np.uint8, np.float64])
    most = int(common.choice([1, 5, 300, 2000]))
    table = common.integers(0, most + 1, (size, size))
    table[common.integers(size)] = 0  # a silent rank
    table = np.where(common.integers(0, 4, (size, size)) == 0, 0, table)
    if name == "all_gather_v":
        table[...] = table[:, :1]
    elif name == "reduce_scatter_v":
        table[...] = table[:1]
    sent, received = table[rank].tolist(), table[:, rank].tolist()
    gaps = bool(common.integers(2)) and name != "all_to_all_vc"
    starts = spread(own, sent) if gaps else np.cumsum([0, *sent[:-1]]).tolist()
    ends = spread(own, received) if gaps else np.cumsum([0, *received[:-1]]).tolist()
    parts = {peer: [data(peer * 100 + to, int(table[peer, to]), dtype) for to in range(size)] for peer in range(size)}
    x_count, out_count = max(map(sum, zip(sent, starts, strict=True))), max(map(sum, zip(received, ends, strict=True)))
    x_count, out_count = x_count + 2 * gaps, out_count + 2 * gaps
    if name == "all_gather_v":
        x_count, parts = sent[0], {peer: [data(peer, int(table[peer, 0]), dtype)] * size for peer in range(size)}
    elif name == "reduce_scatter_v":
        out_count = sent[rank]
    x, x_base = buffer(own, x_count, dtype)
    out, out_base = buffer(own, out_count, dtype)
    for block, start in zip(parts[rank], [0] if name == "all_gather_v" else starts, strict=name != "all_gather_v"):
        x[start : start + len(block)] = block
    x_before, want = x_base.copy(), out.copy()
    displs = {"displs": (ends if name == "all_gather_v" else starts) if gaps else None}
    match name:
        case "all_gather_v":
            comm.all_gather_v(x, out, received, stream=stream, **displs)
        case "reduce_scatter_v":
            comm.reduce_scatter_v(x, out, sent, op, stream=stream, **displs)
            want[...] = fold([parts[peer][rank] for peer in range(size)], op)
        case "all_to_all_v" if gaps:
            comm.all_to_all_v(x, sent, out, received, starts, ends, stream=stream)
        case "all_to_all_v":
            comm.all_to_all_v(x, sent, out, received, stream=stream)
        case _:
            comm.all_to_all_vc(x, table.tolist(), out, stream=stream)
    if stream is not None:
        stream.synchronize()
    if name != "reduce_scatter_v":
        for peer, start in enumerate(ends):
            want[start : start + received[peer]] = parts[peer][rank]
    right = np.array_equal(out, want) and np.array_equal(x_base, x_before)
    out[...] = BORDER
    right = right and bool((out_base == BORDER).all())
    return "" if right else f"rank {rank}: {name} {np.dtype(dtype)} {op} {table.tolist()} gaps={gaps}"


def random_splits(comm: rt.Communicator, seed: int, cases: int) -> list[str]:
    common, own = np.random.default_rng(seed), np.random.default_rng([seed, comm.rank])
    stream = rt.Stream()
    said = [random_split(comm, common, own, stream if common.integers(2) else None) for _ in range(cases)]
    assert comm._statistics()["late_sleeps"] == 0
    return [words for words in said if words]


@pytest.mark.parametrize("size", [1, 2, 5])
def test_random_splits(ranks: RankPool, size: int) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    assert ranks.run(size, random_splits, seed, 60, environ={"ASCEND_RT_PIECE_KIB": "1"}) == [[]] * size


@pytest.mark.thorough
@pytest.mark.parametrize("size", range(1, 10))
def test_many_random_splits(ranks: RankPool, size: int) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    for kib in ("1", "512"):
        environ = {"ASCEND_RT_PIECE_KIB": kib}
        assert ranks.run(size, random_splits, seed, 150, environ=environ, timeout=60) == [[]] * size


def told(call: Any, *arguments: Any) -> tuple[str, tuple[int, ...], str]:
    with pytest.raises(rt.HcclError) as caught:
        call(*arguments)
    assert caught.value.code == 1
    return caught.value.ei, caught.value.ranks, re.sub(r" +<- this rank", "", str(caught.value))


def disagreements(comm: rt.Communicator) -> list[Any]:
    """Rank 1 says that it sends 2 elements to rank 0, which expects 3."""
    x, out, stories = rt.array(np.arange(20.0)), rt.zeros(20, np.float64), []
    sent = [2, 3, 3] if comm.rank == 1 else [3, 3, 3]
    stories.append(told(comm.all_to_all_v, x[: sum(sent)], sent, out[:9], [3, 3, 3]))
    counts = [4, 4, 4] if comm.rank < 2 else [4, 5, 3]
    stories.append(told(comm.all_gather_v, x[: counts[comm.rank]], out[:12], counts))
    stories.append(told(comm.reduce_scatter_v, x[:12], out[: counts[comm.rank]], counts))
    table = np.full((3, 3), 2)
    table[0, 2] += comm.rank == 0
    stories.append(told(comm.all_to_all_vc, x[: table[comm.rank].sum()], table, out[:6]))
    bad = {0: [3, 3, -3], 1: [3, 3], 2: [3, 3, 4]}[comm.rank]
    stories.append(told(comm.all_to_all_v, x[:9], bad, out[:9], [3, 3, 3]))
    stories.append(told(comm.all_to_all_v, x[:9], [3] * 3, out[:9], [3] * 3, None, [0, 2, 6]))
    assert not out.any()
    comm.all_to_all_v(x[:9], [3] * 3, out[:9], [3] * 3)
    assert out[:9].tolist() == np.tile(x[3 * comm.rank : 3 * comm.rank + 3], 3).tolist()
    return stories


def test_tables_that_do_not_agree_name_the_pair_and_both_numbers(ranks: RankPool) -> None:
    stories = ranks.run(3, disagreements)
    assert stories[0] == stories[1] == stories[2]
    every, gather, scatter, matrix, bad, overlap = stories[0]
    for (ei, culprits, text), pair, sent, expected in (
        (every, (1, 0), 2, 3),
        (gather, (1, 2), 4, 5),
        (scatter, (0, 2), 4, 3),
        (matrix, (0, 2), 3, 2),
    ):
        assert (ei, culprits) == ("EI0005", pair)
        assert f"rank {pair[0]} sends {sent} elements to rank {pair[1]}, which expects {expected}\n" in text
        for rank in range(3):
            assert re.search(rf"\n  rank {rank} \(test_splits.py:\d+\)  \w+_vc? dtype=float64", text), text
    assert bad[:2] == ("EI0003", (0, 1, 2)) and "expected none below 0" in bad[2] and "add up to 6" in bad[2]
    assert overlap[:2] == ("EI0003", (0, 1, 2)) and "blocks of out overlap" in overlap[2]


def in_place(comm: rt.Communicator) -> None:
    counts = [3, 0, 5]
    start = sum(counts[: comm.rank])
    own = slice(start, start + counts[comm.rank])
    for make in (rt.zeros, np.zeros):
        out = make(8, np.int64)
        out[own] = data(comm.rank, counts[comm.rank], np.int64)
        comm.all_gather_v(out[own], out, counts)
        assert out.tolist() == np.concatenate([data(rank, counts[rank], np.int64) for rank in range(3)]).tolist()
        x = make(8, np.int64)
        x[...] = np.arange(8) + comm.rank
        comm.reduce_scatter_v(x, x[own], counts, "sum")
        assert x[own].tolist() == (3 * np.arange(8) + 3)[own].tolist()
    x = rt.zeros(8, np.int64)
    with pytest.raises(rt.HcclError, match="x and out overlap; expected separate memory: there is no in-place form"):
        comm.all_to_all_v(x[:3], [1, 1, 1], x[2:5], [1, 1, 1])


def test_in_place_forms(ranks: RankPool) -> None:
    ranks.run(3, in_place)


def huge(comm: rt.Communicator) -> None:
    """More elements than 2**31 in addresses alone: an array that repeats one element."""
    x = np.broadcast_to(np.zeros(1, np.int8), 2**31 + 5)
    comm.all_to_all_v(x, [7], out := rt.zeros(7, np.int8), [7], [2**31 - 2])
    assert not out.any()
    with pytest.raises(rt.HcclError, match="ends behind its 2147483653 elements"):
        comm.all_to_all_v(x, [8], rt.zeros(8, np.int8), [8], [2**31 - 2])
    with pytest.raises(rt.HcclError, match=r"x has 1 elements; expected counts\[0\]=9223372036854775808"):
        comm.all_gather_v(x[:1], x[:1].copy(), [2**63])


def test_displacements_beyond_two_to_the_31(ranks: RankPool) -> None:
    ranks.run(1, huge)
