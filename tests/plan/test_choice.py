"""The table of choice: which row decides, and for which range of sizes."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_rt.plan import COLLECTIVES, build_all, listing
from ascend_rt.plan.choice import DTYPES, OPS, TABLE, UNBOUNDED, Row, choose, render
from ascend_rt.plan.packed import single_fold
from ascend_rt.plan.symbolic import folds_once

pytestmark = pytest.mark.proof

FP16, FP32, INT32, BFP16 = (DTYPES.index(name) for name in ("float16", "float32", "int32", "bfloat16"))
SUM, PROD, MAX, AVG = (OPS.index(name) for name in ("sum", "prod", "max", "avg"))
RING_FIRST = (Row("all_reduce", "ring"), Row("broadcast", "ring"), *TABLE)


def chosen(*call, **how):
    """(algorithm, from, to) for a call."""
    choice = choose(*call, **how)
    return choice.algorithm, choice.lo_nbytes, choice.hi_nbytes


def test_types_have_hccls_numbers():
    assert (FP16, FP32, INT32, BFP16, len(DTYPES)) == (3, 4, 2, 11, 12)
    assert (SUM, PROD, MAX, AVG) == (0, 1, 2, 4)


def test_default_is_mesh_everywhere():
    for collective in COLLECTIVES:
        assert chosen(collective, 7, 10**9, FP32) == ("mesh", 0, UNBOUNDED)


@pytest.mark.parametrize("dtype", [FP16, BFP16])
@pytest.mark.parametrize("op", [SUM, PROD])
def test_halves_fold_once(dtype, op):
    assert choose("all_reduce", 3, 10, dtype, op, RING_FIRST).algorithm == "mesh"
    assert choose("all_reduce", 2, 10, dtype, op, RING_FIRST).algorithm == "ring"  # a ring of two folds once
    assert choose("all_reduce", 3, 10, dtype, MAX, RING_FIRST).algorithm == "ring"


@pytest.mark.parametrize("dtype", [FP16, BFP16])
def test_halves_fold_per_hop_where_somebody_asks_for_it(dtype):
    table = (Row("all_reduce", "ring", asked_by="HCCL_ALGO"), *TABLE)
    assert choose("all_reduce", 3, 10, dtype, SUM, table).algorithm == "ring"
    assert choose("all_reduce", 3, 10, dtype, AVG, table).algorithm == "mesh"


@pytest.mark.parametrize("dtype", [FP16, FP32, INT32])
def test_strict_folds_once_whatever_is_asked_for(dtype):
    table = (*(Row(name, "ring", asked_by="HCCL_ALGO") for name in ("all_reduce", "all_gather")), *TABLE)
    assert choose("all_reduce", 3, 10, dtype, SUM, table, strict=True).algorithm == "mesh"
    assert choose("all_reduce", 3, 10, dtype, SUM, table).algorithm == "ring"
    assert choose("all_gather", 3, 10, dtype, SUM, table, strict=True).algorithm == "ring"  # nothing is folded


@pytest.mark.parametrize("size", [1, 2, 3, 5, 6])
def test_single_fold_tells_the_truth_without_building_the_plans(size):
    for collective, algorithm in listing():
        assert single_fold(collective, algorithm, size) == folds_once(build_all(collective, algorithm, size))


def test_single_fold_of_many_ranks_and_of_servers_builds_nothing():
    servers = tuple(tuple(range(first, first + 64)) for first in range(0, 1024, 64))
    assert not single_fold("all_reduce", "ring", 1024) and single_fold("all_reduce", "mesh", 1024)
    assert not single_fold("all_reduce", "mesh+NHR", 1024, servers=servers)
    assert single_fold("broadcast", "mesh+NHR", 1024, servers=servers)


def test_average_folds_once_for_every_type():
    for dtype in range(len(DTYPES)):
        assert choose("all_reduce", 3, 10, dtype, AVG, RING_FIRST).algorithm == "mesh"
    assert choose("all_reduce", 3, 10, INT32, SUM, RING_FIRST).algorithm == "ring"
    assert choose("broadcast", 3, 10, FP16, AVG, RING_FIRST).algorithm == "ring"


def test_range_ends_where_an_earlier_row_begins():
    table = (
        Row("all_reduce", "ring", nbytes=(1000, 1999)),
        Row("all_reduce", "ring", nbytes=(5000, UNBOUNDED)),
        *TABLE,
    )
    assert chosen("all_reduce", 4, 0, FP32, SUM, table) == ("mesh", 0, 999)
    assert chosen("all_reduce", 4, 1999, FP32, SUM, table) == ("ring", 1000, 1999)
    assert chosen("all_reduce", 4, 3000, FP32, SUM, table) == ("mesh", 2000, 4999)
    assert chosen("all_reduce", 4, 5000, FP32, SUM, table) == ("ring", 5000, UNBOUNDED)
    assert chosen("all_reduce", 4, 1999, FP16, SUM, table) == ("mesh", 0, UNBOUNDED)


ranges = st.tuples(st.integers(0, 40), st.integers(0, 40)).map(lambda pair: (min(pair), max(pair)))
rows = st.builds(Row, st.just("all_reduce"), st.sampled_from(["mesh", "ring"]), ranks=ranges, nbytes=ranges)


@given(st.lists(rows, max_size=6), st.integers(2, 9), st.integers(0, 50))
def test_the_choice_is_the_same_in_all_of_its_range(table, size, nbytes):
    table = (*table, *TABLE)
    choice = choose("all_reduce", size, nbytes, FP32, SUM, table)
    assert choice.lo_nbytes <= nbytes <= choice.hi_nbytes
    for other in range(choice.lo_nbytes, min(choice.hi_nbytes, 60) + 1):
        assert choose("all_reduce", size, other, FP32, SUM, table) == choice


def test_no_row_fits():
    with pytest.raises(ValueError, match=r"all_reduce, 3 ranks, 8 bytes of float32, avg: .*folds once"):
        choose("all_reduce", 3, 8, FP32, AVG, RING_FIRST[:2])


def test_row_with_an_unknown_algorithm():
    with pytest.raises(ValueError, match=r"algorithm 'star' of 'all_reduce': expected one of .*mesh, .*ring"):
        choose("all_reduce", 3, 8, FP32, SUM, (Row("all_reduce", "star"), *TABLE))


def test_render():
    types, ops = frozenset({FP32}), frozenset({SUM, MAX})
    row = Row("all_reduce", "ring", (2, 8), (1024, UNBOUNDED), types, ops, predicted_us=12.34)
    head, line = render((row,)).splitlines()
    assert head.split()[:2] == ["collective", "ranks"]
    expected = ["all_reduce", "2..8", "1024..", "float32", "sum,max", "ring", "emulated links", "12.3", "-"]
    assert re.split("  +", line) == expected
    assert len(render().splitlines()) == 1 + len(COLLECTIVES)


def test_render_says_who_asked_and_what_was_measured():
    servers = ("servers", ((0, 1), (2, 3)))
    asked = Row("all_reduce", "mesh+ring", options=(servers,), asked_by="HCCL_ALGO")
    measured = Row("all_reduce", "NB", (4, 4), (0, 999), at_nbytes=512, predicted_us=3.0, measured_us=2.25)
    _, first, second = (re.split("  +", line) for line in render((asked, measured)).splitlines())
    assert first == ["all_reduce", "1.. as 2 x 2", "0..", "all", "all", "mesh+ring", "HCCL_ALGO", "-", "-"]
    assert second[5:] == ["NB", "measured", "3.0 at 512", "2.2 at 512"] and second[1:3] == ["4", "0..999"]
