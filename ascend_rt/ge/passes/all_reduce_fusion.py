"""All-reduces of several gradients become one, by GE's rules or where that is fastest.

Which: those of fusion 2 and of one fusion_id are one bucket. Those of fusion 1 go by the strategy that was set for
their communicator by hccl.split.api; else by comm_fusion or ascend_rt.fusion of the options: "rules" are GE's 96.54 %
and 3.46 % of the bytes; "auto" are the buckets with which communication ends earliest, or all in one, or none, by the
predicted step, also if kernels are a little faster or slower than measured.
"""

from collections.abc import Mapping

from ..buckets import SPEEDS, Fastest, Indices, Strategy, Threshold, least_behind
from ..graph import Graph
from ..timeline import simulate
from ..tying import tied
from .candidates import Candidates, Label, candidates_of
from .fusing import Buckets, cut, fused, with_buckets
from .overlap import overlap
from .terms import Terms

ONE = Indices(())
EACH = Threshold(0)


def fuse_all_reduces(graph: Graph, terms: Terms) -> Graph:
    """Fuse the all-reduces of a graph. ValueError (EI0003): ranks have marked a call differently."""
    candidates = candidates_of(graph, terms, lambda label: label.call == "all_reduce")
    buckets: Buckets = {label: cut(_strategy(label, terms), each) for label, each in candidates.items()}
    if isinstance(terms.options.fusion, Fastest):
        buckets = _fastest_step(graph, candidates, buckets, terms)
    return with_buckets(graph, candidates, buckets, "all_reduce_fusion", "all-reduces")


def _strategy(label: Label, terms: Terms) -> Strategy:
    if label.fusion_id >= 0:
        return ONE
    return terms.options.split_strategies.get(label.communicator, terms.options.fusion)


def _fastest_step(graph: Graph, candidates: Mapping[Label, Candidates], buckets: Buckets, terms: Terms) -> Buckets:
    """For the labels without a strategy of their own: the buckets as they are, one, or none, by the predicted step."""
    chosen = dict(buckets)
    for name in sorted({label.communicator for label in buckets}):
        labels = [label for label in buckets if label.communicator == name and _is_fastest(label, terms)]
        if not labels:
            continue
        choices: list[Buckets] = [chosen]
        for strategy in (ONE, EACH):
            choice = chosen | {label: cut(strategy, candidates[label]) for label in labels}
            choices += [choice] if choice not in choices else []
        own = {
            f"{number} {speed}": step_us
            for number, choice in enumerate(choices)
            for speed, step_us in zip(SPEEDS, _steps_us(graph, candidates, choice, terms), strict=True)
        }
        steps = terms.agree(name, own)
        by_choice = [[steps[f"{number} {speed}"] for speed in SPEEDS] for number in range(len(choices))]
        chosen = dict(choices[least_behind(by_choice)])
    return chosen


def _is_fastest(label: Label, terms: Terms) -> bool:
    return isinstance(_strategy(label, terms), Fastest)


def _steps_us(
    graph: Graph, candidates: Mapping[Label, Candidates], buckets: Buckets, terms: Terms
) -> list[float]:
    """The predicted step, overlapped, at each of the SPEEDS."""
    draft, _ = fused(graph, candidates, buckets)
    tried = graph.replace("tried", nodes=tied(graph, draft.tasks), buffers=draft.buffers)
    tried = overlap(tried, terms) if terms.options.is_on("overlap") else tried
    return [simulate(tried, terms.costs.with_kernels_at(speed)).step_us for speed in SPEEDS]
