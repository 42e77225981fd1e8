"""Which fields the JSON of a partition has, as data; everything is looked at before anything is made of it.

A schema is a type, a tuple of schemas of which one must hold, a list with the schema of all items, or a dict with the
schema of each field: all must be there, and no others.
"""

import json
from typing import Any

from .errors import ModelFileError

Schema = Any

SPAN = [(str, int)]
GRAPH: Schema = {
    "format": str,
    "version": int,
    "name": str,
    "nodes": [
        {
            "id": int,
            "name": str,
            "stream": int,
            "kind": str,
            "task": dict,
            "reads": [SPAN],
            "writes": [SPAN],
            "after": [int],
            "line": str,
        }
    ],
    "buffers": [
        {
            "name": str,
            "nbytes": int,
            "dtype": str,
            "shape": [int],
            "role": str,
            "address": (int, type(None)),
            "on_device": bool,
        }
    ],
    "groups": [{"name": str, "rank": int, "size": int, "world_ranks": [int]}],
    "log": [str],
}
PLAN: Schema = {
    "peak": int,
    "bound": int,
    "total_size": int,
    "no_reuse": int,
    "zero_copy": int,
    "offsets": [{"buffer": str, "offset": int}],
}
RANK: Schema = {"graph": GRAPH, "plan": PLAN, "weights": [{"buffer": str, "offset": int, "nbytes": int}]}
JOB: Schema = {"name": str, "ranks": int, "command": str, "made_by": str}


def parse(what: str, data: bytes, schema: Schema) -> Any:
    """The JSON of a partition. ModelFileError names the field that is wrong."""
    try:
        form = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{what} is no JSON: {error}") from None
    check(what, form, schema)
    return form


def check(path: str, form: Any, schema: Schema) -> None:
    """ModelFileError for a form that does not fit the schema."""
    if isinstance(schema, dict):
        _check_fields(path, form, schema)
    elif isinstance(schema, list):
        if type(form) is not list:
            raise ModelFileError(f"{path} is a {type(form).__name__}; expected a list")
        for number, item in enumerate(form):
            check(f"{path}[{number}]", item, schema[0])
    else:
        allowed = schema if isinstance(schema, tuple) else (schema,)
        if type(form) not in allowed:
            names = " or ".join(one.__name__ for one in allowed)
            raise ModelFileError(f"{path} is a {type(form).__name__}; expected {names}")


def _check_fields(path: str, form: Any, schema: dict[str, Schema]) -> None:
    if type(form) is not dict or form.keys() != schema.keys():
        given = ", ".join(map(str, form)) if type(form) is dict else f"a {type(form).__name__}"
        raise ModelFileError(f"{path} has {given}; expected {', '.join(schema)}")
    for name, part in schema.items():
        check(f"{path}.{name}", form[name], part)
