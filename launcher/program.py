"""The program that every rank runs, as `python` would run it: script.py, -m module, or any other program."""

import builtins
import runpy
import signal
import sys
import time
import types
from collections.abc import Callable
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Literal

Say = Callable[[str, int], None]
"""Takes what is to be said of the end of this rank, and the exit code that it will end with."""


@dataclass(frozen=True)
class Program:
    """What stands behind hccl-run's own options."""

    kind: Literal["script", "module", "command"]
    name: str
    arguments: tuple[str, ...]

    def command_line(self) -> list[str]:
        """The words that start it as a process of its own."""
        interpreter = {"script": [sys.executable], "module": [sys.executable, "-m"], "command": []}[self.kind]
        return [*interpreter, self.name, *self.arguments]

    def run_as_main(self, say: Say, only_noticed: Callable[[BaseException], bool]) -> int:
        """Run the Python program in this process, as its `__main__`; its exit code.

        Tracebacks are printed as Python's own, without the frames of the launcher.  There is none for Ctrl-C and none
        for an error that `only_noticed` says is another rank's: all ranks would print it; what `say` is told is
        enough.
        """
        sys.argv = [self.name, *self.arguments]
        sys.orig_argv = self.command_line()
        try:
            self._execute()
        except SystemExit as leaving:
            if not isinstance(leaving.code, int | None):
                say(str(leaving.code), 1)
            elif leaving.code and leaving.code & 0xFF:
                say(f"exit code {leaving.code}", leaving.code & 0xFF)
            raise
        except KeyboardInterrupt as error:
            say(_said(error, _own_part(error)), 128 + signal.SIGINT)
            return 128 + signal.SIGINT
        except BaseException as error:
            traceback = _own_part(error)
            say(_said(error, traceback), 1)
            if sys.excepthook is not sys.__excepthook__ or not only_noticed(error):
                sys.excepthook(type(error), error.with_traceback(traceback), traceback)
            return 1
        return 0

    def _execute(self) -> None:
        path = Path(self.name)
        if self.kind == "module" or path.is_dir() or path.suffix == ".zip":
            _set_first_path(str(Path.cwd() if self.kind == "module" else path.resolve()))
            sys.modules["__main__"] = types.ModuleType("__main__")
            # What `python -m` itself calls; the public functions of runpy put the launcher's __main__ back at the end,
            # under the feet of the program's exit handlers and threads.
            run = runpy._run_module_as_main  # type: ignore[attr-defined]
            run(self.name if self.kind == "module" else "__main__", alter_argv=self.kind == "module")
            return
        _set_first_path(str(path.resolve().parent))
        file = self.name if path.is_absolute() else f"{Path.cwd()}/{self.name}"
        main = types.ModuleType("__main__")
        main.__dict__.update(__file__=file, __builtins__=builtins, __cached__=None)
        main.__loader__ = SourceFileLoader("__main__", file)
        sys.modules["__main__"] = main
        exec(compile(path.read_bytes(), file, "exec", dont_inherit=True), main.__dict__)


def _set_first_path(folder: str) -> None:
    """sys.path[0]: hccl-run's own folder gives way to the program's, unless Python was told to have none (-P)."""
    if not sys.flags.safe_path:
        sys.path[0] = folder


def _own_part(error: BaseException) -> types.TracebackType | None:
    """The traceback of `error` from the program's own first frame on."""
    not_its_own = (__file__, runpy.__file__, "<frozen runpy>")
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_frame.f_code.co_filename in not_its_own:
        traceback = traceback.tb_next
    return traceback


def _said(error: BaseException, traceback: types.TracebackType | None) -> str:
    """One line: the exception, its first line of text and where the program was."""
    lines = str(error).splitlines() or [""]
    where = f" ({Path(traceback.tb_frame.f_code.co_filename).name}:{traceback.tb_lineno})" if traceback else ""
    return f"{type(error).__name__}{': ' if lines[0] else ''}{lines[0]}{where}"


def last_words(text: str, exit_code: int) -> bytes:
    """What a rank leaves for the launcher in its pipe: when, the exit code it will end with, and why."""
    return f"{time.monotonic_ns()} {exit_code} {text}".encode(errors="replace")[:1000]


def read_last_words(data: bytes) -> tuple[int | None, int, str]:
    """(CLOCK_MONOTONIC in ns, exit code, text) of `last_words`; (None, 1, "") if the rank left none."""
    stamp, _, rest = data.decode(errors="replace").partition(" ")
    code, _, text = rest.partition(" ")
    if not (stamp.isdecimal() and code.isdecimal()):
        return None, 1, ""
    return int(stamp), int(code), text.splitlines()[0] if text else ""
