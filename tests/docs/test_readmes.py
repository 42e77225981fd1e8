"""README.zh-CN.md is in step with README.md: what is not prose is the same."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.proof

ROOT = Path(__file__).resolve().parents[2]
ENGLISH, CHINESE = ((ROOT / name).read_text() for name in ("README.md", "README.zh-CN.md"))


def blocks(page: str) -> list[str]:
    return re.findall(r"^```.*?^```$", page, re.MULTILINE | re.DOTALL)


def prose(page: str) -> str:
    return re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)


def test_the_code_blocks_are_the_same() -> None:
    assert len(blocks(ENGLISH)) > 5
    assert blocks(CHINESE) == blocks(ENGLISH)


@pytest.mark.parametrize("kind, pattern", [
    ("headings", r"^#+ "),
    ("items of lists", r"^- "),
    ("first cells that are no prose", r"^\| (`[^|]*`|[\d .KM]+) \|"),
    ("rows of tables", r"^\|.*?\|"),
])
def test_the_pages_have_as_many(kind: str, pattern: str) -> None:
    english, chinese = (re.findall(pattern, prose(page), re.MULTILINE) for page in (ENGLISH, CHINESE))
    assert len(english) > 5
    assert len(chinese) == len(english), kind


def test_names_and_numbers_are_the_same() -> None:
    names = [set(re.findall(r"`[^`\n]+`", prose(page))) for page in (ENGLISH, CHINESE)]
    assert names[0] == names[1]
    rows = [re.findall(r"^\|[\d .KM|]+$", page, re.MULTILINE) for page in (ENGLISH, CHINESE)]
    assert len(rows[0]) > 5 and rows[0] == rows[1]


def test_the_links_are_the_same_and_lead_to_one_another() -> None:
    english, chinese = (re.findall(r"\]\(([^)]+)\)", page) for page in (ENGLISH, CHINESE))
    assert "README.zh-CN.md" in english and "README.md" in chinese
    assert {*english, "README.md"} == {*chinese, "README.zh-CN.md"}
