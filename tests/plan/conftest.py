"""The cases that every algorithm is put through: found in the registry, so a new algorithm is tested by itself."""

import inspect
from itertools import combinations

import pytest

from ascend_rt.plan import COLLECTIVES, InPlace, build_all, listing
from ascend_rt.plan.registry import function

SIZES = range(1, 10)
EVERY_SUBSET_UP_TO = 4
EVERY_ROOT_UP_TO = 3


def variants():
    """(collective, algorithm, options): algorithms with numbers to tune also with small, prime and default ones."""
    for collective, name in listing():
        parameters = list(inspect.signature(function(collective, name)).parameters)[1:]
        yield collective, name, {}
        for value in (1, 3) if parameters else ():
            yield collective, name, dict.fromkeys(parameters, value)


def pytest_generate_tests(metafunc):
    """`variant` is every variant; `small_variant` leaves defaults out where there are small numbers to tune with."""
    every = list(variants())
    tuned = {case[:2] for case in every if case[2]}
    for argument, cases in {
        "variant": every,
        "small_variant": [case for case in every if case[2] or case[:2] not in tuned],
    }.items():
        if argument in metafunc.fixturenames:
            ids = ["-".join([collective, name, *map(str, options.values())]) for collective, name, options in cases]
            metafunc.parametrize(argument, cases, ids=ids)


class Cases:
    @staticmethod
    def programs(variant, size):
        """The plans of all ranks, once per root: every root up to three ranks, first, middle and last above."""
        collective, name, options = variant
        roots = range(size) if size <= EVERY_ROOT_UP_TO else (0, size // 2, size - 1)
        roots = roots if COLLECTIVES[collective].rooted else (0,)
        return [build_all(collective, name, size, root, **options) for root in roots]

    @staticmethod
    def in_place(collective, size):
        """The sets of ranks that call in place: every one of them up to four ranks, none and all above."""
        if COLLECTIVES[collective].in_place is InPlace.NONE:
            return [frozenset()]
        sizes = range(size + 1) if size <= EVERY_SUBSET_UP_TO else (0, size)
        return [frozenset(ranks) for number in sizes for ranks in combinations(range(size), number)]

    @staticmethod
    def patterns(chunks):
        """(count, align): nothing, fewer elements than chunks, one each, uneven, units of several elements."""
        return [(0, 1), (max(1, chunks - 1), 1), (chunks, 1), (2 * chunks + 1, 1), (5 * chunks + 2, 2)]

    @staticmethod
    def variants():
        return list(variants())


@pytest.fixture(scope="session")
def cases():
    return Cases
