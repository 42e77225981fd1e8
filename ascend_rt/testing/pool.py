"""The test's side of the pool: hands jobs to the warm process and turns how they end into results or a failure.

    with RankPool() as pool:
        sums = pool.run(4, add_up, 10)          # def add_up(comm, n): ... returns something picklable

The function is found again by its file and name, so it stands at the top level of a test file, which may import its
neighbours (`from .rooms import door`). Each run is a job of its own under hccl-run: fresh processes, own memory;
nothing of one test reaches the next.
"""

import json
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ..launcher.ending import TIMEOUT_EXIT


class RankFailure(AssertionError):  # noqa: N818  a failed test, and its traceback is a rank's
    """A rank failed, or the job hung: carries what the job printed, the first failing rank's traceback included."""


@dataclass(frozen=True)
class Ended:
    """How a job ended, and what it printed."""

    exit_code: int
    stdout: str
    stderr: str


class RankPool:
    """A warm process that becomes hccl-run for each job. Use it as a context manager, from one thread."""

    def __init__(self) -> None:
        # -P: the folder that tests run in may hold the sources of the package, without its core.
        command = [sys.executable, "-P", "-m", "ascend_rt.testing.zygote"]
        self._zygote = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._folder = tempfile.TemporaryDirectory(prefix="ascend_rt-ranks-")
        self._runs = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the warm process."""
        self._zygote.communicate()
        self._folder.cleanup()

    def run(
        self,
        size: int,
        function: Callable[..., Any],
        *arguments: Any,
        timeout: float = 20.0,
        environ: Mapping[str, str] | None = None,
    ) -> list[Any]:
        """`function(comm, *arguments)` on `size` ranks: what each returned, by rank.

        RankFailure if a rank raises or dies, with its traceback, or after `timeout` seconds, with what each rank was
        waiting for.
        """
        folder = self._new_folder()
        ended = self._end_of(folder, size, function, arguments, timeout, environ)
        if ended.exit_code != 0:
            how = f"hung for {timeout:g} s" if ended.exit_code == TIMEOUT_EXIT else f"exit code {ended.exit_code}"
            raise RankFailure(f"{function.__qualname__} on {size} ranks: {how}\n{ended.stdout}{ended.stderr}")
        return [pickle.loads((folder / f"result {rank}").read_bytes()) for rank in range(size)]

    def end_of(
        self,
        size: int,
        function: Callable[..., Any],
        *arguments: Any,
        timeout: float = 20.0,
        environ: Mapping[str, str] | None = None,
    ) -> Ended:
        """How a job ended whose ranks call `function(comm, *arguments)`: for ranks that are to fail."""
        return self._end_of(self._new_folder(), size, function, arguments, timeout, environ)

    def _end_of(
        self,
        folder: Path,
        size: int,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        timeout: float,
        environ: Mapping[str, str] | None,
    ) -> Ended:
        file = function.__code__.co_filename
        call = {
            "file": file,
            "module": Path(file).stem if function.__module__ == "__main__" else function.__module__,
            "function": function.__qualname__,
            "arguments": pickle.dumps(arguments),
        }
        request = folder / "request"
        request.write_bytes(pickle.dumps(call))
        options = ["-n", str(size), "--timeout", str(timeout), "--no-prefix"]
        words = [*options, "-m", "ascend_rt.testing.call", str(request)]
        return self.hccl_run(words, environ=environ, folder=folder)

    def hccl_run(
        self, words: Sequence[str], environ: Mapping[str, str] | None = None, folder: Path | None = None
    ) -> Ended:
        """`hccl-run` with these words behind it, in this folder, with `environ` added to the environment."""
        folder = folder or self._new_folder()
        assert self._zygote.stdin is not None and self._zygote.stdout is not None
        request = {"words": list(words), "environ": dict(environ or {}), "folder": str(folder), "cwd": str(Path.cwd())}
        self._zygote.stdin.write(json.dumps(request) + "\n")
        self._zygote.stdin.flush()
        answer = self._zygote.stdout.readline()
        if not answer:
            raise RankFailure(f"the warm process of the rank pool ended with {self._zygote.wait()}")
        output = [(folder / name).read_text(errors="replace") for name in ("stdout", "stderr")]
        return Ended(int(answer), *output)

    def _new_folder(self) -> Path:
        self._runs += 1
        folder = Path(self._folder.name) / str(self._runs)
        folder.mkdir()
        return folder
