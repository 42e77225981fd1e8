"""All-gathers, reduce-scatters, broadcasts and reduces become one: those that are marked with one fusion_id, and the
first two by comm_fusion too. GE does so for marked ones, MindSpore by comm_fusion; neither does it unasked.

A broadcast that was fused has at most ge.fusionTensorSize bytes, as in GE. What must be packed for it stays apart where
that takes longer than it saves.
"""

from ..buckets import AtMost, Indices, Strategy
from ..graph import Graph
from .candidates import Label, candidates_of
from .fusing import cut, with_buckets
from .terms import Terms

ONE = Indices(())


def fuse_collectives(graph: Graph, terms: Terms) -> Graph:
    """Fuse calls that are not all-reduces. ValueError (EI0003): ranks have marked a call differently."""
    candidates = candidates_of(graph, terms, lambda label: _strategy(label, terms) is not None)
    strategies = {label: _strategy(label, terms) for label in candidates}
    buckets = {label: cut(strategy, candidates[label]) for label, strategy in strategies.items() if strategy}
    return with_buckets(graph, candidates, buckets, "collective_fusion", "calls")


def _strategy(label: Label, terms: Terms) -> Strategy | None:
    if label.call == "all_reduce":
        return None
    if label.fusion_id < 0:
        return terms.options.comm_fusion.get(label.call)
    return AtMost(terms.options.value("ge.fusionTensorSize")) if label.call == "broadcast" else ONE
