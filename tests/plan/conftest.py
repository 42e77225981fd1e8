"""The cases that every algorithm is put through: found in the registry, so a new algorithm is tested by itself."""

from itertools import combinations
from typing import NamedTuple

import pytest

from ascend_rt.plan import COLLECTIVES, InPlace, build_all, listing
from ascend_rt.plan.registry import parameters

EVERY_SUBSET_UP_TO = 3
EVERY_ROOT_UP_TO = 3
EVERY_PATTERN_UP_TO = 4
SEVERAL_UP_TO = 8


def split(*counts):
    """Servers of so many ranks each, in rank order."""
    ends = [sum(counts[: place + 1]) for place in range(len(counts))]
    return tuple(tuple(range(end - count, end)) for count, end in zip(counts, ends, strict=True))


def in_two(size):
    """Two servers whose ranks alternate; each rank alone where that leaves one over."""
    return (tuple(range(0, size, 2)), tuple(range(1, size, 2))) if size % 2 == 0 else split(*[1] * size)


def in_threes(size):
    return split(*[3] * (size // 3)) if size % 3 == 0 else split(*[2] * (size // 2)) if size % 2 == 0 else in_two(size)


def unequal(size):
    """One rank, two, and the rest."""
    return split(*[count for count in (min(size, 1), min(2, size - 1), size - 3) if count > 0])


SERVERS = {"in two": in_two, "in threes": in_threes, "unequal": unequal}


class Variant(NamedTuple):
    """An algorithm and the way in which its servers are made of so many ranks, if it takes any."""

    collective: str
    algorithm: str
    servers: str | None = None

    def __str__(self):
        return "-".join(filter(None, self))

    def plans(self, size, root=0):
        options = {} if self.servers is None else {"servers": SERVERS[self.servers](size)}
        return build_all(self.collective, self.algorithm, size, root, **options)


def variants():
    for collective, name in listing():
        if "servers" not in parameters(collective, name):
            yield Variant(collective, name)
            continue
        for servers in ("in two", "in threes", *(["unequal"] if name == "AHC" else [])):
            yield Variant(collective, name, servers)


def pytest_generate_tests(metafunc):
    """`variant` is every variant, `some_variant` one of seven."""
    for argument, step in {"variant": 1, "some_variant": 7}.items():
        if argument in metafunc.fixturenames:
            metafunc.parametrize(argument, list(variants())[::step], ids=str)


class Cases:
    @staticmethod
    def programs(variant, size):
        """The plans of all ranks, once per root: every root up to three ranks, one in the middle and the last above."""
        roots = range(size) if size <= EVERY_ROOT_UP_TO else (size // 2 - 1, size - 1)[size > SEVERAL_UP_TO :]
        return [variant.plans(size, root) for root in (roots if COLLECTIVES[variant.collective].rooted else (0,))]

    @staticmethod
    def in_place(collective, size):
        """The sets of ranks that call in place: every one up to three ranks; none, every other, all; of many, none."""
        if COLLECTIVES[collective].in_place is InPlace.NONE:
            return [frozenset()]
        if size > SEVERAL_UP_TO:
            return [frozenset()]
        if size > EVERY_SUBSET_UP_TO:
            return [frozenset(), frozenset(range(0, size, 2)), frozenset(range(size))]
        return [frozenset(ranks) for number in range(size + 1) for ranks in combinations(range(size), number)]

    @staticmethod
    def patterns(chunks, size):
        """(count, align): uneven, units of several elements; of few ranks also none, fewer than chunks, one each."""
        usual = [(2 * chunks + 1, 1), (5 * chunks + 2, 2)][size > SEVERAL_UP_TO :]
        return usual if size > EVERY_PATTERN_UP_TO else [(0, 1), (max(1, chunks - 1), 1), (chunks, 1), *usual]

    @staticmethod
    def variants():
        return list(variants())


@pytest.fixture(scope="session")
def cases():
    return Cases
