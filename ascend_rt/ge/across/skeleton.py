"""What of a graph concerns other ranks: its calls and messages and their order, without memory and kernels.

It is a graph of its own, small enough to be told to the other ranks, whatever the kernels are.
"""

import dataclasses
import hashlib
import json
from collections.abc import Collection

from ..dag import Dag
from ..nodes import Collective, Message, Node, Task, Transfer, View
from .calls import said


def skeleton(graph: Dag, ranks: Collection[int]) -> Dag:
    """The calls and messages of communicators all of whose members are among these ranks of the job.

    Of two that are kept, one comes before the other exactly if it does in the graph.
    """
    groups = {name: group for name, group in graph.groups.items() if set(group.world_ranks) <= set(ranks)}
    before: dict[int, list[int]] = {}
    for edge in graph.order.edges:
        before.setdefault(edge.after, []).append(edge.before)
    latest: dict[int, dict[int, int]] = {}
    """of each node: by stream, the place of the last node that is kept and done when this one is"""
    nodes: list[Node] = []
    for node in graph.nodes:
        own: dict[int, int] = {}
        for first in before.get(node.id, ()):
            for stream, place in latest[first].items():
                own[stream] = max(place, own.get(stream, 0))
        latest[node.id] = own
        if node.communicator in groups:
            after = tuple(nodes[place].id for stream, place in sorted(own.items()) if stream != node.stream)
            nodes.append(Node(node.id, node.name, node.stream, _told(node.task), after=after, line=node.line))
            own[node.stream] = len(nodes) - 1
    return Dag(nodes, {}, groups, name=graph.name)


def digest(graph: Dag, communicator: str) -> int:
    """64 bits of the calls of a communicator with what its ranks must agree on, in order."""
    calls = [
        dataclasses.astuple(said(node.task))
        for node in graph.nodes
        if isinstance(node.task, Collective) and node.communicator == communicator
    ]
    return int.from_bytes(hashlib.sha256(json.dumps(calls).encode()).digest()[:8], "little")


def is_told_by_digest(graph: Dag, communicator: str) -> bool:
    """Whether graphs with this digest fit together: collectives of one communicator, with blocks all alike, are all
    that they have to do with other ranks."""
    tasks = [node.task for node in graph.nodes if node.communicator is not None]
    return all(
        isinstance(task, Collective) and task.communicator == communicator and task.split is None for task in tasks
    )


def _told(task: Task) -> Task:
    if isinstance(task, Collective):
        return dataclasses.replace(task, x=None, out=None)
    assert isinstance(task, Transfer)
    messages = [
        Message(receives, peer, View("", 0, view.dtype, (view.count,))) for receives, peer, view in task.messages
    ]
    return dataclasses.replace(task, messages=tuple(messages))
