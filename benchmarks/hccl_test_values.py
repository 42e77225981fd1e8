"""What ranks contribute in hccl_test.py, and what every rank must then hold, by NumPy.

Every rank can compute what every other contributes.  The values are chosen so that each data type holds every partial
result exactly: the order in which a collective folds makes no difference.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray

# A prime: no two chunks that an algorithm could confuse hold the same values.
PERIOD = 65_521
# bfloat16, the coarsest type, holds all whole numbers up to this.
EXACT = 256

FOLD = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}


def contribution(rank: int, size: int, count: int, given: argparse.Namespace) -> NDArray[Any]:
    """The `count` elements that `rank` of `size` sends."""
    rng = np.random.default_rng([count, rank])
    unsigned = given.dtype.kind == "u"
    if given.op == "prod":
        # One rank in turn has a 2 or a 3; the sign, where there is one, is everybody's.
        drawn = rng.choice([1] if unsigned else [1, -1], min(count, PERIOD))
        drawn[rank::size] *= rng.choice([2, 3], drawn[rank::size].size)
    else:
        most = max(1, min(100, EXACT // size))
        drawn = rng.integers(0 if unsigned else -most, most + 1, min(count, PERIOD))
    return np.resize(drawn.astype(given.dtype), count)


def expected(rank: int, size: int, count: int, given: argparse.Namespace) -> NDArray[Any]:
    """What `rank` holds afterwards, when every rank sent `count` elements; nothing (zeros) off the root of a reduce."""
    sent = [contribution(peer, size, count, given) for peer in range(size)]
    mine = slice(rank * (count // size), (rank + 1) * (count // size))
    match given.operation:
        case "broadcast":
            return sent[given.root]
        case "all_gather" | "all_gatherv":
            return np.concatenate(sent)
        case "scatter":
            return sent[given.root][mine]
        case "alltoall" | "alltoallv" | "alltoallvc":
            return np.concatenate([each[mine] for each in sent])
        case "reduce" if rank != given.root:
            return np.zeros_like(sent[rank])
    result = sent[0]
    for each in sent[1:]:
        result = FOLD[given.op](result, each)
    return result[mine] if given.operation in ("reduce_scatter", "reduce_scatterv") else result
