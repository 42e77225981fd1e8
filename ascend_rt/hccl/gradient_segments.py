"""How the all-reduce of a step's gradients is cut into segments, as hccl.split.api sets it: kept for the graph engine.

    segments_of("hccl_world_group").cut([60, 36, 1, 3])      (2, 3): gradients 0 to 2, then 3
"""

import bisect
import itertools
from dataclasses import dataclass

DEFAULT_PERCENTAGES = (96.54, 3.46)
"""CANN's own, found for ResNet-50."""
MOST_SEGMENTS = 8


@dataclass(frozen=True)
class Segments:
    """Where the gradients of a group are cut; percentages count before indices."""

    last_indices: tuple[int, ...] | None = None
    """of the segments: the index of the last gradient of each"""
    percentages: tuple[float, ...] | None = None
    """of the bytes of all gradients, by segment"""

    def cut(self, nbytes: list[int]) -> tuple[int, ...]:
        """The index of the last gradient of each segment, for gradients of so many bytes in the order in which they are
        ready. By percentages, a gradient is in the segment in which its middle lies; what no gradient is in is left
        out."""
        last = len(nbytes) - 1
        if self.percentages is None and self.last_indices is not None:
            return (*(index for index in self.last_indices if index < last), last) if nbytes else ()
        ends = [end * sum(nbytes) / 100 for end in itertools.accumulate(self.percentages or DEFAULT_PERCENTAGES)]
        middles = [end - size / 2 for end, size in zip(itertools.accumulate(nbytes), nbytes, strict=True)]
        segments = [min(bisect.bisect_left(ends, middle), len(ends) - 1) for middle in middles]
        return tuple(index for index in range(len(nbytes)) if index == last or segments[index] != segments[index + 1])


_by_group: dict[str, Segments] = {}


def segments_of(group: str) -> Segments:
    """What has been set for a group; CANN's default if nothing has."""
    return _by_group.get(group, Segments())


def set_last_indices(group: str, indices: tuple[int, ...]) -> None:
    """The index of the last gradient of each segment, ascending."""
    _by_group[group] = Segments(indices, segments_of(group).percentages)


def set_percentages(group: str, percentages: tuple[float, ...]) -> None:
    """Of the bytes of all gradients, by segment; they count before indices."""
    _by_group[group] = Segments(segments_of(group).last_indices, percentages)
