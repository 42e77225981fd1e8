"""One file per collective, one function of a few lines per algorithm. Importing the package registers them all."""

from . import all_gather, all_reduce, barrier, broadcast, reduce_scatter

__all__ = ["all_gather", "all_reduce", "barrier", "broadcast", "reduce_scatter"]
