"""Builder: the graph of one rank by hand, with no device, no communicator and no rank running.

    b = Builder(rank, {"world": range(size)})
    x, total = b.input("x", (1000,)), b.output("total", (1000,))
    h = b.empty("h", (1000,))
    b.kernel(np.multiply, x, 2, out=h, reads=[x], writes=[h])
    b.all_reduce("world", h, total)
    return b.graph("step")

Calls go to stream 0 unless they say otherwise; `b.wait(stream, on=...)` has a stream wait for all that another has so
far, and `ge.fusion` marks calls as in a capture. Arguments are as of the methods of a communicator; names of arrays are
those of their buffers.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..diag.call_site import call_site
from ..hccl.config import HcclCommConfig
from ..plan.collectives import COLLECTIVES
from .fusion import current_mark
from .graph import Graph
from .nodes import Buffer, Collective, Copy, Group, Kernel, Message, Node, Record, Role, Task, Transfer, View, Wait
from .placement import Array, dtype_named


class Builder:
    """Nodes and buffers of a rank of the job while they grow.

    groups   ranks of the job by name of the communicator
    configs  by name of the communicator: what it is made with when an .om of the graph is loaded
    """

    def __init__(
        self, rank: int, groups: Mapping[str, Sequence[int]], configs: Mapping[str, HcclCommConfig] | None = None
    ) -> None:
        members = {name: tuple(ranks) for name, ranks in groups.items() if rank in ranks}
        given = {name: config.given() for name, config in (configs or {}).items()}
        if not given.keys() <= groups.keys():
            raise ValueError(f"configs has {sorted(given.keys() - groups.keys())}, and groups {sorted(groups)}")
        self.rank = rank
        self.groups = {
            name: Group(name, ranks.index(rank), len(ranks), ranks, given.get(name, {}))
            for name, ranks in members.items()
        }
        self._nodes: list[Node] = []
        self._buffers: dict[str, Buffer] = {}
        self._constants: dict[str, Array] = {}
        self._events = 0

    # ---- memory ----

    def input(self, name: str, shape: Sequence[int], dtype: str = "float32") -> View:
        """What the program fills before a launch."""
        return self._buffer(name, shape, dtype, Role.INPUT)

    def output(self, name: str, shape: Sequence[int], dtype: str = "float32") -> View:
        """What the program reads after a launch."""
        return self._buffer(name, shape, dtype, Role.OUTPUT)

    def empty(self, name: str, shape: Sequence[int], dtype: str = "float32") -> View:
        """Memory of the graph's own: undefined outside of a launch."""
        return self._buffer(name, shape, dtype, Role.INTERMEDIATE)

    def constant(self, name: str, values: Any) -> View:
        """Values that are part of the graph."""
        array = np.ascontiguousarray(values)
        view = self._buffer(name, array.shape, array.dtype.name, Role.CONSTANT)
        self._constants[name] = array.reshape(-1).view(np.uint8).copy()
        return view

    def _buffer(self, name: str, shape: Sequence[int], dtype: str, role: Role) -> View:
        if name in self._buffers:
            raise ValueError(f"there is a buffer {name!r} already")
        itemsize = dtype_named(dtype).itemsize
        view = View(name, 0, dtype, tuple(shape), None, itemsize)
        self._buffers[name] = Buffer(name, view.count * itemsize, dtype, tuple(shape), role)
        return view

    # ---- tasks ----

    def kernel(
        self,
        function: Callable[..., object],
        *arguments: Any,
        reads: Sequence[View] = (),
        writes: Sequence[View] = (),
        stream: int = 0,
        **keywords: Any,
    ) -> Node:
        """function(*arguments, **keywords), where a view stands for its array; a function at the top of a module."""
        return self._add(Kernel(function, arguments, keywords), reads, writes, stream)

    def copy(self, to: View, source: View, stream: int = 0) -> Node:
        """All bytes of a view to another that has as many."""
        return self._add(Copy(to.span, source.span, source.span.nbytes), [source], [to], stream)

    def call(
        self,
        name: str,
        group: str,
        x: View | None = None,
        out: View | None = None,
        *,
        op: str = "sum",
        root: int = 0,
        stream: int = 0,
    ) -> Node:
        """A collective by the name of its method; out as x where it is not given. barrier takes neither."""
        spec, own = COLLECTIVES[name], self.groups[group]
        if x is None:
            return self._add(Collective(name, group, "int8", 0, op, root), (), (), stream)
        out = x if out is None else out
        place = own.rank, own.size, root
        blocks = spec.blocks_in.on(*place), spec.blocks_out.on(*place)
        counted, number = (x, blocks[0]) if blocks[0] else (out, blocks[1])
        reads, writes = [x] * bool(blocks[0]), [out] * bool(blocks[1])
        if spec.name == "broadcast":
            reads, writes = ([x], []) if own.rank == root else ([], [out])
        count = counted.count // max(number, 1)
        task = Collective(name, group, x.dtype, count, op, root, x, out, None, *current_mark())
        return self._add(task, reads, writes, stream)

    def all_reduce(self, group: str, x: View, out: View | None = None, *, op: str = "sum", stream: int = 0) -> Node:
        return self.call("all_reduce", group, x, out, op=op, stream=stream)

    def all_gather(self, group: str, x: View, out: View, *, stream: int = 0) -> Node:
        return self.call("all_gather", group, x, out, stream=stream)

    def reduce_scatter(self, group: str, x: View, out: View, *, op: str = "sum", stream: int = 0) -> Node:
        return self.call("reduce_scatter", group, x, out, op=op, stream=stream)

    def broadcast(self, group: str, x: View, *, root: int = 0, stream: int = 0) -> Node:
        return self.call("broadcast", group, x, root=root, stream=stream)

    def send(self, group: str, x: View, dest: int, *, stream: int = 0) -> Node:
        return self._add(Transfer("send", group, (Message(False, dest, x),)), [x], (), stream)

    def recv(self, group: str, out: View, source: int, *, stream: int = 0) -> Node:
        return self._add(Transfer("recv", group, (Message(True, source, out),)), (), [out], stream)

    def wait(self, stream: int, on: int) -> None:
        """What a stream has from here on comes behind what stream `on` has so far."""
        self._add(Record(self._events), (), (), on)
        self._add(Wait(self._events), (), (), stream)
        self._events += 1

    def graph(self, name: str = "graph") -> Graph:
        """What has been built. ValueError: it contradicts itself."""
        made = Graph(self._nodes, self._buffers, self.groups, name=name, memory=self._constants)
        made.check()
        return made

    def _add(self, task: Task, reads: Sequence[View], writes: Sequence[View], stream: int) -> Node:
        kind = getattr(task, "call", type(task).__name__.lower())
        spans = tuple(view.span for view in reads), tuple(view.span for view in writes)
        node = Node(len(self._nodes), kind, stream, task, *spans, line=call_site())
        self._nodes.append(node)
        return node
