"""Scatter: every rank ends with its own block of the root's n bytes."""

from ..language import Builder
from ..registry import algorithm


@algorithm("scatter", "mesh")
def mesh(p: Builder) -> None:
    """Everybody loads its block from the root: one round, no posts, n/N bytes per rank."""
    p.enter()
    p.copy(p.out(p.rank), p.inp(p.root, p.rank))
    p.leave()
