"""The log of a process: lines and files like those of CANN, for people and tools that know where to look.

    [ERROR] HCCL(4711,train.py):2026-12-02-05:24:21.123.456 [rank 1] text

A log is kept when a variable asks for one: HCCL_ENTRY_LOG_ENABLE, ASCEND_GLOBAL_LOG_LEVEL, ASCEND_PROCESS_LOG_PATH or
one of those that send it to stdout. Errors and the like go to FOLDER/debug/plog/plog-PID_TIME.log, and what happens as
it should, the lines of calls above all, to FOLDER/run/plog/plog-PID_TIME.log. A file is there from its first line on.
"""

import os
import sys
import time
from pathlib import Path

from ..settings import SettingError, Settings

DEBUG, INFO, WARNING, ERROR, NOTHING = range(5)
NAMES = ("DEBUG", "INFO", "WARNING", "ERROR")
DEFAULT_FOLDER = "~/ascend/log"


class Log:
    """Where one process logs. `rank` is -1 as long as it is not known."""

    def __init__(self, settings: Settings) -> None:
        """SettingError (EI0001) if the folder that ASCEND_PROCESS_LOG_PATH names cannot be made."""
        given, level = settings.ascend_process_log_path, settings.ascend_global_log_level
        self.rank = -1
        self.level = ERROR if level is None else level
        self.logs_entries = settings.hccl_entry_log_enable
        self._to_stdout = settings.ascend_slog_print_to_stdout or settings.ascend_log_print_to_stdout
        self.kept = bool(given or self._to_stdout or self.logs_entries or level is not None)
        self._folder = Path(given or DEFAULT_FOLDER).expanduser()
        self._name = f"plog-{os.getpid()}_{time.strftime('%Y%m%d%H%M%S')}{time.time_ns() // 1_000_000 % 1000:03}.log"
        if given and not self._to_stdout:
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                expected = f"a folder that is there or can be made: {error.strerror}"
                raise SettingError("ASCEND_PROCESS_LOG_PATH", repr(given), expected) from None

    def write(self, level: int, text: str) -> None:
        """Log a text, if the level of the log is not above `level`."""
        if self.level <= level < NOTHING:
            self._line(NAMES[level], text, "debug" if level >= WARNING else "run")

    def entry(self, text: str) -> None:
        """Log the line of a call, whatever the level."""
        self._line("EVENT", text, "run")

    def _line(self, name: str, text: str, kind: str) -> None:
        if not self.kept:
            return
        now = time.time_ns()
        stamp = f"{time.strftime('%Y-%m-%d-%H:%M:%S', time.localtime(now // 10**9))}.{now // 10**6 % 1000:03}"
        who = f"rank {self.rank}" if self.rank >= 0 else "no rank yet"
        process = f"{os.getpid()},{Path(sys.argv[0] or 'python').name}"
        line = f"[{name}] HCCL({process}):{stamp}.{now // 1000 % 1000:03} [{who}] {text}\n"
        if self._to_stdout:
            print(line, end="", flush=True)
        else:
            self._append(self._folder / kind / "plog" / self._name, line)

    def _append(self, path: Path, line: str) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a") as file:
                file.write(line)
        except OSError as error:
            self.kept = False
            print(f"{path}: the log ends here: {error.strerror}", file=sys.stderr, flush=True)


_log: Log | None = None


def open_log(settings: Settings) -> Log:
    """The log of this process, from here on. SettingError as `Log`."""
    global _log
    if _log is None:
        _log = Log(settings)
    return _log


def write(level: int, text: str) -> None:
    """Log a text if this process keeps a log."""
    if _log is not None:
        _log.write(level, text)
