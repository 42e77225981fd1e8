"""hccl_test.py: the sizes and the table of CANN's hccl_test, and a check that finds wrong results."""

import itertools
import json
import re
from pathlib import Path
from typing import Any

import hccl_test_options as options_of
import hccl_test_values as values
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_rt.testing import RankPool

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
COLUMNS = ["data_size(Bytes):", "aveg_time(us):", "alg_bandwidth(GB/s):", "check_result:"]
OURS = ["bus_bandwidth(GB/s):", "median_time(us):", "ours/limit:"]
SIGNED_AND_NOT = ["int8", "uint8", "uint64", "fp16", "bfp16", "fp64"]


def parse(*words: str, rank: int = 0, size: int = 4) -> Any:
    return options_of.parse(["all_reduce", *words], rank, size, "")


def sizes(*words: str, most: int = 100) -> list[int]:
    return list(itertools.islice(options_of.sizes(parse(*words), 4), most))


@pytest.mark.proof
def test_sizes() -> None:
    assert sizes() == [64 << 20]
    assert sizes("-b", "8", "-e", "64", "-f", "2") == [8, 16, 32, 64]
    assert sizes("-b", "8", "-e", "100", "-f", "3") == [8, 24, 72]
    assert sizes("-b", "1K", "-e", "2k", "-i", "510") == [1024, 1536, 2048]  # rounded up to a multiple of the ranks
    assert sizes("-b", "1M", "-e", "2M") == [(1 << 20) + k * 104_860 for k in range(10)]
    assert sizes("-b", "8", "-e", "64", "-i", "0", most=3) == [8, 8, 8]


@pytest.mark.proof
def test_factor_wins_over_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert sizes("-b", "8", "-e", "16", "-f", "2", "-i", "1") == [8, 16]
    assert "-f is used" in capsys.readouterr().err


@pytest.mark.proof
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["allreduce"], "'allreduce' is no collective; expected one of all_reduce"),
        (["all_reduce", "-d", "hif8"], "no CPU computes with hif8; expected one of int8"),
        (["all_reduce", "-b", "8X"], "'8X' is no size; expected bytes like 8, 64K, 16M or 1G"),
        (["all_reduce", "-b", "128M"], "-b 134217728 is larger than -e 67108864"),
        (["all_reduce", "-f", "1"], "'1' is no whole number of at least 2"),
        (["all_reduce", "-r", "4"], "-r 4 is no rank of this job; expected 0 to 3"),
        (["all_reduce", "-p", "8"], "-p 8: every rank has a device of its own, and hccl-run was given -n 4"),
        (["all_reduce", "-o", "avg"], "invalid choice: 'avg'"),
    ],
)
def test_wrong_words_are_refused_by_all_ranks_and_said_once(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for rank in range(4):
        with pytest.raises(SystemExit) as refused:
            options_of.parse(words, rank, 4, "")
        assert refused.value.code == 2
        assert (said in capsys.readouterr().err) == (rank == 0)


@pytest.mark.proof
@given(
    operation=st.sampled_from(options_of.OPERATIONS),
    nbytes=st.integers(1, 1 << 20),
    itemsize=st.sampled_from([1, 2, 4, 8]),
    ranks=st.integers(1, 64),
)
def test_count_covers_the_size_by_less_than_an_element_each(
    operation: str, nbytes: int, itemsize: int, ranks: int
) -> None:
    blocks = ranks if operation in options_of.SHARED else 1
    total = options_of.count_of(operation, nbytes, itemsize, ranks) * blocks * itemsize
    assert nbytes <= total < nbytes + itemsize * (blocks + 1)


@pytest.mark.proof
@pytest.mark.parametrize("datatype", SIGNED_AND_NOT)
@pytest.mark.parametrize("op", options_of.REDUCTIONS)
@pytest.mark.parametrize("size", [1, 3, 16])
def test_every_order_of_folding_gives_the_same(datatype: str, op: str, size: int) -> None:
    given = parse("-d", datatype, "-o", op)
    forwards = values.expected(0, size, 1000, given)
    backwards = values.contribution(size - 1, size, 1000, given)
    for rank in reversed(range(size - 1)):
        backwards = values.FOLD[op](backwards, values.contribution(rank, size, 1000, given))
    assert forwards.dtype == given.dtype
    assert np.array_equal(forwards, backwards)
    assert len(set(forwards.tolist())) > 1


def table(text: str) -> tuple[list[str], list[list[str]]]:
    """(header, rows) of the output, as a script that knows the tool's format reads it."""
    first, header, *rows = text.splitlines()
    assert re.fullmatch(r"the minbytes is \d+, maxbytes is \d+, iters is \d+, warmup_iters is \d+", first)
    assert {len(line) - len(line.lstrip()) for line in (header, *rows)} == {0}
    return header.split(" | "), [[field.strip() for field in row.split(" | ")] for row in rows]


@pytest.mark.processes
@pytest.mark.parametrize(
    ("operation", "words", "factor"),
    [
        ("all_reduce", ["-d", "fp16", "-o", "sum"], 4 / 3),
        ("broadcast", ["-d", "int32", "-r", "2"], 1.0),
        ("all_gather", ["-d", "uint8"], 2 / 3),
        ("reduce_scatter", ["-d", "bfp16", "-o", "prod", "-r", "1"], 2 / 3),
        ("reduce", ["-d", "int64", "-o", "max", "-r", "2"], 1.0),
        ("scatter", ["-d", "uint32", "-r", "1"], 2 / 3),
        ("alltoall", ["-d", "int16"], 2 / 3),
        ("all_gatherv", ["-d", "fp16"], 2 / 3),
        ("reduce_scatterv", ["-d", "int32", "-o", "min", "-r", "1"], 2 / 3),
        ("alltoallv", ["-d", "fp64"], 2 / 3),
        ("alltoallvc", ["-d", "int8"], 2 / 3),
    ],
)
def test_rows(ranks: RankPool, tmp_path: Path, operation: str, words: list[str], factor: float) -> None:
    kept = tmp_path / "rows.json"
    options = ["-b", "8", "-e", "8K", "-f", "32", "-n", "3", "-w", "1", "--json", str(kept), *words]
    # The pool's interpreter puts no folder of a script on the path.
    program = tmp_path / "program.py"
    program.write_text(
        f"import sys\nsys.path.insert(0, {str(BENCHMARKS)!r})\n"
        "import hccl_test\nsys.exit(hccl_test.main(sys.argv[1:]))\n"
    )
    ended = ranks.hccl_run(["-n", "3", "--no-prefix", str(program), operation, *options])
    assert ended.exit_code == 0, ended
    header, rows = table(ended.stdout)
    assert header == COLUMNS + OURS
    assert [row[0] for row in rows] == ["8", "256", "8192"]
    assert all(row[3] == "success" for row in rows)
    assert all((row[6] == "-") == (operation != "all_reduce") or "left out" in ended.stderr for row in rows)
    for row, record in zip(rows, json.loads(kept.read_text())["rows"], strict=True):
        assert (record["nbytes"], record["check"]) == (int(row[0]), row[3])
        assert record["bus_gbps"] == pytest.approx(record["algorithm_gbps"] * factor)
        moved = record["algorithm_gbps"] * record["average_us"] * 1e3
        assert record["nbytes"] <= moved + 0.5 and moved < record["nbytes"] + 8 * 3 + 0.5


COUNTED = """
import sys
sys.path.insert(0, {benchmarks!r})
import ascend_rt as rt, hccl_test
seen = []
class Counted(rt.Stream):
    def record(self, event=None):
        seen.append("event")
        return super().record(event)
    def synchronize(self, timeout=None):
        seen.append("synchronize")
        super().synchronize(timeout)
class Recorded(hccl_test.Trial):
    def call(self):
        seen.append("call")
        super().call()
rt.Stream, hccl_test.Trial = Counted, Recorded
code = hccl_test.main("broadcast -b 64 -e 64 -n 3 -w 2 -c 0".split())
print(*seen, sep=",")
sys.exit(code)
"""


@pytest.mark.processes
def test_a_measurement_queues_its_calls_between_two_events(ranks: RankPool, tmp_path: Path) -> None:
    program = tmp_path / "counted.py"
    program.write_text(COUNTED.format(benchmarks=str(BENCHMARKS)))
    ended = ranks.hccl_run(["-n", "2", "--no-prefix", str(program)])
    assert ended.exit_code == 0, ended
    measurement = "synchronize,event,call,call,call,event,synchronize"
    want = ",".join(["call", "call", *[measurement] * 5])
    assert ended.stdout.splitlines().count(want) == 2, ended


SPOILED = """
import sys
sys.path.insert(0, {benchmarks!r})
import hccl_test, hccl_test_values
right = hccl_test_values.expected
def spoiled(rank, *how):
    want = right(rank, *how)
    want[5] += rank == 1
    return want
hccl_test_values.expected = spoiled
sys.exit(hccl_test.main(["all_reduce", "-b", "64", "-e", "64", "-c", sys.argv[1]]))
"""


@pytest.mark.processes
@pytest.mark.parametrize(("check", "verdict", "code"), [("0", "NULL", 0), ("1", "failed", 1), ("2", "failed", 1)])
def test_a_wrong_result_on_any_rank_is_told(
    ranks: RankPool, tmp_path: Path, check: str, verdict: str, code: int
) -> None:
    program = tmp_path / "spoiled.py"
    program.write_text(SPOILED.format(benchmarks=str(BENCHMARKS)))
    ended = ranks.hccl_run(["-n", "2", "--no-prefix", str(program), check])
    assert ended.exit_code == code, ended
    said = [line for line in ended.stdout.splitlines() if line.startswith("local rank_id")]
    assert len(said) == (check != "0") and all(line.startswith("local rank_id 1, check result failed") for line in said)
    assert ("1 of 16 elements of all_reduce differ, the first at 5" in ended.stdout) == (check == "2")
    row = next(line for line in ended.stdout.splitlines() if line.startswith("64 "))
    assert row.split(" | ")[3].strip() == verdict
