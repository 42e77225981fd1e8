"""Phases: collectives among a group of ranks, on data that lie wherever the caller says.

Most algorithms are written as phases. One phase over all ranks is an algorithm, registered here; phases over the ranks
of each server and over those that face one another between servers make a hierarchical one (algorithms/hierarchy.py).

Every rank of a group calls the phase alike. A phase takes

    p       the builder
    group   the ranks that take part; a place in it is a member
    root    broadcast, reduce, scatter, gather: which member
    slots   reduce_scatter, all_gather, scatter, gather: the chunks that belong to each member
    chunks  all_reduce, broadcast, reduce: the chunks that it is about
    held    where a rank has a chunk in the beginning
    kept    where a rank keeps a chunk that it got or folded: what is on its way as well as the result

`held` and `kept` are functions of rank and chunk, such as p.inp and p.out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .builder import Builder
from .language import Ref
from .registry import algorithm

Group = Sequence[int]
Slots = Sequence[Sequence[int]]
Where = Callable[[int, int], Ref]


@dataclass(frozen=True)
class Phase:
    """`parts`: into how many chunks the data of a group of so many ranks are to be cut."""

    run: Callable[..., None]
    parts: Callable[[int], int]


PHASES: dict[tuple[str, str], Phase] = {}


def by_ranks(size: int) -> int:
    """One part for each rank."""
    return size


def whole(size: int) -> int:
    """One part."""
    return 1


def phase(
    collective: str, name: str, parts: Callable[[int], int] = by_ranks
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register the decorated phase, and as an algorithm what it does over all ranks."""

    def register(run: Callable[..., None]) -> Callable[..., None]:
        PHASES[collective, name] = found = Phase(run, parts)

        def over_all_ranks(p: Builder) -> None:
            OVER_ALL_RANKS[collective](p, found)

        over_all_ranks.__doc__ = run.__doc__
        algorithm(collective, name)(over_all_ranks)
        return run

    return register


def in_two(
    reduce_scatter: Callable[..., None],
    all_gather: Callable[..., None],
    p: Builder,
    group: Group,
    slots: Slots,
    held: Where,
    kept: Where,
) -> None:
    """An all-reduce as a reduce-scatter and an all-gather of what it leaves."""
    reduce_scatter(p, group, slots, held, kept)
    p.phase()
    all_gather(p, group, slots, kept, kept)


# ---- a phase over all ranks ----


def _all_reduce(p: Builder, phase: Phase) -> None:
    p.cut(phase.parts(p.size))
    p.enter()
    if p.size == 1:
        p.copy(p.out(0), p.inp(0))
    else:
        phase.run(p, p.ranks, range(p.chunks), p.inp, p.out)
    p.leave()


def _reduce_scatter(p: Builder, phase: Phase) -> None:
    p.enter()
    if p.size == 1:
        p.copy(p.out(0), p.inp(0))
    else:
        phase.run(p, p.ranks, own_slots(p), p.inp, own_in_out(p))
    p.leave()


def _all_gather(p: Builder, phase: Phase) -> None:
    def held(rank: int, block: int) -> Ref:
        return p.inp(rank) if block == rank else p.out(rank, block)

    p.enter()
    p.copy(p.out(p.rank, p.rank), p.inp(p.rank))
    phase.run(p, p.ranks, own_slots(p), held, p.out)
    p.leave()


def _broadcast(p: Builder, phase: Phase) -> None:
    p.cut(phase.parts(p.size))
    p.enter()
    if p.rank == p.root:
        p.copy(p.out(p.root), p.inp(p.root), n=p.chunks)
    phase.run(p, p.ranks, p.root, range(p.chunks), held_by_root(p), p.out)
    p.leave()


def _reduce(p: Builder, phase: Phase) -> None:
    def kept(rank: int, chunk: int) -> Ref:
        return p.out(rank, chunk) if rank == p.root else p.scratch(rank, chunk)

    parts = phase.parts(p.size)
    p.cut(parts)
    p.enter()
    if p.size == 1:
        p.copy(p.out(0), p.inp(0), n=p.chunks)
    else:
        phase.run(p, p.ranks, p.root, range(p.chunks), p.inp, kept)
    p.leave()


def _scatter(p: Builder, phase: Phase) -> None:
    def held(rank: int, block: int) -> Ref:
        return p.inp(rank, block) if rank == p.root else p.scratch(rank, block)

    p.enter()
    if p.rank == p.root:
        p.copy(p.out(p.rank), p.inp(p.rank, p.rank))
    phase.run(p, p.ranks, p.root, own_slots(p), held, own_in_out(p))
    p.leave()


def _gather(p: Builder, phase: Phase) -> None:
    def held(rank: int, block: int) -> Ref:
        return p.inp(rank) if block == rank else p.scratch(rank, block)

    def kept(rank: int, block: int) -> Ref:
        return p.out(rank, block) if rank == p.root else p.scratch(rank, block)

    p.enter()
    if p.rank == p.root:
        p.copy(p.out(p.rank, p.rank), p.inp(p.rank))
    phase.run(p, p.ranks, p.root, own_slots(p), held, kept)
    p.leave()


OVER_ALL_RANKS: dict[str, Callable[[Builder, Phase], None]] = {
    "all_reduce": _all_reduce,
    "reduce_scatter": _reduce_scatter,
    "all_gather": _all_gather,
    "broadcast": _broadcast,
    "reduce": _reduce,
    "scatter": _scatter,
    "gather": _gather,
}


# ---- where data lie ----


def own_slots(p: Builder) -> Slots:
    """Block r belongs to rank r."""
    return [(rank,) for rank in p.ranks]


def own_in_out(p: Builder) -> Where:
    """A rank's own block in its OUT, of which it is the only one; all others in scratch."""
    return lambda rank, block: p.out(rank) if block == rank else p.scratch(rank, block)


def held_by_root(p: Builder) -> Where:
    """In IN of the root, in OUT of everybody else."""
    return lambda rank, chunk: p.inp(rank, chunk) if rank == p.root else p.out(rank, chunk)
