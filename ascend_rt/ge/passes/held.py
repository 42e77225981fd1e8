"""Tasks of task groups, which updates change later, are held: no pass changes them, and nothing is moved across them.

What an update brings may use other memory of the program, which no pass can know. So while passes run, each of these
tasks is an opaque kernel, and the graph's own buffers that it uses are the program's, which stay where they are.
"""

from dataclasses import replace

from ..costs import Costs
from ..graph import Graph
from ..nodes import Kernel, Node, Role
from .agreement import Agree
from .content import Tasks


def _stands_for_a_task() -> None:
    raise AssertionError("a task of a group was not put back")


class Held:
    """The tasks of the groups of a graph."""

    def __init__(self, graph: Graph) -> None:
        self._groups = graph.task_groups
        held = [id for group in (self._groups.groups if self._groups else ()) for id in group.nodes]
        self._nodes = {id: graph.by_id[id] for id in held}
        self._buffers = {name: graph.buffers[name] for node in self._nodes.values() for name in node.buffers}

    def hide(self, graph: Graph) -> Graph:
        """The graph with a kernel in the place of each."""
        fence: tuple[int, ...] = ()
        free: list[int] = []
        nodes: list[Node] = []
        for node in graph.nodes:
            if node.id in self._nodes:
                task = Kernel(_stands_for_a_task, is_opaque=True)
                nodes.append(replace(node, task=task, after=(*node.after, *free)))
                fence, free = (node.id,), []
            elif node.communicator is not None and not node.reads and not node.writes:
                nodes.append(replace(node, after=(*node.after, *fence)))  # a barrier uses nothing
                free.append(node.id)
            else:
                nodes.append(node)
        own = [buffer for buffer in self._buffers.values() if buffer.role is Role.INTERMEDIATE]
        buffers = {**graph.buffers, **{buffer.name: replace(buffer, role=Role.OUTPUT) for buffer in own}}
        return graph.replace(f"{len(self._nodes)} tasks of groups stay as they are", nodes=nodes, buffers=buffers)

    def check(self, graph: Graph, agree: Agree) -> None:
        """ValueError, on all ranks of a communicator: they have other calls of it in groups, so that those that passes
        see have other numbers."""
        for name, calls in sorted(Tasks(graph).calls().items()):
            numbers = [call.number for call in calls if call.node.id in self._nodes]
            if not agree(name, {f"in task groups: {numbers}": 1.0}):
                has = f"calls {numbers} of {name!r} in task groups on rank {graph.groups[name].rank}"
                raise ValueError(f"graph {graph.name!r} has {has}, and others elsewhere; expected the same everywhere")

    def costs(self, graph: Graph, costs: Costs) -> Costs:
        """With what the tasks take."""
        taken = {id: costs.of(node, graph.groups).alone_us for id, node in self._nodes.items()}
        return replace(costs, kernels={**costs.kernels, **taken})

    def put_back(self, graph: Graph) -> Graph:
        """The graph with the tasks, and with their groups."""
        nodes = [
            replace(node, task=self._nodes[node.id].task) if node.id in self._nodes else node for node in graph.nodes
        ]
        done = graph.replace("tasks of groups are back", nodes=nodes, buffers={**graph.buffers, **self._buffers})
        done.log = graph.log
        if self._groups is not None:
            done.task_groups = self._groups.of_another_graph()
            known = {piece.name for piece in self._groups.pieces if not piece.is_own}
            done.task_groups.pieces.forget(known - done.buffers.keys())
        return done
