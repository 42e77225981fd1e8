"""Communicators of an .om are made with what the build function and hccl-atc's files say of them."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from ascend_rt.launcher import atc

import ascend_rt as rt
from ascend_rt import ge
from ascend_rt.testing import RankPool

BUILD = """
from ascend_rt import ge
from ascend_rt.hccl import HcclCommConfig


def build(rank, size):
    groups = {"everyone": range(size), "pair": range(2), "rest": range(2, size)}
    b = ge.Builder(rank, groups, {"pair": HcclCommConfig(hcclBufferSize=7, hcclCommName="pair")})
    x, total, part = (b.input("x", (5,)), b.output("total", (5,)), b.output("part", (5,)))
    b.all_reduce("everyone", x, total)
    b.all_reduce("pair" if rank < 2 else "rest", x, part)
    return b.graph("step")
"""
SERVERS = [{"device": [{"rank_id": "2"}, {"rank_id": "0"}]}, {"device": [{"rank_id": "1"}]}]
TABLE = {"version": "1.2", "server_list": SERVERS}
EVERYONE = {"hcclCommName": "everyone", "hcclDeterministic": 2, "hcclBufferSize": 3}
PARTS = [{"RankIds": [0, 1], "HcclCommConfig": {"hcclCommName": "pair", "hcclExecTimeOut": 60}}]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "build_with_configs.py").write_text(BUILD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "build_with_configs", raising=False)
    return tmp_path


def compiled(monkeypatch: pytest.MonkeyPatch, cluster: Any, parts: Any) -> int:
    Path("cluster.json").write_text(json.dumps(cluster))
    Path("parts.json").write_text(json.dumps(parts))
    words = ["--cluster_config=cluster.json", "--hccl_sub_comm_config=parts.json", "--output=step"]
    monkeypatch.setattr(sys, "argv", ["hccl-atc", "build_with_configs.py:build", *words])
    return atc.main()


def run(comm: rt.Communicator, path: str) -> tuple[Any, ...]:
    graph = ge.load(path, comm)
    graph.array("x")[:] = [10.0 * comm.rank + place for place in range(5)]
    stream = rt.Stream()
    graph.launch(stream)
    stream.synchronize()
    made = {
        name: (held.name, held.size, held._settings.hccl_buffsize, held._settings.hccl_deterministic)
        for name, held in graph.communicators.items()
    }
    timeouts = {name: held._settings.hccl_exec_timeout for name, held in graph.communicators.items()}
    return made, timeouts, graph.array("total").tolist(), graph.array("part").tolist()


@pytest.mark.processes
def test_communicators_have_their_configurations(
    ranks: RankPool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert compiled(monkeypatch, {"RankTable": TABLE, "HcclCommConfig": EVERYONE}, {"GroupList": PARTS}) == 0
    for rank, (made, timeouts, total, part) in enumerate(ranks.run(3, run, str(folder / "step.om"))):
        assert made["everyone"] == ("everyone", 3, 3, "strict")
        assert total == [30.0 + 3 * place for place in range(5)]
        if rank < 2:
            assert made["pair"] == ("pair", 2, 7, "false") and timeouts["pair"] == 60
            assert part == [10.0 + 2 * place for place in range(5)]
        else:
            assert made["rest"][1] == 1 and part == [20.0 + place for place in range(5)]


@pytest.mark.proof
@pytest.mark.parametrize(
    ("config", "part", "reason"),
    [
        ({"hcclCommName": "all"}, {}, "a communicator 'all'; expected those of the graphs: everyone, pair, rest"),
        ({"hcclCommName": "pair"}, {}, r"--cluster_config is of ranks \(0, 1, 2\) for .*'pair'; expected .*\(0, 1\)"),
        ({"hcclBufferSize": 3}, {}, "expected an object with hcclCommName"),
        ({"hcclBuffer": 3}, {}, "with hcclBuffer=3; expected one of hcclBufferSize, hcclDeterministic, hcclCommName"),
        ({"hcclBufferSize": "3"}, {}, "with hcclBufferSize='3'; expected int"),
        ({"hcclBufferSize": 0}, {}, "EI0016.*hcclBufferSize"),
        ({}, {"hcclBufferSize": 9}, "hcclBufferSize=9 for communicator 'pair'; expected 7, with which the build"),
    ],
)
def test_configurations_that_cannot_be_are_refused(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    config: dict[str, Any],
    part: dict[str, Any],
    reason: str,
) -> None:
    named = config if config == {"hcclBufferSize": 3} else {"hcclCommName": "everyone", **config}
    parts = [{"RankIds": [0, 1], "HcclCommConfig": {"hcclCommName": "pair", **part}}]
    assert compiled(monkeypatch, {"RankTable": TABLE, "HcclCommConfig": named}, {"GroupList": parts}) == 255
    told = capsys.readouterr().err
    assert told.startswith("hccl-atc: E10001: ") and re.search(reason, told), told
