"""A cast to a smaller type goes before the all-gather or broadcast whose result it is the only reader of.

The bits are the same, and half of the bytes or less are moved. What sums is another matter (narrowing_reduction), and
what two ranks send one another is agreed on by them alone (narrowing_send).
"""

from dataclasses import replace

from ..graph import Graph
from ..nodes import Node
from .agreement import Facts
from .casts import Cast, as_cast, cast_before, is_movable, only_cast
from .content import Call, Tasks, flat, is_flat
from .rewriting import rewritten
from .terms import Terms


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
    if task.call == "broadcast" and task.x != task.out:
        return None
    if task.call == "all_gather" or rank != task.root:
        return only_cast(tasks, call.place, task.out)
    # The root's data stay where they are: whoever else reads them may.
    found = (as_cast(place, node) for place, node in enumerate(tasks.listed) if place > call.place)
    cast = next((cast for cast in found if cast is not None and cast.x.span == task.out.span), None)
    return cast if is_movable(tasks, call.place, task.out, cast) else None


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
    return [cast_before(call.node, cast.node, block, task.x), narrowed] if gives else [narrowed]
