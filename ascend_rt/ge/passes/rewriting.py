"""How a pass that rewrites calls ends: other tasks in the place of some, and a line on what that saves."""

from collections.abc import Iterable, Mapping, Sequence

from ..graph import Graph
from ..nodes import Buffer, Node
from ..tying import tasks_of, tied
from .terms import Terms


def rewritten(
    graph: Graph,
    instead: Mapping[int, Sequence[Node]],
    terms: Terms,
    did: str,
    buffers: Mapping[str, Buffer] | None = None,
) -> Graph:
    """The graph with other tasks in the place of those that are named by id; the graph itself if none is.

    did: of the pass, for the log; how much less time calls take is added to it. buffers: all, if some are new.
    """
    if not instead:
        return graph

    def calls_us(nodes: Iterable[Node]) -> float:
        return sum(terms.costs.of(n, graph.groups).alone_us for n in nodes if n.communicator is not None)

    saved = calls_us(graph.by_id[id] for id in instead) - sum(map(calls_us, instead.values()))
    nodes = [new for node in tasks_of(graph) for new in instead.get(node.id, [node])]
    return graph.replace(f"{did}, communication takes {saved:.0f} us less", nodes=tied(graph, nodes), buffers=buffers)


def unused_name(buffers: Mapping[str, Buffer], word: str) -> str:
    """A name for a buffer that none has: the word, and a number."""
    return next(name for number in range(len(buffers) + 1) if (name := f"{word}{number}") not in buffers)
