"""The checkout as these tests see it: its root, and every module of the package by its installed name."""

import ast
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Module:
    """One Python file: its path below the root, its name when installed, and its syntax tree."""

    path: str
    name: str
    tree: ast.Module

    @property
    def room(self) -> str:
        """`plan` for ascend_rt.plan.verify; `ascend_rt` for the package's own __init__."""
        parts = self.name.split(".")
        return parts[1] if len(parts) > 1 else parts[0]


def installed_name(path: Path) -> str:
    parts = list(path.with_suffix("").parts)
    if parts[0] == "launcher":
        parts.insert(0, "ascend_rt")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def module(path: Path, source: str) -> Module:
    return Module(str(path), installed_name(path), ast.parse(source))


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def modules() -> list[Module]:
    """Every module of ascend_rt/ and launcher/."""
    paths = sorted(path.relative_to(ROOT) for room in ("ascend_rt", "launcher") for path in (ROOT / room).rglob("*.py"))
    assert len(paths) > 10
    return [module(path, (ROOT / path).read_text()) for path in paths]


@pytest.fixture(scope="session")
def parse() -> Callable[[str, str], Module]:
    """Makes a Module of a path and a text, to test the tests with."""
    return lambda path, source: module(Path(path), source)
