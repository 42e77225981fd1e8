"""Updates: the tasks of a task group get other arguments between launches (aclmdlRICaptureTaskUpdate*).

    with ge.capture(stream) as g:
        with ge.task_group(stream) as group:
            stream.launch(attend, query, keys[:length], out)
            comm.all_reduce(out, stream=stream)

    with ge.update(g, group, stream):            carries out nothing: these are the tasks of the group from now on
        stream.launch(attend, query, keys[: length + 1], out)
        comm.all_reduce(out, stream=stream)
    g.launch(stream)

An update costs what the tasks of its group cost, not those of the graph.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from ..acl import recording
from ..acl.errors import ACL_ERROR_RT_FEATURE_NOT_SUPPORT, ACL_ERROR_RT_MODEL_UPDATE_FAILED, AclError
from ..acl.event import Event
from ..acl.external_event import Gate
from ..acl.recording import Mode, RecordedMark
from ..acl.stream import Stream
from ..diag.call_site import call_site
from .gates import gates_of
from .graph import Graph
from .nodes import Collective, Node, Role, Transfer
from .placement import Array, Piece, Pieces
from .queued import Queued, Taker, Uses, buffer_of, first_uses
from .task_groups import TaskGroup, TaskGroups, status_error


@contextmanager
def update(graph: Graph, group: TaskGroup, stream: Stream) -> Iterator[None]:
    """What is queued in the block on a stream takes the place of the tasks of a group, for launches from then on.
    Those that are under way keep what they were launched with.

    As many tasks of the same kinds, in their order; with other functions, arrays, counts. Ranks that change what they
    say to one another in collectives all do so before their next launch, which compares their graphs again. If the
    block raises, nothing is changed.

    AclError: the stream is captured, or the group is being updated (107033); the tasks do not fit, or something was
    queued that is no task, or a pass has changed the nodes of the graph (107040).
    """
    begun = begin(graph, group, stream)
    try:
        yield
    except BaseException:
        begun.abandon()
        raise
    begun.end()


def begin(graph: Graph, group: TaskGroup, stream: Stream) -> "Update":
    """Take down what is queued on the stream from here on, until it is ended or abandoned."""
    if recording.recorder_of(stream) is not None:
        raise status_error(f"{group} cannot be updated on a stream that is captured or updates a group ({call_site()})")
    groups = graph.task_groups
    if groups is None or group not in groups.groups:
        did = f"; its nodes were changed: {graph.log[-1]}" if graph.log else ""
        raise failed(f"{group} is none of graph {graph.name!r}{did}. Update the graph that was captured")
    if group in groups.updates:
        raise status_error(f"{group} is being updated already, since {groups.updates[group]}")
    begun = Update(graph, groups, group, stream)
    groups.updates[group] = begun.line
    recording.begin(begun)
    recording.enter(stream, begun)
    return begun


def of_stream(stream: Stream) -> "Update":
    """The one that goes on on a stream. AclError (107033): none does."""
    recorder = recording.recorder_of(stream)
    if not isinstance(recorder, Update):
        raise status_error(f"an update was ended ({call_site()}) on a stream on which none had begun")
    return recorder


class Update(Taker):
    """One update: acl.recording.Recorder."""

    def __init__(self, graph: Graph, groups: TaskGroups, group: TaskGroup, stream: Stream) -> None:
        self._new = _NewPieces(groups.pieces)
        super().__init__(self._new)
        self.mode, self.thread, self.line, self.why_invalid = Mode.RELAXED, threading.get_ident(), call_site(), ""
        self._graph, self._groups, self._group, self._stream = graph, groups, group, stream

    def record(self, stream: Stream, event: Event) -> RecordedMark:
        raise self._refusal("an event was recorded")

    def wait(self, stream: Stream, mark: RecordedMark) -> None:
        raise self._refusal("an event was waited for")

    join = wait

    def gate(self, stream: Stream, gate: Gate) -> None:
        raise self._refusal("an event was waited for")

    def invalidate(self, why: str) -> None:
        self.why_invalid = self.why_invalid or why

    def abandon(self) -> None:
        """Nothing is changed, and what is queued on the stream from here on runs."""
        recording.leave(self._stream)
        recording.end(self)
        del self._groups.updates[self._group]

    def end(self) -> None:
        """The tasks are those of the group from here on. AclError (107040): they do not fit, and nothing is changed."""
        self.abandon()
        if self.why_invalid:
            raise self._failed(self.why_invalid)
        before = [self._graph.by_id[id] for id in self._group.nodes]
        self._check_count(before)
        self._check_gates(before)
        self._new.name_all(self._graph.buffers)
        nodes = [self._made(old, queued) for old, queued in zip(before, self._queued, strict=True)]
        roles = first_uses(nodes)
        buffers = {piece.name: buffer_of(piece, roles.get(piece.name, Role.INPUT)) for piece in self._new}
        unused = self._graph.replace_tasks(nodes, buffers, {piece.name: piece.array() for piece in self._new})
        for piece in self._new:
            self._groups.pieces.add(piece)
        self._groups.pieces.forget(unused)

    def _queue(self, stream: Stream, name: str, make: Callable[[Pieces], Uses]) -> None:
        self._queued.append(Queued(0, name, call_site(), make))

    def _check_count(self, before: Sequence[Node]) -> None:
        if len(before) != len(self._queued):
            tasks = ", ".join(f"{node.name} at {node.line}" for node in before)
            raise self._failed(f"the group has {len(before)} tasks ({tasks}), and {len(self._queued)} were queued")
        for name, communicator in self._communicators.items():
            if self._graph.communicators.get(name) is not communicator:
                raise self._failed(f"the graph has no calls of communicator {name!r}, and one was queued")

    def _check_gates(self, before: Sequence[Node]) -> None:
        """Calls and messages of a launch under way have their turns, which other ranks know, so that only what a rank
        does by itself can be updated behind a wait."""
        gates = gates_of(self._graph)
        for node in before:
            if node.id in gates and gates[node.id].waiting and isinstance(node.task, Collective | Transfer):
                text = f"a launch waits before node {node.id} ({node.name} at {node.line}), which is a {node.kind}"
                raise self._failed(f"{text}; update what ranks do together before the launch")

    def _made(self, old: Node, queued: Queued) -> Node:
        """What was queued, in the place of a node."""
        task, reads, writes = queued.make(self._new)
        node = replace(
            old, name=queued.name, line=queued.line, task=task, reads=tuple(reads), writes=tuple(writes)
        )
        was = f"node {old.id} ({old.name} at {old.line})"
        if node.kind != old.kind:
            text = f"{was} is a {old.kind}, and a {node.kind} was queued for it ({node.name} at {node.line})"
            raise self._failed(text)
        self._check_memory(was, old, node)
        return node

    def _check_memory(self, was: str, old: Node, node: Node) -> None:
        """The graph's own buffers were placed by who used them when."""
        for name in node.buffers:
            buffer = self._graph.buffers.get(name)
            if buffer is not None and buffer.role is Role.INTERMEDIATE and name not in old.buffers:
                text = f"{was} did not use {name!r}, which is the graph's own"
                raise self._failed(f"{text}, and was queued with it ({node.name} at {node.line})")

    def _refusal(self, what: str) -> AclError:
        self.invalidate(f"{what} ({call_site()}); an update has tasks alone")
        name = "ACL_ERROR_RT_FEATURE_NOT_SUPPORT"
        return AclError(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, f"{name} (207000): {self.why_invalid}")

    def _failed(self, why: str) -> AclError:
        return failed(f"{self._group} of graph {self._graph.name!r} stays as it was; its update at {self.line}: {why}")


class _NewPieces(Pieces):
    """Memory that an update uses: what the graph has already, by its names there, and what is new."""

    def __init__(self, known: Pieces) -> None:
        super().__init__()
        self._known = known

    def add(self, piece: Piece) -> None:
        held = self._known.overlapping(piece)
        if not held:
            super().add(piece)
        elif len(held) > 1 or piece.address < held[0].address or held[0].end < piece.end:
            names = ", ".join(repr(one.name) for one in held)
            text = f"memory was used ({call_site()}) that has some bytes in common with buffers {names}, and others too"
            raise failed(text)

    def around(self, address: int) -> Piece:
        try:
            return super().around(address)
        except KeyError:
            return self._known.around(address)

    def has_own(self, x: Array) -> bool:
        return self._known.has_own(x)


def failed(text: str) -> AclError:
    return AclError(ACL_ERROR_RT_MODEL_UPDATE_FAILED, f"ACL_ERROR_RT_MODEL_UPDATE_FAILED (107040): {text}")
