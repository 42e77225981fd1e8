"""A training step as a plain script, with overlap by hand, captured, and optimised by the graph engine.

    hccl-run -n 2 benchmarks/graph_step.py [--json] [--check]
    hccl-run -n 4 benchmarks/graph_step.py --step gpt             a small GPT, data parallel x tensor parallel
    hccl-run -n 2 benchmarks/graph_step.py --no-link              on bare shared memory
    hccl-run -n 2 benchmarks/graph_step.py --no-link --step small     200 small gradients

The step has 12 equal layers with NumPy kernels (graph_step_layers.py), or is that of a GPT (graph_step_gpt.py).  The
ranks' links are emulated (docs/links.md): so slow that the averages of all gradients take LINK_MS (GPT_LINK_MS), beside
which the copies themselves are nothing; the ranks of one GPT have links between them that are NEAR times as fast, as
those within a server are.  The number of samples is chosen at the start so that communication is 40 % of the eager
step.

    eager        each gradient is all-reduced on the stream of the kernels
    hand         on a communication stream behind an event, one call for each layer
    captured     the eager step, captured and launched
    optimised    the captured step, after ge.optimise and with planned memory
    predicted    the optimised step by ge.timeline, from the times of its kernels alone and from how late calls are over
                 these links, both measured in the same rounds

Milliseconds from a barrier until the last rank has synchronised, medians of rounds in which the sides take turns;
ratios are medians of the ratios within a round.
bits_equal: the weights of all ranks are the same bits on all sides after STEPS steps from the same beginning.  peak,
bound and no_reuse: bytes of the optimised graph's own memory, what no plan can do without, and without any reuse.
What is not in the line of --json is on stderr: the part of communication; that of the processor in the averages, copies
and what is waited awake, by the time of the thread that carries them out; ratios.  With --check rank 0 exits with 1 if
a ratio is above its bound.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from time import perf_counter, thread_time
from typing import Any, NamedTuple

import graph_step_gpt as gpt
import numpy as np
from graph_step_layers import Array, Network
from threadpoolctl import threadpool_limits

import ascend_rt as rt
from ascend_rt import ge, settings
from ascend_rt.acl import device
from ascend_rt.ge.measure import call_lateness, kernel_times
from ascend_rt.ge.timeline import simulate

LAYERS, WIDTH = 12, 256
LINK_MS, LATENCY_US = 48.0, 20.0
GPT_LINK_MS = {1: 108.0, 2: 96.0}  # by ranks of a model, which share its gradients
# A guess: 392 GB/s of all HCCS links of a rank, a figure without a primary source, beside 25 GB/s of RoCE.  By the
# constants in HCCL, 18.3 GB/s for a HCCS link and 20 for RDMA, it would be 1.
NEAR = 16
SHARE, SHARE_OFF = 0.4, 0.03  # of communication in the eager step, and how far off it may be in what is measured
TRIES = 4
STEPS, WARM_UP = 3, 2
BOUNDS = {"optimised / eager": 0.72, "optimised / hand": 1.03, "off the prediction": 0.05, "awake": 0.03}
BARE_BOUNDS = {"optimised / eager": 1.02}  # with --no-link
SMALL_BOUNDS = {"optimised / eager": 0.85}

NAMES = "eager", "captured", "hand", "optimised", "predicted"

Step = Callable[[], None]
Timed = Callable[[], float]


class Kind(NamedTuple):
    """A step to measure: the network for a number of samples, a number to begin with, and its ranks' links."""

    network: Callable[[rt.Communicator, int], Any]
    rows: int
    fewest: int  # samples are a multiple of it
    link_of: Callable[[int], str]
    bare_bounds: dict[str, float]


def rate_of(seconds: float, nbytes: int) -> int:
    """Bytes per second of a link with which `nbytes` take so long."""
    return round(nbytes / seconds)


def link_of_layers(ranks: int) -> str:
    """So that mesh all-reduces of all gradients take LINK_MS: each latency + 2n/N / rate."""
    seconds = LINK_MS / 1e3 - LAYERS * LATENCY_US / 1e6
    return f"{rate_of(seconds, LAYERS * 2 * WIDTH * WIDTH * 4 // ranks)}B/s,{LATENCY_US:.0f}us"


def link_of_gpt(ranks: int) -> str:
    """So that the bytes of all gradients take that of GPT_LINK_MS; the ranks of a model are NEAR times as near."""
    tensor = gpt.tensor_size(ranks)
    rate = rate_of(GPT_LINK_MS[tensor] / 1e3, 2 * gpt.gradient_nbytes(ranks) // (ranks // tensor))
    models = [range(first, first + tensor) for first in range(0, ranks, tensor)]
    near = [f";{a}-{b}:{NEAR * rate}B/s,{LATENCY_US:.0f}us" for model in models for a, b in combinations(model, 2)]
    return f"{rate}B/s,{LATENCY_US:.0f}us" + "".join(near)


KINDS = {
    "layers": Kind(lambda comm, rows: Network(comm, LAYERS, WIDTH, rows), 512, 16, link_of_layers, BARE_BOUNDS),
    "gpt": Kind(gpt.GPTStep, 12, 1, link_of_gpt, BARE_BOUNDS),
    "small": Kind(lambda comm, rows: Network(comm, 200, 32, rows), 32, 32, link_of_layers, SMALL_BOUNDS),
}


class Sides:
    """The ways to do the step, each a function that queues one; all of them end on `stream`."""

    def __init__(self, comm: rt.Communicator, network: Any) -> None:
        self.comm, self.network, self.stream, self.beside = comm, network, rt.Stream(), rt.Stream()

    def timed(self, step: Step) -> Timed:
        """Runs a step on all ranks and returns its seconds on this one."""

        def seconds() -> float:
            self.comm.barrier()
            began = perf_counter()
            step()
            self.stream.synchronize()
            return perf_counter() - began

        return seconds

    def kernels(self) -> None:
        """The step without communication."""
        self.network.queue_kernels(self.stream)

    def eager(self) -> None:
        self.network.queue(self.stream, self._average)

    def hand(self) -> None:
        done: dict[int, rt.Event] = {}

        def average(gradient: Array) -> None:
            layer = self.network.layer_done(gradient)
            if layer is not None:
                self.beside.wait(self.stream.record())
                self.network.data.all_reduce(layer, op="avg", stream=self.beside)
                done[id(layer)] = self.beside.record()

        self.network.queue(self.stream, average, lambda layer: self.stream.wait(done[id(layer)]))

    def captured(self) -> ge.Graph:
        with ge.capture(self.stream, name="step") as graph:
            self.network.empty = functools.partial(ge.empty, self.stream)
            self.eager()
        self.network.empty = rt.empty
        return graph

    def _average(self, gradient: Array) -> None:
        self.network.data.all_reduce(gradient, op="avg", stream=self.stream)

    def gradients(self) -> list[Array]:
        """Those of a step, in the order in which they are averaged."""
        found: list[Array] = []
        self.network.queue(self.stream, found.append)
        self.stream.synchronize()
        return found


def slowest(comm: rt.Communicator, times: list[float]) -> list[float]:
    """By round, the time of the slowest rank."""
    return comm.all_reduce(np.array(times), op="max").tolist()


def fitting_rows(comm: rt.Communicator, kind: Kind) -> int:
    """The samples with which communication is SHARE of the eager step."""
    rows = kind.rows
    for _ in range(3):  # each time nearer to the right size
        trial = Sides(comm, kind.network(comm, rows))
        timed = [("kernels", trial.timed(trial.kernels)), ("eager", trial.timed(trial.eager))]
        rows = nearer(kind, rows, share_of(rounds_of(comm, timed, 12)))
    return rows


def nearer(kind: Kind, rows: int, share: float) -> int:
    """Samples with which communication is SHARE of the eager step, if it is `share` with so many."""
    wanted = share / (1 - share) * (1 - SHARE) / SHARE
    return max(kind.fewest, round(rows * wanted / kind.fewest) * kind.fewest)


def awake_of(sides: Sides) -> float:
    """The part of the processor in the time of the averages of all gradients, nothing else running."""
    gradients = sides.gradients()
    awake, whole = 0.0, 0.0
    for _ in range(3):
        sides.comm.barrier()
        at, worked = perf_counter(), thread_time()
        for gradient in gradients:
            sides.network.data.all_reduce(gradient, op="avg")
        awake, whole = awake + thread_time() - worked, whole + perf_counter() - at
    return float(sides.comm.all_reduce(np.array([awake / whole]), op="max")[0])


def rounds_of(comm: rt.Communicator, timed: Sequence[tuple[str, Timed]], rounds: int) -> dict[str, list[float]]:
    """By name, milliseconds of each round, of the rank where they are most; of what is there twice, the mean."""
    taken: dict[str, list[float]] = {name: [] for name, _ in timed}
    for number in range(rounds + WARM_UP):
        comm.barrier()
        found: dict[str, list[float]] = {name: [] for name in taken}
        for name, run in timed:
            found[name].append(run() * 1e3)
        if number >= WARM_UP:
            for name, times in found.items():
                taken[name].append(statistics.fmean(times))
    return {name: slowest(comm, times) for name, times in taken.items()}


def ratio(times: dict[str, list[float]], name: str, to: str) -> float:
    """The median of the ratios within a round."""
    return statistics.median(mine / other for mine, other in zip(times[name], times[to], strict=True))


def share_of(times: dict[str, list[float]]) -> float:
    """Of communication in the eager step."""
    return 1 - ratio(times, "kernels", "eager")


def same_bits(sides: Sides, steps: dict[str, Step]) -> bool:
    """Whether all sides, on all ranks of a data group, end with the same weights."""
    found = set()
    for step in steps.values():
        sides.network.reset()
        for _ in range(STEPS):
            step()
        sides.stream.synchronize()
        everyone = sides.network.data.all_gather(np.frombuffer(sides.network.bits(), np.uint8))
        found |= {row.tobytes() for row in everyone.reshape(sides.network.data.size, -1)}
    return bool(sides.comm.all_reduce(np.array([len(found)]), op="max")[0] == 1)


def measure(comm: rt.Communicator, network: Any, rounds: int) -> tuple[dict[str, Any], dict[str, float], list[str]]:
    """The line, what else was measured by name, and what the passes say that they did."""
    sides = Sides(comm, network)
    awake = awake_of(sides)
    captured = sides.captured()
    comm.barrier()
    costs = ge.measured(captured, rounds=15)
    optimised = ge.optimise(captured, costs=costs)
    plan = ge.plan_memory(optimised)
    placed = ge.allocate(plan, device.current().memory)
    steps: dict[str, Step] = {
        "captured": functools.partial(captured.launch, sides.stream),
        "eager": sides.eager,
        "optimised": functools.partial(placed.launch, sides.stream),
        "hand": sides.hand,
    }
    bits_equal = same_bits(sides, steps)

    def predicted() -> float:
        late = call_lateness(placed, costs) if costs.links else {}
        alone = replace(costs, kernels=kernel_times(placed, rounds=1), late_us=late)
        return simulate(optimised, alone).step_us / 1e6

    turns = [(name, sides.timed(step)) for name, step in {**steps, "kernels": sides.kernels}.items()]
    # Before and behind the step that is predicted, since the machine is not equally fast for long.
    turns = [("predicted", predicted), *turns, ("predicted", predicted)]
    times = rounds_of(comm, turns, rounds)
    line = {
        "ranks": comm.size,
        **{f"{name}_ms": round(statistics.median(times[name]), 3) for name in NAMES},
        "bits_equal": bits_equal,
        "peak_bytes": plan.peak,
        "bound_bytes": plan.bound,
        "no_reuse_bytes": plan.total_size,
    }
    found = {
        "optimised / eager": ratio(times, "optimised", "eager"),
        "optimised / hand": ratio(times, "optimised", "hand"),
        "off the prediction": abs(ratio(times, "optimised", "predicted") - 1),
        "communication / eager": share_of(times),
        "awake": awake,
    }
    return line, found, list(optimised.log)


def measure_fitting(
    comm: rt.Communicator, kind: Kind, rounds: int
) -> tuple[int, dict[str, Any], dict[str, float], list[str]]:
    """As measure, with the samples. Other programs make kernels slower for a while: what was measured while
    communication was not SHARE of the eager step is measured again, TRIES times at most, whatever came out."""
    rows = fitting_rows(comm, kind)
    for _ in range(TRIES - 1):
        line, found, log = measure(comm, kind.network(comm, rows), rounds)
        share = found["communication / eager"]
        if abs(share - SHARE) <= SHARE_OFF:
            return rows, line, found, log
        if comm.rank == 0:
            print(f"{rows} samples of a rank: communication was {share:.3f} of the eager step", file=sys.stderr)
        rows = nearer(kind, rows, share)
    return rows, *measure(comm, kind.network(comm, rows), rounds)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one line on stdout")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--step", choices=KINDS, default="layers")
    parser.add_argument("--rows", type=int, help="samples of a rank (default: such that communication is 40 %%)")
    parser.add_argument("--no-link", action="store_true", help="emulate no links")
    parser.add_argument("--check", action="store_true", help="fail if a ratio is above its bound")
    options = parser.parse_args()
    threadpool_limits(1, user_api="blas")
    ranks = settings.read().rank_size or 1
    kind = KINDS[options.step]
    comm = rt.init(link=None if options.no_link or ranks == 1 else kind.link_of(ranks))
    if options.rows or options.no_link:
        rows = options.rows or kind.rows
        line, found, log = measure(comm, kind.network(comm, rows), options.rounds)
    else:
        rows, line, found, log = measure_fitting(comm, kind, options.rounds)
    bounds = kind.bare_bounds if options.no_link else BOUNDS
    if comm.rank == 0:
        said = [f"{rows} samples of a rank", *log]
        said += [f"{name}: {ratio:.3f}, bound {bounds.get(name, 'none')}" for name, ratio in found.items()]
        print("\n".join(said), file=sys.stderr)
        print(json.dumps(line) if options.json else "\n".join(f"{key:16}{value}" for key, value in line.items()))
    missed = not line["bits_equal"] or any(found[name] > bound for name, bound in bounds.items())
    return int(options.check and comm.rank == 0 and missed)


if __name__ == "__main__":
    sys.exit(main())
