"""All-to-all: every rank ends with its own block of every rank's n bytes."""

from ..language import Builder
from ..registry import algorithm


@algorithm("all_to_all", "mesh")
def mesh(p: Builder) -> None:
    """Everybody loads its block from everybody: one round, no posts, n(N-1)/N bytes from the others.

    Each rank begins with its own and goes round, so that no two read the same memory at the same time.
    """
    p.enter()
    for distance in p.ranks:
        owner = (p.rank + distance) % p.size
        p.copy(p.out(p.rank, owner), p.inp(owner, p.rank))
    p.leave()
