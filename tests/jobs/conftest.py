"""Whole jobs in real processes: each has a hard timeout, and afterwards none of its processes and no file is left."""

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

HCCL_RUN = str(Path(sys.executable).with_name("hccl-run"))
MARK = "TEST_JOB_MARK"  # stands in the environment of every process of a job
JOB_SECONDS = 30.0


@dataclass(frozen=True)
class Outcome:
    """How a job ended: exit code, what it wrote, how long it took."""

    code: int
    out: str
    err: str
    seconds: float

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


class RunningJob:
    """A job under way; `outcome` waits for its end and checks that nothing of it is left."""

    def __init__(self, command: list[str], env: dict[str, str], cwd: Path | None, **streams: int) -> None:
        self._mark = secrets.token_hex(8)
        self._started = time.monotonic()
        self.process = subprocess.Popen(
            command,
            env={**os.environ, MARK: self._mark, **env},
            cwd=cwd,
            stdin=streams.get("stdin", subprocess.DEVNULL),
            stdout=streams.get("stdout", subprocess.PIPE),
            stderr=streams.get("stderr", subprocess.PIPE),
            # Whoever runs the tests in the background has SIGINT ignored, and would hand that on.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def read_until(self, *texts: str) -> str:
        """Reads stdout until all `texts` have come; what was read."""
        assert self.process.stdout is not None
        seen = ""
        while not all(text in seen for text in texts):
            chunk = os.read(self.process.stdout.fileno(), 1 << 16).decode()
            assert chunk, f"the job ended after {seen!r}"
            seen += chunk
        return seen

    def processes(self) -> list[int]:
        """The living processes of this job, the launcher included."""
        return _processes_with(self._mark)

    def outcome(self, timeout: float = JOB_SECONDS) -> Outcome:
        try:
            out, err = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.end()
            out, err = self.process.communicate()
            pytest.fail(f"the job did not end within {timeout} s\n{_text(out)}\n{_text(err)}")
        outcome = Outcome(self.process.returncode, _text(out), _text(err), time.monotonic() - self._started)
        assert self.gone(), f"left over: {[_command(pid) for pid in self.processes()]}"
        assert "ascend_rt/launcher/" not in outcome.err, outcome.err  # a traceback of the launcher's
        return outcome

    def gone(self, seconds: float = 5.0) -> bool:
        """Whether every process of the job ends within `seconds`: the kernel needs a moment after SIGKILL."""
        deadline = time.monotonic() + seconds
        while self.processes():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True

    def end(self) -> None:
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)


class LaunchedRanks:
    """Ranks that hccl-run has not started, each with its own environment, as another launcher would start them."""

    def __init__(self, program: Path, environments: Sequence[Mapping[str, str]]) -> None:
        self._mark = secrets.token_hex(8)
        self.ranks = [
            subprocess.Popen(
                [sys.executable, str(program)],
                env={**os.environ, MARK: self._mark, **environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for environment in environments
        ]

    def read_line(self, rank: int) -> str:
        """The next line that a rank prints."""
        stdout = self.ranks[rank].stdout
        assert stdout is not None
        return stdout.readline().decode().rstrip("\n")

    def serving(self) -> int:
        """The process that serves the job."""
        (found,) = (pid for pid in self.processes() if "ascend_rt.link.serving" in _command(pid))
        return found

    def processes(self) -> list[int]:
        return _processes_with(self._mark)

    def outcomes(self, timeout: float = JOB_SECONDS) -> list[Outcome]:
        """How each rank ended; nothing of the job is left."""
        began = time.monotonic()
        ended = []
        for process in self.ranks:
            out, err = process.communicate(timeout=timeout)
            ended.append(Outcome(process.returncode, _text(out), _text(err), time.monotonic() - began))
        deadline = time.monotonic() + 5
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert [_command(pid) for pid in self.processes()] == []
        return ended

    def end(self) -> None:
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self.ranks:
            process.communicate()


@pytest.fixture
def launch() -> Iterator[Callable[..., LaunchedRanks]]:
    """launch(program, environments): a rank with each environment, not waited for."""
    jobs: list[LaunchedRanks] = []

    def start(program: Path, environments: Sequence[Mapping[str, str]]) -> LaunchedRanks:
        jobs.append(LaunchedRanks(program, environments))
        return jobs[-1]

    yield start
    for job in jobs:
        job.end()


def _processes_with(mark: str) -> list[int]:
    word = f"{MARK}={mark}".encode()
    return [int(path.name) for path in Path("/proc").glob("[0-9]*") if _has_mark(path, word)]


def _has_mark(process: Path, mark: bytes) -> bool:
    try:
        return mark in (process / "environ").read_bytes().split(b"\0")
    except OSError:  # gone meanwhile, a zombie, or somebody else's
        return False


def _command(pid: int) -> str:
    try:
        return f"{pid}: {Path(f'/proc/{pid}/cmdline').read_bytes().decode().split(chr(0))}"
    except OSError:
        return f"{pid}: gone"


def _text(data: bytes | None) -> str:
    return (data or b"").decode(errors="backslashreplace")


@pytest.fixture
def start_job(tmp_path: Path) -> Iterator[Callable[..., RunningJob]]:
    """start_job(*words, n=2, env={}, cwd=None, under=(), stdout=...): `[under] hccl-run -n N words`, not waited for."""
    jobs: list[RunningJob] = []

    def start(
        *words: str | Path,
        n: int = 2,
        env: dict[str, str] | None = None,
        cwd: Path | None = None,
        under: Sequence[str] = (),
        **streams: int,
    ) -> RunningJob:
        command = [*under, HCCL_RUN, "-n", str(n), *map(str, words)]
        jobs.append(RunningJob(command, env or {}, cwd, **streams))
        return jobs[-1]

    yield start
    for job in jobs:
        job.end()
        job.process.wait()
        for stream in (job.process.stdout, job.process.stderr):
            if stream is not None:
                stream.close()


@pytest.fixture
def hccl_run(start_job: Callable[..., RunningJob]) -> Callable[..., Outcome]:
    """hccl_run(*words, n=2, timeout=30, env={}, cwd=None): the outcome of `hccl-run -n N words`."""

    def run(*words: str | Path, timeout: float = JOB_SECONDS, **how: object) -> Outcome:
        return start_job(*words, **how).outcome(timeout)

    return run


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., Path]:
    """script(source, name="program.py"): a file with this program."""

    def write(source: str, name: str = "program.py") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source))
        return path

    return write
