"""Waits of a graph for events outside of it, and which of its tasks are behind one."""

import ctypes

from ..acl.external_event import Gate
from .dag import Dag
from .nodes import Kernel, Task


def gate_of(task: Task) -> Gate | None:
    """The wait that a task is; None: it is none."""
    waits_at = getattr(task.function, "__self__", None) if isinstance(task, Kernel) else None
    return waits_at if isinstance(waits_at, Gate) else None


def gates_of(graph: Dag) -> dict[int, Gate]:
    """By node of a task group: the last wait before it on its stream."""
    groups = () if graph.task_groups is None else graph.task_groups.groups
    in_groups = {id for group in groups for id in group.nodes}
    passed: dict[int, Gate] = {}
    found = {}
    for node in graph.nodes:
        gate = gate_of(node.task)
        if gate is not None:
            passed[node.stream] = gate
        elif node.id in in_groups and node.stream in passed:
            found[node.id] = passed[node.stream]
    return found


def copy_rows(to: int, to_pitch: int, source: int, source_pitch: int, nbytes: int, rows: int) -> None:
    """As a stream copies them; addresses and lengths in bytes."""
    for row in range(rows):
        ctypes.memmove(to + row * to_pitch, source + row * source_pitch, nbytes)
