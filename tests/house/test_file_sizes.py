"""Files and functions that one reads whole: limits on their length, and no name that means nothing."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.proof

FILE_LINES, FUNCTION_LINES = 400, 70
EMPTY_NAMES = {"util", "utils", "helper", "helpers", "manager", "managers", "common", "misc", "tools"}
FOLDERS = ("ascend_rt", "launcher", "benchmarks")


def files(root: Path, *suffixes: str) -> list[Path]:
    paths = sorted(path for folder in FOLDERS for path in (root / folder).rglob("*") if path.suffix in suffixes)
    assert paths
    return paths


def python_functions(source: str) -> Iterator[tuple[str, int]]:
    """(name, lines without the docstring) of every function."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first, docstring = node.body[0], ast.get_docstring(node)
            told = first.end_lineno - first.lineno + 1 if docstring is not None else 0
            yield node.name, node.end_lineno - node.lineno + 1 - told


def c_functions(source: str) -> Iterator[tuple[str, int]]:
    """(name, lines) of every function: a parameter list, then a brace that is closed in the first column."""
    for match in re.finditer(r"^(?![\s#/*}])[^;{}=]*?(\w+)\([^;{}]*\)\s*\{.*?^\}", source, re.MULTILINE | re.DOTALL):
        yield match[1], match[0].count("\n") + 1


def test_files_can_be_read_whole(root: Path) -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in files(root, ".py", ".pyi", ".c", ".h")}
    assert [f"{path.relative_to(root)}: {lines}" for path, lines in lengths.items() if lines > FILE_LINES] == []


def test_functions_fit_a_screen(root: Path) -> None:
    found = [
        f"{path.relative_to(root)}: {name} has {lines} lines"
        for path in files(root, ".py", ".c", ".h")
        for name, lines in (python_functions if path.suffix == ".py" else c_functions)(path.read_text())
        if lines > FUNCTION_LINES
    ]
    assert found == []


def test_no_file_has_a_name_that_means_nothing(root: Path) -> None:
    paths = [path.relative_to(root) for path in files(root, ".py", ".pyi", ".c", ".h")]
    assert [str(path) for path in paths if {*path.parts[:-1], path.stem} & EMPTY_NAMES] == []


def test_functions_are_measured() -> None:
    python = 'def a():\n    """One.\n\n    Two."""\n    return 1\n\nclass B:\n    async def c(self):\n        pass\n'
    assert dict(python_functions(python)) == {"a": 2, "c": 2}
    c = (
        "static const int table[] = {\n    1,\n};\n\nstruct line {\n    int a;\n};\n\n"
        "static int\nadd(int a,\n    int b)\n{\n    if (a) {\n        return b;\n    }\n    return a + b;\n}\n\n"
        "int declared(int a);\n\nvoid empty(void) {\n}\n"
    )
    assert dict(c_functions(c)) == {"add": 9, "empty": 2}
