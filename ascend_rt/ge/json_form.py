"""A graph as JSON. Nothing is pickled: a kernel is the name by which it is imported, its arguments are plain values.

    {"format": "ascend_rt graph", "version": 1, "name", "nodes": [...], "buffers": [...], "groups": [...], "log": [...]}

What JSON has no word for is an object with one key: {"view": ...}, {"span": ...}, {"tuple": [...]}, {"scalar": [...]}
(of NumPy), {"slice": [...]}, {"dict": [[key, value], ...]}.
"""

import dataclasses
import importlib
import json
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from .dag import Dag
from .nodes import KINDS, Buffer, Group, Kernel, Message, Node, Role, Span, Task, View

FORMAT = "ascend_rt graph"
VERSION = 1
SomeDag = TypeVar("SomeDag", bound=Dag)
_TASKS = {kind: task for task, kind in KINDS.items()}


def dump(graph: Dag) -> str:
    """ValueError for what has no plain form; it names the node."""
    return json.dumps(
        {
            "format": FORMAT,
            "version": VERSION,
            "name": graph.name,
            "nodes": [_dump_node(node) for node in graph.nodes],
            "buffers": [dataclasses.asdict(buffer) for buffer in graph.buffers.values()],
            "groups": [dataclasses.asdict(group) for group in graph.groups.values()],
            "log": list(graph.log),
        },
        indent=1,
    )


def load(text: str, made: type[SomeDag]) -> SomeDag:
    """As a graph of this type. ValueError, with the reason, for what is no graph."""
    try:
        form = json.loads(text)
    except ValueError as error:
        raise ValueError(f"no graph: {error}") from None
    if not isinstance(form, dict) or form.get("format") != FORMAT:
        raise ValueError(f"no graph: expected an object whose format is {FORMAT!r}")
    if form.get("version") != VERSION:
        raise ValueError(f"a graph of version {form.get('version')!r}; expected {VERSION}")
    try:
        buffers = [_load_buffer(buffer) for buffer in form["buffers"]]
        groups = [Group(**{**group, "world_ranks": tuple(group["world_ranks"])}) for group in form["groups"]]
        graph = made(
            [_load_node(node) for node in form["nodes"]],
            {buffer.name: buffer for buffer in buffers},
            {group.name: group for group in groups},
            name=form["name"],
            log=form["log"],
        )
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"no graph: {type(error).__name__}: {error}") from None
    graph.check()
    return graph


def find_function(import_name: str) -> Callable[..., object]:
    """What `module:name` imports; ValueError if there is no such function."""
    module, _, name = import_name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"kernel {import_name!r} cannot be imported: {error}") from None
    if not callable(found):
        raise ValueError(f"kernel {import_name!r} is a {type(found).__name__}; expected a function")
    return found  # type: ignore[no-any-return]


# ---- nodes ----


def _dump_node(node: Node) -> dict[str, Any]:
    try:
        task = _dump_task(node.task)
    except ValueError as error:
        raise ValueError(f"node {node.id} ({node.line or 'unknown place'}) cannot be written down: {error}") from None
    return {
        "id": node.id,
        "name": node.name,
        "stream": node.stream,
        "kind": node.kind,
        "task": task,
        "reads": [list(span) for span in node.reads],
        "writes": [list(span) for span in node.writes],
        "after": list(node.after),
        "line": node.line,
    }


def _load_node(form: dict[str, Any]) -> Node:
    return Node(
        form["id"],
        form["name"],
        form["stream"],
        _load_task(form["kind"], form["task"]),
        tuple(Span(*span) for span in form["reads"]),
        tuple(Span(*span) for span in form["writes"]),
        tuple(form["after"]),
        form["line"],
    )


def _dump_task(task: Task) -> dict[str, Any]:
    fields = {field.name: getattr(task, field.name) for field in dataclasses.fields(task)}
    if isinstance(task, Kernel):
        fields["function"] = task.import_name
        fields["keywords"] = dict(task.keywords)
    return {name: plain(value) for name, value in fields.items()}


def _load_task(kind: str, form: dict[str, Any]) -> Task:
    if kind not in _TASKS:
        raise ValueError(f"a node of kind {kind!r}; expected {', '.join(_TASKS)}")
    fields = {name: unplain(value) for name, value in form.items()}
    if kind == "kernel":
        fields["function"] = find_function(fields["function"])
    return _TASKS[kind](**fields)


def _load_buffer(form: dict[str, Any]) -> Buffer:
    return Buffer(**{**form, "shape": tuple(form["shape"]), "role": Role(form["role"])})


# ---- values ----


def plain(value: Any) -> Any:
    """A value as JSON has it. ValueError if it cannot be."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, View):
        return {"view": [plain(getattr(value, field.name)) for field in dataclasses.fields(value)]}
    if isinstance(value, Span):
        return {"span": list(value)}
    if isinstance(value, Message):
        return {"message": [plain(part) for part in value]}
    if isinstance(value, np.generic):
        return {"scalar": [value.dtype.name, value.item()]}
    if isinstance(value, slice):
        return {"slice": [plain(part) for part in (value.start, value.stop, value.step)]}
    if isinstance(value, tuple):
        return {"tuple": [plain(part) for part in value]}
    if isinstance(value, list):
        return [plain(part) for part in value]
    if isinstance(value, dict):
        return {"dict": [[plain(key), plain(part)] for key, part in value.items()]}
    raise ValueError(f"a {type(value).__name__} ({value!r}); expected numbers, text, tuples, lists, dicts of these")


def unplain(form: Any) -> Any:
    """What `plain` was given."""
    if isinstance(form, list):
        return [unplain(part) for part in form]
    if not isinstance(form, dict):
        return form
    ((word, parts),) = form.items()
    return _READERS[word](*parts)


_READERS: dict[str, Callable[..., Any]] = {
    "view": lambda *parts: View(*(unplain(part) for part in parts)),
    "span": Span,
    "message": lambda receives, peer, view: Message(receives, peer, unplain(view)),
    "scalar": lambda dtype, value: np.dtype(dtype).type(value),
    "slice": lambda *parts: slice(*(unplain(part) for part in parts)),
    "tuple": lambda *parts: tuple(unplain(part) for part in parts),
    "dict": lambda *pairs: {unplain(key): unplain(value) for key, value in pairs},
}
