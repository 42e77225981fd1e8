"""All-reduce of arrays that are not in device memory, beside the same call on arrays that are.

    hccl-run -n 2 benchmarks/plain_arrays.py [--check]
    ASCEND_RT_REACH_KIB=0 hccl-run -n 2 benchmarks/plain_arrays.py     through device memory at every size

Both take their turn round by round, each on arrays of its own, and every result is checked.  A ratio is the median over
the rounds of the ratios within a round.  With --check rank 0 exits with 1 above the bound, at the size it is for.
"""

from __future__ import annotations

import statistics
import sys
import time

import numpy as np

import ascend_rt as rt

SIZES_KIB = (16, 64, 256, 1024, 4096, 16384)
BOUND_KIB, BOUND = 16384, 2.2  # at 2 ranks
ROUNDS, ROUND_NBYTES, MOST_CALLS = 15, 16 << 20, 50


def values(rank: int, count: int) -> np.ndarray:
    return (np.arange(count) * (rank + 1) % 97).astype(np.float32)


def measure(comm: rt.Communicator, nbytes: int) -> tuple[float, float, float]:
    """Microseconds of one call on device memory, on plain arrays, and the ratio."""
    count, calls = nbytes // 4, max(1, min(MOST_CALLS, ROUND_NBYTES // nbytes))
    x, expected = values(comm.rank, count), sum(values(rank, count) for rank in range(comm.size))
    buffers = {"direct": (rt.array(x), rt.zeros((count,), np.float32)), "plain": (x, np.zeros_like(x))}
    times: dict[str, list[float]] = {name: [] for name in buffers}
    for _ in range(ROUNDS):
        for name, (source, out) in buffers.items():
            comm.all_reduce(source, out)
            comm.barrier()
            began = time.perf_counter()
            for _ in range(calls):
                comm.all_reduce(source, out)
            times[name].append((time.perf_counter() - began) / calls * 1e6)
            assert np.array_equal(out, expected)
    ratio = statistics.median(plain / direct for direct, plain in zip(times["direct"], times["plain"], strict=True))
    return statistics.median(times["direct"]), statistics.median(times["plain"]), ratio


def main() -> int:
    comm, missed = rt.init(), False
    for kib in SIZES_KIB:
        direct, plain, ratio = measure(comm, kib << 10)
        missed = missed or (kib == BOUND_KIB and ratio > BOUND)
        if comm.rank == 0:
            print(f"{kib:6} KiB   direct {direct:9.1f} us   plain {plain:9.1f} us   {ratio:.2f}x", flush=True)
    if comm.rank == 0 and missed:
        print(f"missed: plain arrays of {BOUND_KIB} KiB take more than {BOUND}x of device memory", file=sys.stderr)
    return int("--check" in sys.argv[1:] and comm.rank == 0 and missed)


if __name__ == "__main__":
    sys.exit(main())
