"""hccl-atc: compiles without a job, says what is wrong in ATC's words, and shows what is in an .om."""

import json
import re
import sys
from pathlib import Path

import pytest
from ascend_rt.launcher import atc

from ascend_rt import ge

pytestmark = pytest.mark.proof

BUILD = """
import operator

from ascend_rt import ge


def double(x):
    x *= 2


def build(rank, size):
    b = ge.Builder(rank, {"world": range(size)})
    x, out = b.input("x", (100,)), b.output("out", (100,))
    h, i = b.empty("h", (100,)), b.empty("i", (100,))
    b.copy(h, x)
    b.kernel(double, h, reads=[h], writes=[h])
    b.copy(i, h, stream=0)
    b.all_reduce("world", i, out)
    return b.graph("step")


def hangs(rank, size):
    b = ge.Builder(rank, {"a": range(size), "b": range(size)})
    for name in ("ab", "ba")[rank == 1]:
        b.call("barrier", name)
    return b.graph()


def gradients(rank, size):
    b = ge.Builder(rank, {"world": range(size)})
    x = b.input("x", (64,))
    for layer in range(8):
        gradient = b.empty(f"gradient{layer}", (64,))
        b.copy(gradient, x)
        b.all_reduce("world", gradient)
        b.copy(b.output(f"out{layer}", (64,)), gradient)
    return b.graph()


def nothing(rank, size):
    return None
"""
TABLE = {"RankTable": {"version": "1.2", "server_list": [{"device": [{"rank_id": "1"}, {"rank_id": "0"}]}]}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where build_fn.py lies, in which hccl-atc is run."""
    (tmp_path / "build_fn.py").write_text(BUILD)
    (tmp_path / "table.json").write_text(json.dumps(TABLE))
    (tmp_path / "bad.json").write_text("{}")
    options = {"compile options": {"global": {"ascend_rt.fusion": "rules"}, "graph": {}}}
    (tmp_path / "options.json").write_text(json.dumps(options))
    (tmp_path / "unknown.json").write_text(json.dumps({"compile options": {"graph": {"ge.much": "1"}}}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "build_fn", raising=False)
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["hccl-atc", *words])
    return atc.main()


def test_a_step_is_compiled_and_shown(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "build_fn.py:build", "--ranks", "3", "--output", "step") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "ATC start working now, please wait for a moment."
    assert lines[1] == "step.om: 3 ranks, 12 nodes, at most 512 bytes of planned memory on a rank"
    assert lines[2] == "ATC run success, welcome to the next use."
    graph = ge.Model.from_bytes((folder / "step.om").read_bytes()).ranks[2].graph
    kernel = graph.of_kind("kernel")[0]
    assert (graph.groups["world"].rank, kernel.line) == (2, "build_fn.py:16")
    assert kernel.task.import_name == "build_fn:double"  # type: ignore[union-attr]

    assert run(monkeypatch, "--mode=6", "--om=step.om") == 0
    shown = capsys.readouterr().out
    assert "Original Atc command line: hccl-atc build_fn.py:build --ranks 3 --output step" in shown
    assert (
        "rank 1  memory_size[512B], theory_min[512B], weight_size[0B], stream_num[1], event_num[0], node_num[4]"
        in shown
    )
    assert run(monkeypatch, "--mode=1", "--om=step.om", "--json=step.json") == 0
    form = json.loads((folder / "step.json").read_text())
    assert [len(rank["graph"]["nodes"]) for rank in form["ranks"]] == [4, 4, 4]


def test_options_of_atc(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("build_fn.py:build", "--cluster_config", "table.json", "--output", "out")
    assert run(monkeypatch, *words, "--disable_reuse_memory", "--topo_sorting_mode", "1") == 0
    model = ge.Model.from_bytes((folder / "out.om").read_bytes())
    assert len(model.ranks) == 2
    assert model.ranks[0].plan["peak"] == 1024
    assert model.ranks[0].graph.log == ("listed by DFS",)


def test_passes_run_over_the_graphs_of_all_ranks_together(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("build_fn.py:gradients", "--ranks", "3", "--output", "out")
    sizes = []
    for more in ((), ("--raw_ge_options", "options.json")):
        assert run(monkeypatch, *words, *more) == 0
        model = ge.Model.from_bytes((folder / "out.om").read_bytes())
        sizes.append({len(rank.graph.of_kind("collective")) for rank in model.ranks})
        assert ge.check_ranks({rank: own.graph for rank, own in enumerate(model.ranks)}) == []
    assert sizes[0] == {8} and sizes[1] in ({1}, {2})
    assert any("fus" in line for line in model.ranks[1].graph.log)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["build_fn.py:hangs", "--ranks", "2", "--output", "x"], "E19999.*a cycle, in which each call waits"),
        (
            ["build_fn.py:nothing", "--ranks", "2", "--output", "x"],
            r"E10001: nothing\(0, 2\) is a NoneType; expected a",
        ),
        (["build_fn.py:absent", "--ranks", "2", "--output", "x"], "expected a function absent in build_fn.py"),
        (["other.py:build", "--ranks", "2", "--output", "x"], "expected a file other.py"),
        (["build_fn.py", "--ranks", "2", "--output", "x"], "expected FILE.py:FUNCTION or MODULE:FUNCTION"),
        (["build_fn.py:build", "--ranks", "2"], "E10004: --output is missing"),
        (["build_fn.py:build", "--output", "x"], "E10004: --ranks is missing"),
        (["build_fn.py:build", "--ranks", "0", "--output", "x"], "--ranks is 0; expected 1 to 4094"),
        (
            ["build_fn.py:build", "--ranks", "3", "--cluster_config", "table.json", "--output", "x"],
            "--ranks is 3; expected 2, as table.json has",
        ),
        (["build_fn.py:build", "--cluster_config", "bad.json", "--output", "x"], "--cluster_config is bad.json"),
        (["build_fn.py:build", "--ranks", "2", "--output", "x", "--topo_sorting_mode", "4"], "expected 0, 1, 2 or 3"),
        (["build_fn.py:build", "--ranks", "2", "--output", "x", "--raw_ge_options", "bad.json"], "--raw_ge_options is"),
        (["build_fn.py:build", "--ranks", "2", "--output", "x", "--raw_ge_options", "unknown.json"], "E10001.*ge.much"),
        (["build_fn.py:build", "--ranks", "2", "--output", "no/x"], "No such file or directory"),
        (["--mode=5"], "--mode is 5; expected 0"),
        (["--mode=6"], "E10004: --om is missing"),
        (["--mode=six"], "E10003: --mode is 'six'; expected an integer"),
        (["--mode"], "E10004: argument --mode: expected one argument"),
        (["--disable_reuse_memory=2"], "E10006: --disable_reuse_memory is 2; expected 0 or 1"),
        (["--outptu=x"], "E10001: unknown command line flag '--outptu'; is --output meant"),
        (["--soc_version=Ascend910B"], "E10055: --soc_version is an option of atc that hccl-atc has not"),
        (["build_fn.py:build", "other"], "E10001: non-option parameter 'other'"),
        (["build_fn.py:build", "--cluster_config=absent", "--output=x"], "E10001: --cluster_config is absent"),
        (["build_fn.py:build", "--cluster_config=build_fn.py", "--output=x"], "E10032: .*expected a file of JSON"),
        (["--mode=6", "--om=build_fn.py"], "545001.*magic is"),
    ],
)
def test_failures_end_with_atcs_line_and_the_reason(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], reason: str
) -> None:
    assert run(monkeypatch, *words) == 255
    told = capsys.readouterr()
    assert told.out.splitlines()[-1].startswith("ATC run failed, Please check the detail log, Try 'hccl-atc --help'")
    assert re.search(reason, told.err, re.DOTALL), told.err
    assert not list(folder.glob("*.om"))


@pytest.mark.parametrize("word", ["-h", "--help", "-help", "--h"])
def test_help(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], word: str) -> None:
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, word)
    told = capsys.readouterr()
    assert (ended.value.code, told.err) == (0, "") and told.out.startswith("usage: hccl-atc ")


def test_options_are_spelt_as_atc_lets_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("-cluster_config=table.json", "--topo-sorting-mode", "1", "-output", "out", "build_fn.py:build")
    assert run(monkeypatch, *words) == 0
    assert len(ge.Model.from_bytes((folder / "out.om").read_bytes()).ranks) == 2
