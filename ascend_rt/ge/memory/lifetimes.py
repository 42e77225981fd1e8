"""When bytes are in use, by the partial order of streams and events; and where some can take over from others.

A buffer that a collective uses is in use until the collective is done on its stream, which is when no peer reads or
writes it any more. A kernel that does not say what it uses may use every buffer.

A buffer of which parts are used at different times, as those of a bucket are before its call, is looked at part by
part: parts lie side by side, and what lies where one will be may be in use until that is written.
"""

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..dag import Dag
from ..nodes import Collective, Copy, Kernel, Node, Span
from .placement import ALIGNMENT

Matrix = npt.NDArray[np.bool_]
Chain = tuple[Span, ...]
IN_PLACE_CALLS = frozenset({"all_reduce", "reduce"})
"""collectives whose result may lie where their argument does, byte for byte"""
LEAST_PART = 4096
"""bytes; smaller parts of a buffer are not told apart"""
MOST_PARTS = 32
"""of a buffer"""


class Lifetimes(NamedTuple):
    """What may share memory."""

    places: tuple[Chain, ...]
    """by place that is to be found, what lies there: parts of buffers, each of which takes over from the one before"""
    before: Matrix
    """[i, j]: all uses of what lies at place i are over when those of place j begin"""
    groups: tuple[tuple[int, ...], ...]
    """places of the parts of a buffer, which lie side by side"""


def lifetimes(
    graph: Dag,
    names: Sequence[str],
    *,
    first: Sequence[str] = (),
    last: Sequence[str] = (),
    alone: Sequence[str] = (),
    in_place: Sequence[str] = (),
    whole: Sequence[str] = (),
) -> Lifetimes:
    """The lives of the buffers `names`.

    first      buffers that are in use from before the graph begins, as inputs are
    last       buffers that are in use until after it ends, as outputs are
    alone      buffers that share memory with none
    in_place   buffers that may take over the place of one that is used no more, or be taken over
    whole      buffers that are not looked at part by part
    """
    ordered = graph.order.matrix()
    fixed = {*first, *last, *alone}
    ends = _ends(graph.nodes, {*names} - fixed - {*whole})
    split = {name: _parts(name, graph.buffers[name].nbytes, ends.get(name, set())) for name in names}
    used = _uses(graph.nodes, split)
    free = {part for name in in_place if name not in fixed for part in split.get(name, ())}
    chains = _chains(graph, split, free, used, ordered)
    taken = {part for chain in chains.values() for part in chain[1:]}
    places = tuple(chains.get(part, (part,)) for name in names for part in split[name] if part not in taken)
    uses = np.array([np.logical_or.reduce([used[part] for part in place]) for place in places], np.bool_)
    uses = uses.reshape(len(places), len(graph.nodes))
    before = _all_before(uses, ordered)
    for place, ((name, *_), *_) in enumerate(places):
        if name in alone or name in last or not uses[place].any():
            before[place, :] = False
        if name in alone or name in first or not uses[place].any():
            before[:, place] = False
    index = {part: place for place, chain in enumerate(places) for part in chain}
    groups = tuple(tuple(index[part] for part in parts) for parts in split.values() if len(parts) > 1)
    return Lifetimes(places, before, groups)


def _ends(nodes: Sequence[Node], names: Collection[str]) -> dict[str, set[int]]:
    """By buffer, where the bytes that nodes use begin and end."""
    ends: dict[str, set[int]] = {}
    for node in nodes:
        for span in (*node.reads, *node.writes):
            if span.buffer in names:
                ends.setdefault(span.buffer, set()).update((span.start, span.stop))
    return ends


def _parts(name: str, nbytes: int, ends: Collection[int]) -> list[Span]:
    """A buffer, cut where the bytes that nodes use begin and end, as far as the alignment lets."""
    least = max(LEAST_PART, nbytes // MOST_PARTS)
    cuts = [0]
    for end in sorted(end // ALIGNMENT * ALIGNMENT for end in ends):
        if end - cuts[-1] >= least and nbytes - end >= least:
            cuts.append(end)
    return [Span(name, start, stop - start) for start, stop in pairwise([*cuts, nbytes])]


def _uses(nodes: Sequence[Node], split: dict[str, list[Span]]) -> dict[Span, Matrix]:
    """By part, which of the nodes use it."""
    used = {part: np.zeros(len(nodes), np.bool_) for parts in split.values() for part in parts}
    for row, node in enumerate(nodes):
        spans = [span for parts in split.values() for span in parts] if node.is_opaque else (*node.reads, *node.writes)
        for span in spans:
            for part in split.get(span.buffer, ()):
                if part.overlaps(span) or part == span:
                    used[part][row] = True
    return used


def _all_before(uses: Matrix, ordered: Matrix) -> Matrix:
    """[i, j]: every node of row i comes before every node of row j."""
    counts = uses.astype(np.float32)
    missing: Matrix = (counts @ (~ordered).astype(np.float32) @ counts.T) > 0
    return ~missing


# ---- in place ----


def may_overwrite(node: Node, source: Span, target: Span) -> bool:
    """Whether a node may write `target` where `source` lies, which it reads, if it uses the same bytes of both.

    True of copies, of collectives of IN_PLACE_CALLS and of NumPy's elementwise functions (ufuncs), whose results do not
    depend on whether they overlap their arguments. A kernel of the program says so itself: function.in_place = True.
    """
    task = node.task
    reads = [span for span in node.reads if span.overlaps(source)]
    writes = [span for span in node.writes if span.overlaps(target)]
    if len(reads) != 1 or len(writes) != 1 or any(span.overlaps(target) for span in node.reads):
        return False
    if not source.covers(reads[0]) or not target.covers(writes[0]):
        return False
    if (reads[0].start - source.start, reads[0].nbytes) != (writes[0].start - target.start, writes[0].nbytes):
        return False
    if isinstance(task, Collective):
        return task.call in IN_PLACE_CALLS
    if isinstance(task, Kernel):
        return not task.is_opaque and (isinstance(task.function, np.ufunc) or getattr(task.function, "in_place", False))
    return isinstance(task, Copy)


def _chains(
    graph: Dag, split: dict[str, list[Span]], free: set[Span], used: dict[Span, Matrix], ordered: Matrix
) -> dict[Span, Chain]:
    """Parts that take over from one another, by the first of each chain; while it is built, by the last. One of them
    at most has neighbours: it could not lie beside those of two buffers."""

    def touched(spans: Sequence[Span]) -> list[Span]:
        parts = (part for span in spans for part in split.get(span.buffer, ()) if part.overlaps(span))
        return [part for part in dict.fromkeys(parts) if part in free]

    def is_grouped(part: Span) -> bool:
        return len(split[part.buffer]) > 1

    chain_of: dict[Span, Chain] = {part: (part,) for part in used if part in free}
    for row, node in enumerate(graph.nodes):
        for source in touched(node.reads):
            for target in touched(node.writes):
                is_free = source in chain_of and len(chain_of.get(target, ())) == 1  # not taken over, nor has it
                is_free = is_free and not (is_grouped(target) and any(map(is_grouped, chain_of[source])))
                if is_free and _takes_over(graph.nodes[row], row, source, target, used, ordered):
                    chain_of[target] = (*chain_of.pop(source), target)
                    break
    return {chain[0]: chain for chain in chain_of.values()}


def _takes_over(
    node: Node, row: int, source: Span, target: Span, used: dict[Span, Matrix], ordered: Matrix
) -> bool:
    """Whether the node at `row` is the last to use the one and the first to use the other, and may overwrite."""
    if source == target or source.nbytes != target.nbytes:
        return False
    earlier, later = used[source].copy(), used[target].copy()
    earlier[row] = later[row] = False
    return (
        may_overwrite(node, source, target)
        and bool(ordered[earlier, row].all())
        and bool(ordered[row, later].all())
    )
