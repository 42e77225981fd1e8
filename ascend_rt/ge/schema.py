"""Whether a form of JSON has the fields that it must have, before anything is made of it.

A schema is a type, a tuple of schemas of which one must hold, a list with the schema of all items, or a dict with the
schema of each field: all must be there, and no others.
"""

from typing import Any

Schema = Any


def check(path: str, form: Any, schema: Schema) -> None:
    """ValueError for a form that does not fit the schema."""
    if isinstance(schema, dict):
        _check_fields(path, form, schema)
    elif isinstance(schema, list):
        if type(form) is not list:
            raise ValueError(f"{path} is a {type(form).__name__}; expected a list")
        for number, item in enumerate(form):
            check(f"{path}[{number}]", item, schema[0])
    else:
        allowed = schema if isinstance(schema, tuple) else (schema,)
        if type(form) not in allowed:
            names = " or ".join(one.__name__ for one in allowed)
            raise ValueError(f"{path} is a {type(form).__name__}; expected {names}")


def _check_fields(path: str, form: Any, schema: dict[str, Schema]) -> None:
    if type(form) is not dict or form.keys() != schema.keys():
        given = ", ".join(map(str, form)) if type(form) is dict else f"a {type(form).__name__}"
        raise ValueError(f"{path} has {given}; expected {', '.join(schema)}")
    for name, part in schema.items():
        check(f"{path}.{name}", form[name], part)
