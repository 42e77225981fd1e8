"""The server's side of the rendezvous: who may claim a rank, and who is told what.

Everything here runs inside the one selector loop of whoever serves the job and never blocks it.  Anyone on the host can
connect to an abstract socket, so a connection is worth nothing until its greeting has been checked: it must come from
this user, in one well-formed packet, soon, and claim a rank that is still to be had.  What does not is told why and
closed, and the job never notices.
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
from .process import peer_pidfd
from .rendezvous import JOINING, PACKET_NBYTES, PROTOCOL, RUNNING

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
    address: str = field(default_factory=lambda: f"ascend_rt-{secrets.token_hex(16)}")
    let_down: dict[int, int] = field(default_factory=dict)
    """Ranks that were told in `join` that another will not come, and which."""

    def __post_init__(self) -> None:
        self._seats = [_Seat() for _ in range(self.segment.ranks)]
        self._strangers: dict[socket.socket, float] = {}
        self._selector: selectors.BaseSelector | None = None
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        self._listener.bind(f"\0{self.address}")
        self._listener.listen(min(4096, 2 * len(self._seats) + STRANGERS))

    def expect(self, rank: int, pid: int, *, forked: bool) -> None:
        """Process `pid` has been started as `rank`. A forked rank joins by itself; for any other a descendant may."""
        self._seats[rank] = _Seat(pid, forked)
        self.segment.set_state(rank, JOINING, pid=pid)

    def serve(self, selector: selectors.BaseSelector) -> None:
        """Begin to answer, from `selector`, whose keys carry a function that is called when they are ready."""
        self._selector = selector
        selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def ended(self, rank: int) -> None:
        """`rank` is gone, and its state published: those who still wait for all to join wait in vain."""
        seat = self._seats[rank]
        seat.ended = True
        if self._everyone_joined():
            return
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
        for connection in [self._listener, *self._strangers, *(seat.connection for seat in self._seats)]:
            if connection is not None:
                connection.close()

    def _accept(self) -> None:
        try:
            stranger, _ = self._listener.accept()
        except OSError:  # it hung up before its turn, or this process is out of descriptors: it may try again
            return
        stranger.setblocking(False)
        if len(self._strangers) >= STRANGERS:
            self._dismiss(min(self._strangers, key=self._strangers.__getitem__))
        self._strangers[stranger] = time.monotonic()
        self._register(stranger, lambda: self._greeted(stranger))

    def _greeted(self, stranger: socket.socket) -> None:
        packet = _packet(stranger)
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
        nobody = (
            f"process {pid} is not a rank: it has the environment of rank {rank} from its parent. "
            "A program that a rank starts takes no part in the job; give it an environment without RANK_ID, RANK_SIZE "
            "and ASCEND_RT_JOB to make it a world of one, or start it with hccl-run as a job of its own"
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
            socket.send_fds(connection, [b"welcome"], [self.segment.fd])
        except OSError:  # it died since it greeted, which its pidfd says too
            self._dismiss(connection)
            return
        del self._strangers[connection]
        seat.joined_by, seat.connection = pid, connection
        self._register(connection, lambda: self._heard(rank), modify=True)
        self.segment.set_state(rank, RUNNING, pid=pid)
        if pid != seat.pid:
            self.on_joined(rank, pid, peer_pidfd(connection, pid))
        gone = next((other for other, each in enumerate(self._seats) if each.ended), None)
        if gone is not None:
            self._tell_gone(rank, gone)
        elif self._everyone_joined():
            for each in self._seats:
                _send(each.connection, b"ready")

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
        number = int(argument) if argument.isdigit() and len(argument) < 10 else -1
        if word == b"fence" and 0 <= number < len(self._seats):
            self.on_fence(number, rank)
        elif word == b"undone" and number >= 0:
            self.on_undone(rank, number)
        else:
            # Its end, or not our language. Either way nothing more will come from it; its pidfd tells its fate.
            self._seats[rank].connection = None
            self._dismiss(connection)
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
        if self._selector is not None:
            self._selector.unregister(connection)
        connection.close()

    def _register(self, connection: socket.socket, ready: Callable[[], object], *, modify: bool = False) -> None:
        assert self._selector is not None
        change = self._selector.modify if modify else self._selector.register
        change(connection, selectors.EVENT_READ, ready)


def _packet(connection: socket.socket) -> bytes | None:
    """The packet that has come; empty when the other side has closed; None when there is nothing yet."""
    try:
        return connection.recv(PACKET_NBYTES)
    except BlockingIOError:
        return None
    except OSError:
        return b""


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
            f"this process has another version of ascend_rt than hccl-run: it speaks version {int(words[1])} of the "
            f"greeting, and version {PROTOCOL} was expected. Use the hccl-run of the same environment"
        )
    return int(words[3]), int(words[4])


def _send(connection: socket.socket | None, packet: bytes) -> None:
    """Send what the other side may no longer want."""
    if connection is not None:
        with contextlib.suppress(OSError):
            connection.send(packet, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
