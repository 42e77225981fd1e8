"""All-reduce: ascend_rt beside what the machine allows (limit.c) and beside its peers.

    python benchmarks/allreduce.py                      2 ranks, 8 B to 64 MB, against the probe
    python benchmarks/allreduce.py -n 8 --peer mpi4py   8 ranks, with mpi4py in the same run
    python benchmarks/allreduce.py --check              exits with 1 where a bound is missed

Every call is an in-place sum.  All sides are started once and measured in turn, round by round, the others asleep.
A ratio is the median over the rounds of the ratios within a round.  Absolute times say as much about the machine and
its other guests as about the library: they mean nothing from one machine to the next.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import sides
from rich.console import Console
from rich.table import Table

# A batch lasts about this long in microseconds: far above the clock's grain, below the scheduler's patience.
BATCH_US = 2_000.0
MOST_CALLS = 5_000
ROUND_US = 30_000.0
# Woken all at once, ranks that outnumber the cores may crowd on one of them, and the kernel spreads them only after
# tens of milliseconds: a round outlasts that, on every side alike, or its median is a matter of luck.
CROWDED_ROUND_US = 300_000.0
FEWEST_BATCHES, MOST_BATCHES = 3, 151

UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
DTYPES = {"fp16": "float16", "fp32": "float32", "fp64": "float64"}

# times[nbytes][side name]: microseconds of one call, one entry per round
Times = dict[int, dict[str, list[float]]]


@dataclass(frozen=True)
class Bound:
    """At `size` ranks and `nbytes`, ours takes at most `factor` times what `beside` takes, plus `plus_us`."""

    size: int
    nbytes: int
    beside: str
    factor: float
    plus_us: float = 0.0

    def __str__(self) -> str:
        plus = f" + {self.plus_us} us" if self.plus_us else ""
        return f"{self.size} ranks, {words(self.nbytes)}: ours <= {self.factor} x {self.beside}{plus}"

    def excess(self, times: dict[str, list[float]]) -> float:
        """What ours takes by what it may take, the median over the rounds: at most 1 when the bound holds."""
        pairs = zip(times["ours"], times[self.beside], strict=True)
        return statistics.median(ours / (self.factor * other + self.plus_us) for ours, other in pairs)


BOUNDS = [
    Bound(2, 8, "limit", 1.0, 0.4),
    Bound(2, 8, "mpi4py", 0.8),
    Bound(2, 64 << 10, "limit", 2.0),
    Bound(2, 16 << 20, "limit", 1.3),
    Bound(8, 8, "limit", 2.0),
]


def nbytes_of(text: str) -> int:
    """'8', '64K', '16M' or '1G' in bytes; a multiple of 8, so that every dtype fits."""
    digits, unit = (text[:-1], UNITS[text[-1].upper()]) if text[-1:].upper() in UNITS else (text, 1)
    if not digits.isdecimal() or int(digits) == 0 or int(digits) * unit % 8:
        raise argparse.ArgumentTypeError(f"expected bytes like 8, 64K or 16M, a multiple of 8, not {text!r}")
    return int(digits) * unit


def words(nbytes: int) -> str:
    """65536 as '64 KB'."""
    for unit in "GMK":
        if nbytes % UNITS[unit] == 0:
            return f"{nbytes // UNITS[unit]} {unit}B"
    return f"{nbytes} B"


def ladder(begin: int, end: int) -> list[int]:
    """`begin`, the powers of four between, `end`."""
    return sorted({begin, end, *(4**k for k in range(2, 20) if begin < 4**k < end)})


def calibrate(side: sides.Side, nbytes: int, round_us: float) -> tuple[int, int]:
    """The calls and batches that fill a round with `nbytes`; also warms the side's memory and checks its values."""
    side.measure(nbytes, 1, 1)
    microseconds = side.measure(nbytes, 16 if nbytes <= 1 << 16 else 1, 3)
    calls = min(MOST_CALLS, int(BATCH_US / microseconds) + 1)
    batches = int(round_us / (calls * microseconds))
    return calls, min(MOST_BATCHES, max(FEWEST_BATCHES, batches))


def measure(running: list[sides.Side], nbytes: int, rounds: int, round_us: float) -> dict[str, list[float]]:
    """The times of every side for one size, one entry per round."""
    effort = {side.name: calibrate(side, nbytes, round_us) for side in running}
    times: dict[str, list[float]] = {side.name: [] for side in running}
    for _ in range(rounds):
        for side in running:
            times[side.name].append(side.measure(nbytes, *effort[side.name]))
    return times


def ratio(times: dict[str, list[float]], beside: str) -> float:
    """ours / beside: the median over the rounds of the ratios within a round."""
    return statistics.median(ours / other for ours, other in zip(times["ours"], times[beside], strict=True))


def table(times: Times, names: list[str]) -> Table:
    """One row per size: everybody's median time, and ours as a multiple of everybody else's."""
    others = [name for name in names if name != "ours"]
    result = Table("size", *(f"{name} us" for name in names), *(f"ours/{name}" for name in others))
    for column in result.columns[1:]:
        column.justify = "right"
    for nbytes, row in times.items():
        medians = [f"{statistics.median(row[name]):.2f}" for name in names]
        result.add_row(words(nbytes), *medians, *(f"{ratio(row, name):.2f}" for name in others))
    return result


def judge(times: Times, size: int, console: Console) -> int:
    """Prints which bounds for `size` ranks hold; returns how many do not, those of sizes not measured among them."""
    missed = 0
    for bound in (bound for bound in BOUNDS if bound.size == size):
        if bound.nbytes not in times:
            console.print(f"[red]missed[/red]  {bound}: not measured")
            missed += 1
        elif bound.beside not in times[bound.nbytes]:
            console.print(f"skipped {bound}: {bound.beside} did not run")
        else:
            excess = bound.excess(times[bound.nbytes])
            missed += excess > 1
            verdict = "[red]missed[/red] " if excess > 1 else "[green]held[/green]   "
            console.print(f"{verdict} {bound}: at {excess:.0%} of it")
    return missed


@contextlib.contextmanager
def start(options: argparse.Namespace, console: Console) -> Iterator[list[sides.Side]]:
    """All sides, asleep; a peer that is not here is left out, and said."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        running: list[sides.Side] = []

        def add(side: sides.Side) -> None:
            stack.callback(side.close)
            running.append(side)

        add(sides.Probe(options.n, Path(folder)))
        add(sides.ours(options.n, DTYPES[options.dtype]))
        for name in options.peer:
            try:
                add(sides.PEERS[name](options.n, DTYPES[options.dtype]))
            except sides.UnavailableError as reason:
                console.print(f"{name} is left out: {reason}")
        yield running


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=2, metavar="N", help="ranks (default 2)")
    parser.add_argument("-b", type=nbytes_of, default="8", metavar="SIZE", help="smallest message (default 8)")
    parser.add_argument("-e", type=nbytes_of, default="64M", metavar="SIZE", help="largest message (default 64M)")
    parser.add_argument("--dtype", choices=DTYPES, default="fp32", help="the probe sums fp32 of as many bytes")
    parser.add_argument("--rounds", type=int, default=7, help="how often all sides take their turn (default 7)")
    parser.add_argument("--peer", choices=sides.PEERS, action="append", default=[], help="may be repeated")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the times of every round")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a bound for N ranks is missed")
    options = parser.parse_args(arguments)
    if options.n < 1 or options.rounds < 1 or options.b > options.e:
        parser.error("expected -n and --rounds of at least 1, and -b no larger than -e")
    if options.check and options.n not in {bound.size for bound in BOUNDS}:
        parser.error(f"--check knows bounds for -n {sorted({bound.size for bound in BOUNDS})}, not for -n {options.n}")
    return options


def main(arguments: list[str]) -> int:
    options, console = parse(arguments), Console()
    cores = len(os.sched_getaffinity(0))
    round_us = CROWDED_ROUND_US if options.n > cores else ROUND_US
    times: Times = {}
    try:
        with start(options, console) as running, console.status("starting") as status:
            names = [side.name for side in running]
            for nbytes in ladder(options.b, options.e):
                status.update(words(nbytes))
                times[nbytes] = measure(running, nbytes, options.rounds, round_us)
    except (sides.UnavailableError, RuntimeError) as error:
        console.print(f"[red]error:[/red] {error}")
        return 2
    console.print(f"all-reduce in place, {options.dtype} sum, {options.n} ranks on {cores} cores, us per call")
    console.print(table(times, names))
    if options.json:
        result = {"ranks": options.n, "cores": cores, "dtype": options.dtype, "us": times}
        options.json.write_text(json.dumps(result, indent=1))
    return int(options.check and judge(times, options.n, console) > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
