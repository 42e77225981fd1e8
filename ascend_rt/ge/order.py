"""What comes before what in a graph: the partial order of its streams, events and control edges.

A clock per node: for every stream, how many of that stream's nodes are done when this one is. A node comes before
another if the other's clock counts it. That takes nodes x streams numbers and one pass, so that graphs of thousands of
nodes cost milliseconds; a bit for every pair is made from it where somebody needs all pairs.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .nodes import Node, Record, Wait


class OrderError(ValueError):
    """The nodes are in no order that could run: a cycle, an event waited for before it is recorded, a wrong id."""


class Edge(NamedTuple):
    """`before` must be done when `after` begins; ids of nodes."""

    before: int
    after: int
    kind: str
    """stream, event or control"""


class Order:
    """The partial order of some nodes, which must be listed so that whatever comes first is listed first."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        """OrderError names the first node that waits for what is not listed before it."""
        self.streams = sorted({node.stream for node in nodes})
        self._column = {stream: column for column, stream in enumerate(self.streams)}
        self._row = {node.id: row for row, node in enumerate(nodes)}
        if len(self._row) != len(nodes):
            raise OrderError("two nodes have the same id")
        self.edges: tuple[Edge, ...] = tuple(_edges(nodes, self._row))
        self._columns = np.array([self._column[node.stream] for node in nodes], np.intp)
        self._places = np.zeros(len(nodes), np.int32)
        self._clocks = np.zeros((len(nodes), len(self.streams)), np.int32)
        self._run(nodes)

    def row(self, id: int) -> int:
        """The place of a node among those that were given."""
        return self._row[id]

    def before(self, first: int, second: int) -> bool:
        """Whether node `first` is done when node `second` begins (ids). KeyError: no such node."""
        row, other = self._row[first], self._row[second]
        return row != other and bool(self._clocks[other, self._columns[row]] > self._places[row])

    def ordered(self, first: int, second: int) -> bool:
        """Whether one of two nodes comes before the other; if not, they may run at the same time."""
        return self.before(first, second) or self.before(second, first)

    def matrix(self) -> npt.NDArray[np.bool_]:
        """[i, j]: whether the i-th node comes before the j-th, in the order in which they were given."""
        before: npt.NDArray[np.bool_] = self._places[:, None] < self._clocks[:, self._columns].T
        np.fill_diagonal(before, False)
        return before

    def _run(self, nodes: Sequence[Node]) -> None:
        incoming: dict[int, list[int]] = {}
        for edge in self.edges:
            incoming.setdefault(edge.after, []).append(edge.before)
        done = dict.fromkeys(self.streams, 0)
        for row, node in enumerate(nodes):
            clock = self._clocks[row]
            for before in incoming.get(node.id, ()):
                np.maximum(clock, self._clocks[self._row[before]], out=clock)
            self._places[row] = done[node.stream]
            done[node.stream] += 1
            clock[self._columns[row]] = done[node.stream]


def _edges(nodes: Sequence[Node], rows: dict[int, int]) -> Iterator[Edge]:
    latest: dict[int, int] = {}
    recorded: dict[int, int] = {}
    for row, node in enumerate(nodes):
        if node.stream in latest:
            yield Edge(latest[node.stream], node.id, "stream")
        latest[node.stream] = node.id
        if isinstance(node.task, Record):
            if node.task.event in recorded:
                raise OrderError(f"event {node.task.event} is recorded twice: {nodes[rows[node.id]]}")
            recorded[node.task.event] = node.id
        elif isinstance(node.task, Wait):
            if node.task.event not in recorded:
                raise OrderError(f"a wait for an event that no node before it records: {node}")
            yield Edge(recorded[node.task.event], node.id, "event")
        for before in node.after:
            if rows.get(before, row) >= row:
                what = "which the graph has not" if before not in rows else "which is listed behind it: a cycle"
                raise OrderError(f"a control edge from node {before}, {what}: {node}")
            yield Edge(before, node.id, "control")
