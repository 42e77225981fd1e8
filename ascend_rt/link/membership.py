"""This process as one rank of a job, once it has joined: its line to the server of the job, and what to do without one.

The connection carries little, and its end is what counts.  When the server of a job ends before its ranks do, nobody
publishes their ends any more, so a rank that waits would wait for ever for one that is gone.  Hence whoever waits looks
after the server, too (`look`): if that is gone, it raises the abort words of its communicators, and from then on
watches the other ranks itself, because a rank that leaves a data phase has to be sure that each peer is out of it, or
dead.  All ranks that do so store the same.
"""

import contextlib
import itertools
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from ..core._core import Segment
from .errors import GroupError, JoinError
from .groups import REFUSED
from .local_server import LocalServer
from .process import CAUSE_UNKNOWN, WatchedProcess, ending, open_pidfd, process_state
from .states import AbortKind, RankState

PACKET_NBYTES = 1 << 16
LOOK_SECONDS = 0.05
LAST_ANSWER_SECONDS = 5.0


class Group(NamedTuple):
    """Ranks of the job that have a communicator of their own."""

    board: int
    """offset of its board, 0 for the world's"""
    members: tuple[int, ...]
    """rank in the job by rank in the group"""
    offer: str = ""
    """what its rank 0 has brought"""


class Membership:
    """This process as one rank of a job.

    alone_because    why a world of one is not the job that the environment speaks of; empty if it is
    """

    def __init__(
        self, rank: int, segment: Segment, connection: socket.socket | None, server: LocalServer | None = None
    ) -> None:
        """connection: to the server of the job; None: that is in this process, `server`."""
        self.rank, self.size, self.segment = rank, segment.ranks, segment
        self._connection = connection
        self._process = os.getpid()
        self._orphans: _Orphans | None = None
        self._lock = threading.RLock()
        self._numbers = itertools.count(1)
        self._answers: dict[int, list[str]] = {}
        self._abandoned: set[int] = set()
        self._boards: set[int] = set()
        self.alone_because = ""
        self._everybody_is_here, self._gone = connection is None, -1
        self._has_left = False
        self._server = server
        if server is not None:
            server.seat(rank, self._hear)

    @property
    def shares_process(self) -> bool:
        """Whether other ranks of the job are threads of this process."""
        return self._server is not None and self.size > 1

    def await_all(self, timeout: float) -> None:
        """Block until every rank has joined, for `timeout` seconds at most. Again: returns at once. JoinError names who
        is missing."""
        if self.alone_because:
            raise JoinError(self.alone_because, code="EI0001")
        try:
            self._wait(lambda: self._everybody_is_here or self._gone >= 0, timeout)
        except GroupError as error:
            text = f"rank {self.rank}: the server of the job failed while this rank joined: {error}"
            raise JoinError(text) from None
        if self._everybody_is_here:
            return
        if self._gone >= 0:
            text = f"rank {self.rank}: {self._how_it_ended(self._gone)} before every rank had joined"
            raise JoinError(text, ranks=(self._gone,))
        raise self._missing(timeout)

    def form_group(
        self,
        key: str,
        rank: int,
        size: int,
        *,
        members: tuple[int, ...] | None = None,
        terms: str = "",
        offer: str = "",
        timeout: float,
    ) -> Group:
        """Form a group with the ranks that use the same key (a word that no other group has at the time), as its rank
        `rank` of `size`. Blocks until all have come, for `timeout` seconds at most.

        members: ranks of the job, in the order of their ranks in the group, if they are known; terms: lines NAME=VALUE
        that must be the same on all; offer: a word without blanks, of which all get that of rank 0. GroupError: they
        differ, somebody has ended, or does not come.
        """
        number = next(self._numbers)
        listed = "-" if members is None else ",".join(map(str, members))
        self._ask(f"group {number} {key} {rank} {size} {listed} {offer or '-'} {terms}")
        try:
            if not self._wait(lambda: number in self._answers, timeout):
                self._ask(f"withdraw {number} {key}")
                self._wait(lambda: number in self._answers, LAST_ANSWER_SECONDS)
        except BaseException:
            self._abandoned.add(number)
            self._say(f"withdraw {number} {key}")
            raise
        word, *rest = self._answers.pop(number, ["withdrawn", "-"])
        if word == "unformed":
            why, ranks, text = rest[0].split(" ", 2)
            raise GroupError(f"rank {rank}: {text}", why, _numbers(ranks))
        if word == "withdrawn":
            missing = _numbers(rest[0])
            named = ", ".join(f"rank {other}" for other in missing) or "the answer of the server"
            text = f"rank {rank} waited {timeout:g} s for the other ranks of the group; still missing: {named}"
            raise GroupError(text, "late", missing)
        board, listed, given = rest[0].split(" ")
        self._boards.add(int(board))
        return Group(int(board), _numbers(listed), "" if given == "-" else given)

    def refuse_group(self, key: str, why: str, timeout: float) -> None:
        """Take part in forming a group of all ranks of the job, which then is formed for none: all others learn why.

        Blocks until every rank has joined, since one that joins later would only see that this one has ended, and the
        server has heard it. JoinError, or GroupError: one of them always.
        """
        self.await_all(timeout)
        self.form_group(key, self.rank, self.size, terms=f"{REFUSED}{why}", timeout=timeout)

    def drop(self, group: Group) -> None:
        """This rank does not use the board of a group any more: who waits for it there fails, and when all have dropped
        it the board may be given to others. Nothing once this rank has left, which says more, nor in a fork of it."""
        if self._process != os.getpid() or self._has_left:
            return
        if group.board == 0 or group.board in self._boards:
            self.segment.mark_destroyed(group.members.index(self.rank), group.board, len(group.members))
        if group.board in self._boards and group.board != 0:
            self._boards.discard(group.board)
            self._say(f"drop {group.board}")

    def fence(self, rank: int) -> None:
        """Ask the server to end `rank` if its process is stopped, because this rank must wait until it stores no more.

        Does not block and may be repeated: what came of it is seen in the state of `rank`, which becomes DEAD.  A
        process that runs, or that a debugger holds, is left alone.
        """
        if self._orphans is not None:
            self._orphans.end_if_stopped(rank)
        else:
            self._say(f"fence {rank}")

    def left_undone(self, calls: int) -> None:
        """This rank leaves with so many queued calls not run, or failed and never told to its program: its exit code 0
        will not count as success."""
        self._say(f"undone {calls}")

    def look(self) -> None:
        """To be called between two sleeps of a wait: notices that the server is gone. Does not block."""
        with self._lock:
            if self._orphans is not None:
                self._orphans.look()
            elif self._connection is not None and not self._listen():
                self._orphans = _Orphans(self.rank, self.segment)
                for board in {0, *self._boards}:
                    self.segment.raise_abort(AbortKind.UNSERVED, self.rank, board)

    def close(self) -> None:
        """Say that this rank leaves, and end the connection; the memory stays mapped. May be called again."""
        self._say("leaving")
        self._has_left = True
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    # ---- the line to the server

    def _ask(self, packet: str) -> None:
        """Say what will be answered."""
        if self._process != os.getpid():
            raise GroupError(f"this process is a fork of rank {self.rank}, and no rank", "fork")
        if self._server is not None:
            self._server.heard(self.rank, packet)
            return
        with self._lock:
            if self._connection is None:
                raise GroupError(f"rank {self.rank} has left its job", "left")
            try:
                self._connection.send(packet.encode(), socket.MSG_NOSIGNAL)
            except OSError as error:
                text = f"rank {self.rank}: the server of the job does not answer ({error.strerror})"
                raise GroupError(text, "unserved") from None

    def _say(self, packet: str) -> None:
        """Say what needs no answer. In a fork of the rank: nothing, since that is no rank."""
        if self._process != os.getpid():
            return
        if self._server is not None:
            self._server.heard(self.rank, packet)
        # Either the server has not read the last ones yet, and the caller says it again; or it is gone, which shows.
        with self._lock, contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            if self._connection is not None:
                self._connection.send(packet.encode(), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)

    def _wait(self, done: Callable[[], bool], timeout: float) -> bool:
        """Whether it is done in time; hears the server meanwhile. GroupError when that is gone."""
        if self._server is not None:
            return self._server.wait(done, timeout)
        deadline = time.monotonic() + timeout
        while not done():
            with self._lock:
                if self._connection is None:
                    return False
                if not self._listen() and not done():
                    raise GroupError(f"rank {self.rank}: the server of the job is gone", "unserved")
                connection = self._connection
            remaining = deadline - time.monotonic()
            if not done():
                if remaining <= 0:
                    return False
                poll = select.poll()
                poll.register(connection, select.POLLIN)
                # Not longer: another thread may read the answer.
                poll.poll(1000 * min(remaining, LOOK_SECONDS))
        return True

    def _listen(self) -> bool:
        """Take in what the server has said; False when it is gone."""
        assert self._connection is not None
        while True:
            try:
                packet = self._connection.recv(PACKET_NBYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not packet:
                return False
            self._hear(packet.decode(errors="replace"))

    def _hear(self, packet: str) -> None:
        word, _, rest = packet.partition(" ")
        if word == "ready":
            self._everybody_is_here = True
        elif word == "gone":
            self._gone = int(rest)
        else:
            number, _, rest = rest.partition(" ")
            if int(number) not in self._abandoned:
                self._answers[int(number)] = [word, rest]
            elif word == "formed":
                self._say(f"drop {rest.partition(' ')[0]}")

    # ---- who is not there

    def _missing(self, timeout: float) -> JoinError:
        lines = {other: self.segment.rank_line(other) for other in range(self.size)}
        missing = tuple(other for other, line in lines.items() if line.state in (RankState.ABSENT, RankState.JOINING))
        named = ", ".join(
            f"rank {other} (process {lines[other].pid})" if lines[other].state == RankState.JOINING else f"rank {other}"
            for other in missing
        )
        return JoinError(
            f"rank {self.rank} waited {timeout:g} s for the other ranks to join; still missing: {named}. "
            "Does every rank call init? HCCL_CONNECT_TIMEOUT sets the limit, in seconds",
            ranks=missing,
        )

    def _how_it_ended(self, rank: int) -> str:
        line = self.segment.rank_line(rank)
        if line.cause == CAUSE_UNKNOWN:
            return f"rank {rank} (process {line.pid}) ended"
        return f"rank {rank} (process {line.pid}) {'was' if line.cause < 0 else 'ended with'} {ending(line.cause)}"


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
            pid = self._segment.rank_line(rank).pid
            self._segment.set_state(rank, RankState.DEAD, cause=CAUSE_UNKNOWN, pid=pid)

    def end_if_stopped(self, rank: int) -> None:
        if rank in self._watched and process_state(self._watched[rank].pid) == "stopped":
            self._watched[rank].signal(signal.SIGKILL)


def _numbers(text: str) -> tuple[int, ...]:
    return () if text == "-" else tuple(map(int, text.split(",")))
