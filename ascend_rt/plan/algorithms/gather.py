"""Gather: the root ends with the blocks of all ranks; n bytes are all N blocks."""

from ..language import Builder
from ..registry import algorithm


@algorithm("gather", "mesh")
def mesh(p: Builder) -> None:
    """Everybody stores its block to the root: one round, no posts, n/N bytes per rank."""
    p.enter()
    p.copy(p.out(p.root, p.rank), p.inp(p.rank))
    p.leave()
