"""What all ranks of a communicator know: every change of what they call rests on that alone, or they would hang.

A pass tells facts, numbers by names that mean the same on every rank, such as "reduce_scatter 17" for the 17th call of
the communicator. It gets back those that all ranks have told, each with the largest number that one of them gave. So a
fact is a permission where it must hold on all ranks, and a time where the slowest rank counts.

What is about messages is between two ranks alone, since others need not have to do with the communicator at all.

    alike           every rank is taken to have told the same: graphs of one program
    asked(comms)    asks the other ranks; every rank must run the same passes
    Meeting()       the ranks are threads of this process: graphs that are compiled together
"""

import json
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from ..across.texts import all_texts, peer_text

if TYPE_CHECKING:
    from ...hccl.communicator import Communicator

Facts = dict[str, float]


class Agree(Protocol):
    """How a rank comes to know what all know."""

    def __call__(self, communicator: str, facts: Facts, peer: int | None = None) -> Facts:
        """The facts of all ranks of a communicator, or of this one and `peer` alone (a rank of the job)."""


def alike(communicator: str, facts: Facts, peer: int | None = None) -> Facts:
    """The facts themselves; none between two ranks, of which one sends and the other receives."""
    return facts if peer is None else {}


def merged(told: Sequence[Facts]) -> Facts:
    """What all have told, with the largest numbers."""
    everywhere = set(told[0]).intersection(*told[1:]) if told else set()
    return {name: max(facts[name] for facts in told) for name in sorted(everywhere)}


def asked(communicators: "Mapping[str, Communicator]") -> Agree:
    """Asks the other ranks of communicators, by two all-gathers on the caller's thread, or one by two messages each
    way. HcclError as these."""

    def agree(communicator: str, facts: Facts, peer: int | None = None) -> Facts:
        held, text = communicators[communicator], json.dumps(facts)
        texts = all_texts(held, text) if peer is None else [text, peer_text(held, held.world_ranks.index(peer), text)]
        return merged([json.loads(text) for text in texts])

    return agree


_Line = tuple[str, frozenset[int]]
"""A communicator, and the two ranks of the job that agree; none: all of its ranks."""


class Meeting:
    """Lets threads agree, one for each rank of a job whose graphs are compiled together.

    agree = meeting.rank(3, {"world": 4})      the Agree of rank 3 of the job
    """

    def __init__(self, timeout_s: float = 60.0) -> None:
        self._timeout_s = timeout_s
        self._lock = threading.Condition()
        self._told: dict[tuple[_Line, int], dict[int, Facts]] = {}
        self._why = ""

    def rank(self, rank: int, sizes: Mapping[str, int]) -> Agree:
        """What one rank agrees with. sizes: ranks of each of its communicators.

        RuntimeError while agreeing: another rank has left, or did not come in time.
        """
        rounds: dict[_Line, int] = {}

        def agree(communicator: str, facts: Facts, peer: int | None = None) -> Facts:
            line = communicator, frozenset() if peer is None else frozenset((rank, peer))
            number = rounds[line] = rounds.get(line, -1) + 1
            with self._lock:
                told = self._told.setdefault((line, number), {})
                told[rank] = facts
                self._lock.notify_all()
                size = sizes[communicator] if peer is None else 2
                came = self._lock.wait_for(lambda: len(told) == size or bool(self._why), self._timeout_s)
                if len(told) == size:
                    return merged([told[other] for other in sorted(told)])
            why = self._why if came else f"only ranks {sorted(told)} came within {self._timeout_s:g} s"
            raise RuntimeError(f"rank {rank} has nobody to agree with on communicator {communicator!r}: {why}")

        return agree

    def leave(self, why: str) -> None:
        """Nobody waits any more: a rank has failed."""
        with self._lock:
            self._why = self._why or why
            self._lock.notify_all()
