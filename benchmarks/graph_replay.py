"""What a node of a launched graph costs beside the same call made at once.

    python benchmarks/graph_replay.py [--nodes 1000] [--rounds 15] [--check]
    hccl-run -n 2 benchmarks/graph_replay.py

Graphs of small native nodes, whose work itself costs next to nothing, launched and synchronised:

    memory       copies and memsets of 64 bytes on one stream
    streams      the same on two streams that wait for each other after every ten of them
    collectives  all-reduces of 8 bytes

One line of JSON: for each graph the microseconds of a node, records and waits counted, from before the launch until
after synchronize; `eager` is the same calls queued one by one, `launch` how long the call of launch itself takes, for
the whole graph.  All are medians of rounds in which the sides take turns.  With --check it exits with 1 if a node of a
graph that waits for no other rank takes more than the bound.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

import ascend_rt as rt
from ascend_rt import ge

BOUND_US = 1.5


def move_memory(stream: rt.Stream, memory: np.ndarray[Any, Any], nodes: int) -> None:
    """Alternately a copy and a memset."""
    base = memory.__array_interface__["data"][0]
    for node in range(nodes):
        if node % 2:
            stream.fill(base + 128, node % 256, 64, None)
        else:
            stream.copy(base + 64, base, 64, None)


def on_one_stream(stream: rt.Stream, beside: rt.Stream, comm: rt.Communicator, x: Any, nodes: int) -> None:
    move_memory(stream, x, nodes)


def on_two_streams(stream: rt.Stream, beside: rt.Stream, comm: rt.Communicator, x: Any, nodes: int) -> None:
    for _ in range(nodes // 24):  # 20 of memory, two events there and back
        beside.wait(stream.record())
        move_memory(stream, x, 10)
        move_memory(beside, x[256:], 10)
        stream.wait(beside.record())


def collectives(stream: rt.Stream, beside: rt.Stream, comm: rt.Communicator, x: Any, nodes: int) -> None:
    small = x[:8].view(np.float32)
    for _ in range(nodes):
        comm.all_reduce(small, op="max", stream=stream)


Queue = Callable[[rt.Stream, rt.Stream, rt.Communicator, Any, int], None]
GRAPHS: dict[str, Queue] = {"memory": on_one_stream, "streams": on_two_streams, "collectives": collectives}


def measure(queue: Queue, comm: rt.Communicator, nodes: int, rounds: int) -> dict[str, float]:
    stream, beside, x = rt.Stream(), rt.Stream(), rt.zeros(1024, "uint8")
    with ge.capture(stream) as g:
        queue(stream, beside, comm, x, nodes)
    g.launch(stream)
    stream.synchronize()
    graph, eager, launch = [], [], []
    for _ in range(rounds):
        comm.barrier()
        began = perf_counter()
        g.launch(stream)
        launched = perf_counter()
        stream.synchronize()
        done = perf_counter()
        comm.barrier()
        again = perf_counter()
        queue(stream, beside, comm, x, nodes)
        stream.synchronize()
        eager.append((perf_counter() - again) / len(g.nodes))
        graph.append((done - began) / len(g.nodes))
        launch.append(launched - began)
    g.destroy()
    taken = {"us_per_node": graph, "eager_us_per_node": eager, "launch_us": launch}
    return {name: round(statistics.median(times) * 1e6, 3) for name, times in taken.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--check", action="store_true", help=f"fail above {BOUND_US} us per node")
    options = parser.parse_args()
    comm = rt.init()
    report: dict[str, Any] = {"ranks": comm.size, "nodes": options.nodes, "bound_us": BOUND_US}
    report |= {name: measure(queue, comm, options.nodes, options.rounds) for name, queue in GRAPHS.items()}
    if comm.rank == 0:
        print(json.dumps(report), flush=True)
    checked = [name for name in GRAPHS if comm.size == 1 or name == "memory"]
    return int(options.check and any(report[name]["us_per_node"] > BOUND_US for name in checked))


if __name__ == "__main__":
    sys.exit(main())
