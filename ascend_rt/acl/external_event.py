"""Events of ACL_EVENT_EXTERNAL: a captured graph waits for what is recorded outside of it, after it was executed.

    stream_wait_event(stream, event)        captured: each execution waits here
    reset_event(event, stream)              captured: and takes the recording that it has waited for
    ri_execute_async(model, stream)         runs up to the wait
    ri_capture_task_update_begin ... end    what comes behind the wait gets its arguments
    record_event(event, beside)             the execution goes on, with what was updated before

A recording that nobody waits for yet lets the next execution pass; a second one then changes nothing but which updates
count. The wait is a native one for a word that is 1 while there is a recording to take; recordings and those who take
them change it under the interpreter's lock and the event's.
"""

import threading
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

Call = Callable[[], object]
OPEN = 1
"""the word, while there is a recording to take"""


class Updated(NamedTuple):
    """The calls behind a wait, by their keys, after so many changes."""

    changes: int
    calls: Mapping[Any, Call]


class ExternalEvent:
    """What graphs have of an event: recordings to be taken, in their order, each with what was updated before it."""

    def __init__(self) -> None:
        self.word = np.zeros(1, np.uint64)
        self._gates: weakref.WeakSet[Gate] = weakref.WeakSet()
        self._recordings: deque[dict[Gate, Updated]] = deque()
        self._lock = threading.Lock()

    def gate(self, capture: object) -> "Gate":
        """A wait for the event in a capture."""
        gate = Gate(self, capture)
        with self._lock:
            self._gates.add(gate)
        return gate

    def reset_in(self, capture: object) -> None:
        """The waits of a capture take the recordings that let them pass."""
        with self._lock:
            for gate in self._gates:
                gate.resets |= gate.is_of(capture)

    def recording(self) -> Callable[[], None]:
        """To be run where the event is recorded: an execution passes then, with what is updated now."""
        with self._lock:
            updated = {gate: gate.updated for gate in self._gates}

        def record() -> None:
            with self._lock:
                if len(self._recordings) >= max(1, sum(gate.waiting for gate in self._gates)):
                    self._recordings.pop()
                self._recordings.append(updated)
                self.word[0] = OPEN

        return record

    def let_pass(self, gate: "Gate") -> list[Updated]:
        """An execution passes. What was updated when it was queued, and when the recording was made that lets it pass,
        which is gone then if the gate resets. Nothing of the latter on a stream that goes on after a failed wait."""
        with self._lock:
            known = gate.take_turn()
            if self._recordings:
                known += [updated for each, updated in self._recordings[0].items() if each is gate]
                if gate.resets:
                    self._recordings.popleft()
                    self.word[0] = OPEN if self._recordings else 0
            return known


class Gate:
    """One captured wait for an external event, and the calls behind it that updates change.

    resets   whether the capture resets the event behind the wait
    updated  the calls as they were updated last; replaced as a whole
    """

    def __init__(self, event: ExternalEvent, capture: object) -> None:
        self.event = event
        self.resets = False
        self.updated = Updated(0, {})
        self._current = self.updated
        self._capture = weakref.ref(capture)
        self._turns: deque[weakref.ref[Turn]] = deque()

    def is_of(self, capture: object) -> bool:
        return self._capture() is capture

    @property
    def waiting(self) -> int:
        """Executions that were queued, and are neither over nor past it."""
        return len(self._waiting())

    def queue(self) -> "Turn":
        """An execution is queued, and is over when nobody has this any more."""
        turn = Turn(self.updated)
        self._turns = deque(ref for ref in (*self._turns, weakref.ref(turn)) if ref() is not None)
        return turn

    def wait(self) -> None:
        """What an execution runs when the word lets it: it has the later one of what was updated before it was queued,
        and before the recording."""
        known = self.event.let_pass(self)
        self._current = max(known, key=lambda updated: updated.changes, default=self.updated)

    def take_turn(self) -> list[Updated]:
        """What was updated when the execution was queued that waits first, which has passed now."""
        first = self._waiting()[:1]
        for turn in first:
            turn.has_passed = True
        return [turn.updated for turn in first]

    def hold(self, key: Any, call: Call) -> Call:
        """What is to be run instead of a call: that which the execution has by this key."""
        self.updated = Updated(self.updated.changes + 1, {**self.updated.calls, key: call})
        return lambda: self._current.calls.get(key, call)()

    def forget(self, owner: int) -> None:
        """The calls whose keys begin with an owner are not needed any more, but by executions that are not over."""
        if all(ref() is None for ref in self._turns):
            kept = {key: call for key, call in self.updated.calls.items() if key[0] != owner}
            self.updated = self._current = Updated(self.updated.changes + 1, kept)

    def _waiting(self) -> "list[Turn]":
        turns = [ref() for ref in list(self._turns)]
        return [turn for turn in turns if turn is not None and not turn.has_passed]


class Turn:
    """One execution at a gate. updated: the calls when it was queued."""

    def __init__(self, updated: Updated) -> None:
        self.updated, self.has_passed = updated, False
