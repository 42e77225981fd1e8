"""Becoming a rank: what happens in a process between fork and its program.

The launcher is warm (NumPy and ascend_rt are imported) and has one thread, so its child is a complete interpreter
within a millisecond.  The child takes off what belongs to the launcher and ends up as a process that `python` had
started: its own process group, default signal handlers, its own pipes, its own environment, its own random numbers.
"""

import fcntl
import io
import os
import random
import signal
import sys
import termios
from collections.abc import Mapping
from dataclasses import dataclass

from ..core._core import Segment, die_with_parent
from ..diag.vocabulary import AbortKind, split_abort_word
from ..link import rendezvous
from ..settings import adopt
from .program import Program, last_words

CANNOT_RUN, NOT_FOUND = 126, 127  # a shell's exit codes


@dataclass(frozen=True)
class RankProcess:
    """One rank, as its process is to be."""

    rank: int
    launcher: int
    """process id"""
    program: Program
    environ: dict[str, str]
    segment: Segment
    threads: int
    """of BLAS"""
    stdout: int
    stderr: int
    words: int
    """writing ends of its three pipes: output, errors, last words"""

    def prepare(self) -> None:
        """Leave the launcher's process group, terminal, output and input behind."""
        os.setpgid(0, 0)
        _leave_terminal()
        die_with_parent(self.launcher)
        if self.rank != 0:
            # One reader of what is typed, as under mpirun.
            _move(os.open(os.devnull, os.O_RDONLY), 0)
        _move(self.stdout, 1)
        _move(self.stderr, 2)

    def run(self) -> int:
        """Run the program in this process; its exit code."""
        adopt(self.environ)
        _follow_python_path(self.environ)
        rendezvous.inherit(self.segment)
        _own_stdio()
        _own_random_numbers()
        _use_threads(self.threads)
        return self.program.run_as_main(lambda text, code: _leave(self.words, text, code), self._only_noticed)

    def execute(self) -> int:
        """Become the program; returns an exit code only if that fails."""
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores these two, and would hand that on
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        command = self.program.command_line()
        try:
            os.execvpe(command[0], command, self.environ)
        except OSError as error:
            exit_code = NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT_RUN
            _leave(self.words, f"cannot run {command[0]}: {error.strerror}", exit_code)
            return exit_code

    def _only_noticed(self, error: BaseException) -> bool:
        """Whether `error` says no more than that another rank has died, left, destroyed a communicator or not come."""
        if type(error).__name__ != "HcclError":
            return False
        kind, _, _ = split_abort_word(self.segment.rank_line(self.rank).failure)
        never_came = getattr(error, "name", "") == "HCCL_E_UNAVAIL" and bool(getattr(error, "ranks", ()))
        return never_came or kind in (AbortKind.DEATH, AbortKind.LEFT, AbortKind.DESTROYED)


def _leave_terminal() -> None:
    """Give up the controlling terminal, so that rank 0 may read it although its group is not in the foreground.

    setsid() would do it too, but the kernel schedules every session as a group of its own (autogroup), and switching
    between groups costs more: with 8 ranks on 2 cores, 8 bytes took 1.3 times as long.
    """
    try:
        fd = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:  # there is none
        return
    fcntl.ioctl(fd, termios.TIOCNOTTY)
    os.close(fd)


def _move(fd: int, to: int) -> None:
    os.dup2(fd, to)
    os.close(fd)


def _own_stdio() -> None:
    """Text streams over the rank's pipes. One write per line: Python would keep 8 KiB back, as it does for any pipe."""
    if sys.stdout is None:  # hccl-run was started without one
        sys.stdout = os.fdopen(1, "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", errors="backslashreplace")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)


def _follow_python_path(environ: Mapping[str, str]) -> None:
    """Modules are found where an interpreter that started with this PYTHONPATH finds them: behind the program's folder.
    What the launcher itself started with is there already."""
    entries = [entry for entry in environ.get("PYTHONPATH", "").split(os.pathsep) if entry and entry not in sys.path]
    behind_program = 0 if sys.flags.safe_path else 1
    sys.path[behind_program:behind_program] = entries


def _own_random_numbers() -> None:
    """Forked processes would all draw the same numbers."""
    random.seed()
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()


def _use_threads(count: int) -> None:
    """The launcher's BLAS was loaded with one thread; this rank's share may be more."""
    if count > 1:
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

        threadpool_limits(count, user_api="blas")


def _leave(pipe: int, text: str, exit_code: int) -> None:
    os.write(pipe, last_words(text, exit_code))
