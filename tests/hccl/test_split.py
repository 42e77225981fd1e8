"""Communicators of some ranks: who is in them, that they are independent, and that nothing of them is left."""

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt.hccl import Communicator
from ascend_rt.testing import RankPool

pytestmark = pytest.mark.processes


def split_at_random(comm: Communicator, seed: int) -> list[str]:
    """What was wrong: members, ranks and sums of random splits, and of splits of these."""
    dice, wrong = random.Random(seed), []
    for number in range(6):
        colors = [dice.choice([None, 0, 1, -5]) for _ in range(comm.size)]
        keys = [dice.choice([None, 0, -1, 7, 2**40]) for _ in range(comm.size)]
        mine = colors[comm.rank]
        sub = comm.split(mine, keys[comm.rank])
        if mine is None:
            wrong += ["not None"] if sub is not None else []
            continue
        alike = [rank for rank in range(comm.size) if colors[rank] == mine]
        order = sorted(alike, key=lambda rank: (rank if keys[rank] is None else keys[rank], rank))
        assert sub is not None
        expected = (order.index(comm.rank), len(order), tuple(order), f"world_sub_{number + 1}_{mine}")
        if (sub.rank, sub.size, sub.world_ranks, sub.name) != expected:
            wrong.append(f"{sub} {sub.world_ranks} {expected}")
        x = np.arange(300.0) * (comm.rank + 1)
        stream = rt.Stream() if number % 2 else None
        sub.all_reduce(x, stream=stream)
        below = sub.split(sub.rank % 2)
        assert below is not None
        y = below.all_gather(np.array([comm.rank], np.int32))
        if stream is not None:
            stream.synchronize()
        if not np.array_equal(x, np.arange(300.0) * sum(rank + 1 for rank in order)):
            wrong.append(f"sum {x}")
        if y.ravel().tolist() != order[sub.rank % 2 :: 2]:
            wrong.append(f"gathered {y}")
    return wrong


@pytest.mark.parametrize("size", [1, 3, 5])
def test_members_order_and_sums(ranks: RankPool, size: int) -> None:
    assert ranks.run(size, split_at_random, 100 + size) == [[]] * size


def come_and_go(comm: Communicator, times: int) -> tuple[int, int, int]:
    """Of so many communicators: most device memory in use in the second half, in the first; how many boards."""
    in_use, boards = [], set()
    for number in range(times):
        sub = comm.split(number % 2 if comm.rank else 0)
        assert sub is not None
        x = rt.array(np.arange(3000, dtype=np.float32) + comm.rank)
        sub.all_reduce(x)
        sub.all_reduce(np.arange(3000.0))
        assert np.array_equal(x, sum(np.arange(3000, dtype=np.float32) + rank for rank in sub.world_ranks))
        boards.add(sub._group.board)
        if number % 3 == 0:
            sub.destroy()
        del sub
        in_use.append(comm._memory.device.in_use)
    return max(in_use[times // 2 :]), max(in_use[: times // 2]), len(boards)


def test_hundreds_leave_nothing(ranks: RankPool) -> None:
    """Scratch and staging are given back, and so are boards: few are ever used."""
    for second, first, boards in ranks.run(3, come_and_go, 200):
        assert second <= first and boards <= 6


def destroyed(comm: Communicator) -> list[str]:
    sub, said = comm.split(0), []
    assert sub is not None
    stream, x = rt.Stream(), np.ones(2) * comm.rank
    sub.all_reduce(x, stream=stream)
    sub.destroy()
    sub.destroy()
    stream.synchronize()
    try:
        sub.all_reduce(x)
    except RuntimeError as error:
        said.append(str(error))
    comm.all_reduce(x)
    return [*said, str(x.tolist())]


def test_destroy(ranks: RankPool) -> None:
    """What was queued still runs; later calls are refused; the parent goes on."""
    refused, sums = ranks.run(2, destroyed)[0]
    assert "destroyed" in refused and sums == "[2.0, 2.0]"


def refusals(comm: Communicator) -> list[tuple[str, tuple[int, ...]]]:
    said = []
    for color, key in (("a", None), (0, 2**63), (1.5, None)):
        try:
            comm.split(color if comm.rank == 1 else 0, key)  # type: ignore[arg-type]
        except rt.HcclError as error:
            said.append((error.name, error.ranks))
    comm.barrier()
    return said


def test_a_wrong_color_is_told_to_all(ranks: RankPool) -> None:
    wrong = [("HCCL_E_PARA", (1,)), ("HCCL_E_PARA", (0, 1)), ("HCCL_E_PARA", (1,))]
    assert ranks.run(2, refusals) == [wrong, wrong]


def settings_that_differ(comm: Communicator) -> str:
    os.environ["HCCL_BUFFSIZE"] = str(100 + comm.rank)
    from ascend_rt import settings
    from ascend_rt.hccl.groups import Place, form

    try:
        form(comm._membership, comm._memory, settings.read(), Place("differ", comm.rank, comm.size), "another")
    except rt.HcclError as error:
        return str(error)
    return "no error"


def test_settings_are_compared(ranks: RankPool) -> None:
    for said in ranks.run(2, settings_that_differ):
        assert 'HCCL_E_PARA (1), EI0016: communicator "another": ' in said
        assert "HCCL_BUFFSIZE=100" in said and "HCCL_BUFFSIZE=101" in said


DEATH = """
import os, signal, sys
import numpy as np
import ascend_rt as rt
comm = rt.init()
with_it, without = comm.split(0 if comm.rank in (0, 3) else None), comm.split(0 if comm.rank in (1, 0, 2) else None)
if comm.rank == 3:
    os.kill(os.getpid(), signal.SIGKILL)
x = np.arange(2000.0)
for each in (with_it, comm):
    if each is not None:
        try:
            each.all_reduce(x)
        except rt.HcclError as error:
            print(each.name, error.name, error.ranks, str(error).splitlines()[0].split(": ", 1)[1], flush=True)
y = np.ones(3) * comm.rank
without.all_reduce(y)
print(y.tolist())
"""


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], Path]:
    def write(source: str) -> Path:
        path = tmp_path / "program.py"
        path.write_text(source)
        return path

    return write


def test_a_death_ends_the_communicators_it_is_in(ranks: RankPool, program: Callable[[str], Any]) -> None:
    """And no other: the ranks of one without the dead rank go on with it."""
    ended = ranks.hccl_run(["-n", "4", "--no-prefix", str(program(DEATH))])
    assert ended.exit_code == 128 + signal.SIGKILL
    lines = sorted(ended.stdout.splitlines())
    world = [line for line in lines if line.startswith("world HCCL_E_REMOTE (3,) all_reduce #")]
    (sub,) = (line for line in lines if line.startswith("world_sub_1_0 HCCL_E_REMOTE (1,) all_reduce #"))
    assert len(world) == 3 and all("rank 3 died: killed by signal 9 (SIGKILL)" in line for line in world)
    assert 'group "world_sub_1_0"' in sub and "rank 1 (rank 3 of the job) died: killed by signal 9 (SIGKILL)" in sub
    assert [line for line in lines if line.startswith("[")] == ["[3.0, 3.0, 3.0]"] * 3
