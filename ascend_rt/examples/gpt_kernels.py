"""The kernels of a GPT in NumPy: each takes its inputs, then the arrays it writes, then constants.

A row is one token: arrays are (sequences, tokens, ...), and what follows is flattened where a matrix is multiplied.
Backward kernels take the slope of the loss at the output first.  All work in the dtype of their arrays.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

EPSILON = 1e-5  # beside a variance
GELU = math.sqrt(2 / math.pi), 0.044715  # D. Hendrycks and K. Gimpel, arXiv:1606.08415


def _rows(x: Array) -> Array:
    return x.reshape(x.shape[0] * x.shape[1], -1)


def embed(tokens: Array, table: Array, positions: Array, out: Array) -> None:
    np.add(table[tokens], positions, out=out)


def embed_backward(d_out: Array, tokens: Array, d_table: Array, d_positions: Array) -> None:
    chosen = np.eye(len(d_table), dtype=d_out.dtype)[tokens.reshape(-1)]
    np.matmul(chosen.T, _rows(d_out), out=d_table)
    np.sum(d_out, axis=0, out=d_positions)


def normalise(x: Array, gain: Array, bias: Array, normal: Array, inverse: Array, out: Array) -> None:
    """Layer norm.  For the backward pass: normal, x with mean 0 and variance 1; inverse, 1 over the deviation."""
    np.subtract(x, x.mean(axis=-1, keepdims=True), out=normal)
    variance = np.square(normal).mean(axis=-1, keepdims=True)
    np.divide(1, np.sqrt(variance + EPSILON), out=inverse)
    np.multiply(normal, inverse, out=normal)
    np.multiply(normal, gain, out=out)
    np.add(out, bias, out=out)


def normalise_backward(
    d_out: Array, gain: Array, normal: Array, inverse: Array, d_gain: Array, d_bias: Array, d_x: Array
) -> None:
    np.sum(_rows(d_out * normal), axis=0, out=d_gain)
    np.sum(_rows(d_out), axis=0, out=d_bias)
    slope = d_out * gain
    along = (slope * normal).mean(axis=-1, keepdims=True)
    np.multiply(inverse, slope - slope.mean(axis=-1, keepdims=True) - normal * along, out=d_x)


def linear(x: Array, weight: Array, out: Array) -> None:
    np.matmul(_rows(x), weight.reshape(_rows(x).shape[1], -1), out=_rows(out))


def linear_backward_input(d_out: Array, weight: Array, d_x: Array) -> None:
    np.matmul(_rows(d_out), weight.reshape(_rows(d_x).shape[1], -1).T, out=_rows(d_x))


def linear_backward_weight(d_out: Array, x: Array, d_weight: Array) -> None:
    np.matmul(_rows(x).T, _rows(d_out), out=d_weight.reshape(_rows(x).shape[1], -1))


def add_bias(x: Array, bias: Array, y: Array, out: Array) -> None:
    """x + bias + y."""
    np.add(x, bias, out=out)
    np.add(out, y, out=out)


def bias_backward(d_out: Array, d_bias: Array) -> None:
    np.sum(_rows(d_out), axis=0, out=d_bias)


def _odds(scores: Array) -> Array:
    """Softmax along the last axis."""
    odds: Array = np.exp(scores - scores.max(axis=-1, keepdims=True))
    odds /= odds.sum(axis=-1, keepdims=True)
    return odds


def _by_head(x: Array) -> Array:
    """(sequences, tokens, heads, features) as (sequences, heads, tokens, features)."""
    return x.transpose(0, 2, 1, 3)


def attend(q_k_v: Array, odds: Array, out: Array) -> None:
    """Causal attention.  q_k_v: (sequences, tokens, 3, heads, features); odds: (sequences, heads, tokens, tokens),
    what a token takes from which; out: (sequences, tokens, heads, features)."""
    query, key, value = (_by_head(q_k_v[:, :, part]) for part in range(3))
    tokens, features = query.shape[2:]
    scores = query @ key.swapaxes(2, 3) / np.sqrt(features, dtype=q_k_v.dtype)
    scores[..., ~np.tri(tokens, dtype=bool)] = -np.inf  # what comes later is not seen
    odds[...] = _odds(scores)
    out[...] = _by_head(odds @ value)


def attend_backward(d_out: Array, q_k_v: Array, odds: Array, d_q_k_v: Array) -> None:
    query, key, value = (_by_head(q_k_v[:, :, part]) for part in range(3))
    d_query, d_key, d_value = (_by_head(d_q_k_v[:, :, part]) for part in range(3))
    d_mixed = _by_head(d_out)
    d_odds = d_mixed @ value.swapaxes(2, 3)
    d_scores = odds * (d_odds - (d_odds * odds).sum(axis=-1, keepdims=True))
    d_scores /= np.sqrt(query.shape[-1], dtype=q_k_v.dtype)
    d_query[...] = d_scores @ key
    d_key[...] = d_scores.swapaxes(2, 3) @ query
    d_value[...] = odds.swapaxes(2, 3) @ d_mixed


def gelu(x: Array, bias: Array, out: Array) -> None:
    """GELU of x + bias, by its tanh approximation."""
    y = x + bias
    np.multiply(y / 2, 1 + np.tanh(GELU[0] * (y + GELU[1] * y * y * y)), out=out)


def gelu_backward(d_out: Array, x: Array, bias: Array, d_bias: Array, d_x: Array) -> None:
    y = x + bias
    bent = np.tanh(GELU[0] * (y + GELU[1] * y * y * y))
    slope = (1 + bent) / 2 + y / 2 * (1 - bent * bent) * GELU[0] * (1 + 3 * GELU[1] * y * y)
    np.multiply(d_out, slope, out=d_x)
    np.sum(_rows(d_x), axis=0, out=d_bias)


def cross_entropy(scores: Array, targets: Array, loss: Array, d_scores: Array) -> None:
    """loss, of one element: the mean over all tokens; and its slope, which needs nothing from behind it."""
    odds, right = _odds(_rows(scores)), (np.arange(targets.size), targets.reshape(-1))
    loss[0] = -np.log(odds[right]).mean()
    odds[right] -= 1
    np.divide(odds, targets.size, out=_rows(d_scores))


def adam(
    gradient: Array, weights: Array, mean: Array, square: Array, steps: Array, rate: float, decays: tuple[float, float]
) -> None:
    """One step of Adam (D. Kingma and J. Ba, arXiv:1412.6980); steps, of one element: how many were taken."""
    steps[0] += 1
    for average, now, decay in zip((mean, square), (gradient, gradient * gradient), decays, strict=True):
        average *= decay
        average += (1 - decay) * now
    mean_now, square_now = (x / (1 - decay ** steps[0]) for x, decay in zip((mean, square), decays, strict=True))
    weights -= rate * mean_now / (np.sqrt(square_now) + 1e-8)
