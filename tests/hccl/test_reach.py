"""Plain arrays that are large are read and stored where they lie, through the kernel, if every rank may do so."""

import ctypes
import os
import re
import signal
import struct
import threading
import time
from typing import Any

import numpy as np
import psutil
import pytest

import ascend_rt as rt
from ascend_rt.plan.choice import TABLE, Row
from ascend_rt.plan.registry import names
from ascend_rt.testing import RankPool

pytestmark = pytest.mark.processes

Array = np.ndarray[Any, Any]
KINDS = ("all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all", "scatter", "gather")
NUMBERS = {"x86_64": (310, 311), "aarch64": (270, 271)}  # process_vm_readv, process_vm_writev


def values(rank: int, count: int) -> Array:
    return np.random.default_rng([count, rank]).integers(-1000, 1000, count).astype(np.float32)


def unset(shape: tuple[int, ...], direct: bool) -> Array:
    """Memory that is free again may hold the right values from before."""
    out = (rt.empty if direct else np.empty)(shape, np.float32)
    out[...] = np.nan
    return out


def expected(kind: str, rank: int, size: int, count: int) -> Array | None:
    every = np.array([values(r, count) for r in range(size)])
    mine = slice(rank * count // size, (rank + 1) * count // size)
    match kind:
        case "all_reduce":
            return every.sum(0)
        case "reduce":
            return every.sum(0) if rank == 1 else None
        case "broadcast":
            return every[1]
        case "all_gather":
            return every.ravel()
        case "gather":
            return every.ravel() if rank == 1 else None
        case "reduce_scatter":
            return every.sum(0)[mine]
        case "scatter":
            return every[1, mine]
        case _:
            return every[:, mine].ravel()


def call(comm: rt.Communicator, kind: str, count: int, direct: bool) -> str:
    """What is wrong with the result, or nothing."""
    x = (rt.array if direct else np.array)(values(comm.rank, count))
    wanted = expected(kind, comm.rank, comm.size, count)
    out = None if wanted is None else unset(wanted.shape, direct)
    keywords: dict[str, Any] = {"root": 1} if kind in ("reduce", "broadcast", "scatter", "gather") else {}
    if kind != "broadcast":
        keywords["out"] = out
    result = getattr(comm, kind)(x, **keywords)
    if wanted is None or np.array_equal(np.ravel(result), wanted):
        return ""
    return f"{kind} of {count}, direct {direct}: {np.ravel(result)} is not {wanted}"


def every_algorithm(comm: rt.Communicator) -> list[tuple[list[str], int]]:
    """Each on a communicator of its own, since one chooses but once for a kind of call."""
    found, count = [], comm.size * 7_003
    for turn in range(max(len(names(kind)) for kind in KINDS)):
        part = comm.split(0)
        assert part is not None
        part._table = (*(Row(kind, sorted(names(kind))[turn % len(names(kind))]) for kind in KINDS), *TABLE)
        wrong = [
            call(part, kind, count, direct)
            for kind in KINDS
            for direct in (False, part.rank == 0, part.rank != 0)
        ]
        found.append(([said for said in wrong if said], part._statistics()["reached_nbytes"]))
        part.destroy()
    return found


@pytest.mark.parametrize("size", [2, 3, pytest.param(5, marks=pytest.mark.thorough)])
def test_every_algorithm_reaches_plain_arrays(ranks: RankPool, size: int) -> None:
    # 1 KiB pieces: what is reached goes in many tiles.
    environ = {"ASCEND_RT_REACH_KIB": "1", "ASCEND_RT_PIECE_KIB": "1"}
    for turns in ranks.run(size, every_algorithm, environ=environ):
        assert all(wrong == [] and reached > 0 for wrong, reached in turns)


def exchange_of_differing_blocks(comm: rt.Communicator) -> int:
    """Rank i sends 300 (i + 1) + 7 j elements to rank j; some ranks have device memory."""
    counts = np.array([[300 * (i + 1) + 7 * j for j in range(comm.size)] for i in range(comm.size)])
    every = [values(rank, int(counts[rank].sum())) for rank in range(comm.size)]
    starts = np.cumsum(counts, 1) - counts
    expected = [every[i][starts[i, comm.rank] :][: counts[i, comm.rank]] for i in range(comm.size)]
    sent, received = counts[comm.rank].tolist(), counts[:, comm.rank].tolist()
    for plain in (True, comm.rank == 1, comm.rank != 1):
        x = (np.array if plain else rt.array)(every[comm.rank])
        out = unset((sum(received),), not plain)
        comm.all_to_all_v(x, sent, out, received)
        assert np.array_equal(out, np.concatenate(expected))
        blocks = np.full(comm.size, 500) + np.arange(comm.size)
        total = int(blocks.sum())
        part = unset((500 + comm.rank,), not plain)
        contributions = [values(rank, total) for rank in range(comm.size)]
        own = (np.array if plain else rt.array)(contributions[comm.rank])
        comm.reduce_scatter_v(own, part, blocks.tolist())
        start = int(blocks[: comm.rank].sum())
        assert np.array_equal(part, np.sum(contributions, 0)[start:][: 500 + comm.rank])
    reached: int = comm._statistics()["reached_nbytes"]
    return reached


def test_blocks_that_differ_in_count_are_reached_too(ranks: RankPool) -> None:
    environ = {"ASCEND_RT_REACH_KIB": "1", "ASCEND_RT_PIECE_KIB": "1"}
    assert all(reached > 0 for reached in ranks.run(3, exchange_of_differing_blocks, environ=environ))


def small_and_large(comm: rt.Communicator) -> list[int]:
    reached = []
    for nbytes in (64 << 10, 32 << 10, 64 << 10, 1 << 20):
        x = values(comm.rank, nbytes // 4)
        comm.all_reduce(x)
        assert np.array_equal(x, expected("all_reduce", comm.rank, comm.size, nbytes // 4))
        reached.append(comm._statistics()["reached_nbytes"])
    return reached


def test_a_small_call_is_staged_all_the_same(ranks: RankPool) -> None:
    # The first call finds out and the second is too small.  Half of x is read from the peer, and half is stored there.
    environ = {"ASCEND_RT_REACH_KIB": "64", "ASCEND_RT_PIECE_KIB": "512"}
    kib = 1 << 10
    assert ranks.run(2, small_and_large, environ=environ) == [[0, 0, 64 * kib, (64 + 1024) * kib]] * 2


def refuse_reaching() -> None:
    """From now on the kernel answers this thread's process_vm_readv and process_vm_writev with EPERM."""
    load, equal, answer = 0x20, 0x15, 0x06
    read, write = NUMBERS[os.uname().machine]
    program = b"".join(
        struct.pack("=HBBI", *instruction)
        for instruction in (
            (load, 0, 0, 0),
            (equal, 2, 0, read),
            (equal, 1, 0, write),
            (answer, 0, 0, 0x7FFF0000),  # allow
            (answer, 0, 0, 0x00050001),  # EPERM
        )
    )
    code = ctypes.create_string_buffer(program, len(program))
    filter_ = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    assert libc.prctl(22, 2, filter_, 0, 0) == 0  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER


def refused_on_rank_1(comm: rt.Communicator, after: int) -> tuple[list[str], int]:
    said = []
    for turn in range(4):
        if comm.rank == 1 and turn == after:
            refuse_reaching()
        try:
            said.append(call(comm, "all_reduce", 1 << 15, False))
        except rt.HcclError as error:
            said.append(f"{error.name}: {error}")
    return said, comm._statistics()["reached_nbytes"]


@pytest.mark.skipif(os.uname().machine not in NUMBERS, reason="system call numbers of x86-64 and aarch64 only")
def test_where_one_rank_may_not_all_stage(ranks: RankPool) -> None:
    assert ranks.run(3, refused_on_rank_1, 0) == [([""] * 4, 0)] * 3


@pytest.mark.skipif(os.uname().machine not in NUMBERS, reason="system call numbers of x86-64 and aarch64 only")
def test_a_permission_that_is_withdrawn_ends_the_communicator(ranks: RankPool) -> None:
    for said, reached in ranks.run(3, refused_on_rank_1, 2):
        assert said[:2] == ["", ""] and reached > 0
        for words in said[2:]:
            assert words.startswith("HCCL_E_SYSCALL: ")
            assert re.search("rank 1 may not read or store the memory of rank [02] any more", words)
            assert "ASCEND_RT_REACH_KIB=0" in words


def killed_before_it_is_reached(comm: rt.Communicator) -> None:
    """Rank 0 is stopped when all have committed; rank 1, which has done its part, is killed before rank 0 goes on."""
    x, pids = values(comm.rank, 1 << 16), comm.all_gather(np.array([os.getpid()])).ravel().tolist()
    for _ in range(2):  # then all know that all can be reached
        comm.all_reduce(x)
    if comm.rank == 0:
        comm._stop_when_committed()
    if comm.rank == 2:
        threading.Thread(target=kill_1_while_0_is_stopped, args=(comm, pids)).start()
    with pytest.raises(rt.HcclError) as error:
        comm.all_reduce(x)
    print(comm.rank, error.value.name, error.value.ranks)


def kill_1_while_0_is_stopped(comm: rt.Communicator, pids: list[int]) -> None:
    first, state = psutil.Process(pids[0]), comm._membership.segment.rank_line
    while first.status() != psutil.STATUS_STOPPED or state(1).waits_for < 0:
        time.sleep(0.001)
    os.kill(pids[1], signal.SIGKILL)
    while psutil.pid_exists(pids[1]) and psutil.Process(pids[1]).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.001)
    os.kill(pids[0], signal.SIGCONT)


def test_a_rank_that_died_is_named_by_who_would_have_reached_it(ranks: RankPool) -> None:
    ended = ranks.end_of(3, killed_before_it_is_reached)
    assert sorted(ended.stdout.splitlines()) == ["0 HCCL_E_REMOTE (1,)", "2 HCCL_E_REMOTE (1,)"], ended
    assert ended.exit_code == 137
