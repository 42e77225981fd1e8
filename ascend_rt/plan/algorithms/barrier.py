"""Barrier: no rank leaves before every rank has entered."""

from ..language import Builder
from ..registry import algorithm


@algorithm("barrier", "mesh")
def mesh(p: Builder) -> None:
    """Entering a collective is a barrier already: one round, no data."""
    p.enter()
