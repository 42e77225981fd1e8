"""Measures the algorithms of this host and keeps what it found: `hccl-run --tune` (launcher/tune.py).

For 2, 4, 8 ... ranks a job each carries out every collective by every algorithm at a ladder of sizes; the algorithms
take turns, round by round, so that what disturbs one disturbs all. Where one seems to beat the default, they go on for
more rounds: it has to win them all. What all jobs have measured becomes the constants of the model and the rows of the
table of choice (measurements.py), which are printed and written to the user's cache folder (tuning.py).
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np

from .. import settings as settings_module
from ..acl.memory import Array
from ..link.limits import usable_cpus
from ..plan.choice import Row, render
from ..plan.collectives import COLLECTIVES
from ..plan.model import Machine, work
from ..plan.registry import names, parameters
from . import choices, tuning, world
from .communicator import Communicator
from .measurements import DEFAULT, Times, best, fit, rows_of

LADDER = (8 << 10, 64 << 10, 1 << 20, 4 << 20)
"""Bytes of the larger buffer of a call."""
ROUNDS, MORE_ROUNDS = 5, 15
BATCH_US = 3000.0
MOST_CALLS = 200
SHORT_WAY = ("all_reduce", "broadcast")
"""Collectives that come from Python to the core directly: what the others take is Python's in part."""

Measured = dict[tuple[str, int], dict[int, Times]]
"""By (collective, ranks), the times by bytes per block."""


def main() -> None:
    """What every rank of one of the jobs runs; rank 0 leaves its times in the folder that it is given."""
    comm = world.init()
    found = {name: times for name in COLLECTIVES if (times := measure(comm, name))}
    if comm.rank == 0:
        (Path(sys.argv[1]) / f"{comm.size}.json").write_text(json.dumps(found))
    world.finalize()


def conclude(folder: Path) -> None:
    """Makes of the times in a folder what communicators choose by; prints and keeps it. OSError if that cannot be."""
    measured: Measured = {}
    for path in sorted(folder.iterdir(), key=lambda path: int(path.stem)):
        for collective, by_nbytes in json.loads(path.read_text()).items():
            measured[collective, int(path.stem)] = {int(nbytes): times for nbytes, times in by_nbytes.items()}
    found = evaluate(usable_cpus(), measured)
    print(report(measured, found))
    print(f"\nwritten to {tuning.write(settings_module.read(), found)}")


def evaluate(cores: int, measured: Measured) -> tuning.Tuning:
    """Rows from all times, constants from those of the collectives that go the short way."""
    samples = [
        (work(cores, collective, algorithm, ranks, nbytes), median(rounds))
        for (collective, ranks), by_nbytes in measured.items()
        if collective in SHORT_WAY
        for nbytes, times in by_nbytes.items()
        for algorithm, rounds in times.items()
    ]
    rows = [row for (collective, ranks), by_nbytes in measured.items() for row in rows_of(collective, ranks, by_nbytes)]
    return tuning.Tuning(Machine(cores, fit(samples)), tuple(rows))


def report(measured: Measured, found: tuning.Tuning) -> str:
    """All times, measured and predicted, the constants, and the table of choice; to be read by people."""
    lines = [f"microseconds of a call on {found.machine.cores} cores, measured (predicted); * is chosen"]
    for (collective, ranks), by_nbytes in measured.items():
        for nbytes, times in by_nbytes.items():
            parts = [
                f"{'*' if algorithm == best(times) else ''}{algorithm} {median(rounds):.1f}"
                f" ({found.machine.predicted_us(collective, algorithm, ranks, nbytes):.1f})"
                for algorithm, rounds in sorted(times.items(), key=lambda pair: median(pair[1]))
            ]
            lines.append(f"{collective:15}{ranks:3} ranks {nbytes:8} bytes per block:  {',  '.join(parts)}")
    rows = tuple(_predicted(row, found.machine) for row in found.rows)
    constants = (f"{name} = {value:.3g}" for name, value in found.machine.constants._asdict().items())
    return "\n".join([*lines, "", *constants, "", render(rows)])


def _predicted(row: Row, machine: Machine) -> Row:
    assert row.at_nbytes is not None
    us = machine.predicted_us(row.collective, row.algorithm, row.ranks[0], row.at_nbytes)
    return replace(row, predicted_us=us)


# ---- measuring ----


def measure(group: Communicator, collective: str) -> dict[int, Times]:
    """The times of a collective by bytes per block; rank 0's are looked at. Empty if it has no data."""
    blocks = COLLECTIVES[collective].blocks(group.size)
    if not blocks:
        return {}
    own = {name: _by(group, collective, name) for name in _algorithms(collective)}
    sizes = (n // blocks // 64 * 64 for n in LADDER)
    least = choices.most_in_a_round(group, collective)
    found = {nbytes: _times(group, collective, own, nbytes) for nbytes in sizes if nbytes > least}
    for comm in own.values():
        comm.destroy()
    return found


def _times(group: Communicator, collective: str, own: Mapping[str, Communicator], nbytes: int) -> Times:
    """Of every algorithm with blocks of `nbytes` bytes, round by round."""
    calls = {name: _call(comm, collective, nbytes) for name, comm in own.items()}
    number = {name: _agreed(group, _how_many(group, call)) for name, call in calls.items()}
    found: dict[str, list[float]] = {name: [] for name in calls}
    wanted = ROUNDS
    while len(found[DEFAULT]) < wanted:
        for name, call in calls.items():
            found[name].append(_time(group, call, number[name]))
        if len(found[DEFAULT]) == ROUNDS:
            wanted += MORE_ROUNDS * _agreed(group, best(found) != DEFAULT)
    return found


def _algorithms(collective: str) -> Iterator[str]:
    """Those that are not for several servers: on one these are the mesh."""
    return (name for name in names(collective) if "servers" not in parameters(collective, name))


def _by(group: Communicator, collective: str, algorithm: str) -> Communicator:
    """A communicator of the same ranks that carries out a collective by an algorithm."""
    comm = group.split(0)
    assert comm is not None
    comm._table = (Row(collective, algorithm, asked_by="--tune"),)
    return comm


def _call(comm: Communicator, collective: str, nbytes: int) -> Callable[[], object]:
    """A call on device memory, out of place where that is not all that there is."""
    spec, count = COLLECTIVES[collective], nbytes // 4
    x = world.zeros(count * spec.blocks_in.number(comm.size))
    out: Array = world.zeros(count * spec.blocks_out.number(comm.size))
    method = getattr(comm, collective)
    return (lambda: method(x)) if collective == "broadcast" else (lambda: method(x, out))


def _how_many(group: Communicator, call: Callable[[], object]) -> int:
    """How many calls a batch has; the call is warm then."""
    call()
    return min(MOST_CALLS, max(1, int(BATCH_US / _time(group, call, 1))))


def _agreed(group: Communicator, number: int) -> int:
    """What rank 0 says."""
    return int(group.broadcast(np.array([number], np.int64))[0])


def _time(group: Communicator, call: Callable[[], object], number: int) -> float:
    """Microseconds of one of so many calls, on this rank."""
    group.barrier()
    began = time.perf_counter_ns()
    for _ in range(number):
        call()
    return max((time.perf_counter_ns() - began) / number / 1e3, 1e-3)


if __name__ == "__main__":
    main()
