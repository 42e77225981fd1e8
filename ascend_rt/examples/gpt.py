"""A GPT, data parallel x tensor parallel, whose step is queued on a stream: forward and backward, no autograd.

Ranks stand in a grid.  Those of one tensor group hold one model: each block's heads and the middle of its MLP are split
between them, the first matrix by columns and the second by rows, so that one sum over the group completes the output of
either half of the block, and one sum in the backward pass the slope at its input (M. Shoeybi et al., arXiv:1909.08053).
All else each of them has whole, and computes alike.  Those of one data group hold the same part of the model and work
on different sequences; each gradient is averaged over them.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import ascend_rt as rt
from ascend_rt.examples import gpt_kernels as kernels
from ascend_rt.examples.gpt_kernels import Array
from ascend_rt.hccl import Communicator

Backward = Callable[[Array], Array]
"""Queues the backward pass of a part, given the slope of the loss at its output; returns that at its input."""

Part = tuple[Array, Backward]

DECAYS = 0.9, 0.99  # of Adam's averages


class Size(NamedTuple):
    """width and heads are those of the whole model; heads divides width."""

    vocabulary: int = 128
    tokens: int = 32
    width: int = 64
    heads: int = 4
    blocks: int = 2


class Grid(NamedTuple):
    """The two groups of this rank."""

    tensor: Communicator
    data: Communicator

    @classmethod
    def of(cls, comm: Communicator, tensor: int) -> "Grid":
        """Neighbouring ranks hold one model; collective.  tensor: how many, a divisor of comm.size."""
        one_model, one_part = comm.split(comm.rank // tensor), comm.split(comm.rank % tensor)
        assert one_model is not None and one_part is not None  # every rank passed a color
        return cls(one_model, one_part)


class Parameter(NamedTuple):
    """shape: of the whole; axis: along which it is split over the tensor group, if it is."""

    shape: tuple[int, ...]
    axis: int | None = None
    deviation: float = 0.0  # of the random numbers that it starts with
    start: float = 0.0  # their mean


def parameters(size: Size) -> dict[str, Parameter]:
    """In the order in which the forward pass uses them."""
    d, heads, features = size.width, size.heads, size.width // size.heads
    into, back = 1 / math.sqrt(d), 1 / math.sqrt(8 * d * size.blocks)
    found = {"table": Parameter((size.vocabulary, d), None, 0.1), "positions": Parameter((size.tokens, d), None, 0.1)}
    for block in range(size.blocks):
        found |= {
            f"{block}.norm1.gain": Parameter((d,), start=1),
            f"{block}.norm1.bias": Parameter((d,)),
            f"{block}.q_k_v": Parameter((d, 3, heads, features), 2, into),
            f"{block}.projection": Parameter((heads, features, d), 0, back),
            f"{block}.projection.bias": Parameter((d,)),
            f"{block}.norm2.gain": Parameter((d,), start=1),
            f"{block}.norm2.bias": Parameter((d,)),
            f"{block}.widen": Parameter((d, 4 * d), 1, into),
            f"{block}.widen.bias": Parameter((4 * d,), 0),
            f"{block}.narrow": Parameter((4 * d, d), 0, back),
            f"{block}.narrow.bias": Parameter((d,)),
        }
    return found | {
        "norm.gain": Parameter((d,), start=1),
        "norm.bias": Parameter((d,)),
        "scores": Parameter((d, size.vocabulary), None, into),
    }


def views(flat: Array, shapes: dict[str, tuple[int, ...]]) -> dict[str, Array]:
    ends = np.cumsum([math.prod(shape) for shape in shapes.values()])[:-1]
    return {name: x.reshape(shape) for (name, shape), x in zip(shapes.items(), np.split(flat, ends), strict=True)}


class GPT:
    """This rank's part of the model.

    weights, gradients    by name, views of flat arrays in device memory
    tokens, targets       (sequences, size.tokens) of int64: what this rank works on, and what comes next; to be filled
    scores                (sequences, size.tokens, size.vocabulary), once a forward pass is done
    loss                  one element: the mean over all sequences of the data group, once a step is done
    parts                 gradients of what is behind the blocks and of each block, from the last to the first, and
                          of the embedding with the loss: one array each
    state                 all that a step goes by and changes
    empty                 makes the arrays between kernels, from shape and dtype; rt.empty unless set otherwise
    average, complete     queue the average over the data group, or the sum over the tensor group, of an array in place

    Gradients lie in the order in which the backward pass has them, the loss behind them: so what is averaged in one
    call is one array.
    """

    empty: Callable[[tuple[int, ...], Any], Array]
    average: Callable[[Array], None]
    complete: Callable[[Array], None]

    def __init__(
        self, grid: Grid, stream: rt.Stream, sequences: int, size: Size, seed: int, dtype: npt.DTypeLike = np.float32
    ) -> None:
        """sequences: of this rank.  dtype: of all but tokens.  ValueError: heads cannot be split over the group."""
        if size.heads % grid.tensor.size:
            raise ValueError(f"{size.heads} heads cannot be shared equally by a tensor group of {grid.tensor.size}")
        self.grid, self.stream, self.size, self.dtype = grid, stream, size, np.dtype(dtype)
        self.empty = rt.empty
        self._draw_weights(seed)
        self.average, self.complete = self._average_over_data, self._sum_over_tensor
        self._averages, self._steps = rt.zeros((2, self._flat.size), dtype), rt.zeros(len(self.parts), np.int64)
        self.state = [self._flat, self._averages, self._steps]
        self.tokens, self.targets = (rt.zeros((sequences, size.tokens), np.int64) for _ in range(2))
        self.scores = rt.zeros((*self.tokens.shape, size.vocabulary), dtype)

    def _draw_weights(self, seed: int) -> None:
        """Every rank draws all weights and keeps its part, so the model does not depend on the grid."""
        random, tensor, mine = np.random.default_rng(seed), self.grid.tensor, {}
        for name, (shape, axis, deviation, start) in parameters(self.size).items():
            whole = random.normal(start, deviation, shape)
            mine[name] = whole if axis is None else np.split(whole, tensor.size, axis)[tensor.rank]
        shapes = {name: mine[name].shape for name in reversed(mine)}
        self._flat = rt.array(np.concatenate([mine[name].reshape(-1) for name in shapes]).astype(self.dtype))
        flat_gradients = rt.zeros(self._flat.size + 1, self.dtype)
        self.loss = flat_gradients[-1:]
        self.weights, self.gradients = views(self._flat, shapes), views(flat_gradients[:-1], shapes)
        ends = [name for name in shapes if name == "norm.gain" or name.endswith("norm1.gain")]
        cuts = np.cumsum([math.prod(shape) for shape in shapes.values()])[[[*shapes].index(name) for name in ends]]
        self.parts = np.split(flat_gradients, cuts)

    def step(self, rate: float) -> None:
        """Queue a step of training: forward, backward, and Adam on the gradients' averages over the data group."""
        self.slopes()
        for part in self.parts:
            self.update(part, rate)

    def slopes(self) -> None:
        """Queue forward and backward pass: loss and gradients, and their averages."""
        backward = self.forward()
        d_scores = self._like(self.scores)
        self._queue(kernels.cross_entropy, [self.scores, self.targets], [self.loss, d_scores])
        backward(d_scores)
        self.average(self.loss)

    def update(self, part: Array, rate: float) -> None:
        """Queue Adam on the weights of one of `parts`."""
        number = next(number for number, other in enumerate(self.parts) if other is part)
        start = sum(other.size for other in self.parts[:number])
        mine = slice(start, min(start + part.size, self._flat.size))
        read = [part[: mine.stop - mine.start]]
        updated = [self._flat[mine], *self._averages[:, mine], self._steps[number : number + 1]]
        self.stream.launch(kernels.adam, *read, *updated, rate, DECAYS, reads=read + updated, writes=updated)

    def forward(self) -> Backward:
        """Queue the forward pass, from tokens to scores.  Its backward pass has no slope at its input to return."""
        w, passed = self.weights, []
        x = self._rows(self.size.width)
        self._queue(kernels.embed, [self.tokens, w["table"], w["positions"]], [x])
        for block in map(str, range(self.size.blocks)):
            for norm, inside, bias in (
                (f"{block}.norm1", self._attention, f"{block}.projection.bias"),
                (f"{block}.norm2", self._perceptron, f"{block}.narrow.bias"),
            ):
                x, backward = self._half(norm, functools.partial(inside, block), bias, x)
                passed.append(backward)
        normal, backward = self._norm("norm", x)
        passed.append(backward)
        _, backward = self._linear("scores", normal, self.scores)
        passed.append(backward)

        def through_all(d_x: Array) -> Array:
            for backward in reversed(passed):
                d_x = backward(d_x)
            self._queue(kernels.embed_backward, [d_x, self.tokens], self._slopes("table", "positions"))
            self._average("table", "positions")
            return d_x

        return through_all

    # ---- parts: each queues its forward pass; its output and its backward pass ----

    def _half(self, norm: str, inside: Callable[[Array], Part], bias: str, x: Array) -> Part:
        """x + bias + the sum over the tensor group of inside(norm(x))."""
        normal, norm_backward = self._norm(norm, x)
        y, inside_backward = inside(normal)
        self.complete(y)
        out = self._like(x)
        self._queue(kernels.add_bias, [y, self.weights[bias], x], [out])

        def backward(d_out: Array) -> Array:
            self._queue(kernels.bias_backward, [d_out], self._slopes(bias))
            self._average(bias)
            d_normal = inside_backward(d_out)
            self.complete(d_normal)
            d_inside, d_x = norm_backward(d_normal), self._like(x)
            self._queue(np.add, [d_out, d_inside], [d_x])
            return d_x

        return out, backward

    def _attention(self, block: str, x: Array) -> Part:
        """This rank's heads."""
        q_k_v, backward_in = self._linear(f"{block}.q_k_v", x)
        _, tokens, _, heads, features = q_k_v.shape
        odds, mixed = self.empty((len(x), heads, tokens, tokens), self.dtype), self._rows(heads, features)
        self._queue(kernels.attend, [q_k_v], [odds, mixed])
        out, backward_out = self._linear(f"{block}.projection", mixed)

        def backward(d_out: Array) -> Array:
            d_mixed, d_q_k_v = backward_out(d_out), self._like(q_k_v)
            self._queue(kernels.attend_backward, [d_mixed, q_k_v, odds], [d_q_k_v])
            return backward_in(d_q_k_v)

        return out, backward

    def _perceptron(self, block: str, x: Array) -> Part:
        """This rank's part of the middle."""
        wide, backward_in = self._linear(f"{block}.widen", x)
        name, bent = f"{block}.widen.bias", self._like(wide)
        self._queue(kernels.gelu, [wide, self.weights[name]], [bent])
        out, backward_out = self._linear(f"{block}.narrow", bent)

        def backward(d_out: Array) -> Array:
            d_bent, d_wide = backward_out(d_out), self._like(wide)
            self._queue(kernels.gelu_backward, [d_bent, wide, self.weights[name]], [*self._slopes(name), d_wide])
            self._average(name)
            return backward_in(d_wide)

        return out, backward

    def _norm(self, name: str, x: Array) -> Part:
        gain, bias = f"{name}.gain", f"{name}.bias"
        normal, inverse, out = self._like(x), self._rows(1), self._like(x)
        self._queue(kernels.normalise, [x, self.weights[gain], self.weights[bias]], [normal, inverse, out])

        def backward(d_out: Array) -> Array:
            d_x = self._like(x)
            read = [d_out, self.weights[gain], normal, inverse]
            self._queue(kernels.normalise_backward, read, [*self._slopes(gain, bias), d_x])
            self._average(gain, bias)
            return d_x

        return out, backward

    def _linear(self, name: str, x: Array, out: Array | None = None) -> Part:
        """x times a weight, whose first axes are those of x behind the tokens."""
        weight = self.weights[name]
        out = self._rows(*weight.shape[x.ndim - 2 :]) if out is None else out
        self._queue(kernels.linear, [x, weight], [out])

        def backward(d_out: Array) -> Array:
            d_x = self._like(x)
            # Two kernels: what all ranks of the model wait for next, and what a sum over them can hide behind.
            self._queue(kernels.linear_backward_input, [d_out, weight], [d_x])
            self._queue(kernels.linear_backward_weight, [d_out, x], self._slopes(name))
            self._average(name)
            return d_x

        return out, backward

    def _queue(self, kernel: Callable[..., object], reads: list[Array], writes: list[Array]) -> None:
        self.stream.launch(kernel, *reads, *writes, reads=reads, writes=writes)

    def _average(self, *names: str) -> None:
        """names: in the order of parameters()."""
        for name in reversed(names):
            self.average(self.gradients[name])

    def _average_over_data(self, x: Array) -> None:
        self.grid.data.all_reduce(x, op="avg", stream=self.stream)

    def _sum_over_tensor(self, x: Array) -> None:
        self.grid.tensor.all_reduce(x, stream=self.stream)

    def _slopes(self, *names: str) -> list[Array]:
        return [self.gradients[name] for name in names]

    def _rows(self, *shape: int) -> Array:
        return self.empty((*self.tokens.shape, *shape), self.dtype)

    def _like(self, x: Array) -> Array:
        return self.empty(x.shape, self.dtype)
