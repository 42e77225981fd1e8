"""How a job ends: which failure came first, what the job's exit code is, and by which steps the rest is ended.

Cause and consequence are kept apart.  A rank that only noticed that another had died, left or given up (the abort word
it failed of names that rank; or the rendezvous told it) is a consequence, and so is one that hccl-run ended itself.

A rank that gave up waiting is the first failure, whose exit code counts, but the cause is the rank that did not come.
"""

import signal
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..diag.vocabulary import AbortKind, split_abort_word

TIMEOUT_EXIT = 124
OVERTAKEN = 1  # the exit code of a job whose first failure is a rank that left with 0 while others waited for it


@dataclass(frozen=True)
class RankEnd:
    """How one rank ended."""

    rank: int
    pid: int
    cause: int
    """exit code, or minus the number of the signal"""
    at_ns: int
    """CLOCK_MONOTONIC of its failure as the rank told it, else of its end"""
    words: str = ""
    """what it said of its end: the exception and where, the text of sys.exit"""
    failure: int = 0
    """the abort word it first failed of"""
    let_down_by: int | None = None
    """the rank that the rendezvous told it had ended"""
    ended_by_us: str = ""
    """why hccl-run ended it; empty if it ended by itself"""
    held: str = ""
    """"stopped" or "held by a debugger" if its process was when the first rank failed, or when another gave it up"""

    @property
    def failed(self) -> bool:
        return self.cause != 0

    @property
    def noticed(self) -> int | None:
        """The rank whose end, or whose giving up, this one only noticed."""
        kind, culprit, raiser = split_abort_word(self.failure)
        if kind in (AbortKind.DEATH, AbortKind.LEFT, AbortKind.DESTROYED):
            return culprit
        if kind and raiser not in (-1, self.rank):
            return raiser
        return self.let_down_by


def first_failure(ends: Sequence[RankEnd]) -> RankEnd | None:
    """The end that the others follow from; None if none has failed.

    A rank that left with exit code 0 is the cause when a rank that failed was waiting for it.
    """
    failed = [end for end in ends if end.failed]
    blamed = {end.noticed for end in failed}
    own = [end for end in failed if not end.ended_by_us and end.noticed is None]
    left = [end for end in ends if not end.failed and end.rank in blamed]
    by_themselves = [end for end in failed if not end.ended_by_us]
    candidates = own + left or by_themselves or failed
    return min(candidates, key=lambda end: end.at_ns, default=None)


def awaited_in_vain(ends: Sequence[RankEnd]) -> RankEnd | None:
    """The rank that the first failure waited for until it gave up; None if it failed of something else."""
    first = first_failure(ends)
    if first is None:
        return None
    kind, culprit, raiser = split_abort_word(first.failure)
    gave_up = kind == AbortKind.TIMEOUT and raiser == first.rank
    return next((end for end in ends if gave_up and end.rank == culprit), None)


def exit_code(cause: int) -> int:
    """A shell's view of an exit code or of minus a signal's number."""
    return 128 - cause if cause < 0 else cause


def job_exit_code(ends: Sequence[RankEnd], *, interrupted_by: int = 0, timed_out: bool = False) -> int:
    """The job's exit code: of the signal that ended it, of --timeout, or of its first failure; else 0."""
    if interrupted_by:
        return exit_code(-interrupted_by)
    if timed_out:
        return TIMEOUT_EXIT
    first = first_failure(ends)
    if first is None:
        return 0
    return exit_code(first.cause) if first.failed else OVERTAKEN


@dataclass
class Escalation:
    """Which signal is due when; whatever has been decided first, a later decision can only hasten the end."""

    steps: list[tuple[float, int]] = field(default_factory=list)

    def first_failure(self, now: float, grace: float) -> None:
        """Survivors have `grace` seconds to end by themselves, and as long again, at most 5 s, after SIGTERM."""
        self._add((now + grace, signal.SIGTERM), (now + grace + min(grace, 5.0), signal.SIGKILL))

    def out_of_time(self, now: float, grace: float) -> None:
        self._add((now, signal.SIGTERM), (now + grace, signal.SIGKILL))

    def forwarded(self, number: int, now: float, grace: float) -> None:
        """A signal to hccl-run goes to the ranks once; after Ctrl-C all is over within `grace`, SIGTERM between."""
        if number == signal.SIGINT:
            self._add((now, number), (now + 0.6 * grace, signal.SIGTERM), (now + 0.9 * grace, signal.SIGKILL))
        else:
            self._add((now, number), (now + grace, signal.SIGKILL))

    def at_once(self, now: float) -> None:
        self._add((now, signal.SIGKILL))

    def postpone(self, seconds: float) -> None:
        """The job has been stopped for so long."""
        self.steps = [(at + seconds, number) for at, number in self.steps]

    def due(self) -> float | None:
        return self.steps[0][0] if self.steps else None

    def take(self, now: float) -> list[int]:
        """The signals that are due, which are then no longer."""
        taken = [number for at, number in self.steps if at <= now]
        self.steps = [step for step in self.steps if step[0] > now]
        return taken

    def _add(self, *steps: tuple[float, int]) -> None:
        self.steps = sorted([*self.steps, *steps])
