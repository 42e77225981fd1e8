"""How near does the memory planner come to the lower bound, on random graphs? Prints one line of JSON.

    python benchmarks/memory_plan.py [--buffers 60 400] [--seeds 10]

One case is one order of lifetimes: on one line (their ends are intervals), and in the partial order of two streams that
wait for each other now and then. Sizes are spread evenly over the powers of two from 1 KiB to 16 MiB. For each number
of buffers: the largest and the mean peak / bound over the seeds, how many meet the bound, the mean of the bytes without
reuse / peak, and the longest time that one placement took.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from ascend_rt.ge.memory.placement import overlaps, place

Matrix = npt.NDArray[np.bool_]
Case = tuple[list[int], Matrix]


def one_line(buffers: int, seed: int) -> Case:
    """Lifetimes are intervals, a tenth of the whole on average."""
    draw = np.random.default_rng(seed)
    first = draw.integers(0, buffers, buffers)
    last = first + 1 + draw.exponential(buffers / 10, buffers).astype(int)
    return (2 ** draw.uniform(10, 24, buffers)).astype(int).tolist(), last[:, None] <= first[None, :]


def two_streams(buffers: int, seed: int) -> Case:
    """Twice as many nodes as buffers on two streams, one in five of which waits for the other stream; a buffer is used
    by two of them."""
    draw = np.random.default_rng(seed)
    nodes = 2 * buffers
    stream = draw.integers(0, 2, nodes)
    done = np.zeros((nodes, nodes), np.bool_)
    latest = [-1, -1]
    for node in range(nodes):
        own, other = latest[stream[node]], latest[1 - stream[node]]
        for before in (own, other if draw.random() < 0.2 else -1):
            if before >= 0:
                done[:, node] |= done[:, before]
                done[before, node] = True
        latest[stream[node]] = node
    first = draw.integers(0, nodes - 1, buffers)
    last = np.minimum(nodes - 1, first + 1 + draw.exponential(nodes / 10, buffers).astype(int))
    uses = (first, last)
    before = np.logical_and.reduce([done[np.ix_(a, b)] for a in uses for b in uses])
    return (2 ** draw.uniform(10, 24, buffers)).astype(int).tolist(), before


CASES: dict[str, Callable[[int, int], Case]] = {"one_line": one_line, "two_streams": two_streams}


def measure(make: Callable[[int, int], Case], buffers: int, seeds: Sequence[int]) -> dict[str, float]:
    ratios, saved, seconds = [], [], []
    for seed in seeds:
        sizes, before = make(buffers, seed)
        began = time.perf_counter()
        placement = place(sizes, before)
        seconds.append(time.perf_counter() - began)
        if overlaps(sizes, placement.offsets, before):
            raise AssertionError(f"seed {seed}: buffers that are live together overlap")
        ratios.append(placement.peak / placement.bound)
        saved.append(sum(sizes) / placement.peak)
    return {
        "worst": round(max(ratios), 4),
        "mean": round(statistics.mean(ratios), 4),
        "optimal": sum(ratio == 1 for ratio in ratios),
        "no_reuse": round(statistics.mean(saved), 2),
        "seconds": round(max(seconds), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--buffers", type=int, nargs="+", default=[60, 400])
    parser.add_argument("--seeds", type=int, default=10, help="seeds 0 to SEEDS - 1")
    given = parser.parse_args()
    result = {
        name: {str(count): measure(make, count, range(given.seeds)) for count in given.buffers}
        for name, make in CASES.items()
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
