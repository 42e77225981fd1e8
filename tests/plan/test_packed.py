"""The packed form, word by word."""

import pytest

from ascend_rt.plan import COLLECTIVES, build, build_all, fingerprint, pack, single_fold
from ascend_rt.plan.language import Buffer, Plan, Reduce, Ref, everyone
from ascend_rt.plan.symbolic import completes

pytestmark = pytest.mark.proof

IN, OUT, SCRATCH = 0, 1, 2


def test_mesh_all_reduce_is_one_complete_reduce():
    assert pack(build("all_reduce", "mesh", 1, 2)).tolist() == [
        *(0x504C414E, 2, 1, 2, 1, 1, 0, 1, 1),
        *(4, 1, 1, 2, 2),
        *(0, OUT, 1, 1, OUT, 1),
        *(0, IN, 1, 1, IN, 1),
    ]


def test_ring_reduce_scatter_has_tokens_scratch_and_completes_at_the_end():
    assert pack(build("reduce_scatter", "ring", 0, 3)).tolist() == [
        *(0x504C414E, 3, 0, 1, 3, 1, 3, 1, 4),
        *(4, 1, 0, 1, 2, 0, SCRATCH, 1, 0, IN, 1, 2, IN, 1),
        *(1, 1),
        *(2, 2),
        *(4, 1, 1, 1, 2, 0, OUT, 0, 0, IN, 0, 2, SCRATCH, 0),
    ]


def test_what_is_complete_is_not_completed_again():
    """Where a result is complete, avg divides: a Reduce that only passes it on must not divide once more."""
    folded, out = Ref(0, Buffer.SCRATCH, 0), Ref(0, Buffer.OUT, 0)
    fold, pass_on = Reduce((folded,), (Ref(0, Buffer.IN, 0), Ref(1, Buffer.IN, 0))), Reduce((out,), (folded,))
    plans = [
        Plan("reduce", "by hand", rank, 2, 0, 1, 1, (), (*everyone(rank, 2), *body, *everyone(rank, 2)))
        for rank, body in enumerate([(fold, pass_on), ()])
    ]
    assert completes(plans) == [{0}, set()]


def test_tree_broadcast_copies_destination_first():
    assert pack(build("broadcast", "tree", 3, 4, root=0)).tolist() == [
        *(0x504C414E, 4, 3, 1, 1, 1, 0, 1, 2),
        *(2, 1),
        *(3, 1, 3, OUT, 0, 1, OUT, 0),
    ]


def test_barrier_has_no_steps():
    assert pack(build("barrier", "mesh", 3, 4)).tolist() == [0x504C414E, 4, 3, 1, 0, 0, 0, 0, 0]


def test_fingerprint_is_equal_on_all_ranks_and_roots_and_differs_between_algorithms():
    assert len({fingerprint(plan) for root in range(4) for plan in build_all("broadcast", "ring", 4, root)}) == 1
    prints = {fingerprint(build(c, "mesh", 0, size)) for c in COLLECTIVES for size in (1, 2, 3)}
    prints |= {fingerprint(build("all_reduce", name, 0, 3)) for name in ("ring", "NB", "NHR")}
    assert len(prints) == 3 * len(COLLECTIVES) + 3
    assert all(0 <= value < 2**32 for value in prints)


def test_mesh_folds_once_and_a_ring_of_three_does_not():
    for collective in ("all_reduce", "reduce_scatter"):
        assert all(single_fold(collective, "mesh", size) for size in range(1, 10))
        assert [single_fold(collective, "ring", size) for size in (1, 2, 3, 8)] == [True, True, False, False]
