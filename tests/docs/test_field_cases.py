"""The page of cases from the field: every test that it names is there, every row has a source and a test."""

import ast
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.proof

ROOT = Path(__file__).parents[2]
ROWS = [
    row.strip("| ").split(" | ")
    for row in (ROOT / "docs" / "field_cases.md").read_text().splitlines()
    if row.startswith("| ") and not row.startswith("| Kind ")
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_has_sources_and_tests_that_are_there(row: list[str]) -> None:
    _, reported, tests = row
    assert re.findall(r"\]\(https://github\.com/[\w.-]+/[\w.-]+/(?:issues|pull)/\d+\)", reported)
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", tests)
    assert named
    for path, name in named:
        tree = ast.parse((ROOT / path).read_text())
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, f"{path}::{name}"
