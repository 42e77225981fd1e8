"""What is installed, and what is not; what a newcomer reads is true."""

import ast
import configparser
import importlib
import importlib.metadata
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import ascend_rt
from ascend_rt import settings

README_COMMANDS = [
    "python3 -m venv .venv && .venv/bin/pip install . && .venv/bin/hccl-run -n 4 -m ascend_rt.examples.train_digits",
    "python3 -m venv .venv && .venv/bin/pip install '.[test]' && .venv/bin/pytest",
]


@pytest.fixture(scope="module")
def setup_cfg(root: Path) -> configparser.ConfigParser:
    config = configparser.ConfigParser()
    config.read(root / "setup.cfg")
    return config


@pytest.fixture(scope="module")
def packages(setup_cfg: configparser.ConfigParser) -> list[str]:
    return setup_cfg["options"]["packages"].split()


@pytest.mark.proof
def test_only_ascend_rt_lands_in_site_packages() -> None:
    tops = {path.parts[0] for path in importlib.metadata.files("ascend_rt") or []}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"..", "ascend_rt"}
    scripts = {path.name for path in importlib.metadata.files("ascend_rt") or [] if path.parts[0] == ".."}
    assert scripts == {"hccl-atc", "hccl-run"}


@pytest.mark.proof
def test_the_tests_run_against_the_installed_package(root: Path) -> None:
    assert root not in Path(ascend_rt.__file__).resolve().parents or ".venv" in ascend_rt.__file__


@pytest.mark.proof
def test_every_room_is_packaged_and_has_a_purpose(root: Path, modules: list[Any], packages: list[str]) -> None:
    rooms = {module.name: module for module in modules if module.path.endswith("__init__.py")}
    assert sorted(rooms) == sorted(packages)
    assert [name for name, room in rooms.items() if not ast.get_docstring(room.tree)] == []


@pytest.mark.proof
def test_every_folder_with_code_is_a_room(root: Path, modules: list[Any]) -> None:
    folders = {Path(module.path).parent for module in modules}
    assert [str(folder) for folder in folders if not (root / folder / "__init__.py").exists()] == []


@pytest.mark.proof
def test_what_is_not_code_is_installed_too() -> None:
    installed = Path(ascend_rt.__file__).parent
    for name in ("py.typed", "core/_core.pyi", "examples/digits.npz", "examples/DIGITS.md", "launcher/__init__.py"):
        assert (installed / name).is_file(), name


def every_module() -> list[str]:
    return [found.name for found in pkgutil.walk_packages(ascend_rt.__path__, "ascend_rt.")]


@pytest.mark.proof
@pytest.mark.parametrize("name", ["ascend_rt", *every_module()])
def test_exported_names_are_the_visible_ones(name: str) -> None:
    module = importlib.import_module(name)
    exported = getattr(module, "__all__", None)
    if exported is None:
        return
    assert len(exported) == len(set(exported))
    assert [export for export in exported if not hasattr(module, export)] == []
    if hasattr(module, "__path__"):
        visible = {key for key in dir(module) if key[0] != "_" and not isinstance(getattr(module, key), ModuleType)}
        assert {export for export in exported if not isinstance(getattr(module, export), ModuleType)} == visible


@pytest.mark.processes
@pytest.mark.parametrize("statement", ["import ascend_rt", "import ascend_rt.core", "from ascend_rt import hccl"])
def test_importing_the_source_folder_says_so(root: Path, statement: str) -> None:
    environ = {**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    outcome = subprocess.run([sys.executable, "-c", statement], env=environ, capture_output=True, text=True)
    assert outcome.returncode == 1
    last = outcome.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: ") and "source folder" in last and "not the installed ascend_rt" in last


@pytest.mark.proof
def test_the_page_of_settings_is_made_from_the_table(root: Path) -> None:
    assert (root / "docs/settings.md").read_text() == settings.markdown()


@pytest.mark.proof
def test_the_readme_gives_the_two_commands(root: Path) -> None:
    blocks = re.findall(r"^```\w*\n(.*?)^```", (root / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert [line for block in blocks for line in block.splitlines() if line.startswith("python3")] == README_COMMANDS


@pytest.mark.proof
def test_the_changelog_knows_this_version(root: Path) -> None:
    assert f"## {importlib.metadata.version('ascend_rt')}" in (root / "CHANGELOG.md").read_text()


@pytest.mark.proof
def test_the_samples_name_their_source_and_licence(root: Path) -> None:
    for path in ("README.md", "ascend_rt/examples/DIGITS.md", "ascend_rt/examples/train_digits.py"):
        text = (root / path).read_text()
        assert "CC BY 4.0" in text and "https://doi.org/10.24432/C50P49" in text, path
