"""The step that graph_step.py measures: equal layers, forward, backward, and a step down the averaged gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ascend_rt as rt

Array = NDArray[Any]
Average = Callable[[Array], None]
RATE = 1e-6


def layer(x: Array, weight: Array, out: Array) -> None:
    np.matmul(x, weight, out=out)
    np.maximum(out, 0, out=out)


def slope_of_weight(d_out: Array, out: Array, x: Array, d_sum: Array, d_weight: Array) -> None:
    np.multiply(d_out, out > 0, out=d_sum)
    np.matmul(x.T, d_sum, out=d_weight)


def slope_of_input(d_sum: Array, weight: Array, d_x: Array) -> None:
    np.matmul(d_sum, weight.T, out=d_x)


def descend(gradient: Array, weight: Array) -> None:
    np.subtract(weight, np.multiply(gradient, RATE), out=weight)


class Network:
    """Layers of width x width in float32 on `rows` samples of this rank.

    weights    one array for each layer
    empty      makes the arrays between kernels, from their shape
    data       the communicator over which gradients are averaged
    """

    def __init__(self, comm: rt.Communicator, layers: int, width: int, rows: int) -> None:
        random = np.random.default_rng([7, comm.rank])
        self.data, self.width = comm, width
        self.empty: Callable[..., Array] = rt.empty
        self.x, self.wanted = (rt.array(random.random((rows, width), np.float32)) for _ in range(2))
        self.weights = [rt.empty((width, width)) for _ in range(layers)]
        self.reset()

    def reset(self) -> None:
        """The weights of the beginning, the same on all ranks."""
        random = np.random.default_rng(8)
        for weight in self.weights:
            weight[...] = random.normal(0, np.sqrt(2 / self.width), weight.shape)

    def bits(self) -> bytes:
        return b"".join(weight.tobytes() for weight in self.weights)

    def layer_done(self, gradient: Array) -> Array | None:
        """All gradients of a layer, if this was the last of them: there is one."""
        return gradient

    def queue_kernels(self, stream: rt.Stream) -> None:
        """One step without communication."""
        self.queue(stream, lambda gradient: None)

    def queue(self, stream: rt.Stream, average: Average, averaged: Average = lambda layer: None) -> None:
        """One step.  average: called with each gradient once what computes it is queued; averaged: with all those of a
        layer once their averages are needed, in the same order."""
        outs = [self.x]
        for weight in self.weights:
            outs.append(self.empty(self.x.shape))
            put(stream, layer, [outs[-2], weight], [outs[-1]])
        d_out, gradients = self.empty(self.x.shape), []
        put(stream, np.subtract, [outs[-1], self.wanted], [d_out])
        for number, weight in reversed(list(enumerate(self.weights))):
            d_sum, gradient = self.empty(self.x.shape), self.empty(weight.shape)
            put(stream, slope_of_weight, [d_out, outs[number + 1], outs[number]], [d_sum, gradient])
            average(gradient)
            gradients.append(gradient)
            if number:
                d_out = self.empty(self.x.shape)
                put(stream, slope_of_input, [d_sum, weight], [d_out])
        for gradient, weight in zip(gradients, reversed(self.weights), strict=True):
            averaged(gradient)
            stream.launch(descend, gradient, weight, reads=[gradient, weight], writes=[weight])


def put(stream: rt.Stream, kernel: Callable[..., object], reads: list[Array], writes: list[Array]) -> None:
    stream.launch(kernel, *reads, *writes, reads=reads, writes=writes)
