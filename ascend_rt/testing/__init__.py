"""Run a test on N ranks: a warm pool, from which a job of real processes starts in tens of milliseconds."""

from .pool import RankFailure, RankPool

__all__ = ["RankFailure", "RankPool"]
