"""Broadcast: every rank ends with the root's n bytes."""

from ..language import Builder
from ..registry import algorithm


@algorithm("broadcast", "mesh")
def mesh(p: Builder) -> None:
    """Everybody loads all of it from the root: one round, no posts, n bytes per rank.

    Wins where the root's memory is everybody's (shared memory: the lines come from the cache after the first reader).
    """
    p.enter()
    p.copy(p.out(p.rank), p.inp(p.root))
    p.leave()


@algorithm("broadcast", "ring")
def ring(p: Builder, pieces: int = 8) -> None:
    """A chain from the root to the right: each rank loads piece after piece from its left neighbour.

    N-1 hops, `pieces` posts, n bytes per rank; the pieces overlap, so the last rank has all after (1 + (N-2)/pieces) n
    bytes instead of (N-1) n. Wins where only neighbours have a good link.
    """
    p.cut(pieces)
    left, right = (p.rank - 1) % p.size, (p.rank + 1) % p.size
    hops = (p.rank - p.root) % p.size
    p.enter()
    if hops == 0:
        p.copy(p.out(p.rank), p.inp(p.rank), n=pieces)
    for piece in range(pieces if hops > 0 else 0):
        if hops == 1:
            p.copy(p.out(p.rank, piece), p.inp(p.root, piece))
        else:
            p.wait(left)
            p.copy(p.out(p.rank, piece), p.out(left, piece))
        if hops < p.size - 1:
            p.post(right)
    p.leave()
