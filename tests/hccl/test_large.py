"""More than 2**31 elements in one call: counts, offsets and sizes of 32 bits would show. Of int8, of few ranks."""

import numpy as np
import psutil
import pytest

import ascend_rt as rt
from ascend_rt.testing import RankPool

pytestmark = [pytest.mark.processes, pytest.mark.thorough]

MANY = 2**31 + 3
TAIL = 32


@pytest.fixture
def memory() -> None:
    """Two arrays of MANY bytes, and room for whoever works on this machine besides."""
    if psutil.virtual_memory().available < 3 * MANY:
        pytest.skip(f"this takes {3 * MANY} bytes of memory")


def marked(rank: int) -> "np.ndarray[tuple[int], np.dtype[np.int8]]":
    """Zeros, which cost nothing until they are touched, but for both ends."""
    x = np.zeros(MANY, np.int8)
    x[:TAIL] = np.arange(TAIL) + rank
    x[-TAIL:] = np.arange(TAIL)[::-1] + 10 * rank
    return x


def all_reduce(comm: rt.Communicator) -> tuple[list[int], list[int]]:
    x = marked(comm.rank)
    comm.all_reduce(x)
    return x[:TAIL].tolist(), x[-TAIL:].tolist()


def test_all_reduce(ranks: RankPool, memory: None) -> None:
    want = [2 * place + 1 for place in range(TAIL)], [2 * place + 10 for place in reversed(range(TAIL))]
    assert ranks.run(2, all_reduce, timeout=100) == [want] * 2


def send(comm: rt.Communicator) -> tuple[list[int], list[int]]:
    x = marked(3) if comm.rank == 0 else np.zeros(MANY, np.int8)
    comm.send(x, 1) if comm.rank == 0 else comm.recv(x, 0)
    return x[:TAIL].tolist(), x[-TAIL:].tolist()


def test_a_message(ranks: RankPool, memory: None) -> None:
    want = [place + 3 for place in range(TAIL)], [place + 30 for place in reversed(range(TAIL))]
    assert ranks.run(2, send, timeout=100) == [want] * 2


def gather(comm: rt.Communicator) -> list[int] | None:
    """It is the product of count and ranks that is large: the blocks repeat one element."""
    count = 2**29 + 7
    gathered = comm.gather(np.broadcast_to(np.int8(comm.rank + 1), count), root=3)
    if gathered is None:
        return None
    whole = gathered.reshape(-1)
    return [int(whole[place]) for block in range(4) for place in (block * count, (block + 1) * count - 1)]


def test_a_gather_of_many_blocks(ranks: RankPool, memory: None) -> None:
    assert ranks.run(4, gather, timeout=100) == [None, None, None, [1, 1, 2, 2, 3, 3, 4, 4]]


def all_to_all_v(comm: rt.Communicator) -> list[int]:
    """Displacements behind 2**31 on both sides."""
    x, out = marked(comm.rank), np.zeros(MANY, np.int8)
    counts, starts = [TAIL // 2] * 2, [0, MANY - TAIL]
    comm.all_to_all_v(x, counts, out, counts, starts, starts)
    return [*out[: TAIL // 2].tolist(), *out[starts[1] : starts[1] + TAIL // 2].tolist(), int(out[-1])]


def test_displacements(ranks: RankPool, memory: None) -> None:
    half = TAIL // 2
    first = [place + rank for rank in (0, 1) for place in range(half)]
    second = [TAIL - 1 - place + 10 * rank for rank in (0, 1) for place in range(half)]
    assert ranks.run(2, all_to_all_v, timeout=100) == [[*first, 0], [*second, 0]]
