"""What the ranks write comes out whole: every line, on its stream, marked, in order, whoever reads it and however."""

import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.processes

TORTURE = """
import os, sys
rank = int(os.environ["RANK_ID"])
for number in range(2000):
    print("out", rank, number)
    print("err", rank, number, file=sys.stderr)
sys.stdout.buffer.write(b"long " + b"%d" % rank * (1 << 20) + b"\\n")
sys.stdout.buffer.write(b"bytes \\xff\\xfe \\r progress\\n")
sys.stdout.write("last words")
sys.stdout.flush()
os.kill(os.getpid(), 11)
"""


def test_torture(hccl_run: Callable[..., Any], script: Callable[..., Path]) -> None:
    """Four ranks, thousands of lines on both streams, 1 MiB in one line, invalid UTF-8, no newline, then SIGSEGV."""
    outcome = hccl_run(script(TORTURE), n=4, timeout=60)
    assert outcome.code == 139
    out, err = outcome.out.split("\n"), outcome.err.split("\n")
    for rank in range(4):
        mark = f"[{rank}] "
        own = [line[len(mark) :] for line in out if line.startswith(mark)]
        assert own[:2000] == [f"out {rank} {number}" for number in range(2000)]
        assert own[2000:] == [f"long {str(rank) * (1 << 20)}", "bytes \\xff\\xfe \r progress", "last words"]
        assert [line for line in err if line.startswith(mark)] == [f"{mark}err {rank} {n}" for n in range(2000)]
    assert all(re.match(r"\[[0-3]\] ", line) for line in out)
    assert all(re.match(r"\[[0-3]\] |hccl-run: |$", line) for line in err)


def test_without_prefix_bytes_pass_through(hccl_run: Callable[..., Any]) -> None:
    outcome = hccl_run("--no-prefix", "--", "printf", r"a\nb\n\nend", n=1)
    assert outcome.out == "a\nb\n\nend"


def test_an_unfinished_line_is_seen_while_the_rank_runs(
    start_job: Callable[..., Any], script: Callable[..., Path], tmp_path: Path
) -> None:
    source = f"""
        import os, time
        print("name? ", end="", flush=True)
        while not os.path.exists("{tmp_path}/go"):
            time.sleep(0.02)
        print("Ada")
    """
    job = start_job(script(source), n=1)
    assert job.read_until("name? ") == "[0] name? "
    (tmp_path / "go").touch()
    assert job.outcome().out == "Ada\n"


def test_closed_stdout_does_not_end_the_job(
    start_job: Callable[..., Any], script: Callable[..., Path], tmp_path: Path
) -> None:
    """`hccl-run ... | head -1`: the reader is gone, the ranks finish, and nobody prints a traceback."""
    source = f"""
        import os
        for number in range(20_000):
            print("line", number)
        open("{tmp_path}/done" + os.environ["RANK_ID"], "w").close()
    """
    job = start_job(script(source))
    job.read_until("line 0\n")
    job.process.stdout.close()
    job.process.stdout = None
    outcome = job.outcome()
    assert (outcome.code, outcome.err) == (0, "")
    assert (tmp_path / "done0").exists() and (tmp_path / "done1").exists()


def test_slow_reader_gets_everything(start_job: Callable[..., Any], script: Callable[..., Path]) -> None:
    """The pipe to the reader stays full for long; the ranks' lines wait, none is lost."""
    job = start_job(script("for number in range(20_000): print('line', number)"), n=2)
    received = b""
    while chunk := os.read(job.process.stdout.fileno(), 1 << 15):
        received += chunk
        time.sleep(0.002)
    assert job.outcome().code == 0
    lines = received.decode().splitlines()
    for rank in (0, 1):
        assert [line for line in lines if line.startswith(f"[{rank}]")] == [f"[{rank}] line {n}" for n in range(20_000)]


def test_output_to_files(start_job: Callable[..., Any], script: Callable[..., Path], tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
        job = start_job(script("import sys; print('a'); print('b', file=sys.stderr)"), n=1, stdout=out, stderr=err)
        assert job.outcome().code == 0
    assert ((tmp_path / "out").read_text(), (tmp_path / "err").read_text()) == ("[0] a\n", "[0] b\n")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_started_without_streams(
    hccl_run: Callable[..., Any], script: Callable[..., Path], tmp_path: Path, closed: str
) -> None:
    """No pipe of the launcher takes the place of a stream that it was started without."""
    source = f"""
        import os, sys
        for number in range(100):
            print("line")
            print("line", file=sys.stderr)
        open("{tmp_path}/done" + os.environ["RANK_ID"], "w").close()
    """
    run = Path(sys.executable).with_name("hccl-run")
    assert hccl_run("--", "bash", "-c", f"{run} -n 2 {script(source)} {closed}", n=1).code == 0
    assert (tmp_path / "done0").exists() and (tmp_path / "done1").exists()
