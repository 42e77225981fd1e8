"""The sides that allreduce.py compares: the probe (limit.c), ascend_rt, and its peers.

A side is a set of processes that all sleep until `measure` is called, so that sides can be measured in turn: what the
machine does meanwhile (other programs, clock speed, placement) meets all of them alike, and their ratio stands.
"""

from __future__ import annotations

import importlib.util
import os
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Protocol

HERE = Path(__file__).resolve().parent
# The longest wait for one answer, in seconds: a hang must not look like a slow machine.
PATIENCE = 120.0


class UnavailableError(Exception):
    """A side cannot be measured here; the text says why and what to do."""


class Side(Protocol):
    """Processes that measure on request."""

    name: str

    def measure(self, nbytes: int, calls: int, batches: int) -> float:
        """Microseconds of one in-place sum all-reduce of `nbytes`: the median of `batches` batches of `calls` calls."""
        ...

    def close(self) -> None: ...


def compile_limit(folder: Path) -> Path:
    """Compiles limit.c into `folder`; raises UnavailableError without a C compiler."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise UnavailableError("limit.c needs a C compiler; on Debian and Ubuntu: apt install gcc libc6-dev")
    program = folder / "limit"
    command = [compiler, "-std=c11", "-O3", "-o", str(program), str(HERE / "limit.c")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UnavailableError(f"{' '.join(command)} failed with exit code {done.returncode}:\n{done.stderr}")
    return program


class Probe:
    """limit.c, compiled into `folder`."""

    name = "limit"

    def __init__(self, size: int, folder: Path) -> None:
        self.process = subprocess.Popen(
            [compile_limit(folder), str(size)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def measure(self, nbytes: int, calls: int, batches: int) -> float:
        assert self.process.stdin is not None and self.process.stdout is not None
        print(nbytes, calls, batches, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline().split()
        if not answer:
            raise RuntimeError(f"limit ended with exit code {self.process.wait()} when asked for {nbytes} bytes")
        return float(answer[1])

    def close(self) -> None:
        self.process.communicate(timeout=PATIENCE)


class Job:
    """A job of `size` ranks of allreduce_rank.py, started by `launcher` (the command up to the program)."""

    def __init__(self, name: str, launcher: list[str], size: int, dtype: str) -> None:
        self.name = name
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
            address = f"{folder}/{name}"
            listener.bind(address)
            listener.listen(size)
            self.process = subprocess.Popen(
                [*launcher, str(HERE / "allreduce_rank.py"), name, address, dtype], stdin=subprocess.DEVNULL
            )
            try:
                self.ranks = self._meet(listener, size)
            except BaseException:
                self.process.terminate()
                self.process.wait()
                raise

    def _meet(self, listener: socket.socket, size: int) -> list[IO[str]]:
        """The connections of all ranks, in rank order."""
        ranks: dict[int, IO[str]] = {}
        while len(ranks) < size:
            self._wait_for(listener)
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(PATIENCE)
                lines = connection.makefile("rw", encoding="ascii")
            rank, world = map(int, self._line(lines).split())
            if world != size or rank in ranks:
                raise RuntimeError(f"{self.name}: rank {rank} of {world} came, expected each rank of {size} once")
            ranks[rank] = lines
        return [ranks[rank] for rank in range(size)]

    def _wait_for(self, listener: socket.socket) -> None:
        """Until somebody connects; raises when the job ends or time runs out."""
        ended = os.pidfd_open(self.process.pid)
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(listener, selectors.EVENT_READ)
                selector.register(ended, selectors.EVENT_READ)
                ready = {key.fd for key, _ in selector.select(PATIENCE)}
        finally:
            os.close(ended)
        if listener.fileno() not in ready:
            raise RuntimeError(f"{self.name}: {self._ending() if ready else f'no rank came within {PATIENCE:.0f} s'}")

    def _line(self, lines: IO[str]) -> str:
        try:
            line = lines.readline()
        except TimeoutError:
            raise RuntimeError(f"{self.name}: no answer within {PATIENCE:.0f} s") from None
        if not line:
            raise RuntimeError(f"{self.name}: {self._ending()}")
        return line

    def _ending(self) -> str:
        return f"the job ended with exit code {self.process.wait(PATIENCE)}; what it said is above"

    def measure(self, nbytes: int, calls: int, batches: int) -> float:
        try:
            for lines in self.ranks:
                print(nbytes, calls, batches, file=lines, flush=True)
        except (BrokenPipeError, ConnectionResetError):
            raise RuntimeError(f"{self.name}: {self._ending()}") from None
        return float(self._line(self.ranks[0]))

    def close(self) -> None:
        for lines in self.ranks:
            lines.close()
        code = self.process.wait(PATIENCE)
        if code != 0:
            raise RuntimeError(f"{self.name}: the job ended with exit code {code}")


def hccl_run(size: int) -> list[str]:
    """The command up to the program that starts ranks of ascend_rt, of the interpreter that runs this."""
    program = Path(sys.executable).parent / "hccl-run"
    if not program.exists():
        raise UnavailableError(f"{program} does not exist: run this with the python that ascend_rt is installed for")
    return [str(program), "-n", str(size), "--no-prefix"]


def mpirun(size: int) -> list[str]:
    """The command up to the program that starts ranks of MPI, with its own defaults; only what a container or a small
    machine needs is added."""
    program = shutil.which("mpirun")
    if program is None:
        raise UnavailableError("mpirun is missing; on Debian and Ubuntu: apt install openmpi-bin libopenmpi-dev")
    if importlib.util.find_spec("mpi4py") is None:
        raise UnavailableError("mpi4py is missing: pip install mpi4py")
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    options = []
    if "Open MPI" in version and os.geteuid() == 0:
        options.append("--allow-run-as-root")
    if "Open MPI" in version and size > len(os.sched_getaffinity(0)):
        options.append("--oversubscribe")
    return [program, "-n", str(size), *options, sys.executable]


def ours(size: int, dtype: str) -> Job:
    """ascend_rt, on device memory."""
    return Job("ours", hccl_run(size), size, dtype)


def mpi4py(size: int, dtype: str) -> Job:
    """mpi4py under mpirun."""
    command = mpirun(size)
    if dtype == "float16":
        raise UnavailableError("MPI has no fp16")
    return Job("mpi4py", command, size, dtype)


def gloo(size: int, dtype: str) -> Job:
    """torch's gloo under torchrun."""
    if importlib.util.find_spec("torch") is None:
        raise UnavailableError("torch is missing: pip install torch")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={size}"]
    return Job("gloo", command, size, dtype)


PEERS = {"mpi4py": mpi4py, "gloo": gloo}
