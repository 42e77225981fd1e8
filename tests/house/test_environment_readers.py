"""settings.py is the only file of the package that touches the environment."""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.proof

READERS = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"}
ALLOWED = "ascend_rt/settings.py"


def readers(tree: ast.Module) -> Iterator[int]:
    """Lines that reach the environment through os or posix, under whatever name these were imported."""
    names = {"os", "posix"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname for alias in node.names if alias.name in ("os", "posix") and alias.asname}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in ("os", "posix"):
            yield from (node.lineno for alias in node.names if alias.name in READERS)
        elif isinstance(node, ast.Attribute) and node.attr in READERS and getattr(node.value, "id", None) in names:
            yield node.lineno


def test_nobody_else_touches_the_environment(modules: list[Any]) -> None:
    found = [f"{module.path}:{line}" for module in modules for line in readers(module.tree) if module.path != ALLOWED]
    assert found == []


def test_no_c_file_reads_the_environment(root: Path) -> None:
    paths = [path for room in ("ascend_rt", "launcher") for path in (root / room).rglob("*.[ch]")]
    assert paths
    reads = re.compile(r"\b(secure_)?getenv\s*\(|\benviron\b")
    assert [str(path.relative_to(root)) for path in paths if reads.search(path.read_text())] == []


@pytest.mark.parametrize("source", [
    "import os\nos.environ['A']",
    "import os\nos.getenv('A')",
    "import os as system\ndef f():\n    return system.environ",
    "from os import environ",
    "from os import environ as e",
    "def f():\n    from os import getenv",
    "import posix\nposix.environ",
    "import os\nos.putenv('A', 'b')",
])
def test_a_reader_is_found(source: str, parse: Callable[[str, str], Any]) -> None:
    assert len(list(readers(parse("launcher/cli.py", source).tree))) == 1


def test_settings_itself_is_seen(modules: list[Any]) -> None:
    assert any(module.path == ALLOWED and list(readers(module.tree)) for module in modules)
