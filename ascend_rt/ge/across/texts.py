"""Texts that the ranks of a communicator tell one another."""

import itertools
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ...hccl.communicator import Communicator


def all_texts(communicator: "Communicator", text: str) -> list[str]:
    """Every rank's text, in rank order, by two all-gathers that block the caller. HcclError as these."""
    mine = np.frombuffer(text.encode(), np.uint8)
    counts = communicator.all_gather(np.array([mine.size])).ravel().tolist()
    everything = np.empty(sum(counts), np.uint8)
    communicator.all_gather_v(mine, everything, counts)
    ends = itertools.accumulate(counts)
    return [everything[end - count : end].tobytes().decode() for count, end in zip(counts, ends, strict=True)]
