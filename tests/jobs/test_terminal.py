"""hccl-run on a terminal: rank 0 has one too, of the right width, whose progress bar nobody tears, and reads it."""

import fcntl
import os
import re
import signal
import struct
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.processes


# What a login does: a session whose controlling terminal is the standard input.
LOGIN = [
    sys.executable,
    "-c",
    "import fcntl, os, sys, termios\n"
    "os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])",
]


class Terminal:
    """The terminal that a job writes to, seen from the screen's side."""

    def __init__(self, columns: int) -> None:
        self.screen, self.fd = os.openpty()
        self.seen = ""
        self.resize(columns)

    def resize(self, columns: int) -> None:
        fcntl.ioctl(self.screen, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))

    def read_until(self, text: str) -> str:
        """All that has been shown, once `text` is in it."""
        while text not in self.seen:
            self.seen += os.read(self.screen, 1 << 12).decode()
        return self.seen

    def close(self) -> None:
        os.close(self.screen)
        os.close(self.fd)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal(columns=100)
    yield made
    made.close()


@pytest.mark.parametrize(("options", "columns"), [((), 96), (("--no-prefix",), 100)])
def test_rank_0_has_a_terminal(
    start_job: Callable[..., Any],
    script: Callable[..., Path],
    terminal: Terminal,
    options: tuple[str, ...],
    columns: int,
) -> None:
    source = """
        import os, sys
        size = os.get_terminal_size(1).columns if sys.stdout.isatty() else None
        print("rank", os.environ["RANK_ID"], sys.stdout.isatty(), sys.stderr.isatty(), size, end="!\\n")
    """
    job = start_job(*options, script(source), stdout=terminal.fd, stderr=terminal.fd)
    terminal.read_until("rank 1 False False None!\r\n")
    text = terminal.read_until(f"rank 0 True True {columns}!\r\n")
    assert "\r\r" not in text
    assert job.outcome().code == 0


def test_only_what_is_a_terminal_becomes_one(
    start_job: Callable[..., Any], script: Callable[..., Path], terminal: Terminal
) -> None:
    source = "import sys; print(sys.stdout.isatty()); print(sys.stderr.isatty(), file=sys.stderr)"
    job = start_job(script(source), n=1, stderr=terminal.fd)
    terminal.read_until("[0] True\r\n")
    assert job.outcome().out == "[0] False\n"


def test_a_line_does_not_tear_the_bar(
    start_job: Callable[..., Any], script: Callable[..., Path], terminal: Terminal, tmp_path: Path
) -> None:
    source = f"""
        import os, time
        def wait_for(name):
            while not os.path.exists("{tmp_path}/" + name):
                time.sleep(0.01)
        if os.environ["RANK_ID"] == "0":
            print("\\r 10% |#  |", end="", flush=True)
            wait_for("drawn")
            print("\\r 20% |## |", end="", flush=True)
            wait_for("over")
            print()
        else:
            wait_for("speak")
            print("hello")
    """
    job = start_job(script(source), stdout=terminal.fd, stderr=terminal.fd)
    terminal.read_until("[0]  10% |#  |")
    (tmp_path / "speak").touch()
    terminal.read_until("\r\x1b[K[1] hello\r\n[0]  10% |#  |")
    (tmp_path / "drawn").touch()
    terminal.read_until("\r[0]  20% |## |")
    (tmp_path / "over").touch()
    assert job.outcome().code == 0


def test_a_new_size_is_passed_on(
    start_job: Callable[..., Any], script: Callable[..., Path], terminal: Terminal, tmp_path: Path
) -> None:
    source = f"""
        import os, signal, time
        signal.signal(signal.SIGWINCH, lambda *_: print("columns", os.get_terminal_size(1).columns))
        print("ready")
        while not os.path.exists("{tmp_path}/over"):
            time.sleep(0.01)
    """
    job = start_job(script(source), n=1, stdout=terminal.fd, stderr=terminal.fd)
    terminal.read_until("ready")
    terminal.resize(70)
    job.process.send_signal(signal.SIGWINCH)
    terminal.read_until("columns 66")
    (tmp_path / "over").touch()
    assert job.outcome().code == 0


def test_the_end_of_the_output_and_the_summary_come(
    start_job: Callable[..., Any], script: Callable[..., Path], terminal: Terminal
) -> None:
    """What rank 0 wrote just before it died is still in its terminal then."""
    source = "import os\nprint('x' * 3000, flush=True)\nprint('last', end='', flush=True)\nos._exit(3)"
    job = start_job(script(source), n=1, stdout=terminal.fd, stderr=terminal.fd)
    text = terminal.read_until("the job's exit code is 3\r\n")
    assert job.outcome().code == 3
    assert re.search(r"\[0\] x{3000}\r\n", text) and "[0] last" in text


def test_ranks_stay_in_the_session_but_not_on_its_terminal(
    start_job: Callable[..., Any], script: Callable[..., Path], terminal: Terminal
) -> None:
    """One session is one group of the scheduler; and who is not on the terminal reads it without being stopped."""
    source = """
        import os
        try:
            controlling = os.open("/dev/tty", os.O_RDWR)
        except OSError:
            controlling = None
        launcher = os.getppid()
        print(os.getsid(0) == os.getsid(launcher), os.getpgid(0) == os.getpid(), controlling, end="!\\n")
        if os.environ["RANK_ID"] == "0":
            print("read", input())
    """
    job = start_job(script(source), under=LOGIN, stdin=terminal.fd, stdout=terminal.fd, stderr=terminal.fd)
    for rank in (0, 1):
        terminal.read_until(f"[{rank}] True True None!\r\n")
    os.write(terminal.screen, b"typed\n")
    terminal.read_until("[0] read typed\r\n")
    assert job.outcome().code == 0
