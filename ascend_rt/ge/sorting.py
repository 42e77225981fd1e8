"""GE's orders of nodes (ge.topoSortingMode, atc --topo_sorting_mode): in which order the nodes of a graph are listed.

Whatever comes first stays first: nodes of a stream, events, control edges, nodes that use the same bytes, calls and
messages of a communicator. What is left to choose is how streams take turns, which is the order of issue.
"""

from collections.abc import Callable, Iterator
from enum import IntEnum

from .graph import Graph


class Sorting(IntEnum):
    """By GE's numbers."""

    BFS = 0
    """as soon as all that comes first is listed"""
    DFS = 1
    """behind what was listed last, if anything comes behind that"""
    RDFS = 2
    """DFS from the end: as late as possible"""
    STABLE_RDFS = 3
    """as they were given"""


def sort_nodes(graph: Graph, sorting: Sorting) -> Graph:
    """The same graph, listed in another order."""
    if sorting is Sorting.STABLE_RDFS:
        return graph
    edges = list(_edges(graph))
    ids = [node.id for node in graph.nodes]
    if sorting is Sorting.RDFS:
        backwards = [(after, before) for before, after in edges]
        listed = list(reversed(_sort(list(reversed(ids)), backwards, list.pop)))
    else:
        listed = _sort(ids, edges, list.pop if sorting is Sorting.DFS else lambda ready: ready.pop(0))
    return graph.replace(f"listed by {sorting.name}", nodes=[graph.by_id[id] for id in listed])


def _edges(graph: Graph) -> Iterator[tuple[int, int]]:
    yield from ((edge.before, edge.after) for edge in graph.order.edges)
    yield from ((edge.before, edge.after) for edge in graph.data_edges())
    latest: dict[tuple[str, str | None], int] = {}
    for node in graph.of_kind("collective", "transfer"):
        if (node.kind, node.communicator) in latest:
            yield latest[node.kind, node.communicator], node.id
        latest[node.kind, node.communicator] = node.id


def _sort(ids: list[int], edges: list[tuple[int, int]], take: Callable[[list[int]], int]) -> list[int]:
    missing = dict.fromkeys(ids, 0)
    then: dict[int, list[int]] = {}
    for before, after in edges:
        missing[after] += 1
        then.setdefault(before, []).append(after)
    ready = [id for id in ids if not missing[id]]
    if take is list.pop:
        ready.reverse()
    listed = []
    while ready:
        listed.append(take(ready))
        for after in then.get(listed[-1], ()):
            missing[after] -= 1
            if not missing[after]:
                ready.append(after)
    return listed
