"""The proof of every algorithm: world sizes, chunk patterns, sets of ranks in place, calls that follow one another."""

import random
from itertools import product

import pytest

from ascend_rt.plan import COLLECTIVES, InPlace, build_all
from ascend_rt.plan.layout import Call
from ascend_rt.plan.verify import prove

pytestmark = pytest.mark.proof

MOST_RANKS = 16
USUAL_SIZES = (1, 2, 3, 4, 6, 8)


@pytest.mark.thorough
@pytest.mark.parametrize("size", range(1, MOST_RANKS + 1))
def test_two_calls_in_a_row(variant, size, cases):
    """Ranks that call in place do not in the second call, and the other way round."""

    def others(ranks):
        return ranks if COLLECTIVES[variant.collective].in_place is InPlace.NONE else frozenset(range(size)) - ranks

    for plans in cases.programs(variant, size):
        patterns = cases.patterns(plans[0].chunks, size)
        for in_place in cases.in_place(variant.collective, size):
            for (count, align), (next_count, next_align) in zip(patterns, patterns[1:] + patterns[:1], strict=True):
                prove(Call(plans, count, align, in_place), Call(plans, next_count, next_align, others(in_place)))


def test_two_calls_in_a_row_of_the_usual_sizes(variant, cases):
    """One root, one uneven count, in place on none, on some and on all ranks."""
    for size in USUAL_SIZES:
        plans = cases.programs(variant, size)[-1]
        chunks = plans[0].chunks
        for in_place in cases.in_place(variant.collective, size)[:: max(1, 2**size // 3)]:
            prove(Call(plans, 2 * chunks + 1, 1, in_place), Call(plans, 5 * chunks + 2, 2, in_place))


def last_programs(cases, size):
    return [cases.programs(variant, size)[-1] for variant in cases.variants()]


@pytest.mark.thorough
def test_any_algorithm_may_follow_any_other(cases):
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    pairs = list(product(last_programs(cases, 4), repeat=2))
    for first, second in random.Random(seed).sample(pairs, 1500):
        prove(Call(first, 2 * first[0].chunks + 1), Call(second, second[0].chunks + 1, 2))


def test_calls_in_any_order(cases):
    """Long random sequences, in which what one call leaves behind would be found by a later one."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    order = random.Random(seed)
    for size in (2, 3, 4, 6):
        calls = [Call(plans, plans[0].chunks + 1 + size % 2) for plans in last_programs(cases, size)]
        order.shuffle(calls)
        for start in range(0, len(calls), 8):
            prove(*calls[start : start + 8], calls[start])


@pytest.mark.parametrize("name", ["NB", *(pytest.param(name, marks=pytest.mark.thorough) for name in ("mesh", "ring"))])
def test_more_ranks_than_a_word_has_bits(name):
    prove(Call(build_all("reduce_scatter", name, 65), 2))
