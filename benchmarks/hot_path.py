"""A stopwatch on the hot path: what `comm.all_reduce` of 8 bytes costs in a world of one, where nobody is waited for.

    python benchmarks/hot_path.py [--check]

What is left without peers is what Python, the argument checks, the look-up of the plan and the board cost.  `len` of
the same array is the floor of any call from Python.  With --check it exits with 1 above the bound.
"""

from __future__ import annotations

import statistics
import sys
import timeit
from typing import Any

import numpy as np

import ascend_rt as rt

BOUND_NS = 250.0
CALLS, BATCHES = 20_000, 21
STATEMENTS = (
    "len(x)",
    "comm.barrier()",
    "comm.all_reduce(x)",
    "comm.all_reduce(x, out)",
    "comm.all_gather(x, out)",
    "comm.reduce_scatter(x, out)",
)


def nanoseconds(statement: str, names: dict[str, Any]) -> float:
    """The median time of `statement` in nanoseconds; the loop around it is in it."""
    batches = timeit.repeat(statement, globals=names, number=CALLS, repeat=BATCHES)
    return statistics.median(batches) / CALLS * 1e9


def main() -> int:
    comm = rt.init()
    if comm.size != 1:
        print(f"rank {comm.rank}: this measures a world of one; run it without hccl-run", file=sys.stderr)
        return 2
    names = {"comm": comm, "x": rt.zeros((2,), np.float32), "out": rt.zeros((2,), np.float32)}
    rows = {
        statement: nanoseconds(statement, names)
        for statement in STATEMENTS
    }
    rt.finalize()
    for statement, time in rows.items():
        print(f"{statement:24} {time:7.1f} ns")
    missed = "--check" in sys.argv[1:] and rows["comm.all_reduce(x)"] > BOUND_NS
    if missed:
        print(f"missed: comm.all_reduce(x) takes more than {BOUND_NS:.0f} ns", file=sys.stderr)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
