"""One file per algorithm. Importing the package registers them all."""

from . import ahc, halving_doubling, hierarchy, mesh, nb, nhr, pairwise, pipeline, ring, star, tree

__all__ = [
    "ahc",
    "halving_doubling",
    "hierarchy",
    "mesh",
    "nb",
    "nhr",
    "pairwise",
    "pipeline",
    "ring",
    "star",
    "tree",
]
