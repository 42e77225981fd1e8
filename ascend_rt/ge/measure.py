"""How long the kernels of a graph take, alone.

costs = measured(graph)            what passes and predictions go by, on this host, with this job's links
"""

import statistics
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..hccl.choices import machine_of
from ..hccl.world import emulated_links
from .costs import Costs
from .graph import Graph
from .nodes import Kernel, View
from .placement import Array, array_of, dtype_named


def measured(graph: Graph, rounds: int = 5) -> Costs:
    """What the tasks of a captured graph cost: kernels as measured here and now, calls by the measurements of this host
    and by the emulated links of the job.

    All ranks should measure at the same time: they share the cores in a step as well.
    """
    held = list(graph.communicators.values())
    times = kernel_times(graph, rounds)
    if not held:
        return Costs(times)
    ranks = 1 + max(max(comm.world_ranks) for comm in held)
    return Costs(times, machine_of(held[0]), emulated_links(), ranks)


def kernel_times(graph: Graph, rounds: int = 5) -> dict[int, float]:
    """The median microseconds of each kernel by id of its node; of opaque ones, which are not run, nothing.

    Every kernel is called `rounds` times, in the order of the graph, with copies of the arrays it is called with in a
    launch: memory of the program stays as it is. ValueError: a buffer of the program has no memory here (Graph.bind).
    """
    memory = _copies(graph)
    taken: dict[int, list[float]] = {}
    for _ in range(rounds):
        for node in graph.nodes:
            task = node.task
            if not isinstance(task, Kernel) or task.is_opaque:
                continue
            arguments, keywords = _values(task.arguments, memory), _values(dict(task.keywords), memory)
            begin = time.perf_counter_ns()
            with np.errstate(all="ignore"):  # collectives that would have filled its arrays do not run
                task.function(*arguments, **keywords)
            taken.setdefault(node.id, []).append((time.perf_counter_ns() - begin) / 1e3)
    return {id: statistics.median(times) for id, times in taken.items()}


def _copies(graph: Graph) -> dict[str, Array]:
    lacking = [
        name for name, buffer in graph.buffers.items() if buffer.address is not None and name not in graph.memory
    ]
    if lacking:
        raise ValueError(f"buffers {lacking} of graph {graph.name!r} have no memory here; bind the graph to some first")
    own = {
        name: np.zeros(buffer.nbytes, np.uint8) for name, buffer in graph.buffers.items() if name not in graph.memory
    }
    return own | {name: array.copy() for name, array in graph.memory.items()}


def _values(value: Any, memory: Mapping[str, Array]) -> Any:
    """The value with an array in the place of each View."""
    if isinstance(value, View):
        return (
            np.empty(value.shape, dtype_named(value.dtype))
            if value.count == 0
            else array_of(value, memory[value.buffer])
        )
    if type(value) in (tuple, list):
        return type(value)(_values(part, memory) for part in value)
    if type(value) is dict:
        return {key: _values(part, memory) for key, part in value.items()}
    return value
