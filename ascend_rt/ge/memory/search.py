"""What to do where no order of putting buffers down meets the lower bound."""

import random
from collections.abc import Sequence

import numpy as np

from .first_fit import Fit, Items, Matrix, first_fit

MOST_BUFFERS = 60
"""of an exhaustive search"""
MOST_STEPS = 4000
"""of one; with more buffers than a dozen or two it ends by them"""
MOST_TRIES, MOST_CONFLICTS = 300, 6_000_000
"""of `improve`: orders, and conflicts looked at in all of them together"""
STALE = 10
"""tries without a gain after which the best order is taken up again"""


def improve(items: Items, order: Sequence[int], bound: int, effort: int) -> Fit:
    """The best of some hundred orders, each made from the one before it: what lies above the bound comes earlier.

    (Squeaky wheel optimisation, Joslin and Clements 1999.) By how much is drawn: now anything, now a little. A first
    fit costs a step for each conflict, so what has many conflicts has fewer tries.
    """
    draw = random.Random(0)
    best = fit = first_fit(items, order)
    best_order = order = list(order)
    stale = 0
    for number in range(min(MOST_TRIES, MOST_CONFLICTS // (1 + sum(map(len, items.neighbours)))) * effort):
        if best.peak <= bound:
            break
        key = {item: float(place) for place, item in enumerate(order)}
        for item, members in enumerate(items.members):
            if any(fit.offsets[buffer] + items.sizes[buffer] > bound for buffer in members):
                key[item] = key[item] * (1 - draw.random() * (0.3 if number % 2 else 1)) - 0.5
        order = sorted(order, key=key.__getitem__)
        fit = first_fit(items, order)
        stale += 1
        if fit.peak < best.peak:
            best, best_order, stale = fit, order, 0
        elif stale > STALE:
            fit, order, stale = best, best_order, 0
    return best


def search(sizes: Sequence[int], conflicts: Matrix, fit: Fit, bound: int) -> tuple[Fit, bool]:
    """A better placement, if there is one, by trying all; and whether all have been tried, so that none is better.

    Every placement can be pushed down until each buffer lies at 0 or on another. So it is enough to put buffers down in
    the order of their offsets, each on the highest that it conflicts with (MiniMalloc, Moffitt 2023, does so); and
    never one above a place where another would fit whole.
    """
    tree = _Search(sizes, conflicts, fit, bound)
    complete = tree.run()
    return tree.best, complete


class _Search:
    def __init__(self, sizes: Sequence[int], conflicts: Matrix, fit: Fit, bound: int) -> None:
        self.sizes, self.bound, self.best, self.steps = list(sizes), bound, fit, 0
        self.neighbours = [np.flatnonzero(row).tolist() for row in conflicts]
        self.cliques = _cliques(sizes, conflicts)

    def run(self) -> bool:
        """Whether the tree was searched to its end."""
        self._descend([0] * len(self.sizes), set(range(len(self.sizes))), [0] * len(self.sizes))
        return self.steps < MOST_STEPS or self.best.peak == self.bound

    def _descend(self, floor: list[int], left: set[int], offsets: list[int]) -> None:
        self.steps += 1
        if self.steps >= MOST_STEPS or self.best.peak == self.bound:
            return
        if not left:
            peak = max(offset + size for offset, size in zip(offsets, self.sizes, strict=True))
            self.best = Fit(list(offsets), peak) if peak < self.best.peak else self.best
            return
        if not self._has_room(floor, left):
            return
        lowest_top = min(floor[i] + self.sizes[i] for i in left)
        for i in sorted((i for i in left if floor[i] < lowest_top), key=lambda i: (floor[i], -self.sizes[i])):
            below = list(floor)
            for j in left:
                below[j] = max(floor[j], floor[i])
            for j in self.neighbours[i]:
                below[j] = max(below[j], floor[i] + self.sizes[i])
            offsets[i] = floor[i]
            self._descend(below, left - {i}, offsets)

    def _has_room(self, floor: list[int], left: set[int]) -> bool:
        """Whether buffers that are all in conflict with one another can still be stacked below the best peak."""
        for clique in self.cliques:
            waiting = [i for i in clique if i in left]
            if waiting and min(floor[i] for i in waiting) + sum(self.sizes[i] for i in waiting) >= self.best.peak:
                return False
        return True


def _cliques(sizes: Sequence[int], conflicts: Matrix) -> list[list[int]]:
    """For each buffer a set of buffers around it that are all in conflict with one another, the large ones first."""
    found = set()
    heaviest_first = sorted(range(len(sizes)), key=lambda i: -sizes[i])
    for i in range(len(sizes)):
        clique = [i]
        for j in heaviest_first:
            if j != i and conflicts[j, clique].all():
                clique.append(j)
        found.add(tuple(sorted(clique)))
    return [list(clique) for clique in found]
