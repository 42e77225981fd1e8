"""Names of what is a number in shared memory: collectives, reasons of an end, states of a rank."""

from ..link.states import AbortKind as AbortKind
from ..link.states import RankState as RankState

# HcclCMDType, by the names of our methods; 254 and 255 are ours.
COLLECTIVES = {
    1: "broadcast",
    2: "all_reduce",
    3: "reduce",
    4: "send",
    5: "recv",
    6: "all_gather",
    7: "reduce_scatter",
    8: "all_to_all_v",
    9: "all_to_all_vc",
    10: "all_to_all",
    11: "gather",
    12: "scatter",
    13: "batch_send_recv",
    16: "all_gather_v",
    17: "reduce_scatter_v",
    103: "barrier",
    254: "resync",
    255: "telling why a call failed",
}


def collective_name(number: int) -> str:
    return COLLECTIVES.get(number, f"collective {number}")


def split_abort_word(word: int) -> tuple[AbortKind, int, int]:
    """(why, rank at fault, rank that raised it or -1 for the server of the job) of an abort word."""
    return AbortKind(word >> 24), (word >> 12 & 0xFFF) - 1, (word & 0xFFF) - 1
