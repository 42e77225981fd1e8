"""Runs the passes over a graph."""

from collections.abc import Callable

from ..costs import Costs
from ..graph import Graph
from ..options import Options
from .agreement import Agree, alike
from .all_reduce_fusion import fuse_all_reduces
from .overlap import overlap
from .terms import Terms

PASSES: dict[str, Callable[[Graph, Terms], Graph]] = {
    "all_reduce_fusion": fuse_all_reduces,
    "overlap": overlap,
}
"""By name, in the order in which they run."""


def optimise(
    graph: Graph, options: Options | None = None, *, costs: Costs | None = None, agree: Agree = alike
) -> Graph:
    """A graph that computes the same bits in less time; what was done is in its log.

    Every rank must call it with its graph and the same options. agree: what ranks know of each other; without it, all
    ranks are taken to have the same graph and the same costs. A graph in which tasks race is left as it is.
    """
    terms = Terms(costs or Costs(), agree, options or Options())
    races = graph.races()
    if races:
        first, second = graph.by_id[races[0].before], graph.by_id[races[0].after]
        return graph.replace(f"not optimised: {first} and {second} use the same memory, and nothing puts them in order")
    for name, run in PASSES.items():
        if terms.options.is_on(name):
            graph = run(graph, terms)
    return graph
