"""Every algorithm by collective and name, and the plans built from them.

An algorithm is added by writing one function with `@algorithm` in `algorithms/<collective>.py`; the prover, the runner
and their tests find it here. Numbers it can be tuned with are keyword parameters of the function.
"""

from collections.abc import Callable
from functools import lru_cache

from .collectives import COLLECTIVES
from .grammar import check
from .language import Builder, Plan

Algorithm = Callable[..., None]

_ALGORITHMS: dict[tuple[str, str], Algorithm] = {}


def algorithm(collective: str, name: str) -> Callable[[Algorithm], Algorithm]:
    """Register the decorated function, which writes the steps of one rank with the Builder it is given."""
    if collective not in COLLECTIVES:
        raise ValueError(f"algorithm {name!r} of {collective!r}: expected one of {', '.join(COLLECTIVES)}")
    if (collective, name) in _ALGORITHMS:
        raise ValueError(f"algorithm {collective}/{name} is registered already")

    def register(function: Algorithm) -> Algorithm:
        _ALGORITHMS[collective, name] = function
        return function

    return register


def listing() -> tuple[tuple[str, str], ...]:
    """All (collective, algorithm) pairs."""
    return tuple(_ALGORITHMS)


def names(collective: str) -> tuple[str, ...]:
    """The algorithms of one collective."""
    return tuple(name for owner, name in _ALGORITHMS if owner == collective)


def function(collective: str, algorithm: str) -> Algorithm:
    """The function that was registered. ValueError if there is none."""
    try:
        return _ALGORITHMS[collective, algorithm]
    except KeyError:
        known = ", ".join(names(collective)) or f"(no such collective; there are {', '.join(COLLECTIVES)})"
        raise ValueError(f"algorithm {algorithm!r} of {collective!r}: expected one of {known}") from None


def build(collective: str, algorithm: str, rank: int, size: int, root: int = 0, **options: int) -> Plan:
    """The plan of `rank` in a communicator of `size` ranks, checked against the grammar. Plans are cached.

    `options` are keyword parameters of the algorithm. ValueError for an unknown algorithm, rank or root.
    """
    return _build(collective, algorithm, rank, size, root, tuple(sorted(options.items())))


def build_all(collective: str, algorithm: str, size: int, root: int = 0, **options: int) -> tuple[Plan, ...]:
    """The plans of all ranks."""
    return tuple(build(collective, algorithm, rank, size, root, **options) for rank in range(size))


@lru_cache(maxsize=4096)
def _build(
    collective: str, algorithm: str, rank: int, size: int, root: int, options: tuple[tuple[str, int], ...]
) -> Plan:
    write = function(collective, algorithm)
    spec = COLLECTIVES[collective]
    if not 0 <= rank < size:
        raise ValueError(f"{collective}/{algorithm}: rank {rank}: expected 0..{size - 1}")
    if not 0 <= root < (size if spec.rooted else 1):
        expected = f"0..{size - 1}" if spec.rooted else "0, this collective has no root"
        raise ValueError(f"{collective}/{algorithm}: root {root}: expected {expected}")
    p = Builder(rank, size, root)
    write(p, **dict(options))
    plan = Plan(collective, algorithm, rank, size, root, p.chunks, p.scratch_chunks, options, tuple(p.steps))
    check(plan)
    return plan
