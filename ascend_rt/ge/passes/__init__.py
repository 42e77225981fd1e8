"""Passes: each takes a graph and gives a graph that does the same, and leaves a line on what it did.

    from ascend_rt.ge.passes import optimise
    optimised = optimise(graph, options, costs=costs)

One file per pass, in the order in which they run; `ge.disableOptimizations` switches them off by name.
"""

from .driver import PASSES, optimise, optimise_ranks

__all__ = ["PASSES", "optimise", "optimise_ranks"]
