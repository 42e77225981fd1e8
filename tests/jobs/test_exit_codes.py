"""What a job's exit code and its summary say, by how its ranks end."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ascend_rt.testing import RankPool

pytestmark = pytest.mark.processes

RANK = "import os, signal, sys\nrank = int(os.environ['RANK_ID'])\n"


@pytest.mark.parametrize(
    ("ending", "code", "says"),
    [
        ("pass", 0, None),
        ("sys.exit()", 0, None),
        ("sys.exit(0)", 0, None),
        ("sys.exit(7)", 7, "exit code 7"),
        ("sys.exit('no data')", 1, "no data"),
        ("os._exit(9)", 9, "exit code 9"),
        ("raise ValueError('boom')", 1, r"ValueError: boom \(program.py:3\)"),
        ("raise KeyboardInterrupt", 130, r"KeyboardInterrupt \(program.py:3\)"),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137, "killed by SIGKILL"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", 139, "killed by SIGSEGV"),
        ("os.abort()", 134, "killed by SIGABRT"),
        ("os.kill(os.getpid(), signal.SIGRTMIN + 3)", 128 + 37, "killed by signal 37"),
    ],
)
def test_end_of_one_rank(
    ranks: RankPool, script: Callable[..., Any], ending: str, code: int, says: str | None
) -> None:
    """Rank 1 ends in some way, rank 0 well; the rank's end is the job's, said last and once."""
    ended = ranks.hccl_run(["-n", "2", str(script(f"{RANK}if rank == 1: {ending}\n"))])
    assert ended.exit_code == code
    assert ended.stdout == ""
    if says is None:
        assert ended.stderr == ""
    else:
        last = ended.stderr.splitlines()[-1]
        assert re.search(rf"rank 1 \(process \d+\) failed first, after [\d.]+ s: {says}; .*exit code is {code}$", last)
        assert ended.stderr.count("failed first") == 1
        assert "ascend_rt/launcher/" not in ended.stderr


def test_traceback_is_the_programs_own(hccl_run: Callable[..., Any], script: Callable[..., Any]) -> None:
    """As plain python prints it: the program's frames, not the launcher's."""
    source = "def inner():\n    raise LookupError('nothing here')\ninner()\n"
    outcome = hccl_run("--no-prefix", script(source), n=1)
    assert re.match(
        r"Traceback \(most recent call last\):\n"
        r'  File ".*/program.py", line 3, in <module>\n    inner\(\)\n'
        r'  File ".*/program.py", line 2, in inner\n    raise LookupError\(.nothing here.\)\n'
        r"LookupError: nothing here\n",
        outcome.err,
    )


def test_syntax_error_is_shown_as_pythons(hccl_run: Callable[..., Any], script: Callable[..., Any]) -> None:
    outcome = hccl_run("--no-prefix", script("x = = 1\n"), n=1)
    assert outcome.code == 1
    assert outcome.err.startswith("  File ")
    assert "SyntaxError" in outcome.err


def test_exit_handlers_and_threads_finish(hccl_run: Callable[..., Any], script: Callable[..., Any]) -> None:
    """A forked rank ends as an interpreter ends: threads are awaited, exit handlers run, streams are flushed."""
    source = """
        import atexit, sys, threading
        gate = threading.Event()
        def work():
            gate.wait()
            print("thread in", sys.modules["__main__"].__file__.rpartition("/")[2])
        threading.Thread(target=work).start()
        atexit.register(lambda: print("exit handler", end=""))
        gate.set()
    """
    outcome = hccl_run("--no-prefix", script(source), n=1)
    assert (outcome.code, outcome.out) == (0, "thread in program.py\nexit handler")


def test_earliest_failure_decides(hccl_run: Callable[..., Any], script: Callable[..., Any]) -> None:
    """Rank 0 fails because rank 2 has: it only exits once rank 2 is dead."""
    source = f"""{RANK}
import time
path = sys.argv[1] + "/pid"
if rank == 2:
    with open(path + ".new", "w") as file:
        file.write(str(os.getpid()))
    os.rename(path + ".new", path)
    os.kill(os.getpid(), signal.SIGTERM)
while not os.path.exists(path):
    time.sleep(0.01)
while os.path.exists(f"/proc/{{open(path).read()}}") and "Z" not in open(f"/proc/{{open(path).read()}}/stat").read():
    time.sleep(0.01)
time.sleep(0.2)
sys.exit(5)
"""
    path = script(source)
    outcome = hccl_run(path, path.parent, n=3)
    assert outcome.code == 128 + 15
    assert "ranks 0-1 failed as well: exit code 5" in outcome.err


def test_survivors_that_go_on_are_ended(hccl_run: Callable[..., Any], script: Callable[..., Any]) -> None:
    """After --grace SIGTERM, which rank 0 obeys; after as long again SIGKILL, which rank 2 needs."""
    source = f"""{RANK}
import time
if rank == 1: sys.exit(4)
if rank == 2: signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(60)
"""
    outcome = hccl_run("--grace", "0.3", script(source), n=3)
    assert outcome.code == 4
    assert 0.6 < outcome.seconds < 15
    assert "rank 0 ended by hccl-run: SIGTERM, not ended 0.3 s (--grace) after the first failure" in outcome.err
    assert "rank 2 ended by hccl-run: SIGKILL" in outcome.err


def test_timeout(hccl_run: Callable[..., Any], script: Callable[..., Any]) -> None:
    outcome = hccl_run("--timeout", "0.5", script("import time; time.sleep(60)"))
    assert outcome.code == 124
    assert "hccl-run: the job is ended: it has run for 0.5 s (--timeout)" in outcome.err


def test_usage_errors(hccl_run: Callable[..., Any]) -> None:
    for words, code, says in [
        ((), 2, "which program?"),
        (("-m",), 2, "which program?"),
        (("--",), 2, "which program?"),
        (("nowhere.py",), 2, "can't open file 'nowhere.py'"),
        (("--", "no-such-program"), 127, "cannot find the program 'no-such-program'"),
        (("--grace", "soon", "x.py"), 2, "'soon' is not a number of seconds"),
        (("--env", "RANK_ID=3", "x.py"), 2, "RANK_ID is what hccl-run itself tells each rank"),
        (("--hbm", "1T", "-m", "this"), 0, ""),
    ]:
        outcome = hccl_run(*words)
        assert (outcome.code, says in outcome.err) == (code, True), (words, outcome)


def test_bad_setting_is_said_once(hccl_run: Callable[..., Any]) -> None:
    outcome = hccl_run("-m", "this", n=4, env={"HCCL_EXEC_TIMEOUT": "soon"})
    assert outcome.code == 2
    assert outcome.err.count("HCCL_EXEC_TIMEOUT") == 1
    assert outcome.out == ""


@pytest.mark.parametrize(("end", "code", "says"), [
    ('raise ValueError("boom")', 1, "ValueError: boom (program.py:7)"),
    ("sys.exit(7)", 7, "exit code 7"),
])
def test_a_rank_that_failed_and_lingers(
    hccl_run: Callable[..., Any], script: Callable[..., Any], end: str, code: int, says: str
) -> None:
    """Its main thread has ended, another thread keeps its process: the grace begins with what it said, which counts."""
    source = f"""{RANK}
import threading, time
if rank == 1:
    threading.Thread(target=time.sleep, args=(600,)).start()
    {end}
time.sleep(600)
"""
    outcome = hccl_run("--grace", "0.3", script(source), timeout=15)
    assert outcome.code == code
    assert says in outcome.err.splitlines()[-1]
    assert "rank 0 ended by hccl-run" in outcome.err


def test_limits_in_the_way(hccl_run: Callable[..., Any], script: Callable[..., Any]) -> None:
    run = f"{Path(sys.executable).with_name('hccl-run')} --no-prefix -n 9 -m this"
    outcome = hccl_run("--", "bash", "-c", f"ulimit -n 100; {run}", n=1)
    assert outcome.code == 1
    assert "the job needs 118 open files and `ulimit -Hn` allows 100; start fewer ranks" in outcome.err
