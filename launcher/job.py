"""One job: its memory, its ranks and the one loop that watches them.

The loop waits in a selector for the ranks' pipes, the job's socket, a pidfd per rank and the launcher's signals, whose
keys carry the function that serves them.  It sleeps unless something happens; once a second it looks whether a rank
has been waiting for long.

When a rank is gone, that is published, which ends the communicators it was in.  The kernel has dropped the memory map
of a process by the time its pidfd becomes readable.  Dead ranks stay zombies until the job is over: their numbers name
process groups, which are ended last for the sake of grandchildren, and a number that has been reaped may be somebody
else's.
"""

import os
import selectors
import signal
import time
from collections.abc import Iterator

from ..link.process import CAUSE_UNKNOWN, process_state
from ..link.segment import make_job_memory
from ..link.server import Rendezvous
from ..link.states import UNDONE
from . import summary, terminal
from .ending import Escalation, RankEnd, job_exit_code
from .log_files import LogFile, open_logs
from .output import Output, prefix_of
from .rank import Rank
from .rank_process import RankProcess
from .start import FORWARDED, JobOptions, StartError, listen_to_signals, start_ranks

TICK_SECONDS = 1.0
LONG_WAIT_SECONDS = 10.0
GRANDCHILDREN_SECONDS = 1.0
# A rank that had failed of an exception and then had to be ended with one of these has the exit code of the exception.
LINGERING = (signal.SIGTERM, signal.SIGKILL)


class Job:
    """A job from its memory to its exit code."""

    def __init__(self, options: JobOptions) -> None:
        """Make the job's memory and its rendezvous; raises JobMemoryError."""
        self._options = options
        self._started = time.monotonic()
        self._segment = make_job_memory(options.ranks, options.hbm, options.devices)
        self._rendezvous = Rendezvous(self._segment, self._joined, self._fence, self._left_undone)
        self._ranks: list[Rank] = []
        self._escalation = Escalation()
        self._oom_kills = summary.oom_kills()
        self._doing: list[str] = []
        self._interrupted_by = 0
        self._timed_out = False
        self._patient = True
        self._told: set[str] = set()
        self._logs: list[tuple[LogFile, LogFile]] = []
        self._continued_ns = 0

    def start(self) -> RankProcess | None:
        """Start the ranks. None in the launcher; in each child the rank that it is to become. Raises StartError."""
        started = start_ranks(self._options, self._segment, self._rendezvous)
        if isinstance(started, RankProcess):
            return started
        self._ranks = started
        if self._options.log_folder is not None:
            try:
                self._logs = open_logs(self._options.log_folder, self._options.ranks)
            except OSError as error:
                raise StartError(f"--log-dir: cannot write {error.filename}: {error.strerror}") from None
        return None

    def watch(self) -> int:
        """Watch the job until it is over; its exit code."""
        self._selector = selectors.DefaultSelector()
        self._signals = listen_to_signals()
        self._selector.register(self._signals, selectors.EVENT_READ, self._signalled)
        self._rendezvous.serve(self._selector)
        self._output = Output(self._selector, self._options.prefixed, self._logs)
        for rank in self._ranks:
            self._output.add(rank.number, rank.stdout, rank.stderr)
            rank.watch(self._selector, self._rank_failed, self._rank_ended, self._rank_left_its_wrapper)
        while any(rank.end is None for rank in self._ranks):
            self._serve_once()
        return self._finish()

    # ---- the loop

    def _serve_once(self) -> None:
        now = time.monotonic()
        for key, _ in self._selector.select(max(0.0, min(self._deadlines(now)) - now)):
            key.data()
        now = time.monotonic()
        self._output.show_due(now)
        self._rendezvous.expire(now)
        self._check_timeout(now)
        for number in self._escalation.take(now):
            self._signal_ranks(number)
        for rank in self._ranks:
            rank.look(now)
        self._tell_of_long_wait()

    def _deadlines(self, now: float) -> Iterator[float]:
        yield now + TICK_SECONDS
        if self._options.timeout is not None and not self._timed_out:
            yield self._started + self._options.timeout
        dues = [self._escalation.due(), self._output.due(), *(rank.due() for rank in self._ranks)]
        yield from (due for due in dues if due is not None)

    def _check_timeout(self, now: float) -> None:
        timeout = self._options.timeout
        if timeout is None or self._timed_out or now < self._started + timeout:
            return
        self._timed_out = True
        self._note(f"the job is ended: it has run for {timeout:g} s (--timeout)", *self._what_ranks_do())
        self._escalation.out_of_time(now, self._options.grace)

    def _tell_of_long_wait(self) -> None:
        lines = [self._segment.rank_line(rank.number) for rank in self._ranks if rank.end is None]
        since = min((line.wait_since_ns for line in lines if line.waits_for >= 0), default=None)
        if since is None or time.monotonic_ns() - max(since, self._continued_ns) < LONG_WAIT_SECONDS * 1e9:
            self._told.discard("long wait")
        elif "long wait" not in self._told:
            self._told.add("long wait")
            self._note(f"a rank has been waiting for {LONG_WAIT_SECONDS:g} s:", *self._what_ranks_do())

    def _what_ranks_do(self) -> list[str]:
        alive = [rank.number for rank in self._ranks if rank.end is None]
        return summary.what_ranks_do({number: self._segment.rank_line(number) for number in alive})

    def _note(self, *lines: str) -> None:
        for line in lines:
            self._output.note(f"hccl-run: {line}")

    # ---- signals, to the launcher and to the ranks

    def _signalled(self) -> None:
        now = time.monotonic()
        for number in self._signals.recv(64):
            if number == signal.SIGTSTP:
                self._stop_and_continue()
            elif number == signal.SIGWINCH:
                self._follow_size()
            elif number not in FORWARDED:
                continue
            elif not self._interrupted_by:
                self._interrupted_by = number
                self._escalation.forwarded(number, now, self._options.grace)
            elif number == signal.SIGINT:
                self._patient = False
                self._escalation.at_once(now)

    def _stop_and_continue(self) -> None:
        """Ctrl-Z: the ranks stop, then the launcher, until somebody continues it. That time counts for nothing.

        SIGSTOP, because SIGTSTP may be caught or ignored.
        """
        began = time.monotonic()
        alive = [rank for rank in self._ranks if rank.end is None]
        running = [rank for rank in alive if not summary.how_held(self._segment.rank_line(rank.number).pid)]
        for rank in running:
            rank.signal(signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        for rank in running:
            rank.signal(signal.SIGCONT)
        paused = time.monotonic() - began
        self._started += paused
        self._escalation.postpone(paused)
        self._continued_ns = time.monotonic_ns()
        self._follow_size()

    def _follow_size(self) -> None:
        """The size of the terminal has changed: rank 0, which has one of its own, is told."""
        first = self._ranks[0]
        margin = len(prefix_of(0, self._options.prefixed))
        for fd, ours in ((first.stdout, 1), (first.stderr, 2)):
            if os.isatty(fd):
                terminal.follow_size(fd, ours, margin)
                first.signal(signal.SIGWINCH)

    def _signal_ranks(self, number: int) -> None:
        for rank in self._ranks:
            if rank.end is None:
                if not rank.said:  # else it had failed before, and only its process lingered
                    rank.ended_by_us = f"{summary.signal_name(number)}, {self._why_signalled()}"
                rank.signal(number)

    def _why_signalled(self) -> str:
        if self._interrupted_by:
            return f"after {summary.signal_name(self._interrupted_by)} to hccl-run"
        if self._timed_out:
            return "after --timeout"
        return f"not ended {self._options.grace:g} s (--grace) after the first failure"

    # ---- ends of ranks

    def _rank_ended(self, rank: Rank, cause: int) -> None:
        self._rendezvous.hear_out(rank.number)
        if cause == 0 and rank.undone:
            cause = UNDONE
        line = self._segment.rank_line(rank.number)
        self._rendezvous.publish_end(rank.number, cause, left=cause == 0)
        lingered = rank.said and not rank.ended_by_us and -cause in LINGERING
        rank.end = RankEnd(
            rank=rank.number,
            pid=line.pid,
            cause=rank.said_code if lingered else cause,
            at_ns=rank.said_ns or time.monotonic_ns(),
            words=rank.said,
            failure=line.failure,
            let_down_by=self._rendezvous.let_down.get(rank.number),
            ended_by_us=rank.ended_by_us,
            held=rank.held,
        )
        if cause:
            self._rank_failed(rank)

    def _rank_failed(self, _rank: Rank) -> None:
        """A rank has failed, or says so even if its process goes on: threads and exit handlers may take long."""
        if "failure" not in self._told:
            self._told.add("failure")
            self._doing = self._what_ranks_do()
            for rank in self._ranks:
                if rank.end is None:
                    rank.held = rank.held or summary.how_held(self._segment.rank_line(rank.number).pid)
            self._escalation.first_failure(time.monotonic(), self._options.grace)

    def _joined(self, number: int, _pid: int, pidfd: int | None) -> None:
        self._ranks[number].joined_by(pidfd)

    def _rank_left_its_wrapper(self, rank: Rank) -> None:
        """The process that had joined is gone; its memory map is, too, and it fails only those who wait for it."""
        self._rendezvous.publish_end(rank.number, CAUSE_UNKNOWN, left=True)

    def _left_undone(self, number: int, calls: int) -> None:
        self._ranks[number].undone = calls

    def _fence(self, number: int, by: int) -> None:
        """Rank `by` must wait until rank `number` stores no more. If that is stopped, only its end makes it sure."""
        rank = self._ranks[number]
        pid = self._segment.rank_line(number).pid
        state = process_state(pid) if rank.end is None else "gone"
        who = f"rank {number} (process {pid})"
        if state == "stopped" and f"fence {number}" not in self._told:
            self._told.add(f"fence {number}")
            rank.held = state
            rank.ended_by_us = f"SIGKILL, because it was stopped and rank {by} had to be sure that it writes no more"
            self._note(f"{who} is stopped, and rank {by} must be sure that it writes no more: it is ended")
            rank.signal(signal.SIGKILL)
        elif state == "held by a debugger" and f"debugger {number}" not in self._told:
            self._told.add(f"debugger {number}")
            self._note(f"{who} is held by a debugger, and rank {by} waits until it goes on")

    # ---- the end of the job

    def _finish(self) -> int:
        for rank in self._ranks:
            rank.reap()
        self._await_grandchildren()
        self._output.drain()
        ends = [rank.end for rank in self._ranks if rank.end is not None]
        code = job_exit_code(ends, interrupted_by=self._interrupted_by, timed_out=self._timed_out)
        self._report(ends, code)
        self._rendezvous.close()
        while self._patient and not self._output.written:
            self._serve_once()
        return code

    def _await_grandchildren(self) -> None:
        """They have been killed; where nobody reaps orphans at once they may stay visible, so not for long."""
        deadline = time.monotonic() + GRANDCHILDREN_SECONDS
        while any(rank.group_lives() for rank in self._ranks) and time.monotonic() < deadline:
            time.sleep(0.005)

    def _report(self, ends: list[RankEnd], code: int) -> None:
        self._note(*self._output.failures())
        if code == 0:
            return
        if self._interrupted_by:
            name = summary.signal_name(self._interrupted_by)
            self._note(*summary.interruption_report(ends), f"ended by {name}; exit code {code}")
        elif self._timed_out:
            self._note(f"ended by --timeout; exit code {code}")
        else:
            oom_kills = summary.oom_kills() - self._oom_kills
            *consequences, cause = summary.failure_report(ends, self._doing, self._started, oom_kills)
            self._note(*consequences, f"{cause}; the job's exit code is {code}")
