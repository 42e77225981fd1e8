"""First fit: buffers are put down one by one, each as low as those allow that lie there and that it conflicts with."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.bool_]


class Fit(NamedTuple):
    """A placement in units of the alignment."""

    offsets: list[int]
    peak: int


class Items:
    """What is put down as one: a buffer, or a group of them that lie side by side."""

    def __init__(self, sizes: Sequence[int], conflicts: Matrix, groups: Sequence[Sequence[int]] = ()) -> None:
        grouped = [member for group in groups for member in group]
        if len(set(grouped)) != len(grouped):
            twice = sorted({member for member in grouped if grouped.count(member) > 1})
            raise ValueError(f"buffers {twice} are to lie in two places: a buffer is in one group at most")
        alone = [(buffer,) for buffer in range(len(sizes)) if buffer not in set(grouped)]
        self.sizes = list(sizes)
        self.members = [*(tuple(group) for group in groups if group), *alone]
        self.neighbours = [np.flatnonzero(row).tolist() for row in conflicts]
        self.starts = [np.cumsum([0, *(sizes[i] for i in members[:-1])]).tolist() for members in self.members]
        self.total = [sum(sizes[i] for i in members) for members in self.members]


def first_fit(items: Items, order: Sequence[int]) -> Fit:
    """Puts items down in this order, each as low as it can lie."""
    sizes, neighbours = items.sizes, items.neighbours
    offsets, tops = [0] * len(sizes), [0] * len(sizes)  # a top of 0: it does not lie yet
    peak = 0
    for item in order:
        taken: list[tuple[int, int]] = []
        for buffer, start in zip(items.members[item], items.starts[item], strict=True):
            shift = start + sizes[buffer]
            taken += [(offsets[other] - shift, tops[other] - start) for other in neighbours[buffer] if tops[other]]
        taken.sort()
        base = 0
        for highest_below, lowest_above in taken:
            if base <= highest_below:
                break
            if lowest_above > base:
                base = lowest_above
        for buffer, start in zip(items.members[item], items.starts[item], strict=True):
            offsets[buffer] = base + start
            tops[buffer] = base + start + sizes[buffer]
        peak = max(peak, base + items.total[item])
    return Fit(offsets, peak)
