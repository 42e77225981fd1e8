"""Words for a communicator that ended: which rank is at fault, what became of it, what every rank was doing."""

import time

from ..core import _core
from ..link.process import ending, process_state
from .vocabulary import AbortKind, RankState, collective_name, split_abort_word

ADVICE = {
    AbortKind.TIMEOUT: "See what the missing rank does instead; HCCL_EXEC_TIMEOUT sets the limit, 0 waits for ever.",
    AbortKind.DEATH: "Look at the last words of that rank; the others only noticed.",
    AbortKind.LEFT: "Every rank must make the same calls: this one ended its program earlier than the others.",
    AbortKind.INTERRUPT: "A collective that is left early ends its communicator on every rank.",
    AbortKind.UNSERVED: "Ranks that run go on, but no end of a rank would be noticed any more: start the job anew.",
    AbortKind.OVERRUN: "Something outside of this library wrote to the job's memory, or this is a fault of ours.",
}


def cause_in_words(word: int, segment: _core.Segment, timeout: float | None = None) -> str:
    """What an abort word says: the rank at fault and what became of it."""
    kind, culprit, raiser = split_abort_word(word)
    line = segment.rank_line(culprit)
    match kind:
        case AbortKind.DEATH:
            return f"rank {culprit} died: {ending(line.cause)}, process {line.pid}"
        case AbortKind.LEFT:
            return f"rank {culprit} left ({ending(line.cause)}) while others waited for it"
        case AbortKind.TIMEOUT:
            limit = f" within {timeout:g} s" if timeout else " in time"
            ended = line.state >= RankState.LEFT
            now = f"has ended since: {ending(line.cause)}" if ended else f"is {process_state(line.pid)}"
            return f"rank {culprit} did not arrive{limit} (rank {raiser} gave up); its process {line.pid} {now}"
        case AbortKind.UNSERVED:
            return f"the process that serves this job (ascend_rt.link.serving) is gone, as rank {culprit} has noticed"
        case AbortKind.INTERRUPT:
            return f"rank {culprit} was interrupted inside a collective"
        case _:
            return f"rank {raiser} found a line or an address of rank {culprit} that no rank of this library writes"


def describe(word: int, segment: _core.Segment, own_rank: int, doing: str, timeout: float | None = None) -> str:
    """The whole story of a call that found its communicator ended. Begins without the error's code."""
    kind, _, _ = split_abort_word(word)
    lines = [f"{doing}: {cause_in_words(word, segment, timeout)}"]
    lines += [f"  rank {rank}  {rank_in_words(segment, rank)}" + _mark(rank, own_rank) for rank in range(segment.ranks)]
    lines.append(f"{ADVICE[kind]} This communicator has ended on every rank.")
    return "\n".join(lines)


def rank_in_words(segment: _core.Segment, rank: int) -> str:
    """What one rank last said on the world's board, what it waits for, what its process is."""
    line = segment.rank_line(rank)
    state = RankState(line.state).name.lower()
    if line.state >= RankState.LEFT:
        state += f", {ending(line.cause)}"
    words = [state, _latest_call(segment.line(rank, 0), segment.line(rank, 1))]
    if line.waits_for >= 0:
        seconds = (time.monotonic_ns() - line.wait_since_ns) * 1e-9
        words.append(f"waits for rank {line.waits_for} since {seconds:.1f} s")
    return ", ".join(words)


def _latest_call(*lines: _core.Line) -> str:
    latest = max(lines, key=lambda line: line.round)
    if latest.round == 0:
        return "no collective yet"
    return f"last seen in {collective_name(latest.collective)} #{latest.call}"


def _mark(rank: int, own_rank: int) -> str:
    return "     <- this rank" if rank == own_rank else ""
