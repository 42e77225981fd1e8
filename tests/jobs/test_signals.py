"""Signals to hccl-run, and its death: the ranks and what they started are gone in time, whatever they do."""

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.processes

SLEEP = "import os, sys, time\nprint('ready', os.environ['RANK_ID']); time.sleep(600)\n"
IGNORE = "import signal\nfor number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, signal.SIG_IGN)\n"
READY = ("ready 0", "ready 1")


def test_interrupt(start_job: Callable[..., Any], script: Callable[..., Path]) -> None:
    """Ctrl-C: forwarded once, 130, and no page of tracebacks."""
    job = start_job(script(SLEEP))
    job.read_until(*READY)
    job.process.send_signal(signal.SIGINT)
    outcome = job.outcome()
    assert outcome.code == 130
    assert outcome.err.splitlines() == [
        "hccl-run: ranks 0-1 ended: KeyboardInterrupt (program.py:2)",
        "hccl-run: ended by SIGINT; exit code 130",
    ]


def test_interrupt_that_ranks_ignore(start_job: Callable[..., Any], script: Callable[..., Path]) -> None:
    job = start_job("--grace", "0.5", script(IGNORE + SLEEP))
    job.read_until(*READY)
    job.process.send_signal(signal.SIGINT)
    assert job.outcome(timeout=10).code == 130


def test_second_interrupt_is_at_once(start_job: Callable[..., Any], script: Callable[..., Path]) -> None:
    """With a grace of minutes only the second Ctrl-C can have ended it."""
    source = "import signal\nsignal.signal(signal.SIGINT, lambda *_: print('not now'))\n" + SLEEP + "time.sleep(600)"
    job = start_job("--grace", "300", script(source))
    job.read_until(*READY)
    job.process.send_signal(signal.SIGINT)
    job.read_until("not now")
    job.process.send_signal(signal.SIGINT)
    assert job.outcome(timeout=10).code == 130


def test_terminate_lets_ranks_save(start_job: Callable[..., Any], script: Callable[..., Path], tmp_path: Path) -> None:
    source = f"""
import signal
def save(*_):
    with open(f"{tmp_path}/saved" + os.environ["RANK_ID"], "w") as file:
        for _ in range(10):
            file.write("x" * 10)
            time.sleep(0.02)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
"""
    job = start_job(script("import os, sys, time\n" + source + SLEEP))
    job.read_until(*READY)
    job.process.send_signal(signal.SIGTERM)
    assert job.outcome().code == 143
    assert [(tmp_path / f"saved{rank}").read_text() for rank in (0, 1)] == ["x" * 100] * 2


def test_terminate_ends_ranks_that_ignore_it_or_are_stopped(
    start_job: Callable[..., Any], script: Callable[..., Path]
) -> None:
    source = "import os, signal\nif os.environ['RANK_ID'] == '0':\n    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    stop = "    print('ready 1')\n    os.kill(os.getpid(), signal.SIGSTOP)\n"
    job = start_job("--grace", "0.5", script(f"{source}else:\n{stop}{SLEEP}"))
    job.read_until(*READY)
    job.process.send_signal(signal.SIGTERM)
    outcome = job.outcome(timeout=10)
    assert outcome.code == 143


@contextlib.contextmanager
def hangup(handler: signal.Handlers) -> Iterator[None]:
    """What a job that is started meanwhile finds SIGHUP set to, whatever these tests were started with."""
    before = signal.signal(signal.SIGHUP, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def test_hangup(start_job: Callable[..., Any], script: Callable[..., Path]) -> None:
    with hangup(signal.SIG_DFL):
        job = start_job(script(SLEEP))
    job.read_until(*READY)
    job.process.send_signal(signal.SIGHUP)
    assert job.outcome().code == 129


def test_hangup_under_nohup(start_job: Callable[..., Any], script: Callable[..., Path], tmp_path: Path) -> None:
    """What was ignored when hccl-run started stays ignored, in the launcher and in the ranks."""
    source = f"""
        import os, signal, time
        print("ready", os.environ["RANK_ID"])
        while not os.path.exists("{tmp_path}/go"):
            time.sleep(0.02)
        print("ignored" if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else "changed")
    """
    with hangup(signal.SIG_IGN):
        job = start_job("--no-prefix", script(source))
    job.read_until(*READY)
    job.process.send_signal(signal.SIGHUP)
    (tmp_path / "go").touch()
    outcome = job.outcome()
    assert (outcome.code, outcome.lines) == (0, ["ignored", "ignored"])


@pytest.mark.parametrize("words", [("{script}",), ("--", "bash", "-c", "{python} {script}; true")])
def test_killed_launcher_takes_all_along(
    start_job: Callable[..., Any], script: Callable[..., Path], words: tuple[str, ...]
) -> None:
    """SIGKILL of hccl-run alone; the second time python is a child of a shell and has joined the job."""
    path = script("import ascend_rt\nascend_rt.init()\n" + IGNORE + SLEEP)
    job = start_job(*(word.format(script=path, python=sys.executable) for word in words))
    job.read_until(*READY)
    assert len(job.processes()) >= 3
    job.process.kill()
    assert job.gone()


def test_grandchildren_go_too(start_job: Callable[..., Any], script: Callable[..., Path]) -> None:
    """A rank fails and leaves workers behind: the job's end is theirs."""
    source = """
        import multiprocessing, os, time
        if __name__ == "__main__":
            for _ in range(2):
                multiprocessing.Process(target=time.sleep, args=(600,)).start()
            print("ready", os.environ["RANK_ID"])
            os.kill(os.getpid(), 9)
    """
    job = start_job("--", "bash", "-c", f"{sys.executable} {script(source)}; exit 3")
    assert job.outcome().code == 3


def test_stopped_launcher_goes_on(start_job: Callable[..., Any], script: Callable[..., Path]) -> None:
    job = start_job(script("print('ready', __import__('os').environ['RANK_ID'])"))
    job.read_until("ready")
    job.process.send_signal(signal.SIGSTOP)
    job.process.send_signal(signal.SIGCONT)
    assert job.outcome().code == 0


def test_killing_all_at_once_leaves_no_file(start_job: Callable[..., Any], script: Callable[..., Path]) -> None:
    """Launcher and ranks killed together: the job's memory never had a name that could be left."""
    job = start_job(script("import ascend_rt as rt\nrt.init()\nx = rt.zeros(1 << 18)\n" + SLEEP))
    job.read_until(*READY)
    assert not [path for path in Path("/dev/shm").iterdir() if "ascend" in path.name]
    job.end()
    assert job.gone()
    assert not [path for path in Path("/dev/shm").iterdir() if "ascend" in path.name]
