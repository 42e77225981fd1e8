"""Buckets of calls, chosen and made: what the passes that fuse calls have in common."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ..buckets import Strategy, allowed, runs
from ..graph import Graph
from ..tying import tied
from .bucket import fuse
from .bucket_memory import Draft
from .candidates import Candidates, Label

Buckets = Mapping[Label, Sequence[int]]
"""The last candidate of each bucket"""


class Copied(NamedTuple):
    """Buckets, those of them that are packed, and bytes: what is copied, and what would be if all were packed."""

    buckets: int = 0
    packed: int = 0
    nbytes: int = 0
    most_nbytes: int = 0

    def __str__(self) -> str:
        copies = f"{self.nbytes} bytes are copied, {self.most_nbytes - self.nbytes} need not be"
        return f"{self.packed} of {self.buckets} buckets are packed: {copies}"


def cut(strategy: Strategy, candidates: Candidates) -> list[int]:
    """Buckets by the strategy, cut where they must be, and taken apart where packing costs more than it saves."""
    gradients = candidates.gradients
    kept: list[int] = []
    for start, end in runs(allowed(strategy.last(gradients), gradients)):
        alone = sum(gradients.time_of(number, number) for number in range(start, end + 1))
        kept += [end] if gradients.time_of(start, end) <= alone else range(start, end + 1)
    return kept


def fused(graph: Graph, candidates: Mapping[Label, Candidates], buckets: Buckets) -> tuple[Draft, Copied]:
    """The draft with all buckets, and how much of that is copied on this rank."""
    draft, copied = Draft.of(graph), Copied()
    for label, last in buckets.items():
        for start, end in runs(last):
            if end > start:
                members = candidates[label].laid_out(start, end)
                draft, nbytes = fuse(draft, members, graph.groups[label.communicator])
                most = sum(span.nbytes for node in members for span in (*node.reads, *node.writes))
                more = Copied(1, nbytes > 0, nbytes, most)
                copied = Copied(*map(sum, zip(copied, more, strict=True)))
    return draft, copied


def with_buckets(
    graph: Graph, candidates: Mapping[Label, Candidates], buckets: Buckets, name: str, calls: str
) -> Graph:
    """The graph with all buckets, and a line on them; the graph itself if there are none. name: of the pass. calls:
    what it fuses."""
    draft, copied = fused(graph, candidates, buckets)
    if not copied.buckets:
        return graph
    number = sum(len(each.nodes) for each in candidates.values())
    left = sum(len(last) for last in buckets.values())
    before, after = (sum(_times(candidates, each)) for each in (_none(candidates), buckets))
    lists = "; ".join(f"{label}: {_segments(last)}" for label, last in buckets.items())
    did = f"{name}: {number} {calls} became {left} ({lists}); {copied}; communication {before:.0f} -> {after:.0f} us"
    return graph.replace(did, nodes=tied(graph, draft.tasks), buffers=draft.buffers)


def _none(candidates: Mapping[Label, Candidates]) -> Buckets:
    return {label: range(len(each.nodes)) for label, each in candidates.items()}


def _times(candidates: Mapping[Label, Candidates], buckets: Buckets) -> Iterator[float]:
    for label, last in buckets.items():
        yield from (candidates[label].gradients.time_of(*run) for run in runs(last))


def _segments(last: Sequence[int]) -> str:
    """As HCCL's log has them: [0,107] [108,159]."""
    return " ".join(f"[{start},{end}]" for start, end in runs(last))
