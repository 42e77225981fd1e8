"""One rank's side of the board's protocol, as a program for the explorer.

Read it beside ascend_rt/core/board.c: the methods of `Rank` have the names and the order of the functions there.  Each
rule of the protocol that a test takes away is a field of `Rules`.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from .explore import CompareAndSwap, Fault, Load, Operation, Program, Store, Value
from .words import (
    COMMIT,
    CUT_SHORT,
    DEAD,
    DONE,
    FREE,
    LEFT,
    MISMATCH,
    NOTHING,
    OK,
    OVERRUN,
    TIMEOUT,
    TORN,
    Alarm,
    Await,
    Bury,
    Decide,
    Publish,
    Return,
    Tear,
    Touch,
)

Steps: TypeAlias = Generator[Operation | Fault, Any, Any]


@dataclass(frozen=True)
class Rules:
    """The protocol as it is: the first of each list.  A broken one has another."""

    slots: int = 2
    fails_after: Literal["all lines", "the first difference", "a grace period"] = "all lines"
    line_must_be: Literal["this round", "this round or later"] = "this round"
    after_timeout: Literal["ended", "goes on calling"] = "ended"
    looks_at: Literal["word, alarms, word", "word, alarms", "alarms, word"] = "word, alarms, word"
    death_fails: Literal["rounds without its line", "every wait"] = "rounds without its line"
    starts_unless: Literal["others gave up", "only itself gave up", "the abort word is raised"] = "others gave up"
    death_notice: Literal["once it is gone", "early", "never"] = "once it is gone"
    exit_raises_abort: bool = False
    commits_by: Literal["decision word", "nothing", "a look at the abort word", "its own decision"] = "decision word"
    after_commit: Literal["quiesce", "quiesce until a timeout", "raise at once"] = "quiesce"
    publishes: Literal["fields, word", "word, fields"] = "fields, word"
    leaves: Literal["after the last store", "before the last store"] = "after the last store"
    cuts_short: Literal["abort word, left", "left, abort word"] = "abort word, left"
    numbers: Literal["round and call", "calls when run", "calls at issue"] = "round and call"
    root_hears: Literal["everybody", "nobody"] = "everybody"


class Call(NamedTuple):
    """One call of a script, written as its kind and a name: P0, D1', B2+.

    Kinds: P payload only; D data: a store to every peer; R data in two halves with a token between them; B broadcast of
    a payload; S resync; X send/recv between ranks 0 and 1 on the board, which rule 7 forbids.
    ' : with arguments other than those the call has on other ranks.  + : queued before the caller knew how the one
    before it ended.  The same name on several ranks: the program meant one call.
    """

    kind: str
    name: str
    other_arguments: bool
    queued: bool

    @property
    def touches(self) -> bool:
        """Whether peers' memory is touched, so that it must be committed."""
        return self.kind in "DR"


def script(text: str) -> tuple[Call, ...]:
    calls = tuple(Call(word[0], word[1:].rstrip("'+"), "'" in word, "+" in word) for word in text.split())
    assert len({call.name for call in calls}) == len(calls), "a name tells a call from the others"
    return calls


class Numbers(NamedTuple):
    round: int  # +1 when a round is done; picks the slot
    phase: int  # +1 when a call is committed; numbers decisions, lefts and tokens
    call: int  # +1 at issue; compared


class Fields(NamedTuple):
    """What a line says.  `name` and `round` exist in the model alone: what this really is."""

    call: int
    kind: str
    other_arguments: bool
    name: str
    round: int

    def differs(self, other: "Fields") -> bool:
        same_number = self.call == other.call or self.kind == "S"
        return not same_number or (self.kind, self.other_arguments) != (other.kind, other.other_arguments)

    def __str__(self) -> str:
        return f"call {self.call} {self.kind}{self.name}" + "'" * self.other_arguments


@dataclass(frozen=True)
class Rank:
    rank: int
    size: int
    script: tuple[Call, ...]
    rules: Rules
    timeouts: bool  # any wait may time out (but for quiesce, which has no timeout)
    calls_that_succeed: int  # so many calls, from the first, may not be given up by this rank
    tolerated: frozenset[frozenset[str]]  # what ranks may differ in, in a round without data
    tolerated_with_data: frozenset[frozenset[str]]

    @property
    def peers(self) -> tuple[int, ...]:
        return tuple((self.rank + i) % self.size for i in range(1, self.size))

    def line(self, round: int, rank: int) -> str:
        return f"line[{round % self.rules.slots}] of rank {rank}"

    # ---- the caller, and the server of the job ----

    def program(self) -> Program:
        """Makes its calls in order, goes on after a mismatch, and leaves.

        Once the communicator has ended for it a call returns the first cause and touches nothing.  Such a rank goes on
        with other things: nobody may wait for it to leave.
        """
        at, outcome, ended = Numbers(0, 0, 0), OK, None
        for call in self.script:
            if ended is not None:
                yield from self.hand_back(call, at.round, ended)
                return
            skipped = outcome == MISMATCH and call.queued  # fails with the same error and exchanges nothing
            if not skipped:
                at = self.renumbered(at)
                round = at.round
                outcome, ended, at = yield from self.collective(call, at)
                yield from self.hand_back(call, round, outcome)
            at = at._replace(call=at.call + 1)
        if ended is not None:
            return
        yield Store(f"state of rank {self.rank}", LEFT)
        if self.rules.exit_raises_abort:
            yield CompareAndSwap("abort", None, f"rank {self.rank} left")

    def renumbered(self, at: Numbers) -> Numbers:
        """Broken ways to number calls, in which one number is both the round and the call."""
        if self.rules.numbers == "calls when run":
            return at._replace(call=at.round)
        if self.rules.numbers == "calls at issue":
            return at._replace(round=at.call)
        return at

    def hand_back(self, call: Call, round: int, outcome: str) -> Steps:
        expected = self.parts(call) if call.touches else None
        tolerated = self.tolerated_with_data if call.touches else self.tolerated
        may_fail = self.script.index(call) >= self.calls_that_succeed
        wrong = yield Return(self.rank, self.peers, round, outcome, expected, may_fail, tolerated)
        for kind in wrong:
            yield Fault(kind)

    def obituary(self) -> Program:
        """The server, once the process is really gone: it stores nothing any more, its memory map is dropped.

        Never: the process is stopped and nobody ends it.
        """
        if self.rules.death_notice == "never":
            return
        yield Bury(f"buffers of rank {self.rank}")
        yield from self.notice_of_death()

    def notice_of_death(self) -> Program:
        yield Store(f"state of rank {self.rank}", DEAD)
        yield CompareAndSwap("abort", None, f"rank {self.rank} died")

    # ---- one call ----

    def collective(self, call: Call, at: Numbers) -> Steps:
        """-> (outcome; the first cause if the communicator has ended for this rank, or None; numbers).

        The outcome is OK, MISMATCH or that first cause.
        """
        if self.rules.starts_unless != "only itself gave up":
            # A death is found out by waiting: others may still complete the round, and then they need this line.
            cause = yield Load("abort")
            if cause and (self.rules.starts_unless == "the abort word is raised" or not cause.endswith("died")):
                return cause, cause, at
        yield from self.publish(call, at)
        outcome, ended, at = yield from self.read_lines(call, at)
        if outcome != OK or not call.touches:
            return outcome, ended, at
        verdict = yield from self.decide(at)
        if verdict != COMMIT:
            cause = yield from self.abort_with(verdict)
            return cause, cause, at
        at = at._replace(phase=at.phase + 1)
        cut_short = yield from self.data_phase(call, at)
        outcome, ended = yield from self.leave(at, cut_short)
        return outcome, ended, at

    def publish(self, call: Call, at: Numbers) -> Steps:
        line, buffers = self.line(at.round, self.rank), f"buffers of rank {self.rank}"
        said = Fields(at.call, call.kind, call.other_arguments, call.name, at.round)
        lent_to: Value = (call.name, frozenset()) if call.touches else FREE
        if self.rules.publishes == "fields, word":
            yield Tear(line)
        else:
            yield Publish(line, at.round, TORN, buffers, lent_to)
        yield Publish(line, at.round, said, buffers, lent_to)

    def read_lines(self, call: Call, at: Numbers) -> Steps:
        """-> (outcome, first cause or None, numbers).  The verdict is taken when all lines have been read."""
        said = Fields(at.call, call.kind, call.other_arguments, call.name, at.round)
        outcome, highest, others_data = OK, at.call, False
        for peer in self.heard(call):
            grace = outcome == MISMATCH and self.rules.fails_after == "a grace period"
            fields = yield from self.wait(self.line(at.round, peer), at.round, peer, self.excuses(call, at), grace)
            if isinstance(fields, Alarm) and grace:
                break
            if isinstance(fields, Alarm):
                outcome_or_commit, ended = yield from self.give_up(call, at, fields.cause)
                if outcome_or_commit != COMMIT:
                    return outcome_or_commit, ended, at._replace(round=at.round + 1)
                _, fields = yield Load(self.line(at.round, peer))
            if fields in (TORN, NOTHING):
                yield Fault("torn payload")
                continue
            if said.differs(fields):
                outcome = MISMATCH
            if outcome == MISMATCH and self.rules.fails_after == "the first difference":
                break
            highest = max(highest, fields.call)
            others_data = others_data or fields.name != call.name
        if outcome == OK and others_data and call.kind != "S":
            yield Fault("wrong data")
        resynced = highest if call.kind == "S" else at.call
        return outcome, None, at._replace(round=at.round + 1, call=resynced)

    def heard(self, call: Call) -> tuple[int, ...]:
        """Whose lines this rank reads: everybody's, unless a rule is broken."""
        if call.kind == "X":
            return (1 - self.rank,)
        if call.kind == "B" and self.rules.root_hears == "nobody":
            return () if self.rank == 0 else (0,)
        return self.peers

    def excuses(self, call: Call, at: Numbers) -> tuple[tuple[str, str], ...]:
        """The death of a rank whose line of this round is there does not end a round that needs no more of it.

        The line is final, so it is there for all survivors or for none: they all finish the round or all fail it.
        """
        if call.touches or self.rules.death_fails == "every wait":
            return ()
        return tuple((f"rank {peer} died", self.line(at.round, peer)) for peer in self.peers)

    def wait(
        self, word: str, number: int, peer: int, excuses: tuple[tuple[str, str], ...] = (), grace: bool = False
    ) -> Steps:
        """Looks at the word, then at the alarms, then at the word once more -> what stands behind it, or an Alarm."""
        alarms, may_time_out = ("abort", f"state of rank {peer}"), self.timeouts or grace
        at_least, alarms_first = self.rules.line_must_be == "this round or later", self.rules.looks_at == "alarms, word"
        if self.rules.looks_at == "word, alarms":
            seen = yield Load(word)
            alarms_first = seen[0] != number
        behind = yield Await(word, number, alarms, excuses, may_time_out, at_least, alarms_first)
        if behind == OVERRUN:
            yield Fault("overrun")
            behind = yield Await(word, number, alarms, excuses, may_time_out, at_least, alarms_first, True)
        if behind in (Alarm(LEFT), Alarm(DEAD)):
            return Alarm(f"rank {peer} left" if behind.cause == LEFT else f"rank {peer} died")
        return behind

    def give_up(self, call: Call, at: Numbers, cause: str) -> Steps:
        """-> (COMMIT: somebody has read all lines, so go on; else the outcome; the first cause)."""
        if cause == TIMEOUT and self.rules.after_timeout == "goes on calling":
            return TIMEOUT, None
        if call.touches and self.rules.commits_by in ("decision word", "its own decision"):
            verdict = yield Decide("decision", at.phase + 1, self.named(cause))
            if verdict == COMMIT:
                return COMMIT, None
        cause = yield from self.abort_with(cause)
        return cause, cause

    def abort_with(self, cause: str) -> Steps:
        """-> the first cause: whoever raises the abort word first has named it."""
        first = yield CompareAndSwap("abort", None, self.named(cause))
        return first or self.named(cause)

    def named(self, cause: str) -> str:
        return f"timeout of rank {self.rank}" if cause == TIMEOUT else cause

    def decide(self, at: Numbers) -> Steps:
        """-> COMMIT, or the cause for which somebody has given up."""
        if self.rules.commits_by == "decision word":
            verdict = yield Decide("decision", at.phase + 1, COMMIT)
            return verdict
        if self.rules.commits_by == "a look at the abort word":
            cause = yield Load("abort")
            return cause or COMMIT
        return COMMIT

    # ---- after COMMIT ----

    def parts(self, call: Call) -> frozenset[Value]:
        """What peers store into this rank's buffers in one call."""
        if call.kind == "D":
            return frozenset((peer, "all") for peer in self.peers)
        return frozenset({(self.peers[-1], "first half"), (self.peers[0], "second half")})

    def data_phase(self, call: Call, at: Numbers) -> Steps:
        """-> None, or the Alarm that cut it short."""
        if call.kind == "D":
            for peer in self.peers:
                if peer == self.peers[-1] and self.rules.leaves == "before the last store":
                    yield Store(f"left of rank {self.rank}", (at.phase, DONE))
                yield from self.touch(peer, call, "all")
            return None
        after, before = self.peers[0], self.peers[-1]
        yield from self.touch(after, call, "first half")
        yield Store(f"posted by rank {self.rank}", (at.phase, "token"))
        token = yield from self.wait(f"posted by rank {before}", at.phase, before)
        if isinstance(token, Alarm):
            return token
        yield from self.touch(before, call, "second half")
        return None

    def touch(self, peer: int, call: Call, part: str) -> Steps:
        lent = yield Touch(f"buffers of rank {peer}", call.name, (self.rank, part))
        if not lent:
            yield Fault("store after raise")

    def leave(self, at: Numbers, cut_short: Alarm | None) -> Steps:
        """Nobody touches my buffers any more -> (outcome, the first cause or None)."""
        if cut_short is not None:
            return (yield from self.leave_early(at, cut_short))
        yield Store(f"left of rank {self.rank}", (at.phase, DONE))
        for peer in self.peers:
            how = yield from self.wait(f"left of rank {peer}", at.phase, peer)
            if isinstance(how, Alarm):
                cause = yield from self.abort_with(how.cause)
                return (yield from self.quiesce(at, cause, OK))
            if how == CUT_SHORT:
                cause = yield Load("abort")
                if cause is None:
                    yield Fault("failure without a cause")
                return (yield from self.quiesce(at, cause, OK))
        return OK, None

    def leave_early(self, at: Numbers, cut_short: Alarm) -> Steps:
        """The abort word is raised first: who reads a left that was cut short finds the cause."""
        if self.rules.cuts_short == "left, abort word":
            yield Store(f"left of rank {self.rank}", (at.phase, CUT_SHORT))
        cause = yield from self.abort_with(cut_short.cause)
        if self.rules.cuts_short == "abort word, left":
            yield Store(f"left of rank {self.rank}", (at.phase, CUT_SHORT))
        return (yield from self.quiesce(at, cause, cause))

    def quiesce(self, at: Numbers, cause: str, outcome: str) -> Steps:
        """Waits until every peer is out of the data phase or gone -> (outcome, the first cause).

        `outcome` is this rank's part: OK if it is complete.  Only the end of a peer ends the wait for it, no timeout
        and no abort word.  If all parts are complete the call is done, though the communicator has ended.
        """
        if self.rules.after_commit == "raise at once":
            return cause, cause
        may_time_out = self.rules.after_commit == "quiesce until a timeout"
        for peer in self.peers:
            gone = f"state of rank {peer}"
            how = yield Await(f"left of rank {peer}", at.phase, (gone,), may_time_out=may_time_out)
            if how != DONE:
                outcome = cause
        return outcome, cause
