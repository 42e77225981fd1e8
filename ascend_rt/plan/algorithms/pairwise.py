"""Pairwise: all-to-all in N-1 rounds, in each of which every rank's memory is read by one other rank.

Wins where a link or a memory suffers from many readers at once; else the mesh does without the rounds.
"""

from ..builder import Builder
from ..registry import algorithm


@algorithm("all_to_all", "pairwise")
def all_to_all(p: Builder) -> None:
    """In round k rank r loads from rank r - k, whose reader of the round before was r - 1: n(N-1)/N bytes."""
    p.enter()
    p.copy(p.out(p.rank, p.rank), p.inp(p.rank, p.rank))
    for distance in range(1, p.size):
        if distance > 1:
            p.after((p.rank - 1) % p.size)
        source = (p.rank - distance) % p.size
        p.copy(p.out(p.rank, source), p.inp(source, p.rank))
        p.round()
    p.leave()
