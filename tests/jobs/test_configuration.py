"""What users suffered from variables that are wrong, differ between ranks or are passed over, and from silent logs."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascend_rt as rt
from ascend_rt.testing import RankPool

pytestmark = pytest.mark.processes

# The warm pool has imported the package; a rank may still change its environment before it joins.
ONE_IS_WRONG = """
import os, sys
rank = int(os.environ["RANK_ID"])
if rank == 1:
    os.environ["{name}"] = "{value}"
import ascend_rt as rt
try:
    rt.init()
except ValueError as error:
    print("own", error)
except rt.HcclError as error:
    print(error.name, error.ei, error.ranks, error)
"""


def outcomes(ranks: RankPool, script: Callable[..., Path], name: str, value: str, n: int = 3) -> list[str]:
    words = ["-n", str(n), str(script(ONE_IS_WRONG.format(name=name, value=value)))]
    ended = ranks.hccl_run(words, environ={"HCCL_CONNECT_TIMEOUT": "120"})
    assert ended.exit_code == 0, ended
    return sorted(ended.stdout.splitlines())


def test_a_bad_value_on_one_rank_leaves_nobody_waiting(ranks: RankPool, script: Callable[..., Path]) -> None:
    told = outcomes(ranks, script, "HCCL_BUFFSIZE", "200MB")
    wrong = "EI0001: environment variable HCCL_BUFFSIZE is '200MB'; expected a whole number from 1"
    assert told[1].startswith(f"[1] own {wrong}")
    for rank in (0, 2):
        head = f'[{rank}] HCCL_E_PARA EI0001 (1,) HCCL_E_PARA (1), EI0001: communicator "world": rank {rank}: '
        assert told[rank].startswith(f"{head}rank 1 cannot take part: {wrong}"), told


def test_ranks_that_chose_different_algorithms_by_a_variable_are_told_which(
    ranks: RankPool, script: Callable[..., Path]
) -> None:
    for line in outcomes(ranks, script, "HCCL_ALGO", "level0:NA;level1:ring", n=2):
        assert "HCCL_E_PARA EI0016 (" in line and "rank 1 " in line and "rank 0 " in line
        assert "HCCL_ALGO=level0:NA;level1:ring" in line and "HCCL_ALGO=not set" in line


def test_a_short_connect_timeout_is_noticed_once_and_strictly_refused(hccl_run: Callable[..., Any]) -> None:
    words = ("-m", "ascend_rt.examples.hello_hccl")
    notice = "rank 0: HCCL_CONNECT_TIMEOUT is '60'; CANN takes a whole number from 120 to 7200"
    strict = {"HCCL_CONNECT_TIMEOUT": "60", "ASCEND_RT_STRICT": "1"}
    outcome = hccl_run(*words, n=2, env={"HCCL_CONNECT_TIMEOUT": "60"})
    assert outcome.code == 0 and outcome.err.count("CANN takes") == 1 and notice in outcome.err, outcome
    outcome = hccl_run(*words, n=2, env=strict)
    assert outcome.code != 0 and "HCCL_CONNECT_TIMEOUT is '60'; expected a whole number from 120" in outcome.err


def call_and_fail(comm: rt.Communicator) -> None:
    x = rt.array(np.arange(6, dtype=np.float32))
    comm.all_reduce(x, op="max")
    comm.all_reduce(x, op="max")
    comm.broadcast(x, root=1, stream=(stream := rt.Stream()))
    stream.synchronize()
    comm.all_to_all(x)
    with pytest.raises(rt.HcclError):
        comm.all_reduce(x[comm.rank :])


def test_every_call_is_in_the_log_of_its_rank(ranks: RankPool, tmp_path: Path) -> None:
    ranks.run(2, call_and_fail, environ={"HCCL_ENTRY_LOG_ENABLE": "1", "ASCEND_PROCESS_LOG_PATH": str(tmp_path)})
    runs, errors = ([*(tmp_path / kind / "plog").iterdir()] for kind in ("run", "debug"))
    assert len(runs) == len(errors) == 2 and {path.name for path in runs} == {path.name for path in errors}
    assert all(re.fullmatch(r"plog-\d+_\d{17}\.log", path.name) for path in runs)
    for path in runs:
        lines = path.read_text().splitlines()
        calls = [re.search(r"\[rank (\d)\] Entry-(Hccl\w+): (.*)", line) for line in lines]
        found = [match for match in calls if match is not None]
        names = ["HcclAllReduce", "HcclAllReduce", "HcclBroadcast", "HcclAlltoAll", "HcclAllReduce"]
        assert [match[2] for match in found] == names and len(lines) == 5
        rank = found[0][1]
        place = rf", localRank\[{rank}\], comm\[world\], deviceLogicId\[{rank}\], at\[test_configuration.py:\d+\]"
        assert re.fullmatch(rf"x\[0x[0-9a-f]+ float32 count 6\], op\[max\]{place}", found[0][3])
        assert re.fullmatch(rf"x\[0x.*\], root\[1\], stream\[0x[0-9a-f]+\]{place}", found[2][3])
    for path in errors:
        assert re.match(
            r"\[ERROR\] HCCL\(\d+,call.py\):\d{4}(-\d\d){3}:\d\d:\d\d\.\d{3}\.\d{3} \[rank \d\] HCCL_E_PARA \(1\), EI",
            path.read_text(),
        )


def nothing(comm: rt.Communicator) -> None:
    comm.barrier()


def test_a_log_that_cannot_be_kept_is_said_at_once(ranks: RankPool, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    environ = {"ASCEND_PROCESS_LOG_PATH": str(tmp_path / "file" / "log")}
    with pytest.raises(AssertionError, match=r"ASCEND_PROCESS_LOG_PATH is .*; expected a folder .*Not a directory"):
        ranks.run(1, nothing, environ=environ)
