"""Offsets for buffers that share memory: arithmetic on sizes and an order, which knows of no graph and no device.

    placement = place([4096, 512, 4096], before)      # before[i, j]: all uses of i are over when those of j begin
    placement.offsets, placement.peak, placement.bound

Two buffers may have bytes in common only if one of them is before the other. In an order of two streams that is no
matter of intervals on one line: buffers that are never live together in one order of running may be in another.

First fit puts buffers down one by one, each as low as those allow that it conflicts with and that lie already. Which
order is good cannot be told, so several are tried, as TFLite, GE and MindSpore's SOMAS do. What still lies above the
lower bound is then put down earlier, again and again (search.improve); few buffers are searched exhaustively
(search.search).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from . import search
from .bound import lower_bound
from .first_fit import Items, first_fit

Matrix = npt.NDArray[np.bool_]
ALIGNMENT = 512
"""bytes; as in GE, SOMAS and device memory"""


class Placement(NamedTuple):
    offsets: tuple[int, ...]
    """by buffer, in bytes; multiples of the alignment"""
    peak: int
    """bytes that hold all of them"""
    bound: int
    """bytes that no placement can do with less of"""
    pressing: tuple[int, ...]
    """buffers of which none is before another, or the members of a group, whose sizes make the bound"""
    how: str
    """what found it: the name of an order, improved or search; optimal where it is known that there is none better"""


def place(
    nbytes: Sequence[int],
    before: Matrix,
    *,
    groups: Sequence[Sequence[int]] = (),
    alignment: int = ALIGNMENT,
    effort: int = 1,
) -> Placement:
    """Offsets of buffers of so many bytes. Always the same for the same arguments.

    before     a strict partial order: [i, j] if all uses of i are over when those of j begin
    groups     buffers that lie side by side, in this order, each at the next multiple of the alignment. ValueError if
               one is in two groups
    effort     how long to look for something better: 0 tries orders only, 1 takes some 0.1 s for 60 buffers and seconds
               for 400
    """
    sizes = [-(-max(size, 1) // alignment) for size in nbytes]
    conflicts = conflicts_of(before)
    items = Items(sizes, conflicts, groups)
    if not sizes:
        return Placement((), 0, 0, (), "optimal")
    bounds = [lower_bound(sizes, before), *zip(items.total, items.members, strict=True)]
    bound, pressing = max(bounds, key=lambda found: found[0])
    candidates = ((first_fit(items, order), order, name) for name, order in _orders(items, before))
    fit, order, how = min(candidates, key=lambda candidate: candidate[0].peak)
    if fit.peak > bound and effort:
        better = search.improve(items, order, bound, effort)
        fit, how = (better, "improved") if better.peak < fit.peak else (fit, how)
    if fit.peak > bound and effort and not groups and len(sizes) <= search.MOST_BUFFERS:
        found, complete = search.search(sizes, conflicts, fit, bound)
        how = how if found is fit else "search"
        fit, how = found, "optimal" if complete else how
    how = "optimal" if fit.peak == bound else how
    offsets = tuple(offset * alignment for offset in fit.offsets)
    return Placement(offsets, fit.peak * alignment, bound * alignment, pressing, how)


def conflicts_of(before: Matrix) -> Matrix:
    """[i, j]: neither of two buffers is before the other, so they may be live together; False for one with itself."""
    conflicts: Matrix = ~(before | before.T)
    np.fill_diagonal(conflicts, False)
    return conflicts


def overlaps(nbytes: Sequence[int], offsets: Sequence[int], before: Matrix) -> list[tuple[int, int]]:
    """Pairs of buffers that have bytes in common and may be live together: empty if a placement is sound."""
    start = np.asarray(offsets, np.int64)
    stop = start + np.asarray(nbytes, np.int64)
    shared = (start[:, None] < stop[None, :]) & (start[None, :] < stop[:, None]) & conflicts_of(before)
    return [(int(i), int(j)) for i, j in np.argwhere(np.triu(shared, 1))]


def _orders(items: Items, before: Matrix) -> Iterator[tuple[str, list[int]]]:
    sizes = np.array(items.sizes)
    earlier = before.sum(0)
    alive = len(sizes) - earlier - before.sum(1)  # buffers that may be live together with it
    weight = np.array([sizes[i] + sizes[items.neighbours[i]].sum() for i in range(len(sizes))])
    keys: list[tuple[str, Callable[[int], tuple[float, ...]]]] = [
        ("by size", lambda i: (-sizes[i], -alive[i])),
        ("by size x lifetime", lambda i: (-sizes[i] * alive[i], -sizes[i])),
        ("by start", lambda i: (earlier[i], -sizes[i])),
        ("by lifetime", lambda i: (-alive[i], -sizes[i])),
        ("by pressure", lambda i: (-weight[i], -sizes[i])),
    ]
    for name, key in keys:
        yield name, sorted(range(len(items.members)), key=lambda item: min(map(key, items.members[item])))
