"""What hccl-run says of a job that went wrong: consequences folded, the root cause last and once."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..diag.vocabulary import collective_name
from ..link.process import process_state
from .ending import RankEnd, awaited_in_vain, first_failure

if TYPE_CHECKING:
    from ..core._core import RankLine


WAITING = "waiting"


def failure_report(ends: Sequence[RankEnd], doing: Sequence[str], started: float, oom_kills: int) -> list[str]:
    """The lines about a job in which a rank failed; none if none did.

    doing: what the others were doing when the first failure was seen. started: by the monotonic clock. oom_kills: how
    many processes the kernel has killed since the job began because memory ran out.
    """
    first = first_failure(ends)
    if first is None:
        return []
    after = f"after {first.at_ns / 1e9 - started:.2f} s: {how_it_ended(first)}"
    if disagreed(ends, first):
        return [*doing, f"{ranks_text(end.rank for end in ends)} raised the same error, {after}"]
    others = [end for end in ends if end.failed and end is not first]
    cause = awaited_in_vain(ends)
    followed = [end for end in others if end is not cause and not end.ended_by_us and end.noticed is not None]
    report = list(doing)
    for why in sorted({end.ended_by_us for end in others} - {""}):
        report.append(f"{ranks_text(end.rank for end in others if end.ended_by_us == why)} ended by hccl-run: {why}")
    report.extend(_folded([end for end in others if not end.ended_by_us and end.noticed is None], "failed as well"))
    if followed:
        # They all say the same of it, each of its own call: one voice is enough.
        said = next((f": {end.words}" for end in followed if end.words), "")
        report.append(f"{ranks_text(end.rank for end in followed)} failed because of it{said}")
    if cause is not None:
        absence = f"was {cause.held}" if cause.held else "did not come"
        report.append(f"rank {cause.rank} (process {cause.pid}) {absence}; rank {first.rank} gave it up {after}")
        return report
    hint = ""
    if first.cause == -signal.SIGKILL and not first.ended_by_us and oom_kills:
        hint = "; the kernel has killed processes meanwhile because memory ran out"
    report.append(f"rank {first.rank} (process {first.pid}) failed first, {after}{hint}")
    return report


def disagreed(ends: Sequence[RankEnd], first: RankEnd) -> bool:
    """Whether all ranks raised one error of a collective, as after a disagreement: then none of them was first."""
    alike = all(end.words == first.words and not (end.failure or end.ended_by_us) and end.cause > 0 for end in ends)
    return len(ends) > 1 and alike and first.words.startswith("HcclError: ")


def interruption_report(ends: Sequence[RankEnd]) -> list[str]:
    """Where the ranks were when the job was interrupted, as far as they said so."""
    return _folded([end for end in ends if end.words], "ended")


def how_it_ended(end: RankEnd) -> str:
    """The end of one rank, in words."""
    if end.cause < 0:
        before = f"was {end.held}, then " if end.held and end.ended_by_us else ""
        return f"{before}killed by {signal_name(-end.cause)}"
    if end.cause == 0:
        return "left with exit code 0 while others waited for it"
    return end.words or f"exit code {end.cause}"


def what_ranks_do(lines: dict[int, RankLine]) -> list[str]:
    """What keeps living ranks, by their lines of the control area; nothing about ranks that just run.

    A rank that others wait for does not just run: what the kernel says of its process is told. Of ranks that wait for
    the same the longest time is told.
    """
    awaited = {line.waits_for for line in lines.values()}
    doing: dict[str, list[int]] = {}
    since: dict[str, int] = {}
    for rank, line in lines.items():
        what = _what_keeps_it(line, rank in awaited)
        if what:
            doing.setdefault(what, []).append(rank)
        if what.startswith(WAITING):
            since[what] = min(line.wait_since_ns, since.get(what, line.wait_since_ns))
    now = time.monotonic_ns()
    long = {what: f", for {(now - began) / 1e9:.1f} s" for what, began in since.items()}
    return [f"{ranks_text(ranks)}: {what}{long.get(what, '')}" for what, ranks in doing.items()]


def how_held(pid: int) -> str:
    """"stopped", "held by a debugger", or nothing for a process that may run."""
    state = process_state(pid)
    return state if state in ("stopped", "held by a debugger") else ""


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal without a name
        return f"signal {number}"


def ranks_text(ranks: Iterable[int]) -> str:
    """ "rank 2", or "ranks 0-3, 5"."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    if len(runs) == 1 and len(runs[0]) == 1:
        return f"rank {runs[0][0]}"
    return "ranks " + ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def oom_kills() -> int:
    """How many processes the kernel has killed since boot because memory ran out."""
    for line in Path("/proc/vmstat").read_text().splitlines():
        name, _, count = line.partition(" ")
        if name == "oom_kill":
            return int(count)
    return 0  # a kernel before 4.13 does not count them


def _what_keeps_it(line: RankLine, awaited: bool) -> str:
    held = how_held(line.pid)
    if held:
        return f"process {line.pid} is {held}"
    if line.waits_for >= 0:
        collective = collective_name(line.wait_collective)
        return f"{WAITING} for rank {line.waits_for} in {collective} #{line.wait_call}"
    return f"process {line.pid} is {process_state(line.pid)}, and in no collective" if awaited else ""


def _folded(ends: Sequence[RankEnd], verb: str) -> list[str]:
    """One line for all ranks that ended alike; texts that differ only in naming their own rank are alike."""
    alike: dict[str, list[RankEnd]] = {}
    for end in ends:
        alike.setdefault(re.sub(rf"\brank {end.rank}\b", "this rank", how_it_ended(end)), []).append(end)
    return [
        f"{ranks_text(end.rank for end in same)} {verb}: {how if len(same) > 1 else how_it_ended(same[0])}"
        for how, same in alike.items()
    ]
