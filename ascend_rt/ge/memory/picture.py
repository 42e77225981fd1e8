"""A memory plan as a picture: the nodes from left to right, addresses from bottom to top, a rectangle for each place.

With several streams a node's column is only its place in the list; what is drawn is in use at least there.
"""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..dag import Dag
from ..nodes import Span
from .placement import Placement

NAMED = 0.02
"""of the peak: smaller buffers have no name in the picture"""
MIB = 1 << 20


class Drawn(NamedTuple):
    """What a picture shows: of each place the buffers that lie there, and where it is."""

    graph: Dag
    places: Sequence[Sequence[Span]]
    placement: Placement


def draw(plan: Drawn, path: Path) -> None:
    """ImportError without matplotlib, which the extra `ascend_rt[plot]` installs."""
    try:
        figures: Any = importlib.import_module("matplotlib.figure")
    except ImportError:
        raise ImportError("a picture takes matplotlib: pip install matplotlib, or ascend_rt[plot]") from None
    figure = figures.Figure(figsize=(12, 7), layout="constrained")
    axes = figure.add_subplot()
    for number, chain in enumerate(plan.places):
        columns = [
            column
            for column, node in enumerate(plan.graph.nodes)
            if any(span.overlaps(part) for span in (*node.reads, *node.writes) for part in chain)
        ] or [0, len(plan.graph.nodes)]
        left, width = columns[0], columns[-1] - columns[0] + 1
        bottom, height = plan.placement.offsets[number] / MIB, chain[0].nbytes / MIB
        axes.broken_barh([(left, width)], (bottom, height), facecolor=f"C{number % 10}", edgecolor="white")
        if chain[0].nbytes > NAMED * plan.placement.peak:
            text = " = ".join(part.buffer for part in chain)
            axes.text(left + width / 2, bottom + height / 2, text, ha="center", va="center", fontsize=7)
    for level, style, label in ((plan.placement.peak, "-", "peak"), (plan.placement.bound, "--", "lower bound")):
        axes.axhline(level / MIB, color="black", linestyle=style, linewidth=1, label=f"{label} {level / MIB:,.1f} MiB")
    axes.set(xlabel="node", ylabel="address, MiB", title=f"memory of graph {plan.graph.name!r}")
    axes.set_xlim(0, max(1, len(plan.graph.nodes)))
    axes.legend(loc="upper right")
    figure.savefig(path)
