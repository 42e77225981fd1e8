"""Reduce: the root ends with the sum of all ranks' n bytes."""

from ..language import Builder
from ..registry import algorithm


@algorithm("reduce", "mesh")
def mesh(p: Builder) -> None:
    """Rank r folds chunk r of everybody, in rank order, and stores the result to the root.

    One round, no posts, one rounding; every rank folds its share: n(N-1)/N bytes loaded from the others and n/N stored.
    """
    p.cut(p.size)
    mine = p.chunk(p.rank)
    p.enter()
    p.reduce([p.out(p.root, mine)], [p.inp(r, mine) for r in p.ranks])
    p.leave()
