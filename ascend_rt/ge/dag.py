"""Dag: what a graph is as data, which passes change, the planner places and ranks compare.

It knows nothing of how it is written down, compared or run: those who do that import this file, and Graph (graph.py),
which has it all, imports them.
"""

import itertools
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Self

from .data_edges import DataEdge, data_edges
from .fusion import check as check_fusion
from .memory.options import MemoryOptions
from .nodes import Buffer, Collective, Group, Node
from .order import Order
from .placement import Array
from .task_bounds import check_bounds

if TYPE_CHECKING:
    from ..hccl.communicator import Communicator
    from .task_groups import TaskGroups

_ids = itertools.count()


class Agreement(NamedTuple):
    """Ranks that have compared their graphs."""

    communicator: "Communicator"
    identity: int
    """1 to 2**32 - 1, the same on all of them: of these graphs, one of each rank, as they were compared this time"""


class Dag:
    """What one rank does in a step, as data. What is in it is told at Graph."""

    def __init__(
        self,
        nodes: Sequence[Node] = (),
        buffers: Mapping[str, Buffer] | None = None,
        groups: Mapping[str, Group] | None = None,
        *,
        name: str = "graph",
        log: Sequence[str] = (),
        memory: Mapping[str, Array] | None = None,
        communicators: "Mapping[str, Communicator] | None" = None,
    ) -> None:
        self.name = name
        self.id = next(_ids)
        """among the graphs of this process"""
        self.nodes: tuple[Node, ...] = tuple(nodes)
        self.buffers: dict[str, Buffer] = dict(buffers or {})
        self.groups: dict[str, Group] = dict(groups or {})
        self.log: tuple[str, ...] = tuple(log)
        self.memory: dict[str, Array] = dict(memory or {})
        self.communicators: dict[str, Communicator] = dict(communicators or {})
        self.agreements: tuple[Agreement, ...] | None = None
        """who has compared graphs with this rank, before its first launch"""
        self.task_groups: TaskGroups | None = None
        """of a capture that had some, for ge.update"""
        self.memory_options: MemoryOptions | None = None
        """what ge.optimise was told of how its memory is to be planned"""
        self.is_destroyed = False
        self._hold_communicators()

    @cached_property
    def order(self) -> Order:
        """Its partial order. OrderError: the nodes are in none."""
        return Order(self.nodes)

    @cached_property
    def by_id(self) -> dict[int, Node]:
        return {node.id: node for node in self.nodes}

    @property
    def streams(self) -> list[int]:
        """The streams that its nodes are on; 0 is the one on which it is launched."""
        return sorted({0, *(node.stream for node in self.nodes)})

    @property
    def next_id(self) -> int:
        """An id for a new node; add 1 for each further one."""
        return 1 + max((node.id for node in self.nodes), default=-1)

    def of_kind(self, *kinds: str) -> list[Node]:
        """Its nodes of these kinds (Node.kind)."""
        return [node for node in self.nodes if node.kind in kinds]

    def uses(self, buffer: str) -> list[Node]:
        """The nodes that read or write a buffer; opaque kernels, which may, are not among them."""
        return [node for node in self.nodes if any(span.buffer == buffer for span in (*node.reads, *node.writes))]

    def data_edges(self) -> list[DataEdge]:
        """What has to come before what, since it uses the same bytes: by the order in which nodes are listed.

        Only direct ones: where a write covers what was used before, later nodes come after that write alone. An opaque
        kernel comes after everything and before everything.
        """
        return list(dict.fromkeys(data_edges(self.nodes)))

    def races(self) -> list[DataEdge]:
        """Those of the data edges whose nodes may run at the same time: an empty list if the graph is sound."""
        return [edge for edge in self.data_edges() if not self.order.before(edge.before, edge.after)]

    def check(self) -> None:
        """ValueError if it contradicts itself: an unknown buffer or communicator, bytes outside of a buffer, more
        elements than an array has, no order, a fusion that does not exist."""
        _ = self.order
        for node in self.nodes:
            if node.communicator is not None and node.communicator not in self.groups:
                raise ValueError(f"communicator {node.communicator!r} is used, which the graph has not: {node}")
            check_bounds(node, self.buffers, self.groups)
            if isinstance(node.task, Collective):
                check_fusion(node.task.fusion, node.task.fusion_id, str(node))

    def replace(
        self,
        did: str,
        *,
        nodes: Sequence[Node] | None = None,
        buffers: Mapping[str, Buffer] | None = None,
        memory: Mapping[str, Array] | None = None,
    ) -> Self:
        """A graph with other nodes, buffers or memory, checked, and with a line in its log on what was `did`.

        ValueError if it contradicts itself.
        """
        graph = type(self)(
            self.nodes if nodes is None else nodes,
            self.buffers if buffers is None else buffers,
            self.groups,
            name=self.name,
            log=(*self.log, did),
            memory=self.memory if memory is None else memory,
            communicators=self.communicators,
        )
        graph.check()
        graph.memory_options = self.memory_options
        if nodes is None and self.task_groups is not None:
            graph.task_groups = self.task_groups.of_another_graph()
        return graph

    def destroy(self) -> None:
        """Give back what it holds: memory and communicators. Launches that are queued still run; calling it again does
        nothing."""
        self.is_destroyed = True
        self._leave_communicators()
        self.memory, self.communicators, self.task_groups = {}, {}, None

    def _hold_communicators(self) -> None:
        for communicator in self.communicators.values():
            communicator._holders.add(self)

    def _leave_communicators(self) -> None:
        for communicator in self.communicators.values():
            communicator._holders.discard(self)
