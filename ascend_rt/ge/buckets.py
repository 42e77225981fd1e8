"""Which gradients are reduced in one call: arithmetic on sizes and times, which knows of no graph.

Gradients are numbered in the order in which they are reduced. Buckets are runs of them, given as the last number of
each, as `set_split_strategy_by_idx` has them: [20, 100, 159] are 0..20, 21..100 and 101..159.

    Percentages   shares of the bytes, as hccl.split.api's set_split_strategy_by_size
    Indices       the last numbers themselves, as set_split_strategy_by_idx
    Threshold     a bucket is closed when it has so many bytes, as MindSpore's comm_fusion
    AtMost        a bucket has so many bytes at most, as GE's ge.fusionTensorSize
    Fastest       the least time until everything is reduced, from when gradients are ready and what calls cost
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

SPEEDS = (1.0, 0.85, 1.15)
"""Of kernels beside that at which they were measured, which is not quite that of a step. Where communication just
hides, buckets that are best at one speed wait for their last gradient at a lower one."""

TimeOf = Callable[[int, int], float]
"""(first, last) -> microseconds that the call of the bucket takes"""


@dataclass(frozen=True)
class Gradients:
    """What the choice of buckets rests on. All ranks must have the same.

    nbytes      of each
    ready_us    when each is there to be reduced, from the launch
    first       of each, the lowest number that may be in a bucket whose last it is
    time_of     of a bucket
    """

    nbytes: Sequence[int]
    ready_us: Sequence[float]
    first: Sequence[int]
    time_of: TimeOf


@dataclass(frozen=True)
class Percentages:
    """Shares of the bytes in percent. Each cut is made at the gradient at which the sum is nearest to the target, the
    lower one of two; what a share misses or exceeds is the next one's."""

    shares: tuple[float, ...] = (96.54, 3.46)

    def __post_init__(self) -> None:
        if not self.shares or min(self.shares) < 0 or abs(sum(self.shares) - 100) > 1e-6:
            raise ValueError(f"shares {list(self.shares)} of gradients; expected percentages whose sum is 100")

    def last(self, gradients: Gradients) -> list[int]:
        """The last gradient of each bucket."""
        sums = list(accumulate(gradients.nbytes))
        targets = [sums[-1] * share / 100 for share in accumulate(self.shares[:-1])] if sums else []
        cuts = [min(range(len(sums)), key=lambda number: (abs(sums[number] - target), number)) for target in targets]
        return _ending(cuts, len(sums))


@dataclass(frozen=True)
class Indices:
    """The last gradient of each bucket; those behind the last are one bucket more."""

    numbers: tuple[int, ...]

    def __post_init__(self) -> None:
        if any(number < 0 for number in self.numbers) or list(self.numbers) != sorted(set(self.numbers)):
            raise ValueError(f"last gradients {list(self.numbers)} of buckets; expected ascending numbers from 0")

    def last(self, gradients: Gradients) -> list[int]:
        """The last gradient of each bucket."""
        return _ending([number for number in self.numbers if number < len(gradients.nbytes)], len(gradients.nbytes))


@dataclass(frozen=True)
class Threshold:
    """A bucket ends with the gradient with which it has `nbytes` or more."""

    nbytes: int = 64 << 20

    def last(self, gradients: Gradients) -> list[int]:
        """The last gradient of each bucket."""
        cuts, held = [], 0
        for number, nbytes in enumerate(gradients.nbytes):
            held += nbytes
            if held >= self.nbytes:
                cuts.append(number)
                held = 0
        return _ending(cuts, len(gradients.nbytes))


@dataclass(frozen=True)
class AtMost:
    """A bucket ends before the gradient with which it would have more than `nbytes`; one that has more is alone."""

    nbytes: int

    def last(self, gradients: Gradients) -> list[int]:
        """The last gradient of each bucket."""
        cuts, held = [], 0
        for number, nbytes in enumerate(gradients.nbytes):
            if number and held + nbytes > self.nbytes:
                cuts.append(number - 1)
                held = 0
            held += nbytes
        return _ending(cuts, len(gradients.nbytes))


@dataclass(frozen=True)
class Fastest:
    """Buckets with which the last call ends earliest, where calls follow one another and each begins when all its
    gradients are ready: f(j) = min over i of max(f(i), ready(i+1..j)) + time(i+1..j). Where the first j end equally
    early in two ways, the one with fewer buckets is taken.

    Of the buckets that are so at each of the SPEEDS, those that are least behind the others at any of them.
    """

    def last(self, gradients: Gradients) -> list[int]:
        """The last gradient of each bucket."""
        cases = [replace(gradients, ready_us=[ready / speed for ready in gradients.ready_us]) for speed in SPEEDS]
        found = [fastest(case)[1] for case in cases]
        return found[least_behind([[end_us(last, case) for case in cases] for last in found])]


Strategy = Percentages | Indices | Threshold | AtMost | Fastest


def fastest(gradients: Gradients) -> tuple[float, list[int]]:
    """When the last call ends, in microseconds from the launch, and the last gradient of each bucket. O(n^2)."""
    best: list[tuple[float, int, int]] = [(0.0, 0, -1)]
    """by number of gradients: end of the last call, buckets, gradients before the last bucket"""
    for last in range(len(gradients.nbytes)):
        ready, found = 0.0, []
        for first in range(last, gradients.first[last] - 1, -1):
            ready = max(ready, gradients.ready_us[first])
            end, count, _ = best[first]
            found.append((max(end, ready) + gradients.time_of(first, last), count + 1, first))
        best.append(min(found))
    cuts, number = [], len(gradients.nbytes)
    while number > 0:
        cuts.append(number - 1)
        number = best[number][2]
    return best[-1][0], cuts[::-1]


def end_us(last: Sequence[int], gradients: Gradients) -> float:
    """When the last call ends with these buckets, in microseconds from the launch."""
    end = 0.0
    for first, final in runs(last):
        end = max(end, *gradients.ready_us[first : final + 1]) + gradients.time_of(first, final)
    return end


def least_behind(times: Sequence[Sequence[float]]) -> int:
    """The choice whose time is least above the shortest in the case where it is most.  times: of choices, by case."""
    shortest = [min(case) for case in zip(*times, strict=True)]
    behind = [max(map(operator.sub, choice, shortest)) for choice in times]
    return behind.index(min(behind))


def allowed(last: Sequence[int], gradients: Gradients) -> list[int]:
    """The same buckets, cut where a gradient may not be in one with the first of its bucket."""
    wanted, cuts, start = set(last), [], 0
    for number, first in enumerate(gradients.first):
        if first > start:
            cuts.append(number - 1)
            start = number
        if number in wanted:
            cuts.append(number)
            start = number + 1
    return _ending(cuts, len(gradients.nbytes))


def runs(last: Sequence[int]) -> list[tuple[int, int]]:
    """(first, last) of each bucket."""
    return list(zip([0, *(number + 1 for number in last[:-1])], last, strict=True))


def _ending(cuts: Sequence[int], count: int) -> list[int]:
    """Cuts in order, each once, with the end of the last bucket."""
    return sorted({*cuts, count - 1}) if count else []
