"""A cast to a smaller type goes before the all-gather or broadcast whose result it is the only reader of.

A cast is np.copyto(out, x) of two contiguous arrays of one count. It makes each element by itself, so the bits are the
same, and half of the bytes or less are moved. Reductions round differently in another type: they are left alone.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..graph import Graph
from ..nodes import Kernel, Node, View
from .agreement import Facts
from .content import Call, Tasks, flat, is_flat
from .rewriting import rewritten
from .terms import Terms


class Cast(NamedTuple):
    place: int
    node: Node
    x: View
    out: View


def narrow_first(graph: Graph, terms: Terms) -> Graph:
    """Move narrowing casts before all-gathers and broadcasts."""
    tasks = Tasks(graph)
    instead: dict[int, list[Node]] = {}
    for name, calls in sorted(tasks.calls().items()):
        group = graph.groups[name]
        casts = {call.number: cast for call in calls if (cast := _cast_behind(tasks, call, group.rank)) is not None}
        own: Facts = {f"{number} to {cast.out.dtype}": 1.0 for number, cast in casts.items()}
        facts = terms.agree(name, own)
        for call in calls:
            cast = casts.get(call.number)
            if cast is not None and f"{call.number} to {cast.out.dtype}" in facts and cast.node.id not in instead:
                instead |= {call.node.id: _narrowed(call, cast, group.rank), cast.node.id: []}
    return rewritten(graph, instead, terms, f"narrowing_cast: {len(instead) // 2} casts go first")


def _cast_behind(tasks: Tasks, call: Call, rank: int) -> Cast | None:
    """The cast of the result, if that is all that happens to it and its memory is free from the call on."""
    task = call.task
    if task.call not in ("all_gather", "broadcast") or task.split is not None or not is_flat(task.x, task.out):
        return None
    assert task.out is not None
    whole, is_root = task.out.span, task.call == "broadcast" and rank == task.root
    if task.call == "broadcast" and task.x != task.out:
        return None
    reads = tasks.reads_of(call.place, whole)
    found: list[Cast | None] = [_as_cast(place, tasks.listed[place]) for place, _ in reads or ()]
    if is_root:  # the root's data stay where they are: whoever else reads them may
        casts = (_as_cast(place, node) for place, node in enumerate(tasks.listed) if place > call.place)
        found = [next((cast for cast in casts if cast is not None and cast.x.span == whole), None)]
    if len(found) != 1 or (cast := found[0]) is None or cast.x.span != whole or not tasks.can_go(cast.node):
        return None
    between = (call.place, cast.place)
    is_free = tasks.is_unused(*between, cast.out.span) and not _uses(call, cast)
    return cast if is_free and tasks.is_unwritten(*between, whole) else None


def _uses(call: Call, cast: Cast) -> bool:
    """Whether the call has to do with the memory that the cast writes."""
    return any(span.overlaps(cast.out.span) for span in (*call.node.reads, *call.node.writes))


def _as_cast(place: int, node: Node) -> Cast | None:
    task = node.task
    if not isinstance(task, Kernel) or task.function is not np.copyto or len(task.arguments) != 2 or task.keywords:
        return None
    out, x = task.arguments
    if not isinstance(out, View) or not isinstance(x, View) or not is_flat(out, x):
        return None
    is_narrowing = out.count == x.count and out.itemsize < x.itemsize
    return Cast(place, node, x, out) if is_narrowing else None


def _narrowed(call: Call, cast: Cast, rank: int) -> list[Node]:
    """The cast of what this rank gives, straight to its block of the result, and the call in place on that."""
    task = call.task
    assert task.x is not None
    is_gather = task.call == "all_gather"
    block = flat(cast.out, rank * task.count if is_gather else 0, task.count)
    narrow = replace(task, dtype=cast.out.dtype, x=block, out=flat(cast.out))
    gives = is_gather or rank == task.root
    reads = (block.span,) if gives else ()
    writes = (cast.out.span,) if is_gather or not gives else ()
    narrowed = replace(call.node, task=narrow, reads=reads, writes=writes)
    if not gives:
        return [narrowed]
    kernel = Kernel(np.copyto, (block, flat(task.x)))
    after = tuple(sorted({*cast.node.after} - {call.node.id}))
    first = replace(cast.node, task=kernel, reads=(task.x.span,), writes=(block.span,), after=after)
    return [first, narrowed]
