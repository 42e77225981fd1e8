"""A training step as a plain script, with overlap by hand, captured, and optimised by the graph engine.

    hccl-run -n 2 benchmarks/graph_step.py [--json] [--check]
    hccl-run -n 2 benchmarks/graph_step.py --no-link              on bare shared memory

The step has 12 equal layers with NumPy kernels (graph_step_layers.py).  The ranks' links are emulated (docs/links.md):
so slow that an all-reduce of one gradient takes LINK_MS, beside which the copies themselves are nothing.  The number of
samples is chosen at the start so that the kernels take 1.5 times as long as all of these, which makes communication
40 % of the eager step.

    eager        each gradient is all-reduced on the stream of the kernels
    hand         on a communication stream behind an event, one call for each layer
    captured     the eager step, captured and launched
    optimised    the captured step, after ge.optimise and with planned memory
    predicted    the optimised step by ge.timeline, from the times of its kernels alone, measured in the same rounds

Milliseconds from a barrier until the last rank has synchronised, medians of rounds in which the sides take turns.
bits_equal: the weights of all ranks are the same bits on all sides after STEPS steps from the same beginning.  peak,
bound and no_reuse: bytes of the optimised graph's own memory, what no plan can do without, and without any reuse.
What is not in the line of --json (the part of communication, ratios) is on stderr.  With --check rank 0 exits with 1 if
a ratio is above its bound.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import sys
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
from graph_step_layers import Array, Network
from threadpoolctl import threadpool_limits

import ascend_rt as rt
from ascend_rt import ge, settings
from ascend_rt.acl import device
from ascend_rt.ge.measure import kernel_times
from ascend_rt.ge.timeline import simulate

LAYERS, WIDTH = 12, 256
LINK_MS, LATENCY_US = 4.0, 20.0
SHARE = 0.4  # of communication in the eager step
TRIAL_ROWS, STEPS, WARM_UP = 512, 3, 2
BOUNDS = {"optimised / eager": 0.72, "optimised / hand": 1.03, "off the prediction": 0.05}
BARE_BOUNDS = {"optimised / eager": 1.02}  # with --no-link

Step = Callable[[], None]


def link_of(ranks: int) -> str:
    """So that a mesh all-reduce of a gradient takes LINK_MS: latency + 2n/N / rate."""
    nbytes, seconds = WIDTH * WIDTH * 4, (LINK_MS * 1e3 - LATENCY_US) / 1e6
    return f"{2 * nbytes / ranks / seconds:.0f}B/s,{LATENCY_US:.0f}us"


class Sides:
    """The ways to do the step, each a function that queues one; all of them end on `stream`."""

    def __init__(self, network: Network) -> None:
        self.network, self.comm, self.stream, self.beside = network, network.comm, rt.Stream(), rt.Stream()

    def kernels(self) -> None:
        """The step without communication."""
        self.network.queue(self.stream, lambda gradient: None)

    def eager(self) -> None:
        self.network.queue(self.stream, self._average)

    def hand(self) -> None:
        done: dict[int, rt.Event] = {}

        def average(gradient: Array) -> None:
            self.beside.wait(self.stream.record())
            self.comm.all_reduce(gradient, op="avg", stream=self.beside)
            done[id(gradient)] = self.beside.record()

        self.network.queue(self.stream, average, lambda gradient: self.stream.wait(done[id(gradient)]))

    def captured(self) -> ge.Graph:
        with ge.capture(self.stream, name="step") as graph:
            self.network.empty = functools.partial(ge.empty, self.stream)
            self.eager()
        self.network.empty = rt.empty
        return graph

    def _average(self, gradient: Array) -> None:
        self.comm.all_reduce(gradient, op="avg", stream=self.stream)


def seconds(sides: Sides, step: Step) -> float:
    sides.comm.barrier()
    began = perf_counter()
    step()
    sides.stream.synchronize()
    return perf_counter() - began


def slowest(comm: rt.Communicator, times: list[float]) -> list[float]:
    """By round, the time of the slowest rank."""
    return comm.all_reduce(np.array(times), op="max").tolist()


def fitting_rows(comm: rt.Communicator) -> int:
    """The samples with which communication is SHARE of the eager step."""
    wanted, rows = LAYERS * LINK_MS / 1e3 * (1 - SHARE) / SHARE, TRIAL_ROWS
    for _ in range(2):  # the second time at nearly the right size
        trial = Sides(Network(comm, LAYERS, WIDTH, rows))
        taken = statistics.median(slowest(comm, [seconds(trial, trial.kernels) for _ in range(12)][WARM_UP:]))
        rows = max(16, round(rows * wanted / taken / 16) * 16)
    return rows


def times_of(sides: Sides, steps: dict[str, Step], rounds: int, predict: Step) -> dict[str, float]:
    """Milliseconds by side.  predict: takes its turn in every round."""
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(rounds + WARM_UP):
        sides.comm.barrier()
        predict()
        for name, step in steps.items():
            time = seconds(sides, step)
            if number >= WARM_UP:
                taken[name].append(time)
    return {name: statistics.median(slowest(sides.comm, times)) * 1e3 for name, times in taken.items()}


def same_bits(sides: Sides, steps: dict[str, Step]) -> bool:
    """Whether all sides, on all ranks, end with the same weights."""
    found = set()
    for step in steps.values():
        sides.network.reset()
        for _ in range(STEPS):
            step()
        sides.stream.synchronize()
        everyone = sides.comm.all_gather(np.frombuffer(sides.network.bits(), np.uint8))
        found |= {row.tobytes() for row in everyone.reshape(sides.comm.size, -1)}
    assert np.isfinite(sides.network.weights[0]).all()
    return len(found) == 1


def measure(comm: rt.Communicator, rows: int, rounds: int) -> tuple[dict[str, Any], float, list[str]]:
    """The line, the part of communication in the eager step, and what the passes say that they did."""
    sides = Sides(Network(comm, LAYERS, WIDTH, rows))
    captured = sides.captured()
    comm.barrier()
    costs = ge.measured(captured, rounds=15)
    optimised = ge.optimise(captured, costs=costs)
    plan = ge.plan_memory(optimised)
    placed = ge.allocate(plan, device.current().memory)
    steps: dict[str, Step] = {
        "eager": sides.eager,
        "captured": functools.partial(captured.launch, sides.stream),
        "hand": sides.hand,
        "optimised": functools.partial(placed.launch, sides.stream),
    }
    bits_equal = same_bits(sides, steps)
    predictions: list[float] = []

    def predict() -> None:
        alone = replace(costs, kernels=kernel_times(placed, rounds=1))
        predictions.append(simulate(optimised, alone).step_us / 1e3)

    times = times_of(sides, {"kernels": sides.kernels, **steps}, rounds, predict)
    predicted = statistics.median(slowest(comm, predictions[WARM_UP:]))
    line = {
        "ranks": comm.size,
        **{f"{name}_ms": round(times[name], 3) for name in steps},
        "predicted_ms": round(predicted, 3),
        "bits_equal": bits_equal,
        "peak_bytes": plan.peak,
        "bound_bytes": plan.bound,
        "no_reuse_bytes": plan.total_size,
    }
    return line, 1 - times["kernels"] / times["eager"], list(optimised.log)


def ratios(line: dict[str, Any]) -> dict[str, float]:
    optimised = line["optimised_ms"]
    return {
        "optimised / eager": optimised / line["eager_ms"],
        "optimised / hand": optimised / line["hand_ms"],
        "off the prediction": abs(optimised / line["predicted_ms"] - 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one line on stdout")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--rows", type=int, help="samples of a rank (default: such that communication is 40 %%)")
    parser.add_argument("--no-link", action="store_true", help="emulate no links")
    parser.add_argument("--check", action="store_true", help="fail if a ratio is above its bound")
    options = parser.parse_args()
    threadpool_limits(1, user_api="blas")
    ranks = settings.read().rank_size or 1
    comm = rt.init(link=None if options.no_link or ranks == 1 else link_of(ranks))
    line, share, log = measure(comm, options.rows or fitting_rows(comm), options.rounds)
    found, bounds = ratios(line), BARE_BOUNDS if options.no_link else BOUNDS
    if comm.rank == 0:
        said = [f"communication is {share:.0%} of the eager step", *log]
        said += [f"{name}: {ratio:.3f}, bound {bounds.get(name, 'none')}" for name, ratio in found.items()]
        print("\n".join(said), file=sys.stderr)
        print(json.dumps(line) if options.json else "\n".join(f"{key:16}{value}" for key, value in line.items()))
    missed = not line["bits_equal"] or any(found[name] > bound for name, bound in bounds.items())
    return int(options.check and comm.rank == 0 and missed)


if __name__ == "__main__":
    sys.exit(main())
