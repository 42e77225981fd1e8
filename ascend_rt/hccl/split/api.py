"""Where the gradients of a training step are cut for their all-reduce, as CANN's `hccl.split.api` has it.

    from hccl.split.api import set_split_strategy_by_size
    set_split_strategy_by_size([60, 20, 20])

What is set is kept for the graph engine (gradient_segments.py), which fuses the gradients of a segment. It is nothing
to programs that call their collectives themselves. HcclError (HCCL_E_PARA): a wrong list; HCCL_E_NOT_FOUND: this rank
is not in the group.
"""

import itertools
import math
from collections.abc import Sequence

from ..errors import HcclError, HcclResult
from ..gradient_segments import MOST_SEGMENTS, set_last_indices, set_percentages
from ..named_groups import WORLD_GROUP, find

__all__ = ["set_split_strategy_by_idx", "set_split_strategy_by_size"]


def set_split_strategy_by_idx(idxList: Sequence[int], group: str = WORLD_GROUP) -> None:  # noqa: N803  CANN's name
    """idxList: the index of the last gradient of each segment, ascending, from 0; at most 8. group: whose ranks."""
    indices = tuple(int(index) for index in idxList)
    ascending = all(one < other for one, other in itertools.pairwise(indices))
    if not 0 < len(indices) <= MOST_SEGMENTS or indices[0] < 0 or not ascending:
        text = f"idxList={list(idxList)}; expected 1 to {MOST_SEGMENTS} indices from 0 on, ascending"
        raise HcclError(HcclResult.HCCL_E_PARA, text)
    find(group)
    set_last_indices(group, indices)


def set_split_strategy_by_size(dataSizeList: Sequence[float], group: str = WORLD_GROUP) -> None:  # noqa: N803
    """dataSizeList: percentages of all bytes of gradients, by segment, which add up to 100; at most 8. They count
    before what set_split_strategy_by_idx has set. group: whose ranks."""
    percentages = tuple(float(size) for size in dataSizeList)
    fits = 0 < len(percentages) <= MOST_SEGMENTS and all(size >= 0 for size in percentages)
    if not fits or not math.isclose(sum(percentages), 100.0, abs_tol=1e-6):
        text = f"dataSizeList={list(dataSizeList)}; expected 1 to {MOST_SEGMENTS} percentages that add up to 100"
        raise HcclError(HcclResult.HCCL_E_PARA, text)
    find(group)
    set_percentages(group, percentages)
