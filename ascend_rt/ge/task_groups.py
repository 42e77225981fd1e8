"""Task groups of a capture: the tasks whose arguments an update may change later (aclmdlRICaptureTaskGrp*)."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..acl.errors import (
    ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
    ACL_ERROR_STREAM_TASK_GROUP_INTR,
    ACL_ERROR_STREAM_TASK_GROUP_STATUS,
    AclError,
)
from ..acl.stream import Stream
from ..diag.call_site import call_site
from .placement import Pieces


@dataclass(eq=False)
class TaskGroup:
    """Tasks of one stream of a capture, one after another."""

    number: int
    """among the groups of its capture; the first is 0"""
    stream: int
    """of the graph"""
    line: str
    """where it begins"""
    nodes: list[int] = field(default_factory=list)
    """their ids"""

    def __str__(self) -> str:
        return f"task group {self.number} of stream {self.stream}, which began at {self.line},"


@dataclass
class TaskGroups:
    """What a graph keeps for updates of its groups."""

    groups: Sequence[TaskGroup]
    pieces: Pieces
    """all memory that the graph uses, with the names of its buffers"""
    updates: dict[TaskGroup, str] = field(default_factory=dict)
    """groups that are being updated, and where that began"""

    def of_another_graph(self) -> "TaskGroups":
        """The same for a graph that has the same nodes."""
        return TaskGroups(self.groups, self.pieces.copy())


class OpenGroups:
    """The groups of a capture that goes on. AclError: a call does not fit (107033, 107034)."""

    def __init__(self) -> None:
        self.all: list[TaskGroup] = []
        self._open: dict[Stream, TaskGroup] = {}

    def begin(self, stream: Stream, number: int) -> TaskGroup:
        """number: of the stream, in the capture."""
        if stream in self._open:
            raise status_error(f"a task group was begun ({call_site()}) while {self._open[stream]} is open")
        group = TaskGroup(len(self.all), number, call_site())
        self.all.append(group)
        self._open[stream] = group
        return group

    def end(self, stream: Stream, number: int) -> TaskGroup:
        """number: of the stream, in the capture."""
        if stream not in self._open:
            others = f"; open are: {self.said()}" if self._open else ""
            raise status_error(f"a task group was ended ({call_site()}), and stream {number} has none open{others}")
        return self._open.pop(stream)

    def add(self, stream: Stream, number: int, name: str, id: int) -> None:
        """A task is queued on a stream, of this number in the capture; it belongs to the group that is open there."""
        if stream in self._open:
            self._open[stream].nodes.append(id)
        elif self._open:
            text = f"{name} was queued ({call_site()}) on stream {number}, which has no group open"
            text = f"ACL_ERROR_STREAM_TASK_GROUP_INTR (107034): {text}, while {self.said()} is"
            raise AclError(ACL_ERROR_STREAM_TASK_GROUP_INTR, text)

    def check_no_event(self, stream: Stream, what: str) -> None:
        """AclError (207000): an event cannot be in the group that is open on a stream."""
        if stream in self._open:
            text = f"an event was {what} ({call_site()}) while {self._open[stream]} is open; a group has tasks alone"
            name = "ACL_ERROR_RT_FEATURE_NOT_SUPPORT"
            raise AclError(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, f"{name} (207000): {text}")

    def check_ended(self, line: str) -> None:
        """AclError (107033): a group is open at the end of the capture that began at a line."""
        if self._open:
            raise status_error(f"the capture that began at {line} ended ({call_site()}) while {self.said()} is open")

    def said(self) -> str:
        """Those that are open."""
        return " and ".join(map(str, self._open.values()))


def status_error(text: str) -> AclError:
    return AclError(ACL_ERROR_STREAM_TASK_GROUP_STATUS, f"ACL_ERROR_STREAM_TASK_GROUP_STATUS (107033): {text}")
