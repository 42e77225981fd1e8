"""Placement: no two buffers that may be live together share a byte, whatever the order; near to a bound that is one."""

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_rt.ge.memory.bound import intervals, lower_bound
from ascend_rt.ge.memory.placement import ALIGNMENT, Placement, overlaps, place

pytestmark = pytest.mark.proof

Matrix = npt.NDArray[np.bool_]


def closed(edges: Matrix) -> Matrix:
    """The partial order that edges from lower to higher numbers make."""
    before = np.triu(edges, 1)
    for middle in range(len(before)):
        before |= before[:, middle : middle + 1] & before[middle : middle + 1, :]
    return before


@st.composite
def orders(draw: st.DrawFn, most: int) -> tuple[list[int], Matrix]:
    count = draw(st.integers(1, most))
    bits = draw(st.integers(0, 2 ** (count * count) - 1))
    edges = np.array([bits >> bit & 1 for bit in range(count * count)], np.bool_).reshape(count, count)
    sizes = draw(st.lists(st.integers(0, 20_000), min_size=count, max_size=count))
    names = draw(st.permutations(range(count)))
    return sizes, closed(edges)[np.ix_(names, names)]


def heaviest(sizes: list[int], before: Matrix) -> int:
    """The bound by trying all sets."""
    units = [-(-max(size, 1) // ALIGNMENT) for size in sizes]
    sets = itertools.chain.from_iterable(itertools.combinations(range(len(units)), n) for n in range(len(units) + 1))
    return ALIGNMENT * max(sum(units[i] for i in some) for some in sets if not before[np.ix_(some, some)].any())


def lowest(sizes: list[int], before: Matrix) -> int:
    """The smallest peak by trying all orders of putting buffers down."""
    units = [-(-max(size, 1) // ALIGNMENT) for size in sizes]
    best = sum(units)
    for order in itertools.permutations(range(len(units))):
        top: dict[int, int] = {}
        for i in order:
            floor = max((top[j] for j in top if not before[i, j] and not before[j, i]), default=0)
            top[i] = floor + units[i]
        best = min(best, max(top.values()))
    return best * ALIGNMENT


def assert_sound(
    sizes: list[int], before: Matrix, placement: Placement, groups: Sequence[Sequence[int]] = ()
) -> None:
    assert overlaps(sizes, placement.offsets, before) == []
    assert all(offset >= 0 and offset % ALIGNMENT == 0 for offset in placement.offsets)
    ends = [offset + size for offset, size in zip(placement.offsets, sizes, strict=True)]
    assert placement.bound <= placement.peak and max(ends) <= placement.peak < max(ends) + 2 * ALIGNMENT
    is_group = list(placement.pressing) in [list(group) for group in groups]
    assert is_group or not before[np.ix_(placement.pressing, placement.pressing)].any()


@given(orders(most=6))
@settings(deadline=None, max_examples=25)
def test_few_buffers_are_placed_as_low_as_can_be(case: tuple[list[int], Matrix]) -> None:
    sizes, before = case
    placement = place(sizes, before)
    assert_sound(sizes, before, placement)
    assert placement.bound == heaviest(sizes, before)
    assert placement.peak == lowest(sizes, before)
    assert placement.how == "optimal"


@given(orders(most=30))
@settings(deadline=None, max_examples=15)
def test_more_buffers_share_no_byte(case: tuple[list[int], Matrix]) -> None:
    sizes, before = case
    assert_sound(sizes, before, place(sizes, before, effort=0))


@given(orders(most=16), st.data())
@settings(deadline=None, max_examples=15)
def test_a_group_lies_side_by_side(case: tuple[list[int], Matrix], data: st.DataObject) -> None:
    sizes, before = case
    members = data.draw(st.permutations(range(len(sizes))))
    cut = data.draw(st.integers(0, len(members)))
    groups = [members[:cut], members[cut:]]
    placement = place(sizes, before, groups=groups)
    assert_sound(sizes, before, placement, groups)
    for group in groups:
        for i, j in itertools.pairwise(group):
            assert placement.offsets[j] - placement.offsets[i] == -(-max(sizes[i], 1) // ALIGNMENT) * ALIGNMENT


def test_a_buffer_is_in_one_group() -> None:
    with pytest.raises(ValueError, match=r"buffers \[1\] are to lie in two places"):
        place([1, 1, 1], np.zeros((3, 3), np.bool_), groups=[[0, 1], [1, 2]])


def test_nothing_is_placed_in_no_bytes() -> None:
    assert place([], np.zeros((0, 0), np.bool_)) == ((), 0, 0, (), "optimal")


def test_intervals_of_one_line_are_wrong_with_two_streams() -> None:
    """Two pairs, each in the order of its own stream: listed one after the other they could share all their bytes."""
    before = np.zeros((4, 4), np.bool_)
    before[0, 1] = before[2, 3] = True
    assert intervals(before) is None
    placement = place([512, 512, 512, 512], before)
    assert placement.peak == placement.bound == 1024
    assert placement.offsets[0] == placement.offsets[1] != placement.offsets[2] == placement.offsets[3]


@given(orders(most=12))
@settings(deadline=None, max_examples=15)
def test_the_line_of_an_order_says_the_same_as_the_order(case: tuple[list[int], Matrix]) -> None:
    _, before = case
    line = intervals(before)
    if line is not None:
        np.testing.assert_array_equal(before, line[:, 1][:, None] < line[:, 0][None, :])


def random_lives(count: int, seed: int) -> tuple[list[int], Matrix]:
    """As in benchmarks/memory_plan.py."""
    draw = np.random.default_rng(seed)
    first = draw.integers(0, count, count)
    last = first + 1 + draw.exponential(count / 10, count).astype(int)
    return (2 ** draw.uniform(10, 24, count)).astype(int).tolist(), last[:, None] <= first[None, :]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("count, most", [(60, 1.03), pytest.param(400, 1.06, marks=pytest.mark.thorough)])
def test_many_buffers_are_near_the_bound(count: int, most: float, seed: int) -> None:
    sizes, before = random_lives(count, seed)
    placement = place(sizes, before)
    assert_sound(sizes, before, placement)
    assert placement.peak <= most * placement.bound


def test_the_same_arguments_give_the_same_placement() -> None:
    sizes, before = random_lives(60, 3)
    assert place(sizes, before) == place(list(sizes), before.copy())


def test_the_bound_of_a_chain_is_its_largest_buffer() -> None:
    before = np.triu(np.ones((5, 5), np.bool_), 1)
    assert lower_bound([3, 9, 2, 5, 1], before) == (9, (1,))
