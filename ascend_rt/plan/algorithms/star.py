"""Star: the root alone moves everything, at once.

One round, no posts: n bytes from or to each other rank, all of them through the root. Wins where only the root has work
to do anyway; the mesh shares it.
"""

from ..builder import Builder
from ..registry import algorithm
from .mesh import round_from


@algorithm("broadcast", "star")
def broadcast(p: Builder) -> None:
    """The root stores its n bytes to everybody."""
    p.enter()
    if p.rank == p.root:
        for rank in round_from(p.ranks, p.root):
            p.copy(p.out(rank), p.inp(p.root))
    p.leave()


@algorithm("reduce", "star")
def reduce(p: Builder) -> None:
    """The root folds everybody's n bytes, in rank order."""
    p.enter()
    if p.rank == p.root:
        p.fold(p.out(p.root), *(p.inp(rank) for rank in p.ranks))
    p.leave()


@algorithm("scatter", "star")
def scatter(p: Builder) -> None:
    """The root stores everybody's block to it."""
    p.enter()
    if p.rank == p.root:
        for rank in round_from(p.ranks, p.root):
            p.copy(p.out(rank), p.inp(p.root, rank))
    p.leave()


@algorithm("gather", "star")
def gather(p: Builder) -> None:
    """The root loads everybody's block."""
    p.enter()
    if p.rank == p.root:
        for rank in round_from(p.ranks, p.root):
            p.copy(p.out(p.root, rank), p.inp(rank))
    p.leave()
