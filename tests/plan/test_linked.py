"""What calls take over links, against formulas; and which algorithm that chooses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_rt.plan import listing
from ascend_rt.plan.choice import Row
from ascend_rt.plan.linked import LATE_US, LEAST_GAIN, fastest, linked_us
from ascend_rt.plan.model import SHIPPED, Constants, Machine
from ascend_rt.plan.registry import names, parameters

pytestmark = pytest.mark.proof

FREE = Machine(64, Constants(0.0, 0.0, 0.0, 0.0))
"""On which nothing but links takes time."""
SLOW, FAST = (10.0, 50_000), (0.5, 5_000)


def wires(size, slow=()):
    """All alike, but for pairs that are slow."""
    return [[SLOW if {a, b} in slow else FAST if a != b else (0.0, 0) for b in range(size)] for a in range(size)]


@pytest.mark.parametrize("size", [2, 3, 4, 8])
def test_times_of_the_formulas(size):
    n = 1 << 20
    chunk_us = n / size * 0.5 / 1e3
    mesh = linked_us(FREE, wires(size), Row("all_reduce", "mesh"), n)
    assert mesh == pytest.approx(2 * chunk_us + 5 + LATE_US, rel=1e-3)
    ring = linked_us(FREE, wires(size), Row("all_reduce", "ring"), n)
    assert ring == pytest.approx(2 * (size - 1) * (chunk_us + 5 + LATE_US), rel=1e-3)


def test_a_link_carries_one_transfer_after_another_and_the_slowest_decides():
    n = 1 << 20
    one = linked_us(FREE, wires(4, [{1, 3}]), Row("all_gather", "mesh"), n)
    assert one == pytest.approx(n * 10 / 1e3 + 50 + LATE_US)
    round_it = linked_us(FREE, wires(4, [{1, 3}]), Row("all_gather", "ring"), n)
    assert round_it == pytest.approx(3 * (n * 0.5 / 1e3 + 5 + LATE_US))


def rows(collective):
    others = [name for name in names(collective) if "servers" not in parameters(collective, name) and name != "mesh"]
    return [Row(collective, name) for name in ("mesh", *others)]


def test_a_slow_pair_is_gone_round():
    slow = wires(4, [{1, 3}])
    chosen = {name: fastest(FREE, slow, rows(name), 1 << 18).algorithm for name in ("all_reduce", "all_gather")}
    assert chosen == {"all_reduce": "ring", "all_gather": "ring"}
    assert fastest(FREE, wires(4), rows("all_reduce"), 1 << 18).algorithm == "mesh"


@given(st.sampled_from([pair[0] for pair in listing() if pair[0] != "barrier"]), st.integers(0, 1 << 22), st.data())
def test_the_choice_is_the_same_in_its_range_and_not_much_slower_than_the_fastest(collective, nbytes, data):
    size = data.draw(st.integers(2, 5))
    pairs = [{a, b} for a in range(size) for b in range(a)]
    own = wires(size, data.draw(st.lists(st.sampled_from(pairs), max_size=2)))
    machine = Machine(2, SHIPPED)
    choice = fastest(machine, own, rows(collective), nbytes)
    assert choice.lo_nbytes <= nbytes <= choice.hi_nbytes <= max(choice.lo_nbytes * 1.25, choice.lo_nbytes)
    again = fastest(machine, own, rows(collective), data.draw(st.sampled_from([choice.lo_nbytes, choice.hi_nbytes])))
    assert again == choice
    times = [linked_us(machine, own, row, choice.row.at_nbytes) for row in rows(collective)]
    assert choice.row.predicted_us * LEAST_GAIN <= min(times) * (1 + 1e-9)
