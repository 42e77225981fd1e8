"""Every algorithm by collective and name, and the plans built from them.

An algorithm is added by writing one function with `@algorithm` in a file of `algorithms/`; the prover, the runner and
their tests find it here. What it can be tuned with are keyword parameters of the function.
"""

import inspect
from collections.abc import Callable
from functools import lru_cache

from .builder import Builder
from .collectives import COLLECTIVES
from .grammar import check
from .language import Groups, Option, Plan
from .tokens import with_tokens

Algorithm = Callable[..., None]

_ALGORITHMS: dict[tuple[str, str], Algorithm] = {}


def algorithm(collective: str, name: str) -> Callable[[Algorithm], Algorithm]:
    """Register the decorated function, which says with the Builder it is given what one rank does."""
    if collective not in COLLECTIVES:
        raise ValueError(f"algorithm {name!r} of {collective!r}: expected one of {', '.join(COLLECTIVES)}")
    if (collective, name) in _ALGORITHMS:
        raise ValueError(f"algorithm {collective}/{name} is registered already")

    def register(function: Algorithm) -> Algorithm:
        _ALGORITHMS[collective, name] = function
        return function

    return register


def listing() -> tuple[tuple[str, str], ...]:
    """All (collective, algorithm) pairs, in the order of the table of collectives and by name."""
    return tuple((collective, name) for collective in COLLECTIVES for name in names(collective))


def names(collective: str) -> tuple[str, ...]:
    """The algorithms of one collective."""
    return tuple(sorted(name for owner, name in _ALGORITHMS if owner == collective))


def function(collective: str, algorithm: str) -> Algorithm:
    """The function that was registered. ValueError if there is none."""
    try:
        return _ALGORITHMS[collective, algorithm]
    except KeyError:
        known = ", ".join(names(collective)) or f"(no such collective; there are {', '.join(COLLECTIVES)})"
        raise ValueError(f"algorithm {algorithm!r} of {collective!r}: expected one of {known}") from None


def parameters(collective: str, algorithm: str) -> tuple[str, ...]:
    """What the algorithm can be tuned with."""
    return tuple(inspect.signature(function(collective, algorithm)).parameters)[1:]


def build(collective: str, algorithm: str, rank: int, size: int, root: int = 0, **options: Option) -> Plan:
    """The plan of `rank` in a communicator of `size` ranks, checked against the grammar. Plans are cached.

    `options` are keyword parameters of the algorithm. ValueError for an unknown algorithm, rank or root, and for groups
    that are not those of `size` ranks.
    """
    if not 0 <= rank < size:
        raise ValueError(f"{collective}/{algorithm}: rank {rank}: expected 0..{size - 1}")
    return build_all(collective, algorithm, size, root, **options)[rank]


def build_all(collective: str, algorithm: str, size: int, root: int = 0, **options: Option) -> tuple[Plan, ...]:
    """The plans of all ranks."""
    return _build_all(collective, algorithm, size, root, tuple(sorted(options.items())))


@lru_cache(maxsize=1024)
def _build_all(
    collective: str, algorithm: str, size: int, root: int, options: tuple[tuple[str, Option], ...]
) -> tuple[Plan, ...]:
    builders = write_all(collective, algorithm, size, root, **dict(options))
    scratch = max(p.scratch_used for p in builders)
    plans = tuple(
        Plan(collective, algorithm, p.rank, size, root, p.chunks, scratch, options, steps)
        for p, steps in zip(builders, with_tokens(COLLECTIVES[collective], builders), strict=True)
    )
    for plan in plans:
        check(plan)
    return plans


def write_all(collective: str, algorithm: str, size: int, root: int = 0, **options: Option) -> list[Builder]:
    """What the algorithm says of each rank, in rounds and without tokens yet. ValueError as for `build`."""
    write, spec = function(collective, algorithm), COLLECTIVES[collective]
    if not 0 <= root < (size if spec.rooted else 1):
        expected = f"0..{size - 1}" if spec.rooted else "0, this collective has no root"
        raise ValueError(f"{collective}/{algorithm}: root {root}: expected {expected}")
    for name, value in options.items():
        if not isinstance(value, int) and value:
            _check_groups(f"{collective}/{algorithm}: {name}={value}", value, size)
    builders = [Builder(rank, size, root) for rank in range(size)]
    for p in builders:
        write(p, **options)
    return builders


def _check_groups(what: str, groups: Groups, size: int) -> None:
    if sorted(rank for group in groups for rank in group) != list(range(size)) or not all(groups):
        raise ValueError(f"{what}: expected groups that hold each of the {size} ranks once")
