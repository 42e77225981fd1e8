"""HCCL_BUFFSIZE bounds what a communicator takes for itself, and a small one makes calls slower, not wrong."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import ascend_rt as rt
from ascend_rt import hccl, settings
from ascend_rt.hccl.buffers import buffers, scratch_nbytes
from ascend_rt.plan.choice import TABLE, Row
from ascend_rt.plan.collectives import COLLECTIVES
from ascend_rt.plan.registry import build, names
from ascend_rt.testing import RankPool

MIB = 1 << 20


@pytest.mark.proof
@given(st.integers(1, 4096), st.integers(1, 512), st.integers(1, 1 << 20), st.lists(st.integers(1, 1 << 31)))
@example(1, 2, 128, [21441, 109632, 219265])
@example(1, 2, 128, [65535, 131071, 262143])
def test_the_parts_are_no_more_than_the_whole(mib: int, size: int, piece_kib: int, needs: list[int]) -> None:
    given_by = settings.read({"HCCL_BUFFSIZE": str(mib), "ASCEND_RT_PIECE_KIB": str(piece_kib)})
    parts, scratch, taken = buffers(given_by, size), 0, 0
    for needed in (min(need, parts.scratch) for need in needs):
        if needed > scratch:
            scratch = scratch_nbytes(needed, parts.scratch)
            taken += scratch
    assert 2 * parts.piece + taken + size * parts.channel <= mib * MIB
    assert parts.piece >= 64 * size and parts.channel >= 128


@pytest.mark.proof
def test_by_default_the_pieces_are_as_large_as_is_fast() -> None:
    parts = buffers(settings.read({}), 64)
    assert (parts.piece, parts.channel, parts.scratch) == (512 << 10, 128 << 10, 50 * MIB)


KINDS = ("all_reduce", "reduce", "all_gather", "reduce_scatter", "broadcast")
TYPES = ("float64", "int64", "float32", "int32", "int16")


def with_scratch() -> list[tuple[str, str, str]]:
    """Collective, algorithm and a dtype of its own, since a communicator chooses but once for each dtype."""
    found = []
    for kind in KINDS:
        root = int(COLLECTIVES[kind].rooted)
        algorithms = [name for name in sorted(names(kind)) if build(kind, name, 0, 3, root).scratch]
        found += [(kind, *pair) for pair in zip(algorithms, TYPES, strict=False)]
    return found


def call_all(comm: rt.Communicator, kinds: list[tuple[str, str, str]]) -> tuple[int, list[str]]:
    """Bytes that the communicator took, and the calls whose results were wrong."""
    count, wrong, before = 3 * 70_001, [], comm._memory.device.in_use
    every = np.random.default_rng(5).integers(-99, 99, (comm.size, count)).astype(np.float64)
    block = slice(comm.rank * count // 3, (comm.rank + 1) * count // 3)
    expected: dict[str, Any] = {
        "all_reduce": every.sum(0),
        "reduce": every.sum(0),
        "all_gather": every,
        "reduce_scatter": every.sum(0)[block],
        "broadcast": every[1],
    }
    for kind, name, dtype in kinds:
        comm._table = (Row(kind, name), *TABLE)
        for staged in (False, comm.rank == 1):
            x = (np.array if staged else rt.array)(every[comm.rank], dtype)
            out = getattr(comm, kind)(x, **({"root": 1} if kind in ("reduce", "broadcast") else {}))
            if out is not None and not np.array_equal(np.reshape(out, np.shape(expected[kind])), expected[kind]):
                wrong.append(f"{kind} {name} staged={staged}")
            del x, out
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    received = np.empty(count)
    comm.batch_send_recv([hccl.Send(every[comm.rank], right), hccl.Recv(received, left)])
    if not np.array_equal(received, every[left]):
        wrong.append("batch_send_recv")
    return comm._memory.device.in_use - before, wrong


@pytest.mark.processes
def test_buffsize_bounds_staging_and_scratch_as_a_whole(ranks: RankPool) -> None:
    kinds = with_scratch()
    assert kinds
    for environ, most in (({"HCCL_BUFFSIZE": "1"}, MIB), ({}, 200 * MIB)):
        for taken, wrong in ranks.run(3, call_all, kinds, environ=environ):
            assert wrong == []
            assert 0 < taken <= most
