"""A graph as people read it."""

import json
from collections.abc import Iterator

from .dag import Dag


def headline(graph: Dag) -> str:
    """One sentence."""
    kinds = [node.kind for node in graph.nodes]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds)) or "empty"
    nbytes = sum(buffer.nbytes for buffer in graph.buffers.values())
    return (
        f"graph {graph.name!r}: {_plural(len(graph.nodes), 'node')} on {_plural(len(graph.streams), 'stream')} "
        f"({counts}), {_plural(len(graph.buffers), 'buffer')} of {nbytes} bytes"
    )


def describe(graph: Dag) -> str:
    """The sentence, a line for each node and each buffer, and what passes have left."""
    return "\n".join([headline(graph), *_nodes(graph), *_buffers(graph), *(f"  pass: {line}" for line in graph.log)])


def trace(graph: Dag, is_verbose: bool) -> str:
    """Trace events: a node is one unit long, and begins when all that comes before it has ended."""
    begins: dict[int, int] = {}
    for edge in sorted(graph.order.edges, key=lambda edge: graph.order.row(edge.after)):
        begins[edge.after] = max(begins.get(edge.after, 0), begins.get(edge.before, 0) + 1)
    events = []
    for node in graph.nodes:
        said = {"id": node.id, "line": node.line, "task": str(node.task)}
        if is_verbose:
            said |= {"reads": ", ".join(map(str, node.reads)), "writes": ", ".join(map(str, node.writes))}
        place = {"ph": "X", "ts": begins.get(node.id, 0), "dur": 1, "pid": 0, "tid": node.stream}
        events.append({"name": node.name, "cat": node.kind, **place, "args": said})
    return json.dumps({"traceEvents": events, "otherData": {"graph": graph.name}})


def _nodes(graph: Dag) -> Iterator[str]:
    for node in graph.nodes:
        yield f"  {node}"
        if node.kind == "kernel":
            reads, writes = (", ".join(map(str, spans)) or "nothing" for spans in (node.reads, node.writes))
            yield " " * 8 + ("uses anything" if node.is_opaque else f"reads {reads}; writes {writes}")


def _buffers(graph: Dag) -> Iterator[str]:
    for buffer in graph.buffers.values():
        where = "not placed" if buffer.address is None else f"at {buffer.address:#x}"
        role = f"{buffer.role}{'' if buffer.on_device else ' of the host'}"
        yield f"  {buffer.name}: {role}, {buffer.nbytes} bytes, {buffer.dtype}{list(buffer.shape)}, {where}"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
