"""The server of a job whose ranks all are in one process: a world of one, or ranks that are threads.

It runs in no thread of its own: what a rank says is heard by whoever says it, and the answers are there when it
returns.  Nothing has to be watched, because the ranks end together.
"""

import threading
from collections.abc import Callable

from ..core._core import Segment
from .groups import Groups


class LocalServer:
    """Forms the groups of the ranks of one process."""

    def __init__(self, segment: Segment) -> None:
        self._hear: dict[int, Callable[[str], None]] = {}
        self._groups = Groups(segment, lambda rank, packet: self._hear[rank](packet))
        # Reentrant: a rank may say something because of what it hears.
        self._changed = threading.Condition(threading.RLock())

    def seat(self, rank: int, hear: Callable[[str], None]) -> None:
        """`hear` takes what is said to a rank."""
        self._hear[rank] = hear

    def heard(self, rank: int, packet: str) -> None:
        """Take in what a rank says."""
        with self._changed:
            self._groups.heard(rank, packet)
            self._changed.notify_all()

    def wait(self, done: Callable[[], bool], timeout: float) -> bool:
        """Whether it is done in time; other ranks say what they have to meanwhile."""
        with self._changed:
            return self._changed.wait_for(done, timeout)
