"""The step of a small GPT that graph_step.py measures: that of ascend_rt/examples, data parallel x tensor parallel.

Four ranks are two models, each on two ranks.  A layer is a block of the model, what is behind the blocks, or the
embedding with the loss.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from graph_step_layers import Array, Average

import ascend_rt as rt
from ascend_rt.examples import train_gpt
from ascend_rt.examples.gpt import GPT, Grid, Size, parameters

SIZE = Size(vocabulary=128, tokens=32, width=128, heads=4, blocks=4)
RATE = 0.001


def tensor_size(ranks: int) -> int:
    """The ranks of one model, which are neighbours."""
    return 2 if ranks >= 4 else 1


def gradient_nbytes(ranks: int) -> int:
    """Of all gradients of a rank, nearly: what is split over the ranks of a model is nearly all."""
    return 4 * sum(int(np.prod(each.shape)) for each in parameters(SIZE).values()) // tensor_size(ranks)


class GPTStep:
    """A GPT with what graph_step.py needs of a network (see Network of graph_step_layers); rows: sequences."""

    def __init__(self, comm: rt.Communicator, rows: int) -> None:
        self.model = GPT(Grid.of(comm, tensor_size(comm.size)), rt.Stream(), rows, SIZE, seed=5)
        self.data = self.model.grid.data
        text = train_gpt.load()[0]
        random = np.random.default_rng([6, self.data.rank])
        places = random.integers(len(text) - SIZE.tokens, size=(rows, 1)) + np.arange(SIZE.tokens)
        self.model.tokens[...], self.model.targets[...] = text[places], text[places + 1]
        self._beginning = [array.copy() for array in self.model.state]
        self._communicate = self.model.average, self.model.complete

    @property
    def empty(self) -> Callable[..., Array]:
        return self.model.empty

    @empty.setter
    def empty(self, empty: Callable[..., Array]) -> None:
        self.model.empty = empty

    def reset(self) -> None:
        for array, beginning in zip(self.model.state, self._beginning, strict=True):
            array[...] = beginning

    def bits(self) -> bytes:
        return b"".join(array.tobytes() for array in (*self.model.state, self.model.loss))

    def layer_done(self, gradient: Array) -> Array | None:
        end = _end(gradient)
        return next((part for part in self.model.parts if _end(part) == end), None)

    def queue_kernels(self, stream: rt.Stream) -> None:
        self.model.complete = lambda array: None
        self.queue(stream, lambda gradient: None)

    def queue(self, stream: rt.Stream, average: Average, averaged: Average = lambda layer: None) -> None:
        self.model.stream, self.model.average = stream, average
        self.model.slopes()
        for part in self.model.parts:
            averaged(part)
            self.model.update(part, RATE)
        self.model.average, self.model.complete = self._communicate


def _end(array: Array) -> Any:
    return array.ctypes.data + array.nbytes
