"""A cast to a smaller type goes before the all-reduce or reduce-scatter whose result it is the only reader of: half of
the bytes or less are moved, and sums are rounded in the smaller type. So it is off unless ascend_rt.narrowReductions is
true.
"""

from dataclasses import replace

from ...hccl.device_dtypes import REDUCIBLE
from ...hccl.types import number_of_dtype
from ..graph import Graph
from ..nodes import Buffer, Node
from ..placement import dtype_named
from .agreement import Facts
from .casts import Cast, cast_before, only_cast, scratch
from .content import Call, Tasks, flat, is_flat
from .rewriting import rewritten
from .terms import Terms


def narrow_reductions(graph: Graph, terms: Terms) -> Graph:
    """Move narrowing casts before all-reduces and reduce-scatters."""
    tasks = Tasks(graph)
    instead: dict[int, list[Node]] = {}
    buffers = dict(graph.buffers)
    for name, calls in sorted(tasks.calls().items()):
        casts = {call.number: cast for call in calls if (cast := _cast_behind(tasks, call)) is not None}
        own: Facts = {f"{number} to {cast.out.dtype}": 1.0 for number, cast in casts.items()}
        facts = terms.agree(name, own)
        for call in calls:
            cast = casts.get(call.number)
            if cast is not None and f"{call.number} to {cast.out.dtype}" in facts:
                instead |= {call.node.id: _narrowed(call, cast, buffers), cast.node.id: []}
    did = f"narrowing_cast_reduction: {len(instead) // 2} casts go before reductions, which round otherwise then"
    return rewritten(graph, instead, terms, did, buffers)


def _cast_behind(tasks: Tasks, call: Call) -> Cast | None:
    """The cast of the result, if that is all that happens to it and its memory is free from the call on."""
    task = call.task
    if task.call not in ("all_reduce", "reduce_scatter") or task.split is not None or not is_flat(task.x, task.out):
        return None
    assert task.out is not None
    cast = only_cast(tasks, call.place, task.out)
    return cast if cast is not None and number_of_dtype(dtype_named(cast.out.dtype)) in REDUCIBLE else None


def _narrowed(call: Call, cast: Cast, buffers: dict[str, Buffer]) -> list[Node]:
    """The cast of what this rank gives, where the result goes or, if that has room for a block alone, to a buffer of
    the graph's own; and the call on that."""
    task = call.task
    assert task.x is not None
    out = flat(cast.out)
    x = out if task.call == "all_reduce" else scratch(buffers, task.x, out.dtype)
    narrow = replace(task, dtype=out.dtype, x=x, out=out)
    first = cast_before(call.node, cast.node, x, task.x)
    return [first, replace(call.node, task=narrow, reads=(x.span,), writes=(out.span,))]
