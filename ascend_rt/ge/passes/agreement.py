"""What all ranks of a communicator know: every change of what they call rests on that alone, or they would hang.

A pass tells facts, numbers by names that mean the same on every rank, such as "reduce_scatter 17" for the 17th call of
the communicator. It gets back those that all ranks have told, each with the largest number that one of them gave. So a
fact is a permission where it must hold on all ranks, and a time where the slowest rank counts.

    alike           every rank is taken to have told the same: graphs of one program
    asked(comms)    asks the other ranks; every rank must run the same passes
    Meeting()       the ranks are threads of this process: graphs that are compiled together
"""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..across.texts import all_texts

if TYPE_CHECKING:
    from ...hccl.communicator import Communicator

Facts = dict[str, float]
Agree = Callable[[str, Facts], Facts]
"""(name of the communicator, facts of this rank) -> facts of all"""


def alike(communicator: str, facts: Facts) -> Facts:
    """The facts themselves."""
    return facts


def merged(told: Sequence[Facts]) -> Facts:
    """What all have told, with the largest numbers."""
    everywhere = set(told[0]).intersection(*told[1:]) if told else set()
    return {name: max(facts[name] for facts in told) for name in sorted(everywhere)}


def asked(communicators: "Mapping[str, Communicator]") -> Agree:
    """Asks the other ranks of communicators, by two all-gathers on the caller's thread. HcclError as these."""

    def agree(communicator: str, facts: Facts) -> Facts:
        texts = all_texts(communicators[communicator], json.dumps(facts))
        return merged([json.loads(text) for text in texts])

    return agree


class Meeting:
    """Lets threads agree, one for each rank of a job whose graphs are compiled together.

    agree = meeting.rank(3, {"world": 4})      the Agree of rank 3 of the job
    """

    def __init__(self, timeout_s: float = 60.0) -> None:
        self._timeout_s = timeout_s
        self._lock = threading.Condition()
        self._told: dict[tuple[str, int], dict[int, Facts]] = {}
        self._why = ""

    def rank(self, rank: int, sizes: Mapping[str, int]) -> Agree:
        """What one rank agrees with. sizes: ranks of each of its communicators.

        RuntimeError while agreeing: another rank has left, or did not come in time.
        """
        rounds: dict[str, int] = {}

        def agree(communicator: str, facts: Facts) -> Facts:
            number = rounds[communicator] = rounds.get(communicator, -1) + 1
            with self._lock:
                told = self._told.setdefault((communicator, number), {})
                told[rank] = facts
                self._lock.notify_all()
                size = sizes[communicator]
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
