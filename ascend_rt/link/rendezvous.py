"""How the ranks of a job meet: the greeting on the job's socket, and the client's side of it.

The server of the job (hccl-run, or a process of `serving.py`; their side is in `server.py`) listens on an abstract Unix
socket with a random name, which stands in ASCEND_RT_JOB; where hccl-run has not started the job, ranks find it by
`meeting.py`.  The socket keeps packet boundaries, so a message comes whole or not at all:

    rank   -> server    ascend_rt 1 join RANK SIZE      its greeting, once, with a pidfd of the rank
    server -> rank      welcome ADDRESS                 with the descriptor of the job's memory
                        refused TEXT                    and the end of the connection
    server -> rank      ready                           every rank has joined
                        gone RANK                       RANK ended before that: it will not come
    rank   -> server    fence RANK                      RANK may be stopped; see Membership.fence
                        group, withdraw, drop           groups of ranks; see groups.py
                        undone CALLS                    it leaves with so many queued calls not run
                        leaving                         it leaves, by its own will

Who a rank is, the server takes from the kernel (SO_PEERCRED) and not from the greeting.  A rank keeps its connection,
and it is not what its life is judged by: that is its pidfd, where the kernel has them.
"""

import array
import contextlib
import os
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from .. import settings as settings_module
from ..core._core import Segment, die_with_parent
from ..settings import Settings
from . import meeting
from .devices import host_devices
from .errors import JoinError
from .local_server import LocalServer
from .membership import PACKET_NBYTES, Membership
from .placement import Placement, place
from .process import open_pidfd
from .segment import make_job_memory
from .states import RankState

PROTOCOL = 1

# The job's memory as a forked rank has it from the launcher: already mapped.
_inherited: Segment | None = None


class _HungUpError(JoinError):
    """The server closed the connection."""


def inherit(segment: Segment) -> None:
    """Called in a forked rank before its program starts: `join` uses this mapping instead of making another."""
    global _inherited
    _inherited = segment


def join(settings: Settings) -> Membership:
    """Join the job that `settings` describe; blocks until every rank has joined, for HCCL_CONNECT_TIMEOUT at most.

    Where nobody says that this process is a rank, a world of one. Raises JoinError, never returns half a job.
    """
    membership = enter(settings)
    try:
        membership.await_all(settings.hccl_connect_timeout)
    except BaseException:
        membership.close()
        raise
    return membership


def enter(settings: Settings) -> Membership:
    """Take this process's place in the job that `settings` describe: its memory is there then, other ranks perhaps not
    yet (`Membership.await_all`). JoinError if it may not."""
    placement, timeout = place(settings), settings.hccl_connect_timeout
    job = settings.ascend_rt_job
    if placement is None and job is not None:
        raise JoinError("ASCEND_RT_JOB is set, but no rank and size; hccl-run sets all three", code="EI0001")
    if placement is None or (placement.size == 1 and job is None):
        return world_of_one(host_devices(settings, 1))
    if placement.missing and job is None:
        # It may meet the others by a root info or a rank table.
        alone = world_of_one(host_devices(settings, 1))
        alone.alone_because = (
            f"rank {placement.rank}: {placement.missing}, so the ranks cannot meet. Give all ranks of this job the "
            "same MASTER_PORT, which no other job has at this time, or start it with: "
            f"hccl-run -n {placement.size} script.py"
        )
        return alone
    if job is None:
        connection, (segment, address) = _meet(placement, timeout)
    else:
        connection = _connect(placement.rank, job, timeout)
        with _closed_on_error(connection):
            segment, address = _greet(connection, placement, timeout, _inherited)
        if _inherited is None:
            _follow_wrapper()
    settings_module.tell_children(address)
    return Membership(placement.rank, segment, connection)


def enter_meeting(placement: Placement, settings: Settings) -> Membership:
    """Take a place in the job whose ranks meet under the name that `placement` has. JoinError if it is taken."""
    connection, (segment, _) = _meet(placement, settings.hccl_connect_timeout)
    return Membership(placement.rank, segment, connection)


def enter_private(name: str, rank: int, size: int, timeout: int) -> Membership:
    """Take a place in the job that meets at a private meeting. JoinError if this process may not."""
    connection = meeting.connect_private(name, rank)
    with _closed_on_error(connection):
        segment, _ = _greet(connection, Placement(rank, size, name), timeout)
    return Membership(rank, segment, connection)


def world_of_one(devices: int) -> Membership:
    """A job of this process alone, which is also its server."""
    return ranks_of_this_process(make_job_memory(1, devices=devices))[0]


def ranks_of_this_process(segment: Segment) -> list[Membership]:
    """A job all of whose ranks are threads of this process, which is also its server, by rank."""
    server = LocalServer(segment)
    for rank in range(segment.ranks):
        segment.set_state(rank, RankState.RUNNING, pid=os.getpid())
    return [Membership(rank, segment, None, server) for rank in range(segment.ranks)]


def _meet(placement: Placement, timeout: int) -> tuple[socket.socket, tuple[Segment, str]]:
    """Join where no launcher serves: at the meeting of the job's ranks, of which the first starts the server."""
    deadline = time.monotonic() + timeout
    while True:
        connection = meeting.connect(placement, deadline)
        try:
            with _closed_on_error(connection):
                return connection, _greet(connection, placement, timeout)
        except _HungUpError:
            # The meeting had just ended: it was an earlier job's.
            if time.monotonic() > deadline:
                raise


@contextlib.contextmanager
def _closed_on_error(connection: socket.socket) -> Iterator[None]:
    """What fails inside ends the connection, and the server need not wonder what has become of this rank."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            connection.send(b"leaving", socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        connection.close()
        raise


def _connect(rank: int, job: str, timeout: int) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        # Not settimeout: a full queue of the server is then an error at once. This bounds the wait for room in it.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", timeout, 0))
        connection.connect(f"\0{job}")
    except OSError as error:
        connection.close()
        raise JoinError(
            f"rank {rank}: the server of job {job} does not answer ({error.strerror}). Either that job has ended and "
            "this process has outlived it, or it runs in another network namespace, which no socket name crosses; "
            "start the job anew, all ranks in one namespace"
        ) from None
    return connection


def _greet(
    connection: socket.socket, placement: Placement, timeout: int, mapped: Segment | None = None
) -> tuple[Segment, str]:
    """Exchange greetings; the job's memory, mapped unless it is already, and the address of its server."""
    rank = placement.rank
    connection.settimeout(timeout)
    try:
        _send_greeting(connection, b"ascend_rt %d join %d %d" % (PROTOCOL, rank, placement.size))
        packet, descriptors = _receive(connection)
    except TimeoutError:
        raise JoinError(
            f"rank {rank}: the server of the job took the connection and did not answer within "
            f"{timeout} s (HCCL_CONNECT_TIMEOUT); is it stopped?"
        ) from None
    except ConnectionError as error:
        _server_gone(rank, error)
    try:
        word, _, text = packet.partition(" ")
        if word == "refused":
            raise JoinError(text, code="EI0001")
        if word != "welcome" or len(descriptors) != 1:
            _server_gone(rank, f"it answered {packet!r}")
        connection.settimeout(None)
        return Segment.attach(descriptors[0]) if mapped is None else mapped, text
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _send_greeting(connection: socket.socket, greeting: bytes) -> None:
    pidfd = open_pidfd(os.getpid())
    try:
        socket.send_fds(connection, [greeting], [] if pidfd is None else [pidfd], socket.MSG_NOSIGNAL)
    finally:
        if pidfd is not None:
            os.close(pidfd)


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


def _server_gone(rank: int, why: object) -> NoReturn:
    text = f"rank {rank}: the server of the job failed while this rank joined: {why}"
    raise (_HungUpError if isinstance(why, ConnectionError) else JoinError)(text)


def _follow_wrapper() -> None:
    """Die with the wrapper (`bash -c 'python x'`), as the wrapper dies with hccl-run.

    The kernel ties a process to the *thread* that started it, so a wrapper with threads is not followed: one of them
    may end while all is well.
    """
    parent = os.getppid()
    if parent > 1 and len(list(Path(f"/proc/{parent}/task").iterdir())) == 1:
        die_with_parent(parent)
