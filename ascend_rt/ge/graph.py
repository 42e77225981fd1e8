"""Graph: the tasks of a step, the memory they use and the order they need, as data.

    graph.nodes, graph.buffers, graph.groups     what was captured, read from a file, or made by a pass
    graph.order                                  what comes before what: streams, events, control edges
    graph.data_edges(), graph.races()            what has to come before what, by the memory that is used
    print(graph)   graph.to_json()   Graph.from_json(text)
    graph.replace("what was done", nodes=...)    a new graph with a line in its log: how a pass ends
    graph.launch(stream)                         runs it

A pass is a function `Graph -> Graph`. It reads nodes and edges, and returns what `replace` makes of them; the new graph
has the memory and the communicators of the old one and can be launched as well.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..acl import recording
from ..acl.errors import ACL_ERROR_RT_INVALID_HANDLE, ACL_ERROR_RT_STREAM_CAPTURED, AclError
from . import json_form, text
from .across.agree import agree, agree_again, agree_over_own
from .across.calls import changed_calls
from .dag import Agreement
from .launch import Prepared
from .memory.stream_memory import Placed, Resident, have_own_block
from .node_index import NodeIndex
from .nodes import Buffer, Node, Role
from .placement import Array, address_of, dtype_named

if TYPE_CHECKING:
    from ..acl.stream import Stream
    from ..hccl.communicator import Communicator


class Graph(Resident):
    """What one rank does in a step.

    nodes      whatever comes first is listed first; collectives of a communicator in their order
    buffers    by name
    groups     the communicators of its collectives, by name
    log        a line of every pass that made it
    memory     arrays of bytes in this process, by buffer: they are kept alive. Buffers without one have to be planned
    communicators   of this process, by name
    """

    _call_changes: frozenset[str] = frozenset()
    """communicators whose calls were updated since the graphs were compared"""

    def __str__(self) -> str:
        return text.describe(self)

    def __repr__(self) -> str:
        return f"<{text.headline(self)}>"

    # ---- what is made of it ----

    def replace_tasks(
        self, nodes: Sequence[Node], buffers: Mapping[str, Buffer], memory: Mapping[str, Array]
    ) -> set[str]:
        """These nodes, in this graph, in the place of those with their ids, whose kinds and streams they have; for
        launches from here on, those that are under way keep what they have: what ge.update does.

        buffers, memory: what is new. Returns the buffers that no node uses any more, which it gives back.
        DeviceMemoryError: there is no room, and nothing is changed.
        """
        before = [self.by_id[node.id] for node in nodes]
        unused = self._index.unused_after(before, nodes)
        unused = {name for name in unused if self.buffers[name].role is not Role.INTERMEDIATE}
        self._replace_prepared(nodes, memory, unused)
        self._call_changes |= changed_calls(before, nodes)
        self._index.replace(before, nodes)
        listed = list(self.nodes)
        for node in nodes:
            listed[self._index.place[node.id]] = self.by_id[node.id] = node
        self.nodes = tuple(listed)
        self.buffers.update(buffers)
        self.memory.update(memory)
        for name in unused:
            del self.buffers[name]
            self.memory.pop(name, None)
        return unused

    def rebind(self, memory: Mapping[str, Array]) -> None:
        """Have buffers of the program lie elsewhere, for launches from here on: inputs and outputs that change need no
        copy. It costs what the nodes cost that use them; nothing where nothing moves.

        memory: an array of each such buffer's bytes, C-contiguous. ValueError: one is too small. DeviceMemoryError:
        there is no room for staging it, and nothing is changed.
        """
        moved = {name: self._bytes_for(name, given) for name, given in memory.items() if not self._is_at(name, given)}
        if moved:
            self.move(moved)
            self.memory.update(moved)

    def move(self, memory: Mapping[str, Array]) -> None:
        """Have buffers lie elsewhere in the tasks of launches from here on."""
        self._replace_prepared([self.by_id[id] for id in self._index.using(memory)], memory, ())

    def bind(
        self,
        memory: Mapping[str, Array],
        communicators: "Mapping[str, Communicator]",
        later: Collection[str] = (),
    ) -> "Graph":
        """The same graph over memory and communicators of this process: for one that was read from a file.

        memory: an array of each buffer's bytes, C-contiguous. later: buffers that `rebind` gives theirs, before the
        first launch. ValueError: one is missing, too small, or a communicator is of another size or rank.
        """
        flat = {name: self._bytes_for(name, memory.get(name)) for name in self.buffers if name not in later}
        for name, group in self.groups.items():
            held = communicators.get(name)
            if held is None or (held.rank, held.size) != (group.rank, group.size):
                has = "none" if held is None else f"rank {held.rank} of {held.size}"
                raise ValueError(f"communicator {name!r} is rank {group.rank} of {group.size}, and was given {has}")
        bound = self.replace("bound to memory", memory=flat)
        bound.log = self.log
        bound.communicators = {name: communicators[name] for name in self.groups}
        bound._hold_communicators()
        return bound

    def trace(self, *, is_verbose: bool = False) -> str:
        """As text that chrome://tracing and Perfetto read: a row for each stream, tasks in their order, without times;
        with what each reads and writes if it is verbose."""
        return text.trace(self, is_verbose)

    def to_json(self) -> str:
        """As text that `from_json` reads. ValueError where a kernel or an argument of one has no such form."""
        return json_form.dump(self)

    @staticmethod
    def from_json(text: str) -> "Graph":
        """The graph of `to_json`: it has to be bound before it is launched. Imports the modules of its kernels.

        ValueError: the text is no graph, with the reason.
        """
        return json_form.load(text, Graph)

    # ---- running it ----

    @cached_property
    def prepared(self) -> Prepared:
        """Its tasks; made when it is first launched, with device memory for buffers that nobody has placed.

        DeviceMemoryError (207001): there is no room. ValueError: it was not bound to communicators.
        """
        self._check_bound()
        return Prepared(self)

    def agree(self, communicator: "Communicator") -> None:
        """Compare this graph with those of all ranks of a communicator, now and by their identity at every launch.

        Blocks until all of them are here. For graphs that use several communicators, or messages: order and arguments
        of calls, both sides of messages, and cycles are sought over all graphs together (`check_ranks`), as far as
        communicators have no members elsewhere. Without it the first launch compares over each communicator of its own.

        HcclError (HCCL_E_PARA) on every rank: they do not fit together, with ranks, nodes and lines.
        """
        self._agree_on((agree(self, communicator),))

    def array(self, buffer: str) -> Array:
        """The array of a buffer that lies in memory of this process, by name: its dtype and shape, no copy."""
        held = self.buffers[buffer]
        made: Array = self.memory[buffer].reshape(-1).view(dtype_named(held.dtype)).reshape(held.shape)
        return made

    def launch(self, stream: "Stream", keep: Any = None) -> None:
        """Queue all of it, in one piece: no Python runs between tasks but kernels. Returns at once.

        What was queued on the stream before is done before it begins, what is queued then comes behind all of it. Its
        collectives take their turns here, in their order. What fails comes out of the stream's synchronize.

        The first launch blocks until the ranks have compared their graphs; see `agree`. First launches of graphs of one
        communicator come in the same order on all of its ranks. Each launch begins with a meeting of those ranks, which
        fails on all of them if they launch different graphs. keep: is kept alive until it is done. Graphs launched on a
        stream share the memory of their own buffers (memory/stream_memory.py).

        HcclError (HCCL_E_PARA): the graphs do not fit together. AclError (107017) if it was destroyed; (107027) if the
        stream is captured. RuntimeError: a communicator or the stream was destroyed.
        """
        self.check_may_launch(stream)
        if self.agreements is None:
            self._agree_by_itself()
        elif self._call_changes:
            self._agree_again()
        self._prepared_on(stream).launch(stream, keep)

    def check_may_launch(self, stream: "Stream") -> None:
        """AclError (107017): it was destroyed; (107027): the stream is captured."""
        if self.is_destroyed:
            text = f"graph {self.name!r} was destroyed"
            raise AclError(ACL_ERROR_RT_INVALID_HANDLE, f"ACL_ERROR_RT_INVALID_HANDLE (107017): {text}")
        if recording.recorder_of(stream) is not None:
            text = f"graph {self.name!r} cannot be launched on a stream that is captured"
            raise AclError(ACL_ERROR_RT_STREAM_CAPTURED, f"ACL_ERROR_RT_STREAM_CAPTURED (107027): {text}")

    def streams_under_way(self) -> "list[Stream]":
        """The streams on which it was launched and is not over."""
        return self.prepared.streams_under_way() if "prepared" in self.__dict__ else []

    @property
    def placed(self) -> Placed | None:
        """Where buffers lie that had no memory when it was first launched; None: it has no tasks yet."""
        return self.prepared.placed if "prepared" in self.__dict__ else None

    def forget_tasks(self) -> None:
        """The next launch makes them anew."""
        self.__dict__.pop("prepared", None)

    def destroy(self) -> None:
        """Give back what it holds: memory and communicators. Launches that are queued still run; calling it again does
        nothing."""
        super().destroy()
        self.forget_tasks()

    def _prepared_on(self, stream: "Stream") -> Prepared:
        """Its tasks, to be launched on a stream now: in the memory in which they may be."""
        held: Prepared | None = self.__dict__.get("prepared")
        if held is None or held.waits_for_a_stream:
            self.forget_tasks()
            del held  # with what it has allocated
            self._check_bound()
            self.prepared = Prepared(self, stream)
        elif held.placed.turns is not None and held.placed.turns.stream is stream:
            held.placed.turns.settle()
        elif held.placed.turns is not None:
            held.placed = have_own_block(self, held.placed)
        return self.prepared

    def _check_bound(self) -> None:
        missing = [name for name in self.groups if name not in self.communicators]
        if missing:
            raise ValueError(f"{self!r} uses communicator {missing[0]!r}, which it was not given; call bind first")

    def _agree_by_itself(self) -> None:
        self._check_bound()
        self._agree_on(agree_over_own(self))

    def _agree_on(self, agreements: "tuple[Agreement, ...]") -> None:
        self.agreements = agreements
        if agreements:
            self.forget_tasks()  # which have no meetings

    def _agree_again(self) -> None:
        self.agreements = agree_again(self, self._call_changes)
        self._call_changes = frozenset()
        self.prepared.meet_by(self)

    @cached_property
    def _index(self) -> NodeIndex:
        return NodeIndex(self.nodes)

    def _bytes_for(self, name: str, given: Array | None) -> Array:
        nbytes = self.buffers[name].nbytes
        if given is None or given.nbytes < nbytes or not given.flags.c_contiguous:
            has = "none" if given is None else f"{given.nbytes} bytes of shape {given.shape}"
            raise ValueError(f"buffer {name!r} needs {nbytes} contiguous bytes, and was given {has}")
        flat: Array = given.reshape(-1).view(np.uint8)
        return flat

    def _is_at(self, name: str, given: Array) -> bool:
        held = self.memory.get(name)
        return held is not None and address_of(held) == address_of(given)

    def _replace_prepared(self, nodes: Sequence[Node], memory: Mapping[str, Array], unused: Collection[str]) -> None:
        if "prepared" in self.__dict__:
            try:
                self.prepared.replace(nodes, memory, unused)
            except BaseException:
                self.forget_tasks()  # some may have been replaced
                raise

    def _become(self, other: "Graph") -> None:
        """Take over all of another graph, which is used no more: how a capture fills the one that it has given out."""
        other._leave_communicators()
        self.__dict__ = other.__dict__
        self._hold_communicators()
