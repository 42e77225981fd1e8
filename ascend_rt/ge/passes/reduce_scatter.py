"""All-reduces of which each rank uses its own block alone become reduce-scatters; a reduce-scatter whose blocks are
gathered again at once, and used nowhere else, becomes an all-reduce with the all-gather.

Half of the bytes are saved, or one call. A fold in rank order gives each element the same bits in both calls.
"""

from dataclasses import replace
from itertools import pairwise

from ..graph import Graph
from ..nodes import Node, Span
from .agreement import Facts
from .content import Call, Tasks, flat, is_flat
from .rewriting import rewritten
from .terms import Terms


def scatter_reductions(graph: Graph, terms: Terms) -> Graph:
    """Turn all-reduces of which only the own block is read into reduce-scatters."""
    tasks = Tasks(graph)
    instead: dict[int, list[Node]] = {}
    for name, calls in sorted(tasks.calls().items()):
        group = graph.groups[name]
        own: Facts = {
            f"scatter {call.number}": 1.0 for call in calls if _uses_own_block(tasks, call, group.rank, group.size)
        }
        facts = terms.agree(name, own)
        scattered = [call for call in calls if f"scatter {call.number}" in facts]
        instead |= {call.node.id: [_scatter(call, group.rank, group.size)] for call in scattered}
    return rewritten(graph, instead, terms, f"all_reduce_slice_to_reduce_scatter: {len(instead)} all-reduces")


def join_reductions(graph: Graph, terms: Terms) -> Graph:
    """Turn a reduce-scatter and the all-gather of its result into an all-reduce."""
    tasks = Tasks(graph)
    instead: dict[int, list[Node]] = {}
    for name, calls in sorted(tasks.calls().items()):
        group = graph.groups[name]
        pairs = list(pairwise(calls))
        own: Facts = {f"join {a.number}": 1.0 for a, b in pairs if _are_one(tasks, a, b, group.rank, group.size)}
        facts = terms.agree(name, own)
        for scatter, gather in pairs:
            if f"join {scatter.number}" in facts:
                instead |= {scatter.node.id: [], gather.node.id: [_join(scatter, gather, group.size)]}
    return rewritten(graph, instead, terms, f"reduce_scatter_all_gather_to_all_reduce: {len(instead) // 2} pairs")


def _uses_own_block(tasks: Tasks, call: Call, rank: int, size: int) -> bool:
    task = call.task
    if task.call != "all_reduce" or size == 1 or task.count % size or not is_flat(task.x, task.out):
        return False
    assert task.out is not None
    reads = tasks.reads_of(call.place, task.out.span)
    block = flat(task.out, rank * (task.count // size), task.count // size).span
    return bool(reads) and all(block.covers(read) for _, read in reads or ())


def _scatter(call: Call, rank: int, size: int) -> Node:
    task, count = call.task, call.task.count // size
    assert task.x is not None and task.out is not None
    block = flat(task.out, rank * count, count)
    scatter = replace(task, call="reduce_scatter", count=count, x=flat(task.x), out=block)
    return replace(call.node, name="reduce_scatter", task=scatter, writes=(block.span,))


def _are_one(tasks: Tasks, scatter: Call, gather: Call, rank: int, size: int) -> bool:
    a, b = scatter.task, gather.task
    if (a.call, b.call) != ("reduce_scatter", "all_gather") or (a.count, a.dtype) != (b.count, b.dtype):
        return False
    if not is_flat(a.x, a.out, b.x, b.out) or not tasks.can_go(scatter.node):
        return False
    assert a.x is not None and a.out is not None and b.x is not None and b.out is not None
    x, part, out = a.x.span, a.out.span, b.out.span
    if part != b.x.span or (x != out and x.overlaps(out)):
        return False
    is_own_block = part == Span(out.buffer, out.start + rank * part.nbytes, part.nbytes)
    if not is_own_block and (part.overlaps(out) or tasks.reads_of(gather.place, part) != []):
        return False
    between = (scatter.place, gather.place)
    return tasks.is_unwritten(*between, x) and tasks.is_unused(*between, part)


def _join(scatter: Call, gather: Call, size: int) -> Node:
    x, out = scatter.task.x, gather.task.out
    assert x is not None and out is not None
    task = replace(scatter.task, call="all_reduce", count=scatter.task.count * size, x=flat(x), out=flat(out))
    after = tuple(sorted({*scatter.node.after, *gather.node.after}))
    return replace(gather.node, name="all_reduce", task=task, reads=(x.span,), writes=(out.span,), after=after)
