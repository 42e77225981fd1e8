"""Buckets of gradients: GE's rules by hand, and the fastest beside all that there are."""

import re
from dataclasses import replace
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_rt.ge.buckets import SPEEDS, Fastest, Gradients, Indices, Percentages, Threshold, allowed, fastest, runs

pytestmark = pytest.mark.proof


def gradients(nbytes, ready=None, first=None, time_of=lambda start, last: 1.0):
    return Gradients(nbytes, ready or [0.0] * len(nbytes), first or [0] * len(nbytes), time_of)


@pytest.mark.parametrize(
    ("shares", "nbytes", "last"),
    [
        ((96.54, 3.46), [10] * 100, [96, 99]),
        ((60, 20, 20), [10] * 10, [5, 7, 9]),
        ((50, 50), [30, 45, 25], [0, 2]),  # 30 is 20 from the half, 75 is 25
        ((50, 50), [25, 50, 25], [0, 2]),  # equally near: the lower
        ((30, 30, 40), [50, 10, 40], [0, 1, 2]),  # the first exceeds by 20, so the second takes 10
        ((40, 40, 20), [90, 5, 5], [0, 2]),  # both cuts fall on the first
        ((96.54, 3.46), [1, 99], [1]),  # the first cut is the last gradient already
        ((96.54, 3.46), [7], [0]),
        ((96.54, 3.46), [], []),
    ],
)
def test_percentages_cut_at_the_nearest_gradient(shares, nbytes, last):
    assert Percentages(shares).last(gradients(nbytes)) == last


@given(st.lists(st.integers(1, 100), min_size=1, max_size=30), st.sets(st.integers(1, 99), max_size=7))
def test_no_other_cut_is_nearer_to_what_a_percentage_asks_for(nbytes, targets):
    """In whole numbers: a hundred times the bytes."""
    targets = sorted(targets)
    shares = tuple(float(end - start) for start, end in zip([0, *targets], [*targets, 100], strict=True))
    last = Percentages(shares).last(gradients(nbytes))
    sums = [100 * end for end in accumulate(nbytes)]
    distances = [[abs(end - target * sum(nbytes)) for end in sums] for target in targets]
    assert last == sorted({len(nbytes) - 1, *(each.index(min(each)) for each in distances)})


def test_indices_and_threshold():
    assert Indices((20, 100, 159)).last(gradients([1] * 160)) == [20, 100, 159]
    assert Indices((2, 5, 90)).last(gradients([1] * 10)) == [2, 5, 9]
    assert Indices(()).last(gradients([1] * 10)) == [9]
    assert Threshold(100).last(gradients([60, 60, 100, 10, 20, 30])) == [1, 2, 5]
    assert runs([20, 100, 159]) == [(0, 20), (21, 100), (101, 159)]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: Percentages((60, 30)), "shares [60, 30] of gradients; expected percentages whose sum is 100"),
        (lambda: Percentages((120, -20)), "shares [120, -20] of gradients"),
        (lambda: Indices((3, 3)), "last gradients [3, 3] of buckets; expected ascending numbers from 0"),
        (lambda: Indices((-1, 3)), "last gradients [-1, 3] of buckets"),
    ],
)
def test_what_is_no_strategy_is_refused(make, reason):
    with pytest.raises(ValueError, match=re.escape(reason)):
        make()


@st.composite
def problems(draw):
    count = draw(st.integers(1, 9))
    nbytes = draw(st.lists(st.integers(1, 1000), min_size=count, max_size=count))
    ready = draw(st.lists(st.integers(0, 3000), min_size=count, max_size=count))
    first = draw(st.lists(st.integers(0, count), min_size=count, max_size=count))
    first = [min(lowest, number) for number, lowest in enumerate(accumulate(first, max))]
    alpha, beta = draw(st.integers(0, 500)), draw(st.integers(0, 3))
    return gradients(nbytes, ready, first, lambda start, last: alpha + beta * sum(nbytes[start : last + 1]))


def end_of(last, given):
    clock = 0.0
    for start, end in runs(last):
        clock = max(clock, *given.ready_us[start : end + 1]) + given.time_of(start, end)
    return clock


def all_buckets(given):
    count = len(given.nbytes)
    for chosen in range(1 << (count - 1)):
        last = [number for number in range(count - 1) if chosen >> number & 1] + [count - 1]
        if all(given.first[end] <= start for start, end in runs(last)):
            yield last


@settings(deadline=None)
@given(problems())
def test_the_fastest_buckets_are_the_best_of_all(given):
    end, last = fastest(given)
    ends = {tuple(each): end_of(each, given) for each in all_buckets(given)}
    assert ends[tuple(last)] == end == min(ends.values())


@settings(deadline=None)
@given(problems())
def test_what_is_taken_is_fastest_at_one_speed_and_least_behind_at_the_others(given):
    cases = [replace(given, ready_us=[ready / speed for ready in given.ready_us]) for speed in SPEEDS]

    def behind(last):
        return max(end_of(last, case) - fastest(case)[0] for case in cases)

    assert behind(Fastest().last(given)) == min(behind(fastest(case)[1]) for case in cases)


@settings(deadline=None)
@given(problems(), st.sampled_from([Percentages(), Indices(()), Threshold(500)]))
def test_cuts_are_added_where_gradients_may_not_share_a_bucket(given, strategy):
    wanted = strategy.last(given)
    last = allowed(wanted, given)
    assert set(wanted) <= set(last)
    assert all(given.first[end] <= start for start, end in runs(last))
    for number in set(last) - set(wanted):  # no cut is needless
        (start,) = [start for start, end in runs(last) if end == number]
        assert given.first[number + 1] > start
