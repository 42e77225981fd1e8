"""All-reduce: every rank ends with the sum of all ranks' n bytes."""

from ..language import Builder
from ..registry import algorithm


@algorithm("all_reduce", "mesh")
def mesh(p: Builder) -> None:
    """Rank r folds chunk r of everybody, in rank order, and stores the result to everybody.

    One round, no posts, and one rounding: 2n(N-1)/N bytes to and from the other ranks, nothing stored twice.
    Wins wherever every pair of ranks has an equally good way to each other, as in shared memory.
    """
    p.cut(p.size)
    mine = p.chunk(p.rank)
    p.enter()
    p.reduce([p.out(r, mine) for r in p.ranks], [p.inp(r, mine) for r in p.ranks])
    p.leave()


@algorithm("all_reduce", "ring")
def ring(p: Builder) -> None:
    """N-1 rounds in which partial sums travel to the right and grow, N-1 rounds in which the sums follow.

    2(N-1) rounds with a post each, 2n(N-1)/N bytes loaded, always from the left neighbour: wins where only neighbours
    have a good link. A rank overwrites a chunk N rounds after it wrote it; by then tokens went once about the ring,
    so its right neighbour has read it: tokens to the right are all it takes.
    """
    p.cut(p.size)
    left, right = (p.rank - 1) % p.size, (p.rank + 1) % p.size
    rounds = 2 * (p.size - 1)
    p.enter()
    if p.size == 1:
        p.copy(p.out(p.rank), p.inp(p.rank))
    for step in range(rounds):
        chunk = p.chunk((p.rank - 1 - step) % p.size)
        if step == 0:
            p.reduce([p.out(p.rank, chunk)], [p.inp(r, chunk) for r in sorted((left, p.rank))])
        else:
            p.wait(left)
            if step < p.size - 1:
                p.reduce([p.out(p.rank, chunk)], [p.out(left, chunk), p.inp(p.rank, chunk)])
            else:
                p.copy(p.out(p.rank, chunk), p.out(left, chunk))
        if step < rounds - 1:
            p.post(right)
    p.leave()
