"""How long the kernels of a graph take, alone, and how late calls over emulated links are beside them.

costs = measured(graph)            what passes and predictions go by, on this host, with this job's links
"""

import os
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..acl.stream import Stream
from ..hccl.choices import machine_of
from ..hccl.communicator import Communicator
from ..hccl.world import emulated_links, zeros
from .costs import Costs, nbytes_of
from .graph import Graph
from .nodes import Collective, Kernel, View
from .placement import Array, array_of, dtype_named

FEWEST_CALLS, MOST_CALLS = 10, 60  # to find out how late they are
ITEM = 4  # bytes of a float32


def measured(graph: Graph, rounds: int = 5) -> Costs:
    """What the tasks of a captured graph cost: kernels as measured here and now, calls by the measurements of this host
    and by the emulated links of the job.

    All ranks should measure at the same time: they share the cores in a step as well. With emulated links all ranks of
    the graph's communicators must, since calls are made to find out how late they are (`call_lateness`).
    """
    held = list(graph.communicators.values())
    times = kernel_times(graph, rounds)
    if not held:
        return Costs(times)
    ranks = 1 + max(max(comm.world_ranks) for comm in held)
    costs = Costs(times, machine_of(held[0]), emulated_links(), ranks)
    return costs if costs.links is None else replace(costs, late_us=call_lateness(graph, costs))


def kernel_times(graph: Graph, rounds: int = 5) -> dict[int, float]:
    """The mean microseconds of each kernel by id of its node; of opaque ones, which are not run, nothing.

    Every kernel is called `rounds` times, in the order of the graph, with copies of the arrays it is called with in a
    launch: memory of the program stays as it is. ValueError: a buffer of the program has no memory here (Graph.bind).
    """
    # Not the median: where ranks outnumber cores a kernel waits for another rank's now and then, and long.
    taken: dict[int, list[float]] = {}
    kernels, memory = _kernels(graph), _copies(graph)
    for _ in range(rounds):
        for id, microseconds in _timed(kernels, memory):
            taken.setdefault(id, []).append(microseconds)
    return {id: statistics.fmean(times) for id, times in taken.items()}


def call_lateness(graph: Graph, costs: Costs) -> dict[tuple[int, ...], float]:
    """By the job's ranks of a communicator, the microseconds by which a call over emulated links is later than they
    say while kernels run: threads that slept are to be woken, and ranks wait for the last one. The same on all of them.

    Collective over all communicators of the graph.
    """
    memory, found, on_time = _copies(graph), {}, replace(costs, late_us={})
    for name, communicator in sorted(graph.communicators.items()):
        if communicator.size > 1:
            calls, count = _typical_calls(communicator, graph, name)
            late = _elapsed_us(communicator, graph, memory, calls, count) / calls
            late -= on_time.call("all_reduce", ITEM * count, graph.groups[name]).alone_us
            everyone = communicator.all_reduce(np.array([max(0.0, late)]), op="max")
            found[graph.groups[name].world_ranks] = float(everyone[0])
    return found


def _typical_calls(communicator: Communicator, graph: Graph, name: str) -> tuple[int, int]:
    """How many calls to make instead of those that a graph has of a communicator, and of how many elements: the same on
    all ranks, whose graphs nobody has compared yet."""
    mine = [nbytes_of(node) for node in graph.nodes if node.communicator == name and isinstance(node.task, Collective)]
    calls, nbytes = communicator.all_reduce(np.array([len(mine), sum(mine)]), op="max").tolist()
    return min(max(calls, FEWEST_CALLS), MOST_CALLS), max(1, nbytes // max(calls, 1) // ITEM)


def _elapsed_us(
    communicator: Communicator, graph: Graph, memory: Mapping[str, Array], calls: int, count: int
) -> float:
    """Of all-reduces one after another on a stream of their own, kernels running all the while.

    Most of a link's time is slept, so that the kernels are met as they are in a step: long ones as often as they last.
    """
    stream, x = Stream(), zeros(count)
    communicator.barrier()
    begin = stream.record()
    for _ in range(calls):
        communicator.all_reduce(x, stream=stream)
    end = stream.record()
    kernels = _kernels(graph)
    while kernels and not any(end.query() for _ in _timed(kernels, memory)):
        pass
    stream.synchronize()
    return begin.elapsed_ms(end) * 1e3


def _kernels(graph: Graph) -> list[tuple[int, Kernel]]:
    """Those that can be run by themselves, with their ids."""
    tasks = [(node.id, node.task) for node in graph.nodes]
    return [(id, task) for id, task in tasks if isinstance(task, Kernel) and not task.is_opaque]


def _timed(kernels: Sequence[tuple[int, Kernel]], memory: Mapping[str, Array]) -> Iterator[tuple[int, float]]:
    """Runs kernels one after another; id and microseconds of each."""
    for id, task in kernels:
        arguments, keywords = _values(task.arguments, memory), _values(dict(task.keywords), memory)
        begin = time.perf_counter_ns()
        with np.errstate(all="ignore"):  # collectives that would have filled its arrays do not run
            task.function(*arguments, **keywords)
        if Stream.take_turns:
            os.sched_yield()  # the turns of the others are part of the time
        yield id, (time.perf_counter_ns() - begin) / 1e3


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
