"""The pages that docs/make makes from the code are up to date, and leave no function of CANN's headers out."""

import inspect
import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import ascend_rt as rt
from ascend_rt import acl, hccl
from ascend_rt.hccl import c_api

pytestmark = pytest.mark.proof

ROOT = Path(__file__).resolve().parents[2]

COLLECTIVES = [name for name in hccl.__all__ if not name.startswith(("HcclComm", "HcclCreate", "HcclGet", "HcclSet"))]


@pytest.fixture(scope="module")
def make() -> Iterator[dict[str, object]]:
    """What `python docs/make` runs, by name."""
    known = set(sys.modules)
    yield runpy.run_path(str(ROOT / "docs/make"))
    for name in set(sys.modules) - known:
        if getattr(sys.modules[name], "__file__", None) and Path(str(sys.modules[name].__file__)).parent.name == "make":
            del sys.modules[name]


def test_the_pages_are_made_from_the_code(make: dict[str, object]) -> None:
    pages = make["pages"]()  # type: ignore[operator]
    assert len(pages) == 3
    old = [str(path.relative_to(ROOT)) for path, text in pages.items() if path.read_text() != text]
    assert old == [], f"{', '.join(old)} out of date; install the package, then make anew: python docs/make"


def test_no_function_is_missing(make: dict[str, object]) -> None:
    functions, porting = make["functions"], make["porting"]
    assert isinstance(functions, ModuleType) and isinstance(porting, ModuleType)
    assert functions.missing() == []
    assert porting.wrong_methods(lambda name: hasattr(rt.Communicator, name)) == []


def test_every_link_of_the_pages_leads_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "README.zh-CN.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")]
    lost = [
        f"{page.name}: {link}"
        for page in pages
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text())
        if not link.startswith("http") and not leads_somewhere(page, link)
    ]
    assert lost == []


def leads_somewhere(page: Path, link: str) -> bool:
    file, _, heading = link.partition("#")
    target = page.parent / file if file else page
    return target.exists() and (not heading or heading in anchors(target.read_text()))


def anchors(page: str) -> set[str]:
    """How GitHub names the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("room, names, besides", [
    (rt, rt.__all__, ""),
    (rt.Communicator, dir(rt.Communicator), str(rt.Communicator.__doc__)),
    (hccl, COLLECTIVES, str(c_api.__doc__)),
])
def test_docstrings_speak_of_every_parameter(room: object, names: list[str], besides: str) -> None:
    """`besides` tells what all of a room have in common."""
    silent = []
    for name in names:
        function = getattr(room, name)
        if name.startswith("_") or not inspect.isroutine(function):
            continue
        told = f"{inspect.getdoc(function)} {besides}"
        parameters = [each for each in inspect.signature(function).parameters if each != "self"]
        silent += [f"{name}: {each}" for each in parameters if not re.search(rf"\b{each}\b", told)]
    assert silent == []


@pytest.mark.parametrize("room", [acl, acl.rt, acl.util])
def test_every_function_of_the_runtime_has_a_docstring(room: ModuleType) -> None:
    functions = [getattr(room, name) for name in room.__all__ if inspect.isroutine(getattr(room, name))]
    assert len(functions) > 5
    assert [function.__name__ for function in functions if not inspect.getdoc(function)] == []
