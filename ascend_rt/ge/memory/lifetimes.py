"""When a buffer is in use, by the partial order of streams and events; and where one can take over from another.

A buffer that a collective uses is in use until the collective is done on its stream, which is when no peer reads or
writes it any more. A kernel that does not say what it uses may use every buffer.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from ..nodes import Collective, Copy, Kernel, Node

if TYPE_CHECKING:
    from ..graph import Graph

Matrix = npt.NDArray[np.bool_]
Chain = tuple[str, ...]
IN_PLACE_CALLS = frozenset({"all_reduce", "reduce"})
"""collectives whose result may lie where their argument does, byte for byte"""


class Lifetimes(NamedTuple):
    """What may share memory."""

    names: tuple[Chain, ...]
    """by place that is to be found, the buffers that lie there, each of which takes over from the one before it"""
    before: Matrix
    """[i, j]: all uses of what lies at place i are over when those of place j begin"""


def lifetimes(
    graph: "Graph",
    names: Sequence[str],
    *,
    first: Sequence[str] = (),
    last: Sequence[str] = (),
    alone: Sequence[str] = (),
    in_place: Sequence[str] = (),
) -> Lifetimes:
    """The lives of the buffers `names`.

    first      buffers that are in use from before the graph begins, as inputs are
    last       buffers that are in use until after it ends, as outputs are
    alone      buffers that share memory with none
    in_place   buffers that may take over the place of one that is used no more, or be taken over
    """
    ordered = graph.order.matrix()
    used = _uses(graph.nodes, names)
    fixed = {*first, *last, *alone}
    chains = _chains(graph, [name for name in in_place if name in used and name not in fixed], used, ordered)
    taken = {name for chain in chains.values() for name in chain[1:]}
    places = tuple(chains.get(name, (name,)) for name in names if name not in taken)
    uses = np.array([np.logical_or.reduce([used[name] for name in place]) for place in places], np.bool_)
    uses = uses.reshape(len(places), len(graph.nodes))
    before = _all_before(uses, ordered)
    for place, (name, *_) in enumerate(places):
        if name in alone or name in last or not uses[place].any():
            before[place, :] = False
        if name in alone or name in first or not uses[place].any():
            before[:, place] = False
    return Lifetimes(places, before)


def _uses(nodes: Sequence[Node], names: Sequence[str]) -> dict[str, Matrix]:
    """By buffer, which of the nodes use it."""
    used = {name: np.zeros(len(nodes), np.bool_) for name in names}
    for row, node in enumerate(nodes):
        for name in names if node.is_opaque else {span.buffer for span in (*node.reads, *node.writes)} & used.keys():
            used[name][row] = True
    return used


def _all_before(uses: Matrix, ordered: Matrix) -> Matrix:
    """[i, j]: every node of row i comes before every node of row j."""
    counts = uses.astype(np.float32)
    missing: Matrix = (counts @ (~ordered).astype(np.float32) @ counts.T) > 0
    return ~missing


# ---- in place ----


def may_overwrite(node: Node, source: str, target: str) -> bool:
    """Whether a node may write the buffer `target` where `source` lies, which it reads, if both are used whole by it.

    True of copies, of collectives of IN_PLACE_CALLS and of NumPy's elementwise functions (ufuncs), whose results do not
    depend on whether they overlap their arguments. A kernel of the program says so itself: function.in_place = True.
    """
    task = node.task
    reads = [span for span in node.reads if span.buffer == source]
    writes = [span for span in node.writes if span.buffer == target]
    if len(reads) != 1 or len(writes) != 1 or any(span.buffer == target for span in node.reads):
        return False
    if (reads[0].start, reads[0].nbytes) != (writes[0].start, writes[0].nbytes):
        return False
    if isinstance(task, Collective):
        return task.call in IN_PLACE_CALLS
    if isinstance(task, Kernel):
        return not task.is_opaque and (isinstance(task.function, np.ufunc) or getattr(task.function, "in_place", False))
    return isinstance(task, Copy)


def _chains(graph: "Graph", names: Sequence[str], used: dict[str, Matrix], ordered: Matrix) -> dict[str, Chain]:
    """Buffers that take over from one another, by the first of each chain; while it is built, by the last."""
    chain_of: dict[str, Chain] = {name: (name,) for name in names}
    for row, node in enumerate(graph.nodes):
        for source in dict.fromkeys(span.buffer for span in node.reads):
            for target in dict.fromkeys(span.buffer for span in node.writes):
                free = source in chain_of and len(chain_of.get(target, ())) == 1  # not taken over, has not taken over
                if free and _takes_over(graph, row, source, target, used, ordered):
                    chain_of[target] = (*chain_of.pop(source), target)
                    break
    return {chain[0]: chain for chain in chain_of.values()}


def _takes_over(
    graph: "Graph", row: int, source: str, target: str, used: dict[str, Matrix], ordered: Matrix
) -> bool:
    """Whether the node at `row` is the last to use the one and the first to use the other, and may overwrite."""
    if source == target or graph.buffers[source].nbytes != graph.buffers[target].nbytes:
        return False
    earlier, later = used[source].copy(), used[target].copy()
    earlier[row] = later[row] = False
    return (
        may_overwrite(graph.nodes[row], source, target)
        and bool(ordered[earlier, row].all())
        and bool(ordered[row, later].all())
    )
