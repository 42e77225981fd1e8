"""Runs the passes over a graph."""

from collections.abc import Callable
from dataclasses import replace

from ...hccl.gradient_segments import segments_of
from ...hccl.named_groups import WORLD_GROUP
from ..buckets import Indices, Percentages, Strategy
from ..costs import Costs
from ..graph import Graph
from ..options import Options
from .agreement import Agree, alike, asked
from .all_reduce_fusion import fuse_all_reduces
from .overlap import overlap
from .terms import Terms

WORLD = "world"
"""What the communicator of rt.init() is called; hccl.split.api calls its ranks hccl_world_group."""

PASSES: dict[str, Callable[[Graph, Terms], Graph]] = {
    "all_reduce_fusion": fuse_all_reduces,
    "overlap": overlap,
}
"""By name, in the order in which they run."""


def optimise(
    graph: Graph, options: Options | None = None, *, costs: Costs | None = None, agree: Agree | None = None
) -> Graph:
    """A graph that computes the same bits in less time; what was done is in its log.

    Every rank must call it with its graph and the same options, and blocks until all have. costs: see measured; without
    them kernels are taken to last as long as loading and storing what they use. agree: how ranks come to know what all
    know, by default through the graph's communicators; where it has none, all ranks are taken to have the same graph
    and the same costs. A graph in which tasks race is left as it is.
    """
    agree = agree or (asked(graph.communicators) if graph.communicators else alike)
    terms = Terms(costs or Costs(), agree, _with_segments(options or Options(), graph))
    races = graph.races()
    if races:
        first, second = graph.by_id[races[0].before], graph.by_id[races[0].after]
        return graph.replace(f"not optimised: {first} and {second} use the same memory, and nothing puts them in order")
    for name, run in PASSES.items():
        if terms.options.is_on(name):
            graph = run(graph, terms)
    return graph


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
