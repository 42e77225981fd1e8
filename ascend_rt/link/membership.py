"""This process as one rank of a job, once it has joined: its line to the server of the job, and what to do without one.

The connection carries little, and its end is what counts.  When the server of a job ends before its ranks do, nobody
publishes their ends any more, so a rank that waits would wait for ever for one that is gone.  Hence whoever waits looks
after the server, too (`look`): if that is gone, it raises the abort word of the job's communicators, and from then on
watches the other ranks itself, because a rank that leaves a data phase has to be sure that each peer is out of it, or
dead.  All ranks that do so store the same.
"""

import contextlib
import signal
import socket
import threading

from ..core._core import Segment
from .process import CAUSE_UNKNOWN, WatchedProcess, open_pidfd, process_state
from .states import AbortKind, RankState


class Membership:
    """This process as one rank of a job."""

    def __init__(self, rank: int, segment: Segment, connection: socket.socket | None) -> None:
        self.rank, self.size, self.segment = rank, segment.ranks, segment
        self._connection = connection
        self._orphans: _Orphans | None = None
        self._lock = threading.Lock()

    def fence(self, rank: int) -> None:
        """Ask the server to end `rank` if its process is stopped, because this rank must wait until it stores no more.

        Does not block and may be repeated: what came of it is seen in the state of `rank`, which becomes DEAD.  A
        process that runs, or that a debugger holds, is left alone.
        """
        if self._orphans is not None:
            self._orphans.end_if_stopped(rank)
        else:
            self._say(b"fence %d" % rank)

    def left_undone(self, calls: int) -> None:
        """This rank leaves with so many queued calls not run: its exit code 0 will not count as success."""
        self._say(b"undone %d" % calls)

    def look(self) -> None:
        """To be called between two sleeps of a wait: notices that the server is gone. Does not block."""
        with self._lock:
            if self._orphans is None and self._connection is not None and _has_ended(self._connection):
                self._orphans = _Orphans(self.rank, self.segment)
                self.segment.raise_abort(AbortKind.UNSERVED, self.rank)
            if self._orphans is not None:
                self._orphans.look()

    def close(self) -> None:
        """Say that this rank leaves, and end the connection; the memory stays mapped. May be called again."""
        self._say(b"leaving")
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _say(self, packet: bytes) -> None:
        # Either the server has not read the last ones yet, and the caller says it again; or it is gone, which shows.
        with self._lock, contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            if self._connection is not None:
                self._connection.send(packet, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)


class _Orphans:
    """The other ranks of a job whose server is gone, as this one sees them."""

    def __init__(self, own: int, segment: Segment) -> None:
        self._segment = segment
        lines = {rank: segment.rank_line(rank) for rank in range(segment.ranks) if rank != own}
        self._watched = {
            rank: WatchedProcess(line.pid, open_pidfd(line.pid))
            for rank, line in lines.items()
            if line.state == RankState.RUNNING
        }

    def look(self) -> None:
        """Publish the ends of those who have ended."""
        for rank in [rank for rank, process in self._watched.items() if process.has_ended()]:
            self._watched.pop(rank).close()
            self._publish_end(rank)

    def end_if_stopped(self, rank: int) -> None:
        if rank in self._watched and process_state(self._watched[rank].pid) == "stopped":
            self._watched[rank].signal(signal.SIGKILL)

    def _publish_end(self, rank: int) -> None:
        pid = self._segment.rank_line(rank).pid
        self._segment.set_state(rank, RankState.DEAD, cause=CAUSE_UNKNOWN, pid=pid)


def _has_ended(connection: socket.socket) -> bool:
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
