"""Calls that bring nothing new: all-gathers and broadcasts of data that has not changed since, and calls whose result
nobody reads."""

from dataclasses import replace

from ..graph import Graph
from ..nodes import Copy, Node
from .agreement import Facts
from .content import Call, Tasks, is_flat
from .rewriting import rewritten
from .terms import Terms

MOST_EARLIER = 4
"""calls before it with which a call is compared"""


def drop_repeated(graph: Graph, terms: Terms) -> Graph:
    """Drop all-gathers and broadcasts that were done before; a copy stands where the result went elsewhere."""
    tasks = Tasks(graph)
    instead: dict[int, list[Node]] = {}
    for name, calls in sorted(tasks.calls().items()):
        own: Facts = {
            f"{call.number} as {earlier.number}": 1.0
            for call in calls
            for earlier in _alike(calls, call)
            if _is_repeated(tasks, earlier, call)
        }
        facts = terms.agree(name, own)
        for call in calls:
            earlier = next((each for each in _alike(calls, call) if f"{call.number} as {each.number}" in facts), None)
            if earlier is not None:
                instead[call.node.id] = _copies(earlier, call)
    return rewritten(graph, instead, terms, f"repeated_communication: {len(instead)} calls were done before")


def drop_dead(graph: Graph, terms: Terms) -> Graph:
    """Drop collectives whose results nobody reads on any rank."""
    tasks = Tasks(graph)
    instead: dict[int, list[Node]] = {}
    for name, calls in sorted(tasks.calls().items()):
        facts = terms.agree(name, {f"dead {call.number}": 1.0 for call in calls if _is_dead(tasks, call)})
        instead |= {call.node.id: [] for call in calls if f"dead {call.number}" in facts}
    return rewritten(graph, instead, terms, f"dead_communication: {len(instead)} calls whose results nobody reads")


def _alike(calls: list[Call], call: Call) -> list[Call]:
    """Earlier calls with the same arguments, the latest first: the same ones on all ranks."""
    if call.task.call not in ("all_gather", "broadcast") or call.task.split is not None:
        return []
    form = _form(call)
    return [earlier for earlier in reversed(calls[: call.number]) if _form(earlier) == form][:MOST_EARLIER]


def _form(call: Call) -> tuple[object, ...]:
    return call.task.call, call.task.dtype, call.task.count, call.task.root


def _is_repeated(tasks: Tasks, earlier: Call, call: Call) -> bool:
    x, out, had, held = call.task.x, call.task.out, earlier.task.x, earlier.task.out
    if not is_flat(x, out, had, held) or not tasks.can_go(call.node):
        return False
    assert x is not None and out is not None and had is not None and held is not None
    if x.span != had.span or (call.task.call == "broadcast" and not x.span == out.span == held.span):
        return False
    if out.span != held.span and (out.span.overlaps(held.span) or x.span.overlaps(held.span)):
        return False
    return all(tasks.is_unwritten(earlier.place, call.place, span) for span in (x.span, held.span))


def _copies(earlier: Call, call: Call) -> list[Node]:
    """What stands in the place of a call that was done before: a copy, or nothing."""
    out, held = call.task.out, earlier.task.out
    assert out is not None and held is not None
    if out.span == held.span:
        return []
    task = Copy(out.span, held.span, out.span.nbytes)
    return [replace(call.node, name="copy", task=task, reads=(held.span,), writes=(out.span,))]


def _is_dead(tasks: Tasks, call: Call) -> bool:
    if call.task.call == "barrier" or not tasks.can_go(call.node):
        return False
    return all(tasks.reads_of(call.place, span) == [] for span in call.node.writes)
