"""The process that serves a job which hccl-run did not start: `python -m ascend_rt.link.serving FD`.

It does for the ranks what hccl-run does inside its own loop, with the same code: makes the job's memory, lets the ranks
in, publishes who has ended.  It is nobody's parent, so it learns of ends by the pidfds that the ranks send with their
greeting, and how a rank has ended only as far as the kernel tells strangers.  It owns no terminal and no output, heeds
no signal but SIGKILL, and is gone when the last rank is.

FD listens at the meeting of the ranks (`meeting.py`).  How many they are, the first to come says.
"""

import contextlib
import os
import selectors
import signal
import socket
import sys
import time

from ..settings import SettingError, read
from .devices import host_devices
from .membership import PACKET_NBYTES
from .process import CAUSE_UNKNOWN, WatchedProcess, cause_of_end, process_state
from .segment import JobMemoryError, make_job_memory
from .server import Rendezvous, greeted_size
from .states import MOST_RANKS, UNDONE

TICK_SECONDS = 1.0
POLL_SECONDS = 0.02  # where the kernel has no pidfds
PATIENCE_SECONDS = 30.0  # for the first rank, which has just started this process
IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP, signal.SIGPIPE)


class Service:
    """One job: its rendezvous, and the processes that are its ranks."""

    def __init__(self, meeting: socket.socket, size: int) -> None:
        self._rendezvous = Rendezvous(
            make_job_memory(size, devices=host_devices(read(), size)),
            self._joined,
            self._fence,
            self._left_undone,
            self._leaving,
            self._gave_up,
            meeting,
        )
        self._selector = selectors.DefaultSelector()
        self._rendezvous.serve(self._selector)
        self._ranks: dict[int, WatchedProcess] = {}
        self._leaves: set[int] = set()
        self._undone: set[int] = set()
        self._killed: set[int] = set()
        self._somebody_came = False

    def run(self, early: list[socket.socket]) -> None:
        """Serve until no rank is left. early: connections that have been made already."""
        for connection in early:
            self._rendezvous.take(connection)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._has_ranks() or (not self._somebody_came and time.monotonic() < deadline):
            polls = any(process.pidfd is None for process in self._ranks.values())
            ready = [key for key, _ in self._selector.select(POLL_SECONDS if polls else TICK_SECONDS)]
            # Ends first: a dead rank is not to be met by whoever comes after it.
            self._look_after_ranks()
            for key in ready:
                if key.fd in self._selector.get_map():
                    key.data()
            self._rendezvous.expire(time.monotonic())

    def _has_ranks(self) -> bool:
        """Whether a rank is there that has not said that it leaves."""
        return any(rank not in self._leaves for rank in self._ranks)

    def _look_after_ranks(self) -> None:
        for rank in [rank for rank, process in self._ranks.items() if process.has_ended()]:
            self._ended(rank)

    def _ended(self, rank: int) -> None:
        self._rendezvous.hear_out(rank)
        process = self._ranks[rank]
        cause = -signal.SIGKILL if rank in self._killed else cause_of_end(process.pid, process.pidfd)
        if cause == 0 and rank in self._undone:
            cause = UNDONE
        self._forget(rank)
        self._rendezvous.publish_end(rank, cause, left=cause == 0 or (cause == CAUSE_UNKNOWN and rank in self._leaves))

    def _forget(self, rank: int) -> None:
        process = self._ranks.pop(rank)
        if process.pidfd is not None:
            self._selector.unregister(process.pidfd)
        process.close()

    # ---- what ranks say

    def _joined(self, rank: int, pid: int, pidfd: int | None) -> None:
        self._somebody_came = True
        self._ranks[rank] = WatchedProcess(pid, pidfd)
        if pidfd is not None:
            self._selector.register(pidfd, selectors.EVENT_READ, self._look_after_ranks)

    def _gave_up(self, rank: int) -> None:
        if rank in self._ranks and not self._ranks[rank].has_ended():
            self._forget(rank)

    def _leaving(self, rank: int) -> None:
        self._leaves.add(rank)

    def _left_undone(self, rank: int, _calls: int) -> None:
        self._undone.add(rank)

    def _fence(self, rank: int, _by: int) -> None:
        """Somebody must wait until `rank` stores no more: if it is stopped, only its end makes that sure."""
        process = self._ranks.get(rank)
        if process is not None and process_state(process.pid) == "stopped":
            self._killed.add(rank)
            process.signal(signal.SIGKILL)


def first_greeting(meeting: socket.socket) -> tuple[int, list[socket.socket]]:
    """(size of the job, connections made until then), once a process of this user has greeted as a rank."""
    early: list[socket.socket] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    with selectors.DefaultSelector() as selector:
        selector.register(meeting, selectors.EVENT_READ)
        while time.monotonic() < deadline:
            for key, _ in selector.select(TICK_SECONDS):
                if key.fileobj is meeting:
                    early.append(meeting.accept()[0])
                    selector.register(early[-1], selectors.EVENT_READ)
                elif isinstance(key.fileobj, socket.socket):
                    size = _size_told_by(key.fileobj)
                    if size is not None:
                        return size, early
                    selector.unregister(key.fileobj)
    raise SystemExit(0)


def _size_told_by(connection: socket.socket) -> int | None:
    with contextlib.suppress(OSError):
        size = greeted_size(connection.recv(PACKET_NBYTES, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        uid = int.from_bytes(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[4:8], sys.byteorder)
        if size is not None and 0 < size <= MOST_RANKS and uid == os.getuid():
            return size
    return None


def main() -> None:
    meeting = socket.socket(fileno=int(sys.argv[1]))
    if os.fork():
        os._exit(0)  # the one who started this process need not wait for it, nor is it its child
    os.setsid()
    os.chdir("/")
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 2)
    size, early = first_greeting(meeting)
    try:
        service = Service(meeting, size)
    except (JobMemoryError, SettingError) as error:
        for connection in early:
            with contextlib.suppress(OSError):
                connection.send(f"refused {error}".encode()[:PACKET_NBYTES], socket.MSG_NOSIGNAL)
        return
    service.run(early)


if __name__ == "__main__":
    main()
