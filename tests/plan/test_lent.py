"""What a rank lends: exactly the chunks of its buffers that other ranks' steps name."""

import pytest

from ascend_rt.plan.packed import lent
from ascend_rt.plan.registry import build

pytestmark = pytest.mark.proof


def test_mesh_all_reduce_keeps_its_own_chunk() -> None:
    assert lent(build("all_reduce", "mesh", 1, 4)) == (b"\1\0\1\1", b"\1\0\1\1")


def test_mesh_all_gather_lends_what_it_gives_and_keeps_what_it_gets() -> None:
    plan = build("all_gather", "mesh", 0, 3)
    marks_in, marks_out = lent(plan)
    assert set(marks_in) == {1} and set(marks_out) == {0}


def test_of_a_mesh_broadcast_only_the_root_lends() -> None:
    assert [set(lent(build("broadcast", "mesh", rank, 3, root=1))[0]) for rank in range(3)] == [{0}, {1}, {0}]


def test_alone_nothing_is_lent() -> None:
    assert lent(build("all_reduce", "ring", 0, 1)) == (b"\0", b"\0")


def test_what_only_the_root_has_is_lent_by_it_alone() -> None:
    marks = [lent(build("scatter", "mesh", rank, 3, root=1))[0] for rank in range(3)]
    assert marks == [b"\0\0\0", b"\1\0\1", b"\0\0\0"]


def test_the_result_of_a_mesh_reduce_scatter_stays() -> None:
    marks_in, marks_out = lent(build("reduce_scatter", "mesh", 2, 4))
    assert marks_in == b"\1\1\0\1" and marks_out == b"\0"
