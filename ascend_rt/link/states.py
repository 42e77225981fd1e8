"""What is a number in the control area: states of a rank, reasons of a communicator's end."""

from enum import IntEnum

MOST_RANKS = 4094
"""of a job: the abort word has 12 bits for a rank"""
UNDONE = 1
"""what exit code 0 becomes for a rank that left with queued calls not run"""


class AbortKind(IntEnum):
    """Why a communicator ended (core/layout.h, enum abort_kind)."""

    NONE = 0
    TIMEOUT = 1
    DEATH = 2
    LEFT = 3
    INTERRUPT = 4
    OVERRUN = 5
    UNSERVED = 6
    UNREACHED = 7
    DESTROYED = 8


class RankState(IntEnum):
    """What the server of the job says of a rank (core/layout.h, enum rank_state)."""

    ABSENT = 0
    JOINING = 1
    RUNNING = 2
    LEFT = 3
    DEAD = 4
