"""From measured times to what communicators choose by: the constants of the model, and rows of the table of choice."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from statistics import median

import numpy as np
import numpy.typing as npt

from ..plan.choice import UNBOUNDED, Row
from ..plan.model import SHIPPED, Constants, Work

Array = npt.NDArray[np.float64]
Times = Mapping[str, Sequence[float]]
"""Microseconds of one call by algorithm, one entry per round in which all algorithms took their turn."""

DEFAULT = "mesh"
GAIN = 0.9
"""An algorithm beats the default where it takes less than so much of its time, in every round."""


def fit(samples: Iterable[tuple[Work, float]]) -> Constants:
    """The constants of the model that come nearest to (work, microseconds), all samples counting by their relative
    error. None is negative; one that no sample speaks of is the shipped one."""
    pairs = [(work, us) for work, us in samples if us > 0]
    rows = np.array([work for work, _ in pairs], float).reshape(len(pairs), len(Work._fields))
    relative = rows / np.array([us for _, us in pairs], float)[:, None]
    spoken_of = relative.any(axis=0)
    found = np.where(spoken_of, _not_negative(relative, spoken_of), SHIPPED)
    return Constants(*map(float, found))


def _not_negative(rows: Array, columns: npt.NDArray[np.bool_]) -> Array:
    """Least squares of rows @ x = 1 with x >= 0 in these columns, and 0 elsewhere."""
    found = np.zeros(rows.shape[1])
    while columns.any():
        found[:] = 0
        found[columns] = np.linalg.lstsq(rows[:, columns], np.ones(len(rows)), rcond=None)[0]
        if (found >= 0).all():
            return found
        columns = columns & (found > 0)
    return np.zeros(rows.shape[1])


def best(times: Times) -> str:
    """The algorithm that takes the least time, if it beats the default in every round; else the default."""
    fastest = min(times, key=lambda name: median(times[name]))
    pairs = zip(times[fastest], times[DEFAULT], strict=True)
    return fastest if all(its < GAIN * of_default for its, of_default in pairs) else DEFAULT


def rows_of(collective: str, ranks: int, by_nbytes: Mapping[int, Times]) -> Iterator[Row]:
    """Rows for calls of so many ranks, from the times at some sizes (bytes per block).

    What is best at a size is taken from there up to the next size; the default also below the first and beyond twice
    the last one, where nobody has measured. Times are those at the largest size of a row.
    """
    sizes = sorted(by_nbytes)
    first_behind = dict(zip(sizes, [*sizes[1:], 2 * sizes[-1]], strict=True))
    for algorithm, group in groupby(sizes, key=lambda nbytes: best(by_nbytes[nbytes])):
        of_row = list(group)
        first, last = of_row[0], first_behind[of_row[-1]] - 1
        if algorithm == DEFAULT:
            first, last = 0 if first == sizes[0] else first, UNBOUNDED if of_row[-1] == sizes[-1] else last
        measured = median(by_nbytes[of_row[-1]][algorithm])
        fits = (ranks, ranks), (first, last)
        yield Row(collective, algorithm, *fits, at_nbytes=of_row[-1], measured_us=round(measured, 2))
