"""The passes over the graphs of all ranks, compiled together: a thread for each rank, since ranks have to agree."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from ..graph import Graph
from ..options import Options
from ..passes import optimise
from ..passes.agreement import Meeting


def optimise_together(graphs: Mapping[int, Graph], options: Options) -> dict[int, Graph]:
    """The optimised graph of each rank. What a pass raises for one rank is raised, and no other rank waits for it."""
    meeting = Meeting()

    def run(rank: int) -> Graph:
        graph = graphs[rank]
        sizes = {name: group.size for name, group in graph.groups.items()}
        try:
            return optimise(graph, options, agree=meeting.rank(rank, sizes))
        except Exception as error:
            meeting.leave(f"rank {rank}: {error}")
            raise

    with ThreadPoolExecutor(len(graphs)) as threads:
        done = {rank: threads.submit(run, rank) for rank in graphs}
    failed = [error for future in done.values() if (error := future.exception())]
    if failed:
        raise min(failed, key=lambda error: isinstance(error, RuntimeError))  # others only have nobody to agree with
    return {rank: future.result() for rank, future in done.items()}
