"""From times to constants and rows: known constants come back, and an algorithm has to win every round."""

import pytest
from ascend_rt.launcher.tune import group_sizes
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_rt.hccl.measurements import best, fit, rows_of
from ascend_rt.hccl.tune import evaluate, report
from ascend_rt.plan.choice import UNBOUNDED, Row, choose
from ascend_rt.plan.model import SHIPPED, Constants, Machine, Work, work

pytestmark = pytest.mark.proof

ALGORITHMS = ("mesh", "ring", "NHR", "H-D_R")
positive = st.floats(1e-6, 1e2)


@settings(max_examples=settings.default.max_examples // 4)
@given(st.builds(Constants, positive, positive, positive, positive))
def test_constants_come_back_from_the_times_that_they_give(constants):
    machine = Machine(4, constants)
    amounts = [
        work(4, "all_reduce", algorithm, ranks, nbytes)
        for algorithm in ALGORITHMS for ranks in (2, 4, 8) for nbytes in (1 << 12, 1 << 16, 1 << 20)
    ]
    samples = [(amount, machine.price(amount)) for amount in amounts]
    found = fit(samples)
    for amount, us in samples:
        assert Machine(4, found).price(amount) == pytest.approx(us, rel=1e-3)


def test_no_constant_is_negative_and_what_nobody_measured_is_shipped():
    samples = [(Work(2, 0, 1000, 0), 2.0), (Work(2, 0, 2000, 500), 2.5), (Work(9, 0, 1000, 800), 5.0)]
    found = fit(samples)
    assert min(found) >= 0 and found.switch_us == SHIPPED.switch_us and found.alpha_us > 0
    assert fit([]) == SHIPPED


def test_who_wins_must_win_every_round():
    assert best({"mesh": [10, 11, 12], "ring": [8, 9, 7], "NHR": [5, 5, 12]}) == "mesh"
    assert best({"mesh": [10, 11, 12], "ring": [8, 9, 7]}) == "ring"
    assert best({"mesh": [10, 11, 12], "ring": [8, 10, 7]}) == "mesh"
    assert best({"mesh": [10, 11, 12], "ring": [9.5, 10, 11]}) == "mesh"


def times(**us):
    return {name.replace("_", "-"): [value] * 3 for name, value in us.items()}


def test_rows_reach_from_a_size_to_the_next():
    measured = {
        100: times(mesh=10, ring=20), 200: times(mesh=30, ring=20), 400: times(mesh=50, ring=40),
        800: times(mesh=60, ring=70), 1600: times(mesh=100, ring=50),
    }  # fmt: skip
    rows = list(rows_of("all_reduce", 4, measured))
    assert rows == [
        Row("all_reduce", "mesh", (4, 4), (0, 199), at_nbytes=100, measured_us=10),
        Row("all_reduce", "ring", (4, 4), (200, 799), at_nbytes=400, measured_us=40),
        Row("all_reduce", "mesh", (4, 4), (800, 1599), at_nbytes=800, measured_us=60),
        Row("all_reduce", "ring", (4, 4), (1600, 3199), at_nbytes=1600, measured_us=50),
    ]
    only_mesh = {nbytes: times(mesh=10, ring=20) for nbytes in (100, 200)}
    (row,) = rows_of("reduce", 2, only_mesh)
    assert (row.nbytes, row.at_nbytes) == ((0, UNBOUNDED), 200)


@given(st.dictionaries(st.integers(1, 10**6), st.booleans(), min_size=1, max_size=6))
def test_what_won_at_a_size_is_chosen_there(measured):
    by_nbytes = {nbytes: times(mesh=10, ring=5 if wins else 20) for nbytes, wins in measured.items()}
    table = (*rows_of("all_reduce", 4, by_nbytes), Row("all_reduce", "mesh"))
    for nbytes, wins in measured.items():
        assert choose("all_reduce", 4, nbytes, 4, 0, table).algorithm == ("ring" if wins else "mesh")


def test_the_report_has_every_time_and_the_table():
    measured = {("all_reduce", 2): {4096: times(mesh=9.5, ring=4), 65536: times(mesh=20, ring=30)}}
    found = evaluate(2, measured)
    assert [row.algorithm for row in found.rows] == ["ring", "mesh"]
    lines = report(measured, found).splitlines()
    assert lines[0] == "microseconds of a call on 2 cores, measured (predicted); * is chosen"
    predicted = found.machine.predicted_us("all_reduce", "mesh", 2, 4096)
    assert lines[1].startswith("all_reduce ")
    assert "*ring 4.0 (" in lines[1] and f"mesh 9.5 ({predicted:.1f})" in lines[1]
    assert lines[-2].split()[5:7] == ["ring", "measured"] and "4.0 at 4096" in lines[-2]
    assert "alpha_us = " in report(measured, found)


@pytest.mark.parametrize(("most", "sizes"), [(2, [2]), (3, [2, 3]), (8, [2, 4, 8]), (12, [2, 4, 8, 12])])
def test_group_sizes(most, sizes):
    assert group_sizes(most) == sizes
