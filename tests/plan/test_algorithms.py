"""The proof of every algorithm: world sizes, chunk patterns, sets of ranks in place, calls that follow one another."""

from itertools import product

import pytest

from ascend_rt.plan import COLLECTIVES, InPlace, build_all
from ascend_rt.plan.layout import Call
from ascend_rt.plan.verify import prove

pytestmark = pytest.mark.proof


@pytest.mark.parametrize("size", range(1, 10))
def test_two_calls_in_a_row(variant, size, cases):
    def others(ranks):
        return ranks if COLLECTIVES[variant[0]].in_place is InPlace.NONE else frozenset(range(size)) - ranks

    for plans in cases.programs(variant, size):
        patterns = cases.patterns(plans[0].chunks)
        for in_place in cases.in_place(variant[0], size):
            for (count, align), (next_count, next_align) in zip(patterns, patterns[1:] + patterns[:1], strict=True):
                prove(Call(plans, count, align, in_place), Call(plans, next_count, next_align, others(in_place)))


@pytest.mark.parametrize("size", [2, 3, 5])
def test_any_algorithm_and_root_may_follow_any_other(size, cases):
    programs = [plans for variant in cases.variants() for plans in cases.programs(variant, size)[:: max(1, size - 1)]]
    for first, second in product(programs, repeat=2):
        prove(Call(first, 2 * first[0].chunks + 1), Call(second, second[0].chunks + 1, 2))


def test_three_calls_in_a_row(cases):
    size = 3
    programs = [cases.programs(variant, size)[-1] for variant in cases.variants() if variant[0] != "barrier"]
    for sequence in product(programs, repeat=3):
        prove(*(Call(plans, plans[0].chunks + 3 * place) for place, plans in enumerate(sequence)))


def test_more_ranks_than_a_word_has_bits():
    for name in ("mesh", "ring"):
        prove(Call(build_all("reduce_scatter", name, 65), 2))
