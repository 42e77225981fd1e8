"""Where the nodes of a graph are, and which of them use a buffer: kept up to date while tasks are replaced."""

from collections.abc import Iterable, Sequence

from .nodes import Node


class NodeIndex:
    """Of the nodes of a graph, whose order stays."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.place = {node.id: place for place, node in enumerate(nodes)}
        """in Graph.nodes, by id"""
        self.users: dict[str, set[int]] = {}
        """ids, by buffer"""
        for node in nodes:
            for name in node.buffers:
                self.users.setdefault(name, set()).add(node.id)

    def using(self, buffers: Iterable[str]) -> set[int]:
        """The nodes that use one of these buffers; ids."""
        return set[int]().union(*(self.users.get(name, ()) for name in buffers))

    def unused_after(self, before: Sequence[Node], nodes: Sequence[Node]) -> set[str]:
        """Buffers that nobody uses any more once these nodes have taken the places of those before."""
        ids = {node.id for node in before}
        used = {name for node in nodes for name in node.buffers}
        return {name for node in before for name in node.buffers if name not in used and self.users[name] <= ids}

    def replace(self, before: Sequence[Node], nodes: Sequence[Node]) -> None:
        """These nodes have taken the places of those before."""
        for node in before:
            for name in node.buffers:
                self.users[name].discard(node.id)
                if not self.users[name]:
                    del self.users[name]
        for node in nodes:
            for name in node.buffers:
                self.users.setdefault(name, set()).add(node.id)
