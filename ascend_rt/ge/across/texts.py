"""Texts that the ranks of a communicator tell one another."""

import itertools
from typing import TYPE_CHECKING

import numpy as np

from ...hccl.transfers import Recv, Send

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


def peer_text(communicator: "Communicator", peer: int, text: str) -> str:
    """The text of a rank that calls it with this one as its peer, by two messages each way that block the caller.
    HcclError as these."""
    mine, count = np.frombuffer(text.encode(), np.uint8), np.zeros(1, np.int64)
    communicator.batch_send_recv([Send(np.array([mine.size], np.int64), peer), Recv(count, peer)])
    theirs = np.empty(int(count[0]), np.uint8)
    communicator.batch_send_recv([Send(mine, peer), Recv(theirs, peer)])
    return theirs.tobytes().decode()
