"""What becomes of the content of memory: who reads what a task has written, and whether it is still there."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from ..graph import Graph
from ..nodes import Collective, Copy, Kernel, Node, Role, Span, Task, Transfer, View, views
from ..tying import tasks_of


class Call(NamedTuple):
    """A collective of a graph."""

    place: int
    """among the tasks"""
    number: int
    """among the collectives of its communicator: the same on all ranks"""
    node: Node
    task: Collective


class Tasks:
    """The tasks of a graph, to be asked."""

    def __init__(self, graph: Graph) -> None:
        self.listed = tasks_of(graph)
        self._roles = {name: buffer.role for name, buffer in graph.buffers.items()}
        self._named = {id for node in self.listed for id in node.after}

    def calls(self) -> dict[str, list[Call]]:
        """The collectives of each communicator, in order."""
        found: dict[str, list[Call]] = {}
        for place, node in enumerate(self.listed):
            if isinstance(node.task, Collective):
                calls = found.setdefault(node.task.communicator, [])
                calls.append(Call(place, len(calls), node, node.task))
        return found

    def can_go(self, node: Node) -> bool:
        """Whether no control edge names the task."""
        return node.id not in self._named

    def reads_of(self, place: int, span: Span) -> list[tuple[int, Span]] | None:
        """(place, bytes) of whatever reads the content that `span` has when the task at `place` is done; None where
        that cannot be told, or the program reads it after the launch."""
        found = []
        for at, node in enumerate(self.listed[place + 1 :], place + 1):
            if node.is_opaque:
                return None
            found += [(at, read) for read in node.reads if read.overlaps(span)]
            if any(write.covers(span) and _is_filled(node, write) for write in node.writes):
                return found
        return found if self._roles[span.buffer] is Role.INTERMEDIATE else None

    def is_unwritten(self, first: int, last: int, span: Span) -> bool:
        """Whether no task between two places writes there."""
        between = self.listed[first + 1 : last]
        return not any(node.is_opaque or any(write.overlaps(span) for write in node.writes) for node in between)

    def is_unused(self, first: int, last: int, span: Span) -> bool:
        """Whether no task between two places reads or writes there."""
        between = self.listed[first + 1 : last]
        return self.is_unwritten(first, last, span) and not any(
            read.overlaps(span) for node in between for read in node.reads
        )


def _is_filled(node: Node, write: Span) -> bool:
    """Whether a task stores every byte from the first to the last that it writes there: what was there before shows
    through the gaps of an array that is not contiguous, and between blocks that differ in count."""
    task = node.task
    if isinstance(task, Copy):
        return task.rows == 1 or task.to_pitch == task.nbytes
    if isinstance(task, Collective) and task.split is not None:
        return False
    return all(view.strides is None for view in _arrays(task) if view.span.overlaps(write))


def _arrays(task: Task) -> Iterator[View]:
    if isinstance(task, Kernel):
        yield from views((task.arguments, dict(task.keywords)))
    elif isinstance(task, Collective):
        yield from views((task.x, task.out))
    elif isinstance(task, Transfer):
        yield from (message.view for message in task.messages)


def flat(view: View, first: int = 0, count: int | None = None) -> View:
    """`count` elements of a contiguous view from `first` on, of one dimension."""
    count = view.count if count is None else count
    return replace(view, start=view.start + first * view.itemsize, shape=(count,))


def is_flat(*views: View | None) -> bool:
    """Whether all are there, and contiguous."""
    return all(view is not None and view.strides is None for view in views)
