"""Every collective, and a message there and back, beside mpi4py over the MPI of this machine.

    python benchmarks/collectives.py                 2 ranks, 64 B to 16 MB
    python benchmarks/collectives.py -n 4 -e 1M      4 ranks, up to 1 MB

fp32, ours on device memory; a size is the bytes of one block.  Jobs of both sides run in turn (collectives_rank.py).
A ratio is the median over the rounds of ours over mpi4py's in the same round; below 1 ours takes less time.  all_reduce
is left to allreduce.py, which has the limit beside it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys

import sides
from allreduce import ladder, nbytes_of, words
from rich.console import Console
from rich.table import Table

PROGRAM = str(sides.HERE / "collectives_rank.py")
SMALLEST = 64

# microseconds[name][nbytes] of one call
Times = dict[str, dict[int, float]]


def run(command: list[str], side: str, sizes: list[int]) -> Times:
    done = subprocess.run([*command, PROGRAM, side, *map(str, sizes)], stdout=subprocess.PIPE, text=True, check=True)
    measured = json.loads(done.stdout)
    return {name: {int(nbytes): time for nbytes, time in by_size.items()} for name, by_size in measured.items()}


def ratios(ours: list[Times], theirs: list[Times]) -> Times:
    """Ours over theirs: medians over the rounds."""
    return {
        name: {
            nbytes: statistics.median(
                one[name][nbytes] / other[name][nbytes] for one, other in zip(ours, theirs, strict=True)
            )
            for nbytes in by_size
        }
        for name, by_size in ours[0].items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=2, metavar="N", help="ranks (default 2)")
    parser.add_argument("-e", type=nbytes_of, default=16 << 20, metavar="SIZE", help="largest block (default 16M)")
    parser.add_argument("--rounds", type=int, default=3, help="how often both sides take their turn (default 3)")
    options = parser.parse_args()
    sizes = ladder(SMALLEST, options.e)
    try:
        commands = {"ours": sides.hccl_run(options.n), "mpi4py": sides.mpirun(options.n)}
    except sides.UnavailableError as error:
        print(error, file=sys.stderr)
        return 2
    times: dict[str, list[Times]] = {side: [] for side in commands}
    for _ in range(options.rounds):
        for side, command in commands.items():
            times[side].append(run(command, side, sizes))
    table = Table("ours / mpi4py", *map(words, sizes), title=f"{options.n} ranks")
    for name, by_size in ratios(times["ours"], times["mpi4py"]).items():
        table.add_row(name, *(f"{by_size[nbytes]:.2f}" for nbytes in sizes))
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
