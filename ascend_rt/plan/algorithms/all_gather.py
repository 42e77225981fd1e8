"""All-gather: every rank ends with the blocks of all ranks; n bytes are all N blocks."""

from ..language import Builder
from ..registry import algorithm


@algorithm("all_gather", "mesh")
def mesh(p: Builder) -> None:
    """Everybody loads every block from its owner: one round, no posts, n(N-1)/N bytes from the others.

    Each rank begins with its own block and goes round, so that no two read the same memory at the same time.
    Wins wherever every pair of ranks has an equally good way to each other, as in shared memory.
    """
    p.enter()
    for distance in p.ranks:
        owner = (p.rank + distance) % p.size
        p.copy(p.out(p.rank, owner), p.inp(owner))
    p.leave()


@algorithm("all_gather", "ring")
def ring(p: Builder) -> None:
    """N-1 rounds: each rank loads from its left neighbour the block which that one got in the round before.

    N-1 rounds, N-2 posts, n(N-1)/N bytes loaded, always from the left neighbour: wins where only neighbours have a good
    link. No block is written twice, so nobody waits for its reader.
    """
    left, right = (p.rank - 1) % p.size, (p.rank + 1) % p.size
    p.enter()
    p.copy(p.out(p.rank, p.rank), p.inp(p.rank))
    for distance in range(1, p.size):
        block = (p.rank - distance) % p.size
        if distance == 1:
            p.copy(p.out(p.rank, block), p.inp(left))
        else:
            p.wait(left)
            p.copy(p.out(p.rank, block), p.out(left, block))
        if distance < p.size - 1:
            p.post(right)
    p.leave()
