"""Trains a two-layer network to read handwritten digits, data parallel over all ranks of the job.

    hccl-run -n 4 -m ascend_rt.examples.train_digits

Every rank holds all weights and works on its share of each batch.  The weights start on rank 0 and are broadcast; the
gradients are fp16 in device memory and averaged over the ranks, so all ranks take the same step and their weights stay
equal bit for bit.  Each layer's gradient is averaged on a communication stream once the backward pass has left the
layer, and the layer's step waits for its event.  With one rank, or without hccl-run, it is ordinary training.

The samples are 1,797 digits of 8x8 pixels: E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits", UCI
Machine Learning Repository, https://doi.org/10.24432/C50P49, CC BY 4.0 (digits.npz, described in DIGITS.md).
"""

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

import ascend_rt as rt
from ascend_rt.hccl import Communicator

PIXELS, HIDDEN, CLASSES = 64, 256, 10
SHAPES: tuple[tuple[int, ...], ...] = ((PIXELS, HIDDEN), (HIDDEN,), (HIDDEN, CLASSES), (CLASSES,))
SIZE = sum(math.prod(shape) for shape in SHAPES)  # weights of the whole network
FIRST = sum(math.prod(shape) for shape in SHAPES[:2])  # and of its first layer
PARTS = (slice(0, FIRST), slice(FIRST, SIZE))  # the layers in the flat array
BATCH = 120  # samples of one step, all ranks together
EPOCHS = 60
RATE, MOMENTUM = 0.3, 0.9
SEED = 0
# Gradients are scaled up while they are fp16, which loses digits below 6e-5: most of them are that small at the end.
LOSS_SCALE = 256.0

Floats = NDArray[np.float32]


class Samples(NamedTuple):
    """Images as float32 of shape (n, 64) in [0, 1], and their digits as integers of shape (n,)."""

    images: Floats
    labels: NDArray[np.intp]

    def take(self, which: NDArray[np.intp]) -> "Samples":
        return Samples(self.images[which], self.labels[which])


class Layers(NamedTuple):
    """The two layers as views of one flat array, so that one collective moves them all."""

    weight1: NDArray[Any]
    bias1: NDArray[Any]
    weight2: NDArray[Any]
    bias2: NDArray[Any]

    @classmethod
    def of(cls, flat: NDArray[Any]) -> "Layers":
        ends = np.cumsum([math.prod(shape) for shape in SHAPES])[:-1]
        return cls(*(part.reshape(shape) for part, shape in zip(np.split(flat, ends), SHAPES, strict=True)))


class Outcome(NamedTuple):
    """What `train` returns: the trained weights, flat, and the loss of every step, averaged over the ranks."""

    weights: Floats
    losses: list[float]


def load() -> tuple[Samples, Samples]:
    """The training samples and the test samples: a random fifth of each digit.

    Random, because the file is ordered by writer: its last fifth is other people's handwriting, a harder task.
    """
    with np.load(Path(__file__).with_name("digits.npz")) as file:
        every = Samples(file["images"].reshape(-1, PIXELS) / np.float32(16), file["labels"].astype(np.intp))
    shuffled = np.random.default_rng(SEED).permutation(len(every.labels))
    by_digit = [shuffled[every.labels[shuffled] == digit] for digit in range(CLASSES)]
    test = np.concatenate([which[: len(which) // 5] for which in by_digit])
    train = np.concatenate([which[len(which) // 5 :] for which in by_digit])
    return every.take(train), every.take(test)


def forward(layers: Layers, images: Floats) -> tuple[Floats, Floats]:
    """The hidden activations (n, HIDDEN) and the probabilities of the digits (n, CLASSES)."""
    hidden = np.maximum(images @ layers.weight1 + layers.bias1, 0)
    scores = hidden @ layers.weight2 + layers.bias2
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    return hidden, odds / odds.sum(axis=1, keepdims=True)


def backward(
    layers: Layers, samples: Samples, gradients: Layers, done: Callable[[int], object] = lambda layer: None
) -> float:
    """Returns the mean cross-entropy and writes its gradients, times LOSS_SCALE, to `gradients`.

    Calls `done(layer)` when the gradient of a layer is complete, the last layer first.
    """
    hidden, probabilities = forward(layers, samples.images)
    rows = np.arange(len(samples.labels))
    loss = -np.log(probabilities[rows, samples.labels]).mean()

    slope = probabilities
    slope[rows, samples.labels] -= 1
    slope *= LOSS_SCALE / len(rows)
    slope_hidden = slope @ layers.weight2.T * (hidden > 0)

    gradients.weight2[...] = hidden.T @ slope
    gradients.bias2[...] = slope.sum(axis=0)
    done(1)
    gradients.weight1[...] = samples.images.T @ slope_hidden
    gradients.bias1[...] = slope_hidden.sum(axis=0)
    done(0)
    return float(loss)


def initial_weights() -> Floats:
    """He's initialisation, flat."""
    flat = np.zeros(SIZE, np.float32)
    layers, random = Layers.of(flat), np.random.default_rng(SEED)
    layers.weight1[...] = random.normal(0, np.sqrt(2 / PIXELS), layers.weight1.shape)
    layers.weight2[...] = random.normal(0, np.sqrt(2 / HIDDEN), layers.weight2.shape)
    return flat


def batches(samples: Samples, epochs: int) -> Iterator[NDArray[np.intp]]:
    """The samples of each step, all ranks' shares together: every rank draws the same ones."""
    random = np.random.default_rng(SEED)
    for _ in range(epochs):
        order = random.permutation(len(samples.labels))
        yield from order[: len(order) // BATCH * BATCH].reshape(-1, BATCH)


def train(
    comm: Communicator, samples: Samples, steps: Iterable[NDArray[np.intp]], stream: rt.Stream | None = None
) -> Outcome:
    """Trains over all ranks of `comm`, one step for each batch of `steps`; collective.

    Gradients are averaged on `stream`, or where they are computed if there is none: the weights are the same, bit for
    bit. BATCH must be a multiple of `comm.size`: then the mean of the ranks' mean gradients is the mean over the batch.
    """
    share = BATCH // comm.size
    mine = slice(comm.rank * share, (comm.rank + 1) * share)

    weights = rt.empty(SIZE, np.float32)
    if comm.rank == 0:
        weights[...] = initial_weights()
    comm.broadcast(weights, root=0)

    gradients, loss = rt.empty(SIZE, np.float16), rt.empty(1, np.float32)
    velocity = np.zeros(SIZE, np.float32)
    averaged = [rt.Event() for _ in PARTS]
    layers, slots, losses = Layers.of(weights), Layers.of(gradients), []

    def average(layer: int) -> None:
        comm.all_reduce(gradients[PARTS[layer]], op="avg", stream=stream)
        if stream is not None:
            stream.record(averaged[layer])

    for batch in steps:
        loss[0] = backward(layers, samples.take(batch[mine]), slots, average)
        comm.all_reduce(loss, op="avg", stream=stream)
        for part, event in zip(PARTS, averaged, strict=True):
            event.synchronize()
            velocity[part] = MOMENTUM * velocity[part] + gradients[part].astype(np.float32) / LOSS_SCALE
            weights[part] -= RATE * velocity[part]
        if stream is not None:
            stream.synchronize()
        losses.append(float(loss[0]))
    return Outcome(weights, losses)


def accuracy(weights: Floats, samples: Samples) -> float:
    """The part of `samples` that is read correctly."""
    _, probabilities = forward(Layers.of(weights), samples.images)
    return float((probabilities.argmax(axis=1) == samples.labels).mean())


def with_progress(steps: list[NDArray[np.intp]]) -> Iterator[NDArray[np.intp]]:
    """`steps`, with a progress bar while they are consumed."""
    from rich.progress import track

    yield from track(steps, description="training")


def main() -> None:
    # The matrices are small: more BLAS threads would only take the cores from the stream's worker.
    threadpool_limits(1, user_api="blas")
    comm = rt.init()
    if BATCH % comm.size:
        fitting = ", ".join(str(size) for size in range(1, BATCH + 1) if BATCH % size == 0)
        text = f"train_digits: a batch of {BATCH} samples cannot be shared equally by {comm.size} ranks; use {fitting}"
        raise SystemExit(text if comm.rank == 0 else 1)

    training, test = load()
    steps = list(batches(training, EPOCHS))
    watched = comm.rank == 0 and sys.stdout.isatty()
    if comm.rank == 0:
        print(f"{len(training.labels)} samples, {len(steps)} steps of {BATCH}, ranks: {comm.size}", flush=True)

    began = time.perf_counter()
    outcome = train(comm, training, with_progress(steps) if watched else steps, rt.Stream())
    seconds = time.perf_counter() - began

    if comm.rank == 0:
        print(f"loss {outcome.losses[0]:.3f} at the first step, {outcome.losses[-1]:.3f} at the last")
        print(f"{len(steps) * BATCH / seconds:.0f} samples/s")
        print(f"accuracy {100 * accuracy(outcome.weights, test):.1f} %", flush=True)
    rt.finalize()


if __name__ == "__main__":
    main()
