"""How the graph's own buffers come about, and which of them can be computed again.

A source is all tasks that write some buffers, and all buffers that these tasks write: a kernel with its result, two of
which the second works in place on what the first has left, a kernel with several results. It is run again as a whole,
over other buffers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..graph import Graph
from ..nodes import Copy, Kernel, Memset, Node, Role, Span


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    buffers: frozenset[str]
    places: tuple[int, ...]
    """of its tasks"""
    reads: tuple[tuple[int, Span], ...]
    """what its tasks read of other buffers: the place, and the bytes"""


class Sources:
    """The sources of a graph that can be run again.

    Those are where every task does the same whenever it is run: copies, memsets, and kernels that are pure
    (Kernel.is_pure). Where a kernel does not say what it uses there are none.
    """

    def __init__(self, graph: Graph, tasks: Sequence[Node]) -> None:
        self._of: dict[str, Source] = {}
        self._writes: dict[str, list[tuple[int, Span]]] = {}
        for place, node in enumerate(tasks):
            for span in node.writes:
                self._writes.setdefault(span.buffer, []).append((place, span))
        if not any(node.is_opaque for node in tasks):
            own = own_buffers(graph)
            for buffers in _written_together(tasks):
                places = sorted({place for buffer in buffers for place, _ in self._writes[buffer]})
                if buffers <= own.keys() and all(_can_run_again(tasks[place]) for place in places):
                    reads = ((place, span) for place in places for span in tasks[place].reads)
                    source = Source(buffers, tuple(places), tuple(r for r in reads if r[1].buffer not in buffers))
                    self._of |= dict.fromkeys(buffers, source)

    def __iter__(self) -> Iterator[Source]:
        return iter(dict.fromkeys(self._of.values()))

    def of(self, buffer: str) -> Source | None:
        """The source that a buffer is of, if it can be run again."""
        return self._of.get(buffer)

    def are_unchanged(self, source: Source, place: int) -> bool:
        """Whether all that a source reads is before the task at `place` what it was."""
        return not any(
            first < at < place and written.overlaps(span)
            for first, span in source.reads
            for at, written in self._writes.get(span.buffer, ())
        )


def own_buffers(graph: Graph) -> dict[str, int]:
    """Bytes of the buffers whose memory is planned, by name."""
    return {
        name: buffer.nbytes
        for name, buffer in graph.buffers.items()
        if buffer.role is Role.INTERMEDIATE and buffer.on_device and name not in graph.memory
    }


def _can_run_again(node: Node) -> bool:
    task = node.task
    return not node.after and (isinstance(task, Copy | Memset) or (isinstance(task, Kernel) and task.is_pure))


def _written_together(tasks: Sequence[Node]) -> list[frozenset[str]]:
    """All buffers that are written, those together of which one task writes several."""
    group: dict[str, set[str]] = {}
    for node in tasks:
        joined = set[str]().union(*(group.get(span.buffer, {span.buffer}) for span in node.writes))
        group |= dict.fromkeys(joined, joined)
    return [frozenset(buffers) for buffers in {id(buffers): buffers for buffers in group.values()}.values()]
