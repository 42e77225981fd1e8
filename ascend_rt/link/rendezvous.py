"""How the ranks of a job meet: the greeting on the job's socket, and the client's side of it.

The server of the job (hccl-run; server side in `server.py`) listens on an abstract Unix socket with a random name,
which stands in ASCEND_RT_JOB.  The socket keeps packet boundaries, so a message comes whole or not at all:

    rank   -> server    ascend_rt 1 join RANK SIZE      its greeting, once
    server -> rank      welcome                         with the descriptor of the job's memory
                        refused TEXT                    and the end of the connection
    server -> rank      ready                           every rank has joined
                        gone RANK                       RANK ended before that: it will not come
    rank   -> server    fence RANK                      RANK may be stopped; see Membership.fence

Who a rank is, the server takes from the kernel (SO_PEERCRED) and not from the greeting.  A rank keeps its connection,
and it is not what its life is judged by: that is its pidfd.
"""

import array
import contextlib
import os
import socket
import struct
import time
from pathlib import Path
from typing import NoReturn

from ..core._core import Segment, die_with_parent
from ..settings import Settings
from .segment import make_job_memory

PROTOCOL = 1
PACKET_NBYTES = 4096
ABSENT, JOINING, RUNNING = range(3)  # enum rank_state in core/layout.h

# The job's memory as a forked rank has it from the launcher: already mapped.
_inherited: Segment | None = None


class JoinError(RuntimeError):
    """This process cannot join its job. `code` is HCCL's (EI0006: socket or timeout); `ranks` are those at fault."""

    def __init__(self, text: str, *, code: str = "EI0006", ranks: tuple[int, ...] = ()) -> None:
        super().__init__(text)
        self.code, self.ranks = code, ranks


class Membership:
    """This process as one rank of a job."""

    def __init__(self, rank: int, segment: Segment, connection: socket.socket | None) -> None:
        self.rank, self.size, self.segment = rank, segment.ranks, segment
        self._connection = connection

    def fence(self, rank: int) -> None:
        """Ask the server to end `rank` if its process is stopped, because this rank must wait until it stores no more.

        Does not block and may be repeated: what came of it is seen in the state of `rank`, which becomes DEAD.  A
        process that runs, or that a debugger holds, is left alone.
        """
        if self._connection is None:
            return
        # Either the server has not read the last ones yet, and the caller asks again; or it is gone, and we with it.
        with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            self._connection.send(b"fence %d" % rank, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)

    def left_undone(self, calls: int) -> None:
        """This rank leaves with so many queued calls not run: its exit code 0 will not count as success."""
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.send(b"undone %d" % calls, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)

    def close(self) -> None:
        """End the connection; the memory stays mapped. May be called again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def inherit(segment: Segment) -> None:
    """Called in a forked rank before its program starts: `join` uses this mapping instead of making another."""
    global _inherited
    _inherited = segment


def join(settings: Settings) -> Membership:
    """Join the job that `settings` describe; blocks until every rank has joined, for HCCL_CONNECT_TIMEOUT at most.

    Without a launcher, and if no other rank is expected, a world of one. Raises JoinError, never returns half a job.
    """
    if settings.ascend_rt_job is None:
        _check_alone(settings)
        return world_of_one()
    if settings.rank_id is None or settings.rank_size is None:
        raise JoinError(
            "ASCEND_RT_JOB is set, but RANK_ID and RANK_SIZE are not; hccl-run sets all three", code="EI0001"
        )
    rank, size, timeout = settings.rank_id, settings.rank_size, settings.hccl_connect_timeout
    deadline = time.monotonic() + timeout
    connection = _connect(rank, settings.ascend_rt_job, timeout)
    try:
        connection.settimeout(timeout)
        segment = _greet(connection, rank, size)
        _await_all(connection, segment, rank, deadline, timeout)
    except BaseException:
        connection.close()
        raise
    return Membership(rank, segment, connection)


def world_of_one() -> Membership:
    """A job of this process alone, which is also its server."""
    segment = make_job_memory(1)
    segment.set_state(0, RUNNING, pid=os.getpid())
    return Membership(0, segment, None)


def _check_alone(settings: Settings) -> None:
    for name, size in (("RANK_SIZE", settings.rank_size), ("WORLD_SIZE", settings.world_size)):
        if size is not None and size > 1:
            raise JoinError(
                f"{name} is {size}, but nobody serves this job: ASCEND_RT_JOB is not set. "
                f"Start it with: hccl-run -n {size} script.py",
                code="EI0001",
            )


def _connect(rank: int, job: str, timeout: int) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        # Not settimeout: a full queue of the server is then an error at once. This bounds the wait for room in it.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", timeout, 0))
        connection.connect(f"\0{job}")
    except OSError as error:
        connection.close()
        raise JoinError(
            f"rank {rank}: the server of job {job} does not answer ({error.strerror}). Either hccl-run has ended and "
            "this process has outlived its job, or it runs in another network namespace, which no socket name crosses; "
            "start the job anew, all ranks in one namespace"
        ) from None
    return connection


def _greet(connection: socket.socket, rank: int, size: int) -> Segment:
    """Exchange greetings; the job's memory, mapped."""
    try:
        connection.send(b"ascend_rt %d join %d %d" % (PROTOCOL, rank, size), socket.MSG_NOSIGNAL)
        packet, descriptors = _receive(connection)
    except TimeoutError:
        raise JoinError(
            f"rank {rank}: the server of the job took the connection and did not answer within "
            f"{connection.gettimeout():g} s (HCCL_CONNECT_TIMEOUT); is hccl-run stopped?"
        ) from None
    except ConnectionError as error:
        _server_gone(rank, error)
    try:
        word, _, text = packet.partition(" ")
        if word == "refused":
            raise JoinError(text, code="EI0001")
        if word != "welcome" or len(descriptors) != 1:
            _server_gone(rank, f"it answered {packet!r}")
        if _inherited is not None:
            return _inherited
        _follow_wrapper()
        return Segment.attach(descriptors[0])
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _await_all(connection: socket.socket, segment: Segment, rank: int, deadline: float, timeout: float) -> None:
    connection.settimeout(max(0.001, deadline - time.monotonic()))
    try:
        packet, _ = _receive(connection)
    except TimeoutError:
        raise _missing(segment, rank, timeout) from None
    except ConnectionError as error:
        _server_gone(rank, error)
    word, _, text = packet.partition(" ")
    if word == "gone":
        gone = int(text)
        raise JoinError(f"rank {rank}: {_how_it_ended(segment, gone)} before every rank had joined", ranks=(gone,))
    if word != "ready":
        _server_gone(rank, f"it said {packet!r}")
    connection.settimeout(None)


def _receive(connection: socket.socket) -> tuple[str, list[int]]:
    """One packet and the descriptors that came with it; ConnectionResetError when the other side has closed."""
    packet, ancillary, _, _ = connection.recvmsg(
        PACKET_NBYTES, socket.CMSG_SPACE(array.array("i").itemsize), socket.MSG_CMSG_CLOEXEC
    )
    descriptors = array.array("i")
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(payload)
    if not packet:
        raise ConnectionResetError("it closed the connection")
    return packet.decode(errors="replace"), list(descriptors)


def _missing(segment: Segment, rank: int, timeout: float) -> JoinError:
    lines = {other: segment.rank_line(other) for other in range(segment.ranks)}
    missing = tuple(other for other, line in lines.items() if line.state in (ABSENT, JOINING))
    named = ", ".join(f"rank {other} (process {lines[other].pid})" for other in missing)
    return JoinError(
        f"rank {rank} waited {timeout:g} s for the other ranks to join; still missing: {named}. "
        "Does every rank call init? HCCL_CONNECT_TIMEOUT sets the limit, in seconds",
        ranks=missing,
    )


def _how_it_ended(segment: Segment, rank: int) -> str:
    line = segment.rank_line(rank)
    how = f"was killed by signal {-line.cause}" if line.cause < 0 else f"ended with exit code {line.cause}"
    return f"rank {rank} (process {line.pid}) {how}"


def _server_gone(rank: int, why: object) -> NoReturn:
    raise JoinError(f"rank {rank}: the server of the job failed while this rank joined: {why}")


def _follow_wrapper() -> None:
    """Die with the wrapper (`bash -c 'python x'`), as the wrapper dies with hccl-run.

    The kernel ties a process to the *thread* that started it, so a wrapper with threads is not followed: one of them
    may end while all is well.
    """
    parent = os.getppid()
    if parent > 1 and len(list(Path(f"/proc/{parent}/task").iterdir())) == 1:
        die_with_parent(parent)
