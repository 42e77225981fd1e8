"""What a page shows of a function or a class: how it is called, what its docstring says, where it is written."""

import ast
import functools
import inspect
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ascend_rt

PACKAGE = Path(ascend_rt.__file__).parent
UNSUPPORTED = "Unsupported: "
"""With this begins the docstring of a function that is there, but only answers with a code."""


def first_paragraph(of: object) -> str:
    """In one line, for a cell of a table."""
    text = (inspect.getdoc(of) or "").split("\n\n")[0]
    return text.removeprefix(UNSUPPORTED).replace("\n", " ").replace("|", "\\|")


def status(of: object) -> str:
    """What has become of a function of CANN that is here."""
    supported = not (inspect.getdoc(of) or "").startswith(UNSUPPORTED)
    return "implemented" if supported else "unsupported by design"


def names_called_with(function: Callable[..., Any]) -> str:
    """`name(a, b, c)`: for functions whose arguments all are integers, by position."""
    return f"{function.__name__}({', '.join(inspect.signature(function).parameters)})"


def signature(function: Callable[..., Any]) -> str:
    """`name(x: Array, root: int = 0) -> Array`, as its source has it; of a method, without self."""
    tree = _tree_of(function)
    arguments = tree.args
    arguments.args = [argument for argument in arguments.args if argument.arg not in ("self", "cls")]
    for argument in arguments.args:
        argument.annotation = _without_quotes(argument.annotation)
    returned = _without_quotes(tree.returns)
    called_with = ast.unparse(arguments).replace("=", " = ")
    return f"{tree.name}({called_with}) -> {'None' if returned is None else ast.unparse(returned)}"


def text(of: object) -> str:
    """The docstring as Markdown: columns become blocks of code, for their lines are laid out."""
    return "\n\n".join(_paragraph(part) for part in (inspect.getdoc(of) or "").split("\n\n"))


def source(of: Any) -> str:
    """The file of the repository in which a function, a class or a module is written."""
    if inspect.ismethoddescriptor(of):
        return "ascend_rt/core/binding_plain.c"
    if inspect.ismodule(of):
        written = str(of.__file__)
    else:  # a class may say that it is of the package which exports it, so its methods are asked; dataclasses have none
        parts = vars(of).values() if inspect.isclass(of) else [inspect.unwrap(of)]
        paths = [part.__code__.co_filename for part in parts if inspect.isfunction(part)]
        written = next((path for path in paths if Path(path).is_relative_to(PACKAGE)), None) or inspect.getfile(of)
    return str(Path("ascend_rt") / Path(written).relative_to(PACKAGE))


def source_line(paths: set[str]) -> str:
    """Where the functions of a section are written."""
    return "\nSource: " + ", ".join(f"[`{path}`](../{path})" for path in sorted(paths)) + "\n"


def _without_quotes(annotation: ast.expr | None) -> ast.expr | None:
    """An annotation that names a class before the class is there is a string."""
    quoted = isinstance(annotation, ast.Constant) and isinstance(annotation.value, str)
    return ast.parse(annotation.value, mode="eval").body if quoted else annotation


def _paragraph(part: str) -> str:
    lines = part.splitlines()
    in_columns = all(re.match(r"\S.*?\s{3,}\S|\s{4,}\S", line) for line in lines)
    return textwrap.indent(part, "    ") if in_columns and not part.startswith("    ") else part


def _tree_of(function: Callable[..., Any]) -> ast.FunctionDef:
    if inspect.ismethoddescriptor(function):
        return _native_methods()[function.__name__]
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function)))).body[0]
    assert isinstance(tree, ast.FunctionDef)
    return tree


@functools.cache
def _native_methods() -> dict[str, ast.FunctionDef]:
    stubs = ast.parse((PACKAGE / "core/_core.pyi").read_text())
    communicator = next(node for node in stubs.body if getattr(node, "name", "") == "Communicator")
    assert isinstance(communicator, ast.ClassDef)
    return {node.name: node for node in communicator.body if isinstance(node, ast.FunctionDef)}
