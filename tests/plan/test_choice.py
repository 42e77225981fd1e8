"""The table of choice: which row decides, and for which range of sizes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_rt.plan import COLLECTIVES
from ascend_rt.plan.choice import DTYPES, OPS, TABLE, UNBOUNDED, Row, choose, render

pytestmark = pytest.mark.proof

FP16, FP32, INT32, BFP16 = (DTYPES.index(name) for name in ("float16", "float32", "int32", "bfloat16"))
SUM, PROD, MAX, AVG = (OPS.index(name) for name in ("sum", "prod", "max", "avg"))
RING_FIRST = (Row("all_reduce", "ring"), Row("broadcast", "ring"), *TABLE)


def test_types_have_hccls_numbers():
    assert (FP16, FP32, INT32, BFP16, len(DTYPES)) == (3, 4, 2, 11, 12)
    assert (SUM, PROD, MAX, AVG) == (0, 1, 2, 4)


def test_default_is_mesh_everywhere():
    for collective in COLLECTIVES:
        assert choose(collective, 7, 10**9, FP32) == ("mesh", 0, UNBOUNDED)


@pytest.mark.parametrize("dtype", [FP16, BFP16])
@pytest.mark.parametrize("op", [SUM, PROD])
def test_halves_fold_once(dtype, op):
    assert choose("all_reduce", 3, 10, dtype, op, RING_FIRST).algorithm == "mesh"
    assert choose("all_reduce", 2, 10, dtype, op, RING_FIRST).algorithm == "ring"  # a ring of two folds once
    assert choose("all_reduce", 3, 10, dtype, MAX, RING_FIRST).algorithm == "ring"


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
    assert choose("all_reduce", 4, 0, FP32, SUM, table) == ("mesh", 0, 999)
    assert choose("all_reduce", 4, 1999, FP32, SUM, table) == ("ring", 1000, 1999)
    assert choose("all_reduce", 4, 3000, FP32, SUM, table) == ("mesh", 2000, 4999)
    assert choose("all_reduce", 4, 5000, FP32, SUM, table) == ("ring", 5000, UNBOUNDED)
    assert choose("all_reduce", 4, 1999, FP16, SUM, table) == ("mesh", 0, UNBOUNDED)


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
    row = Row("all_reduce", "ring", (2, 8), (1024, UNBOUNDED), frozenset({FP32}), frozenset({SUM, MAX}), 12.34, None)
    head, line = render((row,)).splitlines()
    assert head.split()[:2] == ["collective", "ranks"]
    assert line.split() == ["all_reduce", "2..8", "1024..", "float32", "sum,max", "ring", "12.3", "-"]
    assert len(render().splitlines()) == 1 + len(COLLECTIVES)
