"""Who may import whom.

The table is the architecture: `plan` and `sim` stay readable and provable with no process running because they cannot
reach `core` or `link`, and no room can grow a cycle.  Nor can files: each can be read after those that it imports.
Imports inside functions and under TYPE_CHECKING count too.
"""

import ast
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytestmark = pytest.mark.proof

MAY_IMPORT = {
    "plan": set(),
    "core": set(),
    "sim": {"plan"},
    "link": {"core"},
    "diag": {"link", "core"},
    "acl": {"core", "link", "diag"},
    "hccl": {"acl", "plan", "link", "core", "diag"},
    "capi": {"acl", "hccl"},
    "ge": {"hccl", "acl", "plan", "core", "diag"},
    "torch": {"hccl", "acl", "ge", "plan", "link", "core", "diag"},
    "testing": {"hccl", "acl", "link", "core", "diag", "launcher"},
    "examples": {"hccl", "acl", "capi", "ge", "torch", "sim", "ascend_rt"},
    "launcher": {"link", "core", "diag"},
    "settings": {"setting_row", "setting_links", "setting_pages"},
    "setting_row": set(),
    "setting_pages": {"setting_row"},
    "setting_links": set(),
    "ascend_rt": {"acl", "hccl", "core"},  # the package itself: only re-exports
}
# A communicator is one thing that is told in several files: they take it as an argument, and groups.py makes it.
BACK_TO_THE_COMMUNICATOR = {
    ("ascend_rt.hccl.choices", "ascend_rt.hccl.communicator"),
    ("ascend_rt.hccl.explain", "ascend_rt.hccl.communicator"),
    ("ascend_rt.hccl.groups", "ascend_rt.hccl.communicator"),
    ("ascend_rt.hccl.recorded", "ascend_rt.hccl.communicator"),
    ("ascend_rt.hccl.groups", "ascend_rt.hccl.entry_log"),
}
LATE_CALLS = {"import_module", "__import__"}
# What a subcommand of the launcher may import inside the function that needs it, the package itself included.
LAUNCHER_MAY_IMPORT_LATE = {"hccl", "acl", "plan", "sim", "ge", "ascend_rt"}


def imports(tree: ast.AST, module: str, is_package: bool, late: bool = False) -> Iterator[tuple[str, bool, int]]:
    """(full name, inside a function?, line) of everything `tree` imports."""
    for node in ast.iter_child_nodes(tree):
        inside = late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if isinstance(node, ast.Import):
            yield from ((alias.name, inside, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module.split(".") if is_package else module.split(".")[:-1]
                above = package[: len(package) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            yield from ((f"{base}.{alias.name}", inside, node.lineno) for alias in node.names)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in LATE_CALLS:
            names = (argument.value for argument in node.args[:1] if isinstance(argument, ast.Constant))
            yield from ((str(name), inside, node.lineno) for name in names)
        yield from imports(node, module, is_package, inside)


def room_of(name: str) -> str | None:
    """The room that importing `name` needs, None when it is not ours."""
    parts = name.split(".")
    if parts[0] != "ascend_rt":
        return None
    return parts[1] if len(parts) > 1 and parts[1] in MAY_IMPORT else "ascend_rt"


def forbidden(module: Any) -> list[str]:
    """What `module` imports against the table, one sentence each."""
    room, name, path = module.room, module.name, module.path
    found = []
    for imported, late, line in imports(module.tree, name, path.endswith("__init__.py")):
        target = room_of(imported)
        allowed = MAY_IMPORT[room] | {room, "settings", None}
        if room == "launcher" and late:
            allowed |= LAUNCHER_MAY_IMPORT_LATE
        if target not in allowed:
            found.append(f"{path}:{line}: {room} may not import {target} ({imported})")
    return found


def test_every_room_keeps_to_the_table(modules: list[Any]) -> None:
    assert [sentence for module in modules for sentence in forbidden(module)] == []


def test_the_table_itself_has_no_cycle() -> None:
    def reach(room: str, path: tuple[str, ...]) -> None:
        assert room not in path, f"{' -> '.join(path)} -> {room}"
        for next_room in MAY_IMPORT[room]:
            reach(next_room, (*path, room))

    for room in MAY_IMPORT:
        reach(room, ())


@pytest.mark.parametrize("path, source, found", [
    ("ascend_rt/plan/verify.py", "from ascend_rt.core import _core", "plan may not import core"),
    ("ascend_rt/plan/verify.py", "def prove():\n    import ascend_rt.link", "plan may not import link"),
    ("ascend_rt/plan/verify.py", "from ..core import _core", "plan may not import core"),
    ("ascend_rt/plan/__init__.py", "from ..core import _core", "plan may not import core"),
    ("ascend_rt/plan/verify.py", "from importlib import import_module as m\nimport importlib\n"
     "importlib.import_module('ascend_rt.core')", "plan may not import core"),
    ("ascend_rt/link/segment.py", "from ascend_rt import hccl", "link may not import hccl"),
    ("ascend_rt/acl/memory.py", "import ascend_rt as rt", "acl may not import ascend_rt"),
    ("ascend_rt/settings.py", "from ascend_rt.diag import text", "settings may not import diag"),
    ("launcher/cli.py", "from ascend_rt.hccl import Communicator", "launcher may not import hccl"),
    ("launcher/cli.py", "import ascend_rt", "launcher may not import ascend_rt"),
])
def test_what_breaks_the_table_is_found(
    path: str, source: str, found: str, parse: Callable[[str, str], Any]
) -> None:
    sentences = forbidden(parse(path, source))
    assert len(sentences) == 1 and found in sentences[0]


@pytest.mark.parametrize("path, source", [
    ("ascend_rt/plan/verify.py", "from ascend_rt import settings\nfrom .steps import Post\nimport numpy"),
    ("ascend_rt/hccl/communicator.py", "from ascend_rt.plan import choose\nfrom ..core import _core"),
    ("ascend_rt/examples/train.py", "import ascend_rt as rt"),
    ("launcher/cli.py", "from ascend_rt.link import job\ndef fork():\n    import ascend_rt.hccl, ascend_rt"),
])
def test_what_keeps_to_the_table_passes(path: str, source: str, parse: Callable[[str, str], Any]) -> None:
    assert forbidden(parse(path, source)) == []


def edges(modules: list[Any]) -> set[tuple[str, str]]:
    """(importer, imported) of all modules; a name that is imported from a module stands for that."""
    names = {module.name for module in modules}
    found = set()
    for module in modules:
        for full, _, _ in imports(module.tree, module.name, module.path.endswith("__init__.py")):
            target = full if full in names else full.rpartition(".")[0]
            if target in names - {module.name}:
                found.add((module.name, target))
    return found


def circle(edges: set[tuple[str, str]]) -> list[str]:
    """Some modules of which each imports the next, and the last the first; none if there is no such circle."""
    left = set(edges)
    while ends := {target for _, target in left} - {source for source, _ in left}:
        left = {edge for edge in left if edge[1] not in ends}
    path: list[str] = []
    following = dict(left)
    at = min(following, default="")
    while at and at not in path:
        path.append(at)
        at = following[at]
    return path[path.index(at) :] if at else []


def test_no_files_import_one_another(modules: list[Any]) -> None:
    found = edges(modules)
    assert found >= BACK_TO_THE_COMMUNICATOR and len(found) > 500
    assert circle(found - BACK_TO_THE_COMMUNICATOR) == []


@pytest.mark.parametrize("sources, found", [
    ({"a": "from . import b", "b": "from .c import d", "c": "import os"}, []),
    ({"a": "from .b import x", "b": "def f():\n    from . import a", "c": "from .a import x"}, ["a", "b"]),
    ({"a": "if TYPE_CHECKING:\n    from .b import x", "b": "from .c import x", "c": "from ascend_rt.plan.a import x"},
     ["a", "b", "c"]),
])
def test_a_circle_of_files_is_found(
    sources: dict[str, str], found: list[str], parse: Callable[[str, str], Any]
) -> None:
    modules = [parse(f"ascend_rt/plan/{name}.py", source) for name, source in sources.items()]
    assert sorted(circle(edges(modules))) == [f"ascend_rt.plan.{name}" for name in found]
