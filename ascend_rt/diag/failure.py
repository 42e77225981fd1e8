"""Words for a communicator that ended: which rank is at fault, what became of it, what every rank was doing."""

import time
from collections.abc import Sequence

from ..core import _core
from ..link.membership import Group
from ..link.process import ending, process_state
from .vocabulary import AbortKind, RankState, collective_name, split_abort_word

ADVICE = {
    AbortKind.TIMEOUT: "See what the missing rank does instead; HCCL_EXEC_TIMEOUT sets the limit, 0 waits for ever.",
    AbortKind.DEATH: "Look at the last words of that rank; the others only noticed.",
    AbortKind.LEFT: "Every rank must make the same calls: this one ended its program earlier than the others.",
    AbortKind.INTERRUPT: "A collective that is left early ends its communicator on every rank.",
    AbortKind.UNSERVED: "Ranks that run go on, but no end of a rank would be noticed any more: start the job anew.",
    AbortKind.UNREACHED: "ASCEND_RT_REACH_KIB=0 moves arrays through device memory instead.",
    AbortKind.DESTROYED: "Every rank must make the same calls: this one called destroy or finalize before the others.",
    AbortKind.OVERRUN: "Something outside of this library wrote to the job's memory, or this is a fault of ours.",
}


def rank_name(rank: int, members: Sequence[int] | None) -> str:
    """A rank of the job, as a communicator of these members names it; None: all ranks of the job."""
    if members is None:
        return f"rank {rank}"
    if rank not in members:
        return f"rank {rank} of the job"
    return f"rank {members.index(rank)} (rank {rank} of the job)"


def cause_in_words(
    word: int, segment: _core.Segment, timeout: float | None = None, members: Sequence[int] | None = None
) -> str:
    """What an abort word says: the rank at fault and what became of it."""
    kind, culprit_in_job, raiser_in_job = split_abort_word(word)
    line = segment.rank_line(culprit_in_job)
    culprit, raiser = (rank_name(rank, members) for rank in (culprit_in_job, raiser_in_job))
    match kind:
        case AbortKind.DEATH:
            return f"{culprit} died: {ending(line.cause)}, process {line.pid}"
        case AbortKind.LEFT:
            return f"{culprit} left ({ending(line.cause)}) while others waited for it"
        case AbortKind.TIMEOUT:
            limit = f" within {timeout:g} s" if timeout else " in time"
            ended = line.state >= RankState.LEFT
            now = f"has ended since: {ending(line.cause)}" if ended else f"is {process_state(line.pid)}"
            return f"{culprit} did not arrive{limit} ({raiser} gave up); its process {line.pid} {now}"
        case AbortKind.DESTROYED:
            state = ending(line.cause) if line.state >= RankState.LEFT else process_state(line.pid)
            return f"{culprit} has destroyed this communicator while others waited for it; process {line.pid}: {state}"
        case AbortKind.UNSERVED:
            return f"the process that serves this job (ascend_rt.link.serving) is gone, as {culprit} has noticed"
        case AbortKind.UNREACHED:
            return f"{raiser} may not read or store the memory of {culprit} any more, as it did before"
        case AbortKind.INTERRUPT:
            return f"{culprit} was interrupted inside a collective"
        case _:
            return f"{raiser} found a line or an address of {culprit} that no rank of this library writes"


def describe(
    word: int,
    segment: _core.Segment,
    own_rank: int,
    doing: str,
    timeout: float | None = None,
    group: Group | None = None,
) -> str:
    """The whole story of a call that found its communicator ended. Begins without the error's code.

    own_rank: in the job. group: whose communicator it is; None: all ranks of the job.
    """
    kind, _, _ = split_abort_word(word)
    members = None if group is None else group.members
    lines = [f"{doing}: {cause_in_words(word, segment, timeout, members)}"]
    for rank in range(segment.ranks) if members is None else members:
        words = rank_in_words(segment, rank, word, group)
        lines.append(f"  {rank_name(rank, members)}  {words}{_mark(rank, own_rank)}")
    lines.append(f"{ADVICE[kind]} This communicator has ended on every rank.")
    return "\n".join(lines)


def rank_in_words(segment: _core.Segment, rank: int, word: int, group: Group | None = None) -> str:
    """What one rank of the job last said on the board of its group, what it waits for, what its process is.

    word: of the group's end: who has found it already says in which call, which for a message no board shows.
    """
    line = segment.rank_line(rank)
    state = RankState(line.state).name.lower()
    if line.state >= RankState.LEFT:
        state += f", {ending(line.cause)}"
    words = [state, _latest_call(*(_said(segment, rank, slot, group) for slot in (0, 1)))]
    if line.waits_for >= 0:
        seconds = (time.monotonic_ns() - line.wait_since_ns) * 1e-9
        awaited = rank_name(line.waits_for, None if group is None else group.members)
        words.append(f"waits for {awaited} in {_call_of(line)} since {seconds:.1f} s")
    elif line.failure == word:
        words.append(f"failed in {_call_of(line)}")
    return ", ".join(words)


def _said(segment: _core.Segment, rank: int, slot: int, group: Group | None) -> _core.Line:
    if group is None:
        return segment.line(rank, slot)
    return segment.line(group.members.index(rank), slot, group.board, len(group.members))


def _latest_call(*lines: _core.Line) -> str:
    latest = max(lines, key=lambda line: line.round)
    if latest.round == 0:
        return "no collective yet"
    return f"last seen in {collective_name(latest.collective)} #{latest.call}"


def _call_of(line: _core.RankLine) -> str:
    return f"{collective_name(line.wait_collective)} #{line.wait_call}"


def _mark(rank: int, own_rank: int) -> str:
    return "     <- this rank" if rank == own_rank else ""
