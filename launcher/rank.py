"""A rank as the launcher sees it: the process it started, and perhaps another that joined the job in its place.

A rank that fails says so in a pipe of its own before its process ends, which exit handlers and threads may delay.

A forked rank is one process.  Of `-- bash -c 'python train.py'` the launcher has started bash, and python joins: then
the rank has ended when both are gone, because until then one of them may store into the job's memory.
"""

import os
import selectors
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from .ending import RankEnd
from .program import read_last_words

# How long a wrapper may take to tell the exit code of the program that had joined from inside it.
WRAPPER_SECONDS = 0.2
LAST_WORDS_NBYTES = 4096


@dataclass
class Rank:
    """One rank's processes, and how they ended."""

    number: int
    pid: int
    stdout: int
    stderr: int
    words: int
    """reading ends of its pipes"""
    pidfd: int | None
    """of the process that was started; None once it is gone, or where the kernel gives none"""
    said: str = ""
    """its last words: how it failed, by its own account"""
    said_ns: int | None = None
    """CLOCK_MONOTONIC when it said so"""
    said_code: int = 1
    """the exit code that it said it would end with"""
    cause: int | None = None
    """exit code, or minus the signal's number, of the process that was started, once it is gone"""
    ended_by_us: str = ""
    """why the launcher signals it, if it does"""
    held: str = ""
    """how its process was held when that mattered: stopped, or by a debugger"""
    undone: int = 0
    """queued calls with which it left"""
    end: RankEnd | None = None

    _stand_in: int | None = None
    """pidfd of the process that joined in its place, while that lives"""
    _unexplained_since: float | None = None
    """when the stand-in ended while its wrapper lived on"""

    def watch(
        self,
        selector: selectors.BaseSelector,
        on_said: Callable[["Rank"], None],
        on_end: Callable[["Rank", int], None],
        on_unexplained: Callable[["Rank"], None],
    ) -> None:
        """Begin to watch.

        on_said: called when the rank has said its last words and may still be there. on_end: called with the cause when
        all of the rank is gone. on_unexplained: called when the process that had joined is gone, nobody can say how,
        and its wrapper goes on.
        """
        self._selector, self._on_said, self._on_end, self._on_unexplained = selector, on_said, on_end, on_unexplained
        os.set_blocking(self.words, False)
        selector.register(self.words, selectors.EVENT_READ, self._hear)
        if self.pidfd is not None:
            selector.register(self.pidfd, selectors.EVENT_READ, self._started_one_ended)

    def joined_by(self, pidfd: int | None) -> None:
        """Another process than the one that was started has joined as this rank; without a pidfd it is gone already."""
        self._stand_in = pidfd
        if pidfd is None:
            self._unexplained_since = time.monotonic()
        else:
            self._selector.register(pidfd, selectors.EVENT_READ, self._stand_in_ended)

    def due(self) -> float | None:
        """When `look` has something to do next."""
        return None if self._unexplained_since is None else self._unexplained_since + WRAPPER_SECONDS

    def look(self, now: float) -> None:
        """What no descriptor tells: a wrapper that outlives its program, and every end where there are no pidfds."""
        if self.pidfd is None and self.cause is None:
            self._started_one_ended()
        due = self.due()
        if due is not None and now >= due:
            self._unexplained_since = None
            if self.end is None:
                self._on_unexplained(self)

    def signal(self, number: int) -> None:
        """Signal the rank's process group: itself and every program it started that has not left the group."""
        # A process that has just been forked does not lead its group yet; a set-uid program is not ours to signal.
        for send in (os.killpg, os.kill):
            try:
                return send(self.pid, number)
            except (ProcessLookupError, PermissionError):
                continue
        return None

    def reap(self) -> None:
        """End what is left of the rank's process group, and let its number go."""
        self.signal(signal.SIGKILL)
        os.waitid(os.P_PID, self.pid, os.WEXITED)

    def group_lives(self) -> bool:
        """Whether a process of its group is still there, after `reap`."""
        try:
            os.killpg(self.pid, 0)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def _hear(self) -> None:
        try:
            data = os.read(self.words, LAST_WORDS_NBYTES)
        except BlockingIOError:  # nothing said, and a child of the rank holds the pipe open
            return
        if data and not self.said:
            self.said_ns, self.said_code, self.said = read_last_words(data)
            self._on_said(self)
        elif not data and self.words in self._selector.get_map():
            self._selector.unregister(self.words)

    def _all_ended(self, cause: int) -> None:
        self._hear()
        self._on_end(self, cause)

    def _started_one_ended(self) -> None:
        # Not reaped: its number names its process group until the job is over.
        status = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        if status is None:
            return
        if self.pidfd is not None:
            self._forget(self.pidfd)
            self.pidfd = None
        self.cause = status.si_status if status.si_code == os.CLD_EXITED else -status.si_status
        if self._stand_in is None:
            self._all_ended(self.cause)

    def _stand_in_ended(self) -> None:
        assert self._stand_in is not None
        self._forget(self._stand_in)
        self._stand_in = None
        if self.cause is None:
            self._unexplained_since = time.monotonic()
        else:
            self._all_ended(self.cause)

    def _forget(self, pidfd: int) -> None:
        self._selector.unregister(pidfd)
        os.close(pidfd)
