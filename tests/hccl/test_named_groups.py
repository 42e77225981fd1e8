"""hccl.manage.api and hccl.split.api: groups by name, and how gradients are cut into segments."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt import hccl
from ascend_rt.hccl.gradient_segments import Segments, segments_of
from ascend_rt.hccl.manage import api
from ascend_rt.hccl.split.api import set_split_strategy_by_idx, set_split_strategy_by_size
from ascend_rt.testing import RankPool

pytestmark = pytest.mark.processes

WORLD = "hccl_world_group"


def groups(comm: rt.Communicator) -> None:
    assert (api.get_rank_size(), api.get_rank_id(), api.get_local_rank_size()) == (4, comm.rank, 4)
    assert (api.get_local_rank_id(), api.get_world_rank_from_group_rank(WORLD, 2)) == (comm.rank, 2)
    comm.servers, comm._servers = (0, 0, 1, 1), ((0, 1), (2, 3))  # as a rank table says
    members = [3, 0, 2] if comm.rank != 1 else [1]
    name = "three of them" if comm.rank != 1 else "alone"
    api.create_group(name, len(members), members)
    rank = members.index(comm.rank)
    assert (api.get_rank_size(name), api.get_rank_id(name)) == (len(members), rank)
    assert [api.get_world_rank_from_group_rank(name, each) for each in range(len(members))] == members
    assert [api.get_group_rank_from_world_rank(each, name) for each in members] == list(range(len(members)))
    here = [each for each in members if comm.servers[each] == comm.servers[comm.rank]]
    assert (api.get_local_rank_size(name), api.get_local_rank_id(name)) == (len(here), here.index(comm.rank))
    handle, ret = hccl.HcclCommGetHandleWithName(name)
    group = hccl.c_conventions.communicators.get(handle)
    assert ret == 0 and group.all_reduce(np.array([10.0**comm.rank])).item() == sum(10.0**each for each in members)
    api.destroy_group(name)
    assert hccl.HcclCommGetHandleWithName(name)[1] is hccl.HcclResult.HCCL_E_NOT_FOUND
    api.create_group(name, len(members), members)  # the name is free again
    assert api.get_rank_id(name) == rank


def test_groups(ranks: RankPool) -> None:
    ranks.run(4, groups)


def wrong_groups(_comm: Any) -> list[str]:
    calls = [
        lambda: api.create_group(WORLD, 1, [0]),
        lambda: api.create_group("", 1, [0]),
        lambda: api.create_group("a" * 128, 1, [0]),
        lambda: api.create_group("a", 2, [0]),
        lambda: api.create_group("a", 2, [0, 0]),
        lambda: api.create_group("a", 2, [0, 1]),
        lambda: api.get_rank_id("a"),
        lambda: api.destroy_group("a"),
        lambda: api.destroy_group(WORLD),
        lambda: api.get_world_rank_from_group_rank(WORLD, 1),
        lambda: api.get_group_rank_from_world_rank(1, WORLD),
        lambda: set_split_strategy_by_idx([]),
        lambda: set_split_strategy_by_idx([3, 2]),
        lambda: set_split_strategy_by_idx([-1, 2]),
        lambda: set_split_strategy_by_idx(range(9)),
        lambda: set_split_strategy_by_idx([0], "a"),
        lambda: set_split_strategy_by_size([50, 49]),
        lambda: set_split_strategy_by_size([110, -10]),
        lambda: set_split_strategy_by_size([12.5] * 7 + [6.25, 6.25]),
        lambda: set_split_strategy_by_size([100], "a"),
    ]
    said = []
    for call in calls:
        with pytest.raises(rt.HcclError) as raised:
            call()
        said.append(raised.value.name.removeprefix("HCCL_E_"))
    return said


def test_wrong_groups(ranks: RankPool) -> None:
    not_found = {6, 7, 15, 19}
    assert ranks.run(1, wrong_groups) == [["NOT_FOUND" if at in not_found else "PARA" for at in range(20)]]


# ---- segments ----


def segments(_comm: Any) -> None:
    assert segments_of(WORLD) == Segments()
    set_split_strategy_by_idx([1, 2, 9])
    assert segments_of(WORLD) == Segments(last_indices=(1, 2, 9))
    set_split_strategy_by_size([60, 20, 20])
    assert segments_of(WORLD) == Segments((1, 2, 9), (60, 20, 20))
    api.create_group("one", 1, [0])
    set_split_strategy_by_idx([0], "one")
    assert segments_of("one") == Segments(last_indices=(0,))


def test_segments_are_kept_by_group(ranks: RankPool) -> None:
    ranks.run(1, segments)


PROGRAM = """
from hccl.manage.api import create_group, get_rank_id, get_rank_size
from hccl.split.api import *
import hccl
import ascend_rt.hccl
create_group("myGroup", 2, [1, 0])
set_split_strategy_by_size([60, 20, 20], "myGroup")
print(get_rank_id(), get_rank_id("myGroup"), get_rank_size("myGroup"), hccl is ascend_rt.hccl)
"""


def test_import_hccl(ranks: RankPool, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    ended = ranks.hccl_run(["-n", "2", "--acl", str(program)])
    assert (ended.exit_code, sorted(ended.stdout.splitlines())) == (0, ["[0] 0 1 2 True", "[1] 1 0 2 True"]), ended
