"""Starting the ranks: everything between the decision to start a job and the last fork.

All of it happens in the launcher's only thread.  The signals that end a job are blocked meanwhile: in a child they
arrive once it has its own handlers, in the launcher once it can pass them on.
"""

import os
import resource
import signal
import socket
from dataclasses import dataclass
from pathlib import Path

from ..core._core import Segment
from ..link.process import open_pidfd
from ..link.server import Rendezvous
from ..settings import for_rank
from . import terminal
from .output import prefix_of
from .program import Program
from .rank import Rank
from .rank_process import RankProcess

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LISTENED_TO = (*FORWARDED, signal.SIGTSTP, signal.SIGWINCH)
# Three pipes, a pidfd, the rank's connection, the pidfd of a stand-in; and while it starts, the writing ends.
FILES_PER_RANK, LOGS_PER_RANK, FILES_OF_LAUNCHER = 6, 2, 64


class StartError(RuntimeError):
    """The ranks cannot be started: says which limit is in the way."""


@dataclass(frozen=True)
class JobOptions:
    """What hccl-run was asked for."""

    ranks: int
    program: Program
    environ: dict[str, str]
    """of all ranks alike, without what differs from rank to rank"""
    forked: bool
    """ranks run the program in the forked process; else that executes it"""
    threads: int
    """of BLAS in each rank"""
    grace: float
    timeout: float | None
    hbm: int | None
    devices: int
    """of the host"""
    prefixed: bool
    log_folder: Path | None


def start_ranks(options: JobOptions, segment: Segment, rendezvous: Rendezvous) -> list[Rank] | RankProcess:
    """Fork all ranks. In the launcher they are returned; in each child the one rank that it is to become.

    Signals stay blocked in the launcher until it calls `listen_to_signals`. Raises StartError if a limit is in the way;
    ranks that had been started end with the launcher.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, LISTENED_TO)
    per_rank = FILES_PER_RANK + (LOGS_PER_RANK if options.log_folder is not None else 0)
    files = _allow_open_files(options.ranks * per_rank + FILES_OF_LAUNCHER)
    port, launcher = free_port(), os.getpid()
    ranks: list[Rank] = []
    for number in range(options.ranks):
        pipes = [_open_stream(1, number, options), _open_stream(2, number, options), os.pipe()]
        reading, writing = [pipe[0] for pipe in pipes], [pipe[1] for pipe in pipes]
        pid = _fork(number)
        if pid == 0:
            rendezvous.close()
            _close(*reading, *(fd for rank in ranks for fd in (rank.stdout, rank.stderr, rank.words, rank.pidfd)))
            environ = for_rank(
                options.environ, job=rendezvous.address, rank=number, size=options.ranks, master_port=port
            )
            process = RankProcess(number, launcher, options.program, environ, segment, options.threads, *writing)
            process.prepare()
            resource.setrlimit(resource.RLIMIT_NOFILE, files)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            return process
        _close(*writing)
        stdout, stderr, last_words = reading
        ranks.append(Rank(number, pid, stdout, stderr, last_words, open_pidfd(pid)))
        rendezvous.expect(number, pid, forked=options.forked)
    return ranks


def listen_to_signals() -> socket.socket:
    """From now on a signal to the launcher is a byte, its number, on this socket.

    One that was ignored when hccl-run started (nohup, `&` in a script) stays ignored.
    """
    signals, wakeup = socket.socketpair()
    signals.setblocking(False)
    wakeup.setblocking(False)
    signal.set_wakeup_fd(wakeup.detach(), warn_on_full_buffer=False)
    for number in LISTENED_TO:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, LISTENED_TO)
    return signals


def free_port() -> int:
    """A TCP port that is free on this host now; it is for the program, ascend_rt itself uses none."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("127.0.0.1", 0))
        except OSError:  # a host without even a loopback device: then nobody will use it
            return 29500
        return int(probe.getsockname()[1])


def _open_stream(fd: int, rank: int, options: JobOptions) -> tuple[int, int]:
    """(reading end, writing end) for what `rank` writes to `fd`: for rank 0 a terminal, where the launcher has one."""
    if rank == 0 and os.isatty(fd):
        return terminal.open_like(fd, len(prefix_of(rank, options.prefixed)))
    return os.pipe()


def _fork(rank: int) -> int:
    try:
        return os.fork()
    except OSError as error:
        raise StartError(f"cannot start rank {rank}: {error.strerror}; see `ulimit -u` and the memory in use") from None


def _allow_open_files(wanted: int) -> tuple[int, int]:
    """Raise the limit of open files to what the launcher needs; the limits as they were, which the ranks get back."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise StartError(f"the job needs {wanted} open files and `ulimit -Hn` allows {hard}; start fewer ranks")
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return soft, hard


def _close(*descriptors: int | None) -> None:
    for descriptor in descriptors:
        if descriptor is not None:
            os.close(descriptor)
