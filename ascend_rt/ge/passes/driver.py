"""Runs the passes over a graph."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from ...hccl.gradient_segments import segments_of
from ...hccl.named_groups import WORLD_GROUP
from ..buckets import Indices, Percentages, Strategy
from ..costs import Costs
from ..graph import Graph
from ..memory.asked import check_peak, memory_options
from ..memory.options import MemoryOptions
from ..options import Options
from .agreement import Agree, Meeting, asked
from .all_reduce_fusion import fuse_all_reduces
from .collective_fusion import fuse_collectives
from .held import Held
from .narrowing import narrow_first
from .narrowing_reduction import narrow_reductions
from .narrowing_send import narrow_messages
from .overlap import overlap
from .recompute import recompute
from .reduce_scatter import join_reductions, scatter_reductions
from .repeated import drop_dead, drop_repeated
from .terms import Terms

WORLD = "world"
"""What the communicator of rt.init() is called; hccl.split.api calls its ranks hccl_world_group."""

PASSES: dict[str, Callable[[Graph, Terms], Graph]] = {
    "repeated_communication": drop_repeated,
    "dead_communication": drop_dead,
    "reduce_scatter_all_gather_to_all_reduce": join_reductions,
    "all_reduce_slice_to_reduce_scatter": scatter_reductions,
    "narrowing_cast": narrow_first,
    "narrowing_cast_send": narrow_messages,
    "narrowing_cast_reduction": narrow_reductions,
    "all_reduce_fusion": fuse_all_reduces,
    "collective_fusion": fuse_collectives,
    "overlap": overlap,
    "recompute": recompute,
}
"""By name, in the order in which they run."""


def optimise(
    graph: Graph, options: Options | None = None, *, costs: Costs | None = None, agree: Agree | None = None
) -> Graph:
    """A graph that computes the same bits in less time; what was done is in its log.

    Every rank must call it with its graph and the same options, and blocks until all have. costs: see measured; without
    them kernels are taken to last as long as loading and storing what they use. agree: how ranks come to know what all
    know, by default through the graph's communicators. A graph in which tasks race is left as it is. Task groups stay,
    for ge.update: nothing is moved across them.

    ValueError: the graph has no communicators here, and `agree` was not given; ranks have other calls in task groups;
    OptionError: it has no input or output
    of an index in the options; GraphMemoryError (EL0004): it takes more than ge.graphMemoryMaxSize; HcclError as
    all_gather.
    """
    if agree is None and graph.groups.keys() - graph.communicators.keys():
        text = f"graph {graph.name!r} has no communicators here; bind it, or optimise_ranks the graphs of all ranks"
        raise ValueError(text)
    agree = agree or asked(graph.communicators)
    terms = Terms(costs or Costs(), agree, _with_segments(options or Options(), graph))
    for notice in terms.options.notices(PASSES):
        graph = graph.replace(notice)
    races = graph.races()
    if races:
        first, second = graph.by_id[races[0].before], graph.by_id[races[0].after]
        return graph.replace(f"not optimised: {first} and {second} use the same memory, and nothing puts them in order")
    has_groups, held = graph.task_groups is not None, Held(graph)
    held.check(graph, agree)
    graph = _run_round(held, graph, terms) if has_groups else _run(graph, terms)
    if has_groups or not terms.options.is_on("recompute"):
        check_peak(terms.options, graph)
    asked_for = memory_options(terms.options, graph)
    if asked_for != MemoryOptions():
        graph = graph.replace(f"memory: to be planned with {asked_for}")
        graph.memory_options = asked_for
    return graph


def _run(graph: Graph, terms: Terms) -> Graph:
    for name, run in PASSES.items():
        if terms.options.is_on(name):
            graph = run(graph, terms)
    return graph


def _run_round(held: Held, graph: Graph, terms: Terms) -> Graph:
    """As _run, round tasks that stay as they are."""
    hidden = held.hide(graph)
    races = hidden.races()
    if races:
        first, second = graph.by_id[races[0].before], graph.by_id[races[0].after]
        return graph.replace(f"not optimised: one of {first} and {second} is in a task group, and they may run at once")
    return held.put_back(_run(hidden, replace(terms, costs=held.costs(graph, terms.costs))))


def optimise_ranks(
    graphs: Mapping[int, Graph], options: Options | None = None, *, costs: Mapping[int, Costs] | None = None
) -> dict[int, Graph]:
    """`optimise` for the graphs of all ranks of a job in one process, by rank. Raises what it raises for one."""
    meeting, failed = Meeting(), list[BaseException]()

    def run(rank: int, graph: Graph) -> Graph:
        agree = meeting.rank(rank, {name: group.size for name, group in graph.groups.items()})
        try:
            return optimise(graph, options, costs=(costs or {}).get(rank), agree=agree)
        except BaseException as error:
            failed.append(error)  # the first is the cause: others only have nobody to agree with
            meeting.leave(f"rank {rank} has failed: {error}")
            raise

    with ThreadPoolExecutor(len(graphs) or 1, "optimise rank") as threads:
        done = {rank: threads.submit(run, rank, graph) for rank, graph in graphs.items()}
    if failed:
        raise failed[0]
    return {rank: future.result() for rank, future in done.items()}


def _with_segments(options: Options, graph: Graph) -> Options:
    """The options, with what hccl.split.api was told of the graph's communicators."""
    told: dict[str, Strategy] = {}
    for name in graph.groups:
        segments = segments_of(WORLD_GROUP if name == WORLD else name)
        if segments.percentages is not None:
            told[name] = Percentages(segments.percentages)
        elif segments.last_indices is not None:
            told[name] = Indices(segments.last_indices)
    return replace(options, split_strategies={**told, **options.split_strategies})
