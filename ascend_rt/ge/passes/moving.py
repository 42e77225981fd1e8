"""The same tasks over other memory."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ..nodes import Collective, Copy, Kernel, Memset, Message, Node, Span, Task, Transfer, View


class Place(NamedTuple):
    """Where a buffer lies now: in another one, from this byte on."""

    buffer: str
    start: int


def moved(node: Node, places: Mapping[str, Place]) -> Node:
    """The node with each buffer that is named in `places` at its new place."""
    reads, writes = (tuple(_span(span, places) for span in spans) for spans in (node.reads, node.writes))
    return replace(node, task=_task(node.task, places), reads=reads, writes=writes)


def _task(task: Task, places: Mapping[str, Place]) -> Task:
    if isinstance(task, Kernel):
        keywords = {name: _value(value, places) for name, value in task.keywords.items()}
        return replace(task, arguments=_value(task.arguments, places), keywords=keywords)
    if isinstance(task, Collective):
        return replace(task, x=_value(task.x, places), out=_value(task.out, places))
    if isinstance(task, Transfer):
        messages = tuple(Message(m.receives, m.peer, _value(m.view, places)) for m in task.messages)
        return replace(task, messages=messages)
    if isinstance(task, Copy):
        return replace(task, to=_span(task.to, places), source=_span(task.source, places))
    if isinstance(task, Memset):
        return replace(task, to=_span(task.to, places))
    return task


def _span(span: Span, places: Mapping[str, Place]) -> Span:
    place = places.get(span.buffer)
    return span if place is None else Span(place.buffer, place.start + span.start, span.nbytes)


def _value(value: Any, places: Mapping[str, Place]) -> Any:
    if isinstance(value, View):
        place = places.get(value.buffer)
        return value if place is None else replace(value, buffer=place.buffer, start=place.start + value.start)
    if isinstance(value, Span):
        return _span(value, places)
    if type(value) in (tuple, list):
        return type(value)(_value(part, places) for part in value)
    if type(value) is dict:
        return {key: _value(part, places) for key, part in value.items()}
    return value
