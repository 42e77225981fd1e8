"""Which fields the JSON of a partition has, as data; everything is looked at before anything is made of it."""

import json
from typing import Any

from ..schema import Schema, check
from .errors import ModelFileError

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
    "groups": [{"name": str, "rank": int, "size": int, "world_ranks": [int], "config": dict}],
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
KERNEL: Schema = {"function": str, "file": str, "parameters": [str], "source": str, "rank": int}
JOB: Schema = {
    "name": str,
    "ranks": int,
    "command": str,
    "made_by": {"ascend_rt": str, "python": str, "numpy": str},
    "graph": str,
    "kernels": [KERNEL],
}


def parse(what: str, data: bytes, schema: Schema) -> Any:
    """The JSON of a partition. ModelFileError names the field that is wrong."""
    try:
        form = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{what} is no JSON: {error}") from None
    try:
        check(what, form, schema)
    except ValueError as error:
        raise ModelFileError(str(error)) from None
    return form
