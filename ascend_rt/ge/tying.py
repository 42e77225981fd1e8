"""Streams and events of a graph, taken off and put on again.

A pass that moves nodes works on the tasks alone, a list in which everything comes behind what it needs. What they need
follows from the memory they use, from control edges and from the order of the calls of each communicator; it is tied
again, with the fewest events, once the pass has put each task in its place.

An event that stands for no such need is dropped with the others: give its tasks the memory that they share, or a
control edge.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from .graph import Graph
from .nodes import Collective, Node, Record, Transfer, Wait

Needs = dict[int, set[int]]
"""by id: ids of the nodes that come first, all of them listed before"""


def tasks_of(graph: Graph) -> list[Node]:
    """The nodes of a graph without its events."""
    return [node for node in graph.nodes if not isinstance(node.task, Record | Wait)]


def data_needs(nodes: Sequence[Node]) -> Needs:
    """What each task has to come behind: those it shares memory with, and control edges."""
    ids = {node.id for node in nodes}
    needs: Needs = {node.id: ids.intersection(node.after) for node in nodes}
    for edge in Graph(nodes).data_edges():
        needs[edge.after].add(edge.before)
    return needs


def call_order(nodes: Sequence[Node]) -> list[tuple[int, int]]:
    """Pairs of calls that keep their order: neighbours among the collectives of a communicator, and among the transfers
    of one that were queued on one stream or have a message of one direction with one peer."""
    pairs: dict[tuple[int, int], None] = {}
    latest: dict[tuple[object, ...], int] = {}
    for node in nodes:
        for line in _lines(node):
            if line in latest:
                pairs[latest[line], node.id] = None
            latest[line] = node.id
    return list(pairs)


def needs_of(nodes: Sequence[Node]) -> Needs:
    """All that each task has to come behind."""
    needs = data_needs(nodes)
    for before, after in call_order(nodes):
        needs[after].add(before)
    return needs


def in_order(nodes: Iterable[Node], needs: Needs, places: Mapping[int, float]) -> list[Node]:
    """The nodes, each behind what it needs, and as near to the order of `places` (by id) as that allows.

    ValueError: they need one another.
    """
    by_id = {node.id: node for node in nodes}
    missing = {id: len(needs[id] & by_id.keys()) for id in by_id}
    wanted_by: dict[int, list[int]] = {}
    for id in by_id:
        for before in needs[id]:
            wanted_by.setdefault(before, []).append(id)
    ready = [(places[id], id) for id, count in missing.items() if not count]
    heapq.heapify(ready)
    listed: list[Node] = []
    while ready:
        _, id = heapq.heappop(ready)
        listed.append(by_id[id])
        for after in wanted_by.get(id, ()):
            missing[after] -= 1
            if not missing[after]:
                heapq.heappush(ready, (places[after], after))
    if len(listed) < len(by_id):
        stuck = [str(by_id[id]) for id, count in missing.items() if count]
        raise ValueError("these nodes need one another, a pass has made a cycle: " + "; ".join(stuck[:8]))
    return listed


def tied(graph: Graph, nodes: Sequence[Node]) -> list[Node]:
    """Tasks in their new order, with the events that their streams need: none that a stream, a control edge or another
    event makes superfluous. New nodes have ids behind those of the graph and of the tasks."""
    waits = _waits(nodes, needs_of(nodes))
    recorded = {
        before: event for event, before in enumerate(dict.fromkeys(id for found in waits.values() for id in found))
    }
    by_id = {node.id: node for node in nodes}
    next_id = max([graph.next_id, *(node.id + 1 for node in nodes)])
    listed: list[Node] = []

    def add(name: str, like: Node, task: Record | Wait) -> None:
        nonlocal next_id
        listed.append(Node(next_id, name, like.stream, task, line=like.line))
        next_id += 1

    for node in nodes:
        for before in waits[node.id]:
            add("wait", by_id[node.id], Wait(recorded[before]))
        listed.append(replace(node, after=tuple(id for id in node.after if id in by_id)))
        if node.id in recorded:
            add("record", node, Record(recorded[node.id]))
    return listed


def _waits(nodes: Sequence[Node], needs: Needs) -> dict[int, list[int]]:
    """By id: nodes of other streams whose events it has to wait for. A clock of each node says what is done by then."""
    clocks: dict[int, dict[int, int]] = {}
    place = {node.id: (node.stream, number) for number, node in enumerate(nodes)}
    latest: dict[int, int] = {}
    waits: dict[int, list[int]] = {}
    for number, node in enumerate(nodes):
        clock = dict(clocks[latest[node.stream]]) if node.stream in latest else {}
        for before in node.after:
            if before in clocks:
                _advance(clock, clocks[before])
        last: dict[int, int] = {}
        for before in needs[node.id]:
            stream, at = place[before]
            if at > clock.get(stream, -1) and (stream not in last or at > place[last[stream]][1]):
                last[stream] = before
        found = sorted(last.values(), key=lambda id: place[id][1])
        waits[node.id] = [
            id
            for id in found
            if not any(clocks[other].get(place[id][0], -1) >= place[id][1] for other in found if other != id)
        ]
        for before in found:
            _advance(clock, clocks[before])
        clock[node.stream] = number
        clocks[node.id] = clock
        latest[node.stream] = node.id
    return waits


def _advance(clock: dict[int, int], other: Mapping[int, int]) -> None:
    for stream, at in other.items():
        clock[stream] = max(clock.get(stream, -1), at)


def _lines(node: Node) -> list[tuple[object, ...]]:
    """The orders that a call stands in."""
    if isinstance(node.task, Collective):
        return [(node.task.communicator,)]
    if isinstance(node.task, Transfer):
        queued = (node.task.communicator, "stream", node.stream)
        return [queued, *((node.task.communicator, bool(m.receives), m.peer) for m in node.task.messages)]
    return []
