"""The board's shared words and what is done to them: the operations of `protocol.Rank`.

`line[slot] of rank`, `left of rank` and `posted by rank` are published words: (number, what stands behind it).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from .explore import Operation, Value

RUNNING, LEFT, DEAD = "running", "left", "dead"  # the state of a rank, as the job's server writes it
COMMIT, OPEN = "COMMIT", "OPEN"  # a decision; one that is neither is the cause for which the round was given up
DONE, CUT_SHORT = "done", "cut short"  # how a rank left the data phase
TORN, NOTHING = "torn", "nothing"  # behind a line's word
FREE, GONE = "free", "gone"  # buffers: not lent to any call, their process is no more
OK, MISMATCH, TIMEOUT, OVERRUN = "ok", "mismatch", "timeout", "overrun"

Outcomes: TypeAlias = Iterable[tuple[Value, tuple[Value, ...]]]


class Alarm(NamedTuple):
    """Why a wait was given up."""

    cause: str


@dataclass(frozen=True)
class Tear(Operation):
    """Begins to write a line's fields: until they are published a reader finds them torn.

    Instant: only a reader that still needs what stood there can tell, and one that can at a later moment can now.
    """

    line: str
    instant = True

    @property
    def cells(self) -> tuple[str, ...]:
        return (self.line,)

    def outcomes(self, line: Any) -> Outcomes:
        yield None, ((line[0], TORN),)

    def __str__(self) -> str:
        return f"begins to write {self.line}"


@dataclass(frozen=True)
class Publish(Operation):
    """The exchange of a line's word, and with it the loan of the caller's buffers to the call."""

    line: str
    round: int
    fields: Value
    buffers: str
    lent_to: Value

    @property
    def cells(self) -> tuple[str, ...]:
        return (self.line, self.buffers)

    def outcomes(self, line: Any, buffers: Any) -> Outcomes:
        yield None, ((self.round, self.fields), self.lent_to)

    def __str__(self) -> str:
        return f"publishes {self.line}, round {self.round}, {self.fields}"


@dataclass(frozen=True)
class Await(Operation):
    """Waits until a word has reached a number, and observes what stands behind it; else why it gave up.

    alarms: words that end the wait when raised.  excuses: (alarm, word): it does not if this word has the number.
    """

    word: str
    number: int
    alarms: tuple[str, ...]
    excuses: tuple[tuple[str, str], ...] = ()
    may_time_out: bool = False
    at_least: bool = False
    alarms_first: bool = False
    overrun_known: bool = False
    writes = False

    @property
    def cells(self) -> tuple[str, ...]:
        return (self.word, *self.alarms, *(word for _, word in self.excuses))

    def outcomes(self, word: Any, *others: Any) -> Outcomes:
        number, behind = word
        alarms, excuses = others[: len(self.alarms)], others[len(self.alarms) :]
        there = number == self.number or (self.at_least and number > self.number)
        excused = [cause for (cause, _), excuse in zip(self.excuses, excuses, strict=True) if excuse[0] == self.number]
        raised = [alarm for alarm in alarms if alarm not in (None, RUNNING, *excused)]
        if number > self.number and not self.overrun_known:
            yield OVERRUN, (word, *others)
        elif raised and (self.alarms_first or not there):
            yield Alarm(raised[0]), (word, *others)
        elif there:
            yield behind, (word, *others)
        elif self.may_time_out:
            yield Alarm(TIMEOUT), (word, *others)

    def __str__(self) -> str:
        return f"waits for {self.word}, number {self.number}"


@dataclass(frozen=True)
class Decide(Operation):
    """Moves the decision of a phase from open, unless somebody has; observes what is decided.

    In C: load, compare-and-swap from the word of an older phase, look again if that failed: one step, since the
    word of a phase changes once.
    """

    decision: str
    phase: int
    verdict: str

    @property
    def cells(self) -> tuple[str, ...]:
        return (self.decision,)

    def outcomes(self, decision: Any) -> Outcomes:
        phase, verdict = decision
        if phase == self.phase:
            yield verdict, (decision,)
        else:
            yield self.verdict, ((self.phase, self.verdict),)

    def __str__(self) -> str:
        return f"decides phase {self.phase}: {self.verdict}"


@dataclass(frozen=True)
class Touch(Operation):
    """A store into a peer's buffers; observes whether they were lent for it.  (A late load is as bad.)"""

    buffers: str
    call: str
    part: Value

    @property
    def cells(self) -> tuple[str, ...]:
        return (self.buffers,)

    def outcomes(self, buffers: Any) -> Outcomes:
        if buffers == GONE:
            yield True, (buffers,)
        elif buffers == FREE or buffers[0] != self.call:
            yield False, (buffers,)
        else:
            yield True, ((self.call, buffers[1] | {self.part}),)

    def __str__(self) -> str:
        return f"stores into the {self.buffers}"


@dataclass(frozen=True)
class Bury(Operation):
    """A process is gone: what peers still store into its memory harms nobody.  Instant: it is part of dying."""

    buffers: str
    instant = True

    @property
    def cells(self) -> tuple[str, ...]:
        return (self.buffers,)

    def outcomes(self, buffers: Any) -> Outcomes:
        yield None, (GONE,)


@dataclass(frozen=True)
class Return(Operation):
    """A call returns or raises: its caller may free and refill the buffers.  Observes what is wrong with the outcome.

    expected: the parts that peers must have stored if it is OK; None: the call touches no buffers.
    tolerated: pairs of outcomes which ranks may have in one round, CAUSE standing for any cause.
    Instant: buffers that are freed sooner show every store that comes too late, and more.
    """

    rank: int
    peers: tuple[int, ...]
    round: int
    outcome: str
    expected: frozenset[Value] | None
    may_fail: bool
    tolerated: frozenset[frozenset[str]]
    instant = True

    @property
    def cells(self) -> tuple[str, ...]:
        everybody = (self.rank, *self.peers)
        return (f"buffers of rank {self.rank}", *(f"outcomes of rank {rank}" for rank in everybody))

    def outcomes(self, buffers: Any, mine: Any, *theirs: Any) -> Outcomes:
        wrong = {self.disagreement(other) for outcomes in theirs for round, other in outcomes if round == self.round}
        if self.expected is not None and self.outcome == OK and buffers[1] != self.expected:
            wrong.add("wrong data")
        if self.outcome not in (OK, MISMATCH) and not self.may_fail:
            wrong.add("spurious failure")
        yield tuple(sorted(wrong - {""})), (FREE, (*mine, (self.round, self.outcome)), *theirs)

    def disagreement(self, other: str) -> str:
        kinds = frozenset(outcome if outcome in (OK, MISMATCH) else "CAUSE" for outcome in (self.outcome, other))
        if self.outcome == other or kinds in self.tolerated:
            return ""
        if kinds == {OK, MISMATCH}:
            return "wrong verdict"
        return "two first causes" if kinds == {"CAUSE"} else "outcomes differ"

    def __str__(self) -> str:
        return f"has finished round {self.round}: {self.outcome}"
