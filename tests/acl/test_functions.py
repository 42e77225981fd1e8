"""Every function of pyACL's runtime and of HCCL is here, or is unsupported by design; and the page says which."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.proof


@pytest.fixture(scope="module")
def table() -> ModuleType:
    path = Path(__file__).with_name("functions_table.py")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_none_is_missing(table: ModuleType) -> None:
    assert table.missing() == []


def test_the_page_is_made_from_the_code(table: ModuleType) -> None:
    assert (Path(__file__).parents[2] / "docs/functions.md").read_text() == table.markdown()
