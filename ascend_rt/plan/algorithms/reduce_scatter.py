"""Reduce-scatter: rank r ends with the sum of all ranks' block r; n bytes are all N blocks."""

from ..language import Builder
from ..registry import algorithm


@algorithm("reduce_scatter", "mesh")
def mesh(p: Builder) -> None:
    """Rank r folds block r of everybody, in rank order: one round, no posts, one rounding.

    n(N-1)/N bytes loaded from the others. Wins wherever every pair of ranks has an equally good way to each other.
    """
    p.enter()
    p.reduce([p.out(p.rank)], [p.inp(r, p.rank) for r in p.ranks])
    p.leave()


@algorithm("reduce_scatter", "ring")
def ring(p: Builder) -> None:
    """N-1 rounds in which partial sums travel to the right; each ends at its owner.

    N-1 rounds, n(N-1)/N bytes loaded, always from the left neighbour: wins where only neighbours have a good link.
    Partial sums live in two chunks of scratch used in turn (OUT may be a block of IN that is still needed), so besides
    the token to the right there is one back to the left: your chunk is read, use it again.
    """
    handed_on = max(0, p.size - 2)  # partial sums that pass through this rank
    p.cut(1, scratch=min(2, handed_on))
    left, right = (p.rank - 1) % p.size, (p.rank + 1) % p.size
    p.enter()
    if p.size == 1:
        p.copy(p.out(p.rank), p.inp(p.rank))
    for step in range(p.size - 1):
        block = (p.rank - 2 - step) % p.size
        keep = p.scratch(p.rank, step % 2) if step < handed_on else p.out(p.rank)
        if step == 0:
            p.reduce([keep], [p.inp(r, block) for r in sorted((left, p.rank))])
        else:
            if 2 <= step < handed_on:
                p.wait(right)
            p.wait(left)
            p.reduce([keep], [p.scratch(left, (step - 1) % 2), p.inp(p.rank, block)])
            if step < handed_on - 1:
                p.post(left)
        if step < handed_on:
            p.post(right)
    p.leave()
