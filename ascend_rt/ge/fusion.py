"""`fusion` and `fusion_id` of the collectives that a capture records: the attributes of HcomAllReduce and its sisters.

    with ge.fusion(2, fusion_id=3):        captured in here: one bucket with all of id 3
        comm.all_reduce(gradient, stream=stream)

A block and no argument of the calls: a call that is not captured has no use for it, and code that queues gradients
serves both ways as it is. The mark is the thread's (a ContextVar), so that libraries in between need not pass it on.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

LARGEST_ID = (1 << 31) - 1


class Mark(NamedTuple):
    """See Collective."""

    fusion: int = 1
    fusion_id: int = -1


_mark: ContextVar[Mark] = ContextVar("fusion", default=Mark())  # noqa: B039  (a tuple never changes)


@contextmanager
def fusion(fusion: int, *, fusion_id: int = -1) -> Iterator[None]:
    """Mark the collectives that this thread captures in the block; calls that are not captured are as ever.

    fusion: 0 leaves them alone, 1 goes by the strategy of their communicator (as without a block), 2 makes one call of
    all that have the same fusion_id. fusion_id: 0 to 2^31-1 with fusion 2, and -1, the default, otherwise. The
    innermost block holds. ValueError (EI0003): anything else.
    """
    check(fusion, fusion_id)
    before = _mark.set(Mark(fusion, fusion_id))
    try:
        yield
    finally:
        _mark.reset(before)


def current_mark() -> Mark:
    """What the collectives that are captured now are marked with."""
    return _mark.get()


def check(fusion: int, fusion_id: int, whose: str = "") -> None:
    """ValueError (EI0003): no such fusion. whose: the node that has it."""
    is_id = 0 <= fusion_id <= LARGEST_ID if fusion == 2 else fusion_id == -1
    if fusion not in (0, 1, 2) or not is_id:
        expected = f"fusion 0 or 1 and fusion_id -1, or fusion 2 and a fusion_id from 0 to {LARGEST_ID}"
        where = f": {whose}" if whose else ""
        raise ValueError(f"EI0003: fusion {fusion}, fusion_id {fusion_id}; expected {expected}{where}")
