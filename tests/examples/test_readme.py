"""What the README and the pages of docs/ show, run as it stands.

The first line of a Python block is a comment with the command that runs it. The text block behind it, if there is one,
shows of the output what is the same in every run but for process numbers and times.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from ascend_rt.diag.disagreement import POINTS
from ascend_rt.plan import choice, cost
from ascend_rt.testing import RankPool

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


class Example(NamedTuple):
    """A program of a page, the command that runs it, and what the page says that it prints."""

    page: str
    command: list[str]
    program: str
    shown: list[str]


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of this language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def examples(page: Path) -> list[Example]:
    found: list[Example] = []
    for language, text in re.findall(r"^```(python|text)\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        if language == "python":
            command = shlex.split(text.partition("\n")[0].removeprefix("#"))
            found.append(Example(page.name, command, text, []))
        elif found and not found[-1].shown:
            found[-1].shown.extend(text.splitlines())
    return found


EXAMPLES = [example for page in PAGES for example in examples(page)]


def same_in_every_run(line: str) -> str:
    return re.sub(r"after \d+\.\d+ s", "after T s", re.sub(r"process \d+", "process P", line))


def by_rank(lines: list[str]) -> dict[str, list[str]]:
    """The lines of each rank, and those of hccl-run, which begin with its name."""
    told: dict[str, list[str]] = {}
    for line in lines:
        told.setdefault(line.partition(" ")[0], []).append(same_in_every_run(line))
    return told


@pytest.mark.processes
@pytest.mark.parametrize("example", EXAMPLES, ids=[f"{e.page}: {e.command[-1]}" for e in EXAMPLES])
def test_a_program_prints_what_is_shown(
    ranks: RankPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, example: Example
) -> None:
    name, *words, file = example.command
    (tmp_path / file).write_text(example.program)
    if name == "pytest":
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", file], cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
        assert ended.returncode == 0, ended.stdout
        return
    assert name == "hccl-run"
    monkeypatch.chdir(tmp_path)
    job = ranks.hccl_run([*words, file])
    told = by_rank([*job.stdout.splitlines(), *job.stderr.splitlines()])
    for who, shown in by_rank(example.shown).items():
        rest = iter(told.get(who, []))
        assert [line for line in shown if line not in rest] == [], job
    if not example.shown:
        assert job.exit_code == 0, job


@pytest.mark.thorough
@pytest.mark.processes
def test_the_commands_of_the_page_of_atc(tmp_path: Path) -> None:
    """In their order, with the files beside them; what a command is shown to print it prints."""
    page = ROOT / "docs/atc.md"
    build, infer = blocks(page, "py")
    for text in (build, infer):
        name = text.partition("\n")[0].rpartition(" ")[2]
        (tmp_path / name).write_text(text)
    shown = [line for text in blocks(page, "text") for line in text.splitlines() if not line.startswith("[")]
    ended = ""
    for line in [*shown, "$ hccl-run -n 3 --acl infer.py"]:
        if line.startswith("$ "):
            tool, *words = shlex.split(line)[1:]
            command = [str(Path(sys.executable).parent / tool), *words]
            run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
            assert run.returncode == 0, run
            ended = run.stdout
        else:
            assert line in ended.splitlines()
    assert "[0] 0 [6. 6. 6.]" in ended.splitlines()


@pytest.mark.proof
def test_every_program_says_how_it_is_run() -> None:
    assert len(EXAMPLES) > 10
    assert [e.command for e in EXAMPLES if not e.command or e.command[0] not in ("hccl-run", "pytest")] == []
    with_output = [e for e in EXAMPLES if e.command[0] == "hccl-run"]
    assert [e.command for e in with_output if not e.shown] == []


@pytest.mark.proof
def test_the_failures_of_the_readme_are_those_that_the_page_of_errors_explains() -> None:
    readme, page = blocks(PAGES[0], "text"), blocks(ROOT / "docs/errors.md", "text")
    failures = readme[len(examples(PAGES[0])) :]
    assert len(failures) == 3 and set(failures) <= set(page)


@pytest.mark.proof
def test_the_page_of_errors_has_the_table_of_disagreements() -> None:
    advice = re.findall(r"^\| [\w ]+ \| ([^|]*) \|$", (ROOT / "docs/errors.md").read_text(), re.MULTILINE)
    assert advice[1:] == list(POINTS.values())


@pytest.mark.proof
def test_the_page_of_algorithms_shows_what_the_package_prints() -> None:
    costs, choices, _ = blocks(ROOT / "docs/algorithms.md", "text")
    assert costs == f"{cost.table(4)}\n\n{cost.table(8)}\n"
    assert choices == f"{choice.render()}\n"
