"""The server's side of the rendezvous: who may claim a rank, and who is told what.

Everything here runs inside the one selector loop of whoever serves the job and never blocks it.  Anyone on the host can
connect to an abstract socket, so a connection is worth nothing until its greeting has been checked: it must come from
this user, in one well-formed packet, soon, and claim a rank that is still to be had.  What does not is told why and
closed, and the job never notices.

Ranks that hccl-run did not start know no address but that of a *meeting*, which other jobs may use before and after
(`meeting.py`).  So its socket is closed as soon as every rank has joined, or one that had is gone: who knocks then
belongs to another job.
"""

import contextlib
import os
import secrets
import selectors
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ..core._core import Segment
from .groups import Groups
from .membership import PACKET_NBYTES
from .process import is_pidfd_of, peer_pidfd
from .rendezvous import PROTOCOL
from .states import AbortKind, RankState

GREETING_SECONDS = 10.0
STRANGERS = 64  # connections that have not greeted yet; the oldest makes room

Joined = Callable[[int, int, int | None], None]
"""(rank, pid, pidfd): another process than the one that was started as this rank has joined for it."""


@dataclass
class _Seat:
    """One rank, as the rendezvous sees it."""

    pid: int = 0
    forked: bool = True
    joined_by: int = 0
    leaving: bool = False
    ended: bool = False
    connection: socket.socket | None = None


@dataclass
class Rendezvous:
    """Listens for the ranks of one job; `address` is what ASCEND_RT_JOB tells them."""

    segment: Segment
    on_joined: Joined
    on_fence: Callable[[int, int], None]
    """(rank, by): `by` must wait until `rank` stores no more."""
    on_undone: Callable[[int, int], None]
    """(rank, calls): `rank` leaves with so many queued calls not run."""
    on_leaving: Callable[[int], None] = lambda rank: None
    """`rank` says that it leaves: its end is none of the sudden ones."""
    on_gave_up: Callable[[int], None] = lambda rank: None
    """`rank` has not waited until everyone had come, and may be claimed again."""
    meeting: socket.socket | None = None
    """Listens for ranks that no process is expected for; only until all have come."""
    address: str = field(default_factory=lambda: f"ascend_rt-{secrets.token_hex(16)}")
    let_down: dict[int, int] = field(default_factory=dict)
    """Ranks that were told in `join` that another will not come, and which."""

    def __post_init__(self) -> None:
        self._seats = [_Seat(forked=self.meeting is None) for _ in range(self.segment.ranks)]
        self.groups = Groups(self.segment, lambda rank, text: _send(self._seats[rank].connection, text.encode()))
        self._strangers: dict[socket.socket, float] = {}
        self._pidfds: dict[socket.socket, int] = {}
        """what strangers sent with their greeting"""
        self._selector: selectors.BaseSelector | None = None
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        self._listener.bind(f"\0{self.address}")
        self._listener.listen(min(4096, 2 * len(self._seats) + STRANGERS))

    def expect(self, rank: int, pid: int, *, forked: bool) -> None:
        """Process `pid` has been started as `rank`. A forked rank joins by itself; for any other a descendant may."""
        self._seats[rank] = _Seat(pid, forked)
        self.segment.set_state(rank, RankState.JOINING, pid=pid)

    def serve(self, selector: selectors.BaseSelector) -> None:
        """Begin to answer, from `selector`, whose keys carry a function that is called when they are ready."""
        self._selector = selector
        selector.register(self._listener, selectors.EVENT_READ, lambda: self._accept(self._listener))
        if self.meeting is not None:
            meeting = self.meeting
            selector.register(meeting, selectors.EVENT_READ, lambda: self._accept(meeting))

    def publish_end(self, rank: int, cause: int, *, left: bool) -> None:
        """`rank` is gone, its memory map included; left: by its own will, which harms only who waits for it.

        The state comes first and the abort word second: whoever sees the abort finds the cause.
        """
        pid = self.segment.rank_line(rank).pid
        self.segment.set_state(rank, RankState.LEFT if left else RankState.DEAD, cause=cause, pid=pid)
        if not left:
            self.segment.raise_abort(AbortKind.DEATH, rank)
        self.groups.ended(rank, left=left)
        self.ended(rank)

    def ended(self, rank: int) -> None:
        """`rank` is gone, and its state published: those who still wait for all to join wait in vain."""
        seat = self._seats[rank]
        seat.ended = True
        if self._everyone_joined():
            return
        self._close_meeting()
        for other, waiting in enumerate(self._seats):
            if waiting.connection is not None and not waiting.ended:
                self._tell_gone(other, rank)

    def expire(self, now: float) -> None:
        """Close connections that have not greeted for too long."""
        for stranger, since in list(self._strangers.items()):
            if now - since > GREETING_SECONDS:
                self._dismiss(stranger)

    def close(self) -> None:
        """Close every socket; in a forked child only its copies."""
        for connection in [self._listener, self.meeting, *self._strangers, *(seat.connection for seat in self._seats)]:
            if connection is not None:
                connection.close()

    def _accept(self, listener: socket.socket) -> None:
        try:
            stranger, _ = listener.accept()
        except OSError:  # it hung up before its turn, or this process is out of descriptors: it may try again
            return
        self.take(stranger)

    def take(self, stranger: socket.socket) -> None:
        """Hear what a connection that has just been made has to say."""
        stranger.setblocking(False)
        if len(self._strangers) >= STRANGERS:
            self._dismiss(min(self._strangers, key=self._strangers.__getitem__))
        self._strangers[stranger] = time.monotonic()
        self._register(stranger, lambda: self._greeted(stranger))

    def _greeted(self, stranger: socket.socket) -> None:
        packet = _packet(stranger, self._pidfds)
        if packet is None:
            return
        pid, uid, _ = struct.unpack("3i", stranger.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        claim = _claim(packet)
        refusal = claim if isinstance(claim, str) else self._objection(*claim, pid, uid)
        if refusal:
            self._refuse(stranger, refusal)
        else:
            self._seat(int(claim[0]), pid, stranger)

    def _objection(self, rank: int, size: int, pid: int, uid: int) -> str:
        """Why process `pid` may not be `rank`; empty if it may."""
        if uid != os.getuid():
            return f"this job belongs to user {os.getuid()}, and process {pid} to user {uid}"
        if size != len(self._seats):
            return f"RANK_SIZE is {size} in process {pid}, and the job has {len(self._seats)} ranks"
        if not 0 <= rank < size:
            return f"RANK_ID is {rank} in process {pid}, and the job has ranks 0 to {size - 1}"
        seat = self._seats[rank]
        if seat.joined_by == pid:
            return (
                f"process {pid} has joined as rank {rank} before: a process joins its job once, and rt.finalize() is "
                "for its end. What comes and goes within a job is communicators: comm.split and comm.destroy"
            )
        nobody = (
            f"process {pid} is not a rank: it has the environment of rank {rank} from its parent. "
            "A program that a rank starts takes no part in the job; give it an environment without RANK_ID, RANK_SIZE "
            "and ASCEND_RT_JOB to make it a world of one, or start it with hccl-run as a job of its own"
        )
        if seat.joined_by and self.meeting is not None:
            return (
                f"rank {rank} is process {seat.joined_by} already, which waits for the other ranks, and process {pid} "
                "says the same of itself. Is one of them left from an earlier job? End it. Jobs at the same time need "
                "a MASTER_PORT each"
            )
        if seat.joined_by:
            since = "joined" if not seat.ended else "was joined, until it ended,"
            return f"rank {rank} is already {since} by process {seat.joined_by}; {nobody}"
        if seat.ended:
            return f"rank {rank} (process {seat.pid}) has ended; {nobody}"
        if seat.forked and pid != seat.pid:
            return f"rank {rank} is process {seat.pid}; {nobody}"
        return ""

    def _seat(self, rank: int, pid: int, connection: socket.socket) -> None:
        seat = self._seats[rank]
        try:
            socket.send_fds(connection, [f"welcome {self.address}".encode()], [self.segment.fd])
        except OSError:  # it died since it greeted, which its pidfd says too
            self._dismiss(connection)
            return
        del self._strangers[connection]
        seat.joined_by, seat.connection = pid, connection
        self._register(connection, lambda: self._heard(rank), modify=True)
        self.segment.set_state(rank, RankState.RUNNING, pid=pid)
        pidfd = self._pidfds.pop(connection, None)
        if pidfd is not None and (pid == seat.pid or not is_pidfd_of(pidfd, pid)):
            os.close(pidfd)
            pidfd = None
        if pid != seat.pid:
            self.on_joined(rank, pid, peer_pidfd(connection, pid) if pidfd is None else pidfd)
        gone = next((other for other, each in enumerate(self._seats) if each.ended), None)
        if gone is not None:
            self._tell_gone(rank, gone)
        elif self._everyone_joined():
            self._close_meeting()
            for each in self._seats:
                _send(each.connection, b"ready")

    def _close_meeting(self) -> None:
        """Whoever has knocked and not been heard comes for the next job that meets here, and finds out by this."""
        if self.meeting is not None:
            for stranger in list(self._strangers):
                self._dismiss(stranger)
            if self._selector is not None:
                self._selector.unregister(self.meeting)
            self.meeting.close()
            self.meeting = None

    def hear_out(self, rank: int) -> None:
        """`rank` has ended: what it had said before comes first."""
        while self._heard(rank):
            pass

    def _heard(self, rank: int) -> bool:
        """Serve the next packet of a rank; whether there was one."""
        connection = self._seats[rank].connection
        packet = None if connection is None else _packet(connection)
        if connection is None or packet is None:
            return False
        word, _, argument = packet.partition(b" ")
        number = int(argument) if argument.isdigit() and len(argument) < 16 else -1
        if word == b"fence" and 0 <= number < len(self._seats):
            self.on_fence(number, rank)
        elif word == b"undone" and number >= 0:
            self.on_undone(rank, number)
        elif self.groups.heard(rank, packet.decode(errors="replace")):
            return True
        elif word == b"leaving":
            self._seats[rank].leaving = True
            self.on_leaving(rank)
        else:
            # Its end, or not our language. Either way nothing more will come from it; its pidfd tells its fate.
            self._seats[rank].connection = None
            self._dismiss(connection)
            if self.meeting is not None and self._seats[rank].leaving:
                self._seats[rank] = _Seat(forked=False)
                self.segment.set_state(rank, RankState.ABSENT)
                self.on_gave_up(rank)
        return True

    def _tell_gone(self, rank: int, gone: int) -> None:
        self.let_down.setdefault(rank, gone)
        _send(self._seats[rank].connection, b"gone %d" % gone)

    def _everyone_joined(self) -> bool:
        return all(seat.joined_by for seat in self._seats)

    def _refuse(self, stranger: socket.socket, text: str) -> None:
        _send(stranger, f"refused {text}".encode()[:PACKET_NBYTES])
        self._dismiss(stranger)

    def _dismiss(self, connection: socket.socket) -> None:
        self._strangers.pop(connection, None)
        if connection in self._pidfds:
            os.close(self._pidfds.pop(connection))
        if self._selector is not None:
            self._selector.unregister(connection)
        connection.close()

    def _register(self, connection: socket.socket, ready: Callable[[], object], *, modify: bool = False) -> None:
        assert self._selector is not None
        change = self._selector.modify if modify else self._selector.register
        change(connection, selectors.EVENT_READ, ready)


def _packet(connection: socket.socket, descriptors: dict[socket.socket, int] | None = None) -> bytes | None:
    """The packet that has come; empty when the other side has closed; None when there is nothing yet.

    A descriptor that came along goes to `descriptors`; without them it is not taken.
    """
    try:
        if descriptors is None:
            return connection.recv(PACKET_NBYTES)
        packet, (*received,), _, _ = socket.recv_fds(connection, PACKET_NBYTES, 1, socket.MSG_CMSG_CLOEXEC)
        if received:
            descriptors[connection] = received[0]
        return packet
    except BlockingIOError:
        return None
    except OSError:
        return b""


def greeted_size(packet: bytes) -> int | None:
    """The size of the job, as a rank's greeting has it; None if it is no greeting of a rank."""
    claim = _claim(packet)
    return None if isinstance(claim, str) else claim[1]


def _claim(packet: bytes) -> tuple[int, int] | str:
    """(rank, size) of a greeting, or what is wrong with it."""
    words = packet.split(b" ")
    if (
        len(words) != 5
        or words[0] != b"ascend_rt"
        or not all(w.isdigit() and len(w) < 10 for w in (words[1], *words[3:]))
    ):
        return "this is not a greeting of ascend_rt"
    if int(words[1]) != PROTOCOL or words[2] != b"join":
        return (
            f"this process has another version of ascend_rt than its job: it speaks version {int(words[1])} of the "
            f"greeting, and version {PROTOCOL} was expected. Use the same installation for all ranks and hccl-run"
        )
    return int(words[3]), int(words[4])


def _send(connection: socket.socket | None, packet: bytes) -> None:
    """Send what the other side may no longer want."""
    if connection is not None:
        with contextlib.suppress(OSError):
            connection.send(packet, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
