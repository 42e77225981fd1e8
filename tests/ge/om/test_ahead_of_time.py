"""hccl-atc with kernel times and links makes the graphs that a job makes at run time, given the same."""

import json
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ascend_rt.launcher import atc

import ascend_rt as rt
from ascend_rt import ge
from ascend_rt.ge.passes.agreement import asked
from ascend_rt.hccl.choices import machine_of
from ascend_rt.settings import LinksOf
from ascend_rt.testing import RankPool

LAYERS = 6
LINK = "200MB/s,50us"
BUILD = f"""
import operator

from ascend_rt import ge


def build(rank, size):
    b = ge.Builder(rank, {{"world": range(size)}})
    x = b.input("x", (20000,))
    gradients = [b.empty(f"gradient{{layer}}", (20000,)) for layer in range({LAYERS})]
    for layer, gradient in enumerate(gradients):
        b.copy(gradient, x)
        b.kernel(operator.imul, gradient, layer + rank, reads=[gradient], writes=[gradient])
        b.all_reduce("world", gradient)
    for layer, gradient in enumerate(gradients):
        b.copy(b.output(f"total{{layer}}", (20000,)), gradient)
    return b.graph("step")
"""


def form_of(graph: ge.Graph) -> Any:
    return json.loads(graph.to_json())


def optimised_at_run_time(comm: rt.Communicator, layers: str, times: str) -> Any:
    """By times that differ from rank to rank; they are written for hccl-atc."""
    graph: ge.Graph = runpy.run_path(layers)["build"](comm.rank, comm.size)
    drawn = np.random.default_rng(comm.rank)
    kernels = {node.id: float(drawn.integers(20, 400)) for node in graph.of_kind("kernel")}
    late = {(0, 1, 2): 700.0, (comm.rank, 9): 1.0}  # communicators of all ranks, and one that others have not
    costs = ge.Costs(kernels, machine_of(comm), LinksOf()(LINK), comm.size, late_us=late)
    ge.write_costs(times, graph, costs, comm)
    comm.barrier()
    assert ge.read_costs(times, dict.fromkeys(range(3), graph))[comm.rank].late_us == {
        (0, 1, 2): 700.0, **{(rank, 9): 1.0 for rank in range(3)}
    }
    return form_of(ge.optimise(graph, costs=costs, agree=asked({"world": comm})))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "layers.py").write_text(BUILD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "layers", raising=False)
    return tmp_path


def compiled(monkeypatch: pytest.MonkeyPatch, *words: str) -> list[Any]:
    """The graphs of all ranks."""
    monkeypatch.setattr(sys, "argv", ["hccl-atc", "layers.py:build", "--ranks", "3", "--output", "out", *words])
    assert atc.main() == 0
    return [form_of(rank.graph) for rank in ge.Model.from_bytes(Path("out.om").read_bytes()).ranks]


@pytest.mark.processes
def test_graphs_are_those_of_the_run_time(ranks: RankPool, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = compiled(monkeypatch)
    at_run_time = ranks.run(3, optimised_at_run_time, str(folder / "layers.py"), str(folder / "times.json"))
    ahead = compiled(monkeypatch, "--kernel_times", "times.json")
    assert ahead == at_run_time != plain
    logs = ["".join(form["log"]) for form in ahead]
    assert "overlap: " in logs[0] and "all_reduce_fusion: 6 all-reduces became" in logs[0]
    assert compiled(monkeypatch, "--kernel_times", "times.json", "--link", LINK) == at_run_time
    assert compiled(monkeypatch, "--kernel_times", "times.json", "--link", "1MB/s,9ms") != at_run_time


TIMES = """{"format": "ascend_rt costs", "version": 2, "cores": 2, "constants": {"alpha_us": 1, "switch_us": 1,
"beta_us_per_byte": 1e-05, "gamma_us_per_byte": 1e-4}, "task_us": 0, "link": "", "late": [], "ranks": [[], [],
[{"id": 1, "function": "imul", "us": 5}]]}"""


@pytest.mark.proof
@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("", "", ""),
        ("{", "", "times.json has no kernel times: "),
        ('"version": 2', '"version": 1', "expected an object with format 'ascend_rt costs' and version 2"),
        ('"us": 5', '"us": "5"', r"the file\.ranks\[2\]\[0\]\.us is a str; expected int or float"),
        ('"late": []', '"late": [{"ranks": [0], "us": -1}]', "a time is -1; expected numbers from 0"),
        ('"us": 5', '"us": NaN', "a time is nan; expected numbers from 0"),
        ('"cores": 2', '"cores": 0', "cores is 0; expected 1 or more"),
        ('"link": ""', '"link": "fast"', "'fast' is no link"),
        ("[[], [],", "[[],", "times.json is of 2 ranks; expected 3"),
        ("imul", "iadd", "rank 2: iadd of node 1 was measured, and there the graph has imul"),
        ('"id": 1', '"id": 0', "rank 2: imul of node 0 was measured, and there the graph has no kernel"),
    ],
)
def test_times_of_something_else_are_refused(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    old: str,
    new: str,
    reason: str,
) -> None:
    Path("times.json").write_text(TIMES.replace(old, new, 1))
    words = ["layers.py:build", "--ranks", "3", "--output", "out", "--kernel_times", "times.json"]
    monkeypatch.setattr(sys, "argv", ["hccl-atc", *words])
    assert atc.main() == (255 if reason else 0)
    told = capsys.readouterr().err
    assert told == "" if not reason else told.startswith("hccl-atc: E10001: --kernel_times is ")
    assert re.search(reason, told)


@pytest.mark.proof
@pytest.mark.parametrize(
    ("link", "reason"), [("fast", "E10001: --link is 'fast'; .*'fast' is no link"), ("0-3:1GB/s,1us", "ranks 0 to 2")]
)
def test_links_that_are_none_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], link: str, reason: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["hccl-atc", "layers.py:build", "--ranks=3", "--output=out", f"--link={link}"])
    assert atc.main() == 255
    assert re.search(reason, capsys.readouterr().err)
