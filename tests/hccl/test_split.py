"""Communicators of some ranks: who is in them, that they are independent, and that nothing of them is left."""

import os
import random
import re
import resource
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt.hccl import Communicator
from ascend_rt.testing import RankPool

from ..limits import give_up_after_a_second

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


def come_and_go(comm: Communicator, times: int) -> tuple[int, int, int, bool]:
    """Of so many communicators: most device memory in use in the second half, in the first; how many boards; whether
    the process has as many descriptors and threads as before."""
    in_use, boards, before = [], set(), held()
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
    return max(in_use[times // 2 :]), max(in_use[: times // 2]), len(boards), held() == before


def held() -> tuple[int, int]:
    """Open descriptors and threads of this process."""
    of_descriptors, of_threads = (len(list(Path("/proc/self", folder).iterdir())) for folder in ("fd", "task"))
    return of_descriptors, of_threads


def test_hundreds_leave_nothing(ranks: RankPool) -> None:
    """Scratch and staging are given back, and so are boards: few are ever used."""
    for second, first, boards, as_before in ranks.run(3, come_and_go, 200):
        assert second <= first and boards <= 6 and as_before


def many_at_once(comm: Communicator, count: int) -> bool:
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    alive, before = [comm.split(0) for _ in range(count)], held()
    for number, each in enumerate(alive):
        assert each is not None
        x = np.arange(3.0) + number
        each.all_reduce(x)
        assert x.tolist() == [comm.size * (number + place) for place in range(3)]
    return held() == before


@pytest.mark.parametrize("count", [30, pytest.param(200, marks=pytest.mark.thorough)])
def test_many_at_once_need_no_files(ranks: RankPool, count: int) -> None:
    assert ranks.run(4, many_at_once, count) == [True] * 4


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


def ends_one_by_one(world: Communicator) -> list[float]:
    """One of a pair is destroyed, then the communicator that all came from; the others work on."""
    pair, every = world.split(world.rank // 2), world.split(0, -world.rank)
    assert pair is not None and every is not None
    sums = []
    if world.rank < 2:
        pair.destroy()
    else:
        sums.append(pair.all_reduce(np.array([float(world.rank)]))[0])
    sums.append(world.all_reduce(np.array([1.0]))[0])
    world.destroy()
    sums.append(every.all_reduce(np.array([10.0 ** world.rank]))[0])
    return sums


def test_the_end_of_one_leaves_the_others(ranks: RankPool) -> None:
    assert ranks.run(4, ends_one_by_one) == [[4.0, 1111.0]] * 2 + [[5.0, 4.0, 1111.0]] * 2


def overlapping(world: Communicator) -> tuple[str, str]:
    """Ranks 0 to 2 and 1 to 3, with calls queued in another order by each rank; then each has a call that disagrees."""
    left, right = (world.split(0 if low <= world.rank < low + 3 else None) for low in (0, 1))
    if world.rank == 0:
        world.send(np.ones(2), 3)
    elif world.rank == 3:
        world.recv(np.ones(2), 0)
    both = [each for each in (left, right) if each is not None]
    queued = [(each, rt.Stream(), np.arange(500.0) + world.rank) for each in both]
    for each, stream, x in queued if world.rank == 1 else queued[::-1]:
        each.all_reduce(x, stream=stream)
    for each, stream, x in queued:
        stream.synchronize()
        assert np.array_equal(x, each.size * np.arange(500.0) + sum(each.world_ranks))
    stories = {}
    for each, _, x in queued:
        with pytest.raises(rt.HcclError) as caught:
            each.all_reduce(x[: 5 + (each.rank == 2)])
        stories[each.name] = str(caught.value).splitlines()[0]
    return stories.get("world_sub_1_0", ""), stories.get("world_sub_2_0", "")


def test_calls_of_communicators_that_share_ranks_pass_one_another(ranks: RankPool) -> None:
    """And each counts its own: the second call of one is the second, whatever was called elsewhere."""
    told = ranks.run(4, overlapping)
    for place, name in ((0, "world_sub_1_0"), (1, "world_sub_2_0")):
        stories = {each[place] for each in told if each[place]}
        (story,) = stories
        assert f'all_reduce #2 of group "{name}": the ranks do not agree on count' in story


def crossing(world: Communicator) -> str:
    """Ranks 1 and 2 block in two communicators that both are in, in another order."""
    left, right = (world.split(0 if low <= world.rank < low + 3 else None) for low in (0, 1))
    first = left if world.rank < 2 else right
    assert first is not None
    give_up_after_a_second(first)
    with pytest.raises(rt.HcclError) as caught:
        first.all_reduce(np.ones(3))
    world.barrier()  # who has failed keeps both until all have, or others would be told that it destroyed one
    return str(caught.value)


@pytest.mark.thorough
def test_calls_that_block_one_another_end_in_time_and_tell_who_waits_where(ranks: RankPool) -> None:
    for number, story in enumerate(ranks.run(4, crossing)):
        assert f'group "world_sub_{1 + (number > 1)}_0"' in story and "did not arrive within 1 s" in story
        assert len(re.findall(r"\n  rank \d \(rank \d of the job\)  ", story)) == 3


def a_thread_each(world: Communicator, threads: int, calls: int) -> list[str]:
    """Each thread with a communicator of its own."""
    wrong: list[str] = []

    def work(number: int, comm: Communicator) -> None:
        for call in range(calls):
            x = np.arange(20.0) * number + call + world.rank
            comm.all_reduce(x)
            if not np.array_equal(x, world.size * (np.arange(20.0) * number + call) + sum(range(world.size))):
                wrong.append(f"thread {number} call {call}: {x}")

    made = [world.split(0) for _ in range(threads)]
    started = [threading.Thread(target=work, args=(number, each)) for number, each in enumerate(made)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return wrong


@pytest.mark.parametrize("calls", [40, pytest.param(500, marks=pytest.mark.thorough)])
def test_threads_with_communicators_of_their_own(ranks: RankPool, calls: int) -> None:
    assert ranks.run(2, a_thread_each, 4, calls) == [[]] * 2


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
