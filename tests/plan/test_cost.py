"""Costs counted from plans, against HCCL's closed formulas (alpha, beta and gamma for n bytes on p ranks)."""

from fractions import Fraction

import pytest

from ascend_rt.plan import listing
from ascend_rt.plan.cost import cost, table

pytestmark = pytest.mark.proof

SIZES = range(2, 10)


@pytest.mark.parametrize("p", SIZES)
def test_rings_are_hccls(p):
    reduce_scatter, all_gather, all_reduce = (
        cost(c, "ring", p) for c in ("reduce_scatter", "all_gather", "all_reduce")
    )
    share = Fraction(p - 1, p)
    assert (reduce_scatter.rounds, reduce_scatter.path, reduce_scatter.folded) == (p - 1, share, share)
    assert (all_gather.rounds, all_gather.path, all_gather.folded) == (p - 1, share, 0)
    assert (all_reduce.rounds, all_reduce.path, all_reduce.folded) == (2 * (p - 1), 2 * share, share)
    for c in (reduce_scatter, all_gather, all_reduce):
        assert c.link == c.moved == c.path  # all of it from one neighbour, one round after the other


@pytest.mark.parametrize("p", SIZES)
def test_ring_broadcast_is_hccls_with_one_piece_and_overlaps_with_more(p):
    whole = cost("broadcast", "ring", p, pieces=1)
    assert (whole.rounds, whole.path, whole.link) == (p - 1, p - 1, 1)
    assert cost("broadcast", "ring", p, root=p - 1, pieces=5).path == 1 + Fraction(p - 2, 5)


@pytest.mark.parametrize("p", SIZES)
def test_mesh_is_hccls_where_it_takes_one_round(p):
    share = Fraction(p - 1, p)
    reduce_scatter, all_gather = cost("reduce_scatter", "mesh", p), cost("all_gather", "mesh", p)
    assert (reduce_scatter.rounds, reduce_scatter.link, reduce_scatter.folded) == (1, Fraction(1, p), share)
    assert (all_gather.rounds, all_gather.link, all_gather.folded) == (1, Fraction(1, p), 0)


@pytest.mark.parametrize("p", SIZES)
def test_mesh_saves_a_round_where_hccl_takes_two(p):
    all_reduce, broadcast = cost("all_reduce", "mesh", p), cost("broadcast", "mesh", p)
    assert (all_reduce.rounds, all_reduce.link, all_reduce.folded) == (1, Fraction(2, p), Fraction(p - 1, p))
    assert (broadcast.rounds, broadcast.link, broadcast.moved) == (1, 1, 1)
    assert all_reduce.moved == 2 * Fraction(p - 1, p)
    assert (all_reduce.steps, all_reduce.posts) == (1, 0)


def test_posts_of_the_rings():
    assert [cost("all_reduce", "ring", p).posts for p in (1, 2, 3, 8)] == [0, 1, 3, 13]
    assert [cost("all_gather", "ring", p).posts for p in (1, 2, 3, 8)] == [0, 0, 1, 6]
    assert [cost("reduce_scatter", "ring", p).posts for p in (1, 2, 3, 4, 8)] == [0, 0, 1, 2, 10]


def test_one_rank_moves_nothing_to_others():
    for collective, algorithm in listing():
        c = cost(collective, algorithm, 1)
        assert (c.rounds, c.posts, c.moved, c.link, c.path, c.folded) == (0, 0, 0, 0, 0, 0)


def test_table_has_a_line_per_algorithm():
    lines = table(8).splitlines()
    assert len(lines) == 1 + len(listing())
    ring = next(line for line in lines if line.startswith("all_reduce") and "ring" in line)
    assert ring.split() == [
        "all_reduce",
        "ring",
        "14",
        "13",
        "14",
        "1.750",
        "n",
        "1.750",
        "n",
        "1.750",
        "n",
        "0.875",
        "n",
    ]
