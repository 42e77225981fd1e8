"""How the all-reduce of a step's gradients is cut into segments, as hccl.split.api sets it: kept for the graph engine,
whose buckets.py does the arithmetic."""

from dataclasses import dataclass

MOST_SEGMENTS = 8


@dataclass(frozen=True)
class Segments:
    """Where the gradients of a group are cut; percentages count before indices. None: nothing has been set."""

    last_indices: tuple[int, ...] | None = None
    """of the segments: the index of the last gradient of each"""
    percentages: tuple[float, ...] | None = None
    """of the bytes of all gradients, by segment"""


_by_group: dict[str, Segments] = {}


def segments_of(group: str) -> Segments:
    """What has been set for a group."""
    return _by_group.get(group, Segments())


def set_last_indices(group: str, indices: tuple[int, ...]) -> None:
    """The index of the last gradient of each segment, ascending."""
    _by_group[group] = Segments(indices, segments_of(group).percentages)


def set_percentages(group: str, percentages: tuple[float, ...]) -> None:
    """Of the bytes of all gradients, by segment; they count before indices."""
    _by_group[group] = Segments(segments_of(group).last_indices, percentages)
