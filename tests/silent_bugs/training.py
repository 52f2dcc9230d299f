"""Mistakes of gradients and random numbers."""

import numpy as np

from meganeura_dsl.ir.graph import Array
from tests.silent_bugs.case import BY_DIFFERENCES, Case, Value, drawn, floats, normed, slope, wholes


def _attended(x: Array) -> Value:
    return np.sum(np.sin(x @ x.T) @ x)


def _predicted(table: Array, tokens: Array) -> Value:
    logits = table[tokens[:, :-1]]
    logs = logits - np.log(np.sum(np.exp(logits), -1, keepdims=True))
    return -np.mean(np.take_along_axis(logs, tokens[:, 1:, None], -1))


def _grouped(x: Array, weights: Array) -> Value:
    return np.sum(weights * np.sin(normed(x.reshape(2, 2, -1), (2,)).reshape(x.shape)))


def _written(x: Array) -> Value:
    y = x * x
    y = np.concatenate((y[:, :1] + np.abs(x[:, 2:3]), y[:, 1:]), 1)
    return np.sum(np.sin(y))


def _edges(x: Array) -> Value:
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1)))
    windows = np.stack([padded[..., at : at + 3].mean(-1) for at in range(0, 8, 2)], -1)
    return np.sum(windows**2)


CASES = (
    Case(
        "one_tensor_for_three_operands",
        "pytorch 181146",
        "of a tensor that is several operands one share of the gradient is lost",
        "(x: [n, n]) -> [n, n]:\n"
        "  loss = sum(sin(x @ rearrange(x, [n, m] -> [m, n])) @ x)\n"
        "  return grad(loss, x)",
        {"x": 0.5 * drawn("x", 4, 4)},
        lambda x: (slope(_attended, x),),
        close=BY_DIFFERENCES,
    ),
    Case(
        "tokens_and_targets",
        "pytorch 190938",
        "two parts of one tensor are exchanged on the way into a loss",
        "(table: [c, c], tokens: i32[n, s]) -> [], [c, c]\n"
        "    where 0 <= tokens, tokens < c, s >= 2:\n"
        "  logits = gather(table, tokens[:, :s - 1])\n"
        "  loss = cross_entropy(logits, tokens[:, 1:])\n"
        "  return loss, grad(loss, table)",
        {"table": drawn("table", 5, 5), "tokens": wholes([0, 4, 2, 2], [1, 3, 0, 4])},
        lambda table, tokens: (
            _predicted(table, tokens),
            slope(lambda each: _predicted(each, tokens), table),
        ),
        close=BY_DIFFERENCES,
    ),
    Case(
        "gradient_of_a_norm_of_groups",
        "pytorch 100075",
        "the gradient of a norm of groups is wrong",
        "(x: [n, 4, s], w: [n, 4, s]) -> [n, 4, s]:\n"
        "  y = x |> l: group_norm(2)\n"
        "  return grad(sum(w * sin(y)), x)",
        {
            "x": drawn("x", 2, 4, 3),
            "w": drawn("w", 2, 4, 3),
            "l.weight": np.ones(4, np.float32),
            "l.bias": np.zeros(4, np.float32),
        },
        lambda **fed: (slope(lambda x: _grouped(x, fed["w"]), fed["x"]),),
        close=1e-6,
        single=1e-4,
    ),
    Case(
        "gradient_through_a_write",
        "pytorch 136662, 128035",
        "the gradient of a tensor of which a part is replaced loses that part",
        "(x: [n, 3]) -> [n, 3]:\n"
        "  y = x * x\n"
        "  y[:, 0] = y[:, 0] + abs(x[:, 2])\n"
        "  return grad(sum(sin(y)), x)",
        {"x": drawn("x", 2, 3)},
        lambda x: (slope(_written, x),),
        close=BY_DIFFERENCES,
    ),
    Case(
        "equal_values_with_and_without_a_slope",
        "pytorch 114338",
        "of two equal values of which one is a constant for differentiation, both or none are",
        "(x: [n]) -> [n], [n]:\n"
        "  a = x + 1\n"
        "  b = stop_gradient(x + 1)\n"
        "  return grad(sum(a * b), x), grad(sum(a * a), x)",
        {"x": drawn("x", 6)},
        lambda x: (x + 1, 2 * (x + 1)),
    ),
    Case(
        "gradient_of_windows_at_the_edge",
        "pytorch 198119",
        "the gradient of the windows at the edge is divided by another number than their value",
        "(x: [n, c, s]) -> [n, c, s]:\n  return grad(sum(avg_pool(3, stride=2, pad=1)(x) ** 2), x)",
        {"x": drawn("x", 2, 3, 7)},
        lambda x: (slope(_edges, x),),
        close=BY_DIFFERENCES,
    ),
    Case(
        "mask_of_the_gradient",
        "pytorch 190758, 198333",
        "the gradient is taken of another random mask than the value has",
        "(x: [n, d]) -> [n, d], bool[], bool[]\n"
        "    where d >= 2:\n"
        "  y = dropout(0.5)(x)\n"
        "  slope = grad(sum(y), x)\n"
        "  share = mean(slope > 0)\n"
        "  neighbours = mean((slope[:, 1:] > 0) == (slope[:, :d - 1] > 0))\n"
        "  return y - x * slope, abs(share - 0.5) < 0.05, abs(neighbours - 0.5) < 0.05",
        {"x": np.abs(drawn("x", 64, 64)) + 0.1},
        lambda x: (np.zeros_like(x), np.True_, np.True_),
        training=True,
    ),
    Case(
        "two_masks",
        "pytorch 192635",
        "two random tensors are the same one, or exchanged",
        "(x: [n, d]) -> bool[], bool[]:\n"
        "  u = random_uniform([n, d])\n"
        "  v = random_uniform([n, d])\n"
        "  return abs(mean((u < 0.5) == (v < 0.5)) - 0.5) < 0.05 and mean(x) < 9, all(u == u)",
        {"x": drawn("x", 64, 64)},
        lambda **_: (np.True_, np.True_),
        training=True,
    ),
    Case(
        "rows_of_a_batch_norm",
        "pytorch 128035",
        "the statistics of a batch reach the states before the batch is normalized",
        "(x: [n, 2]) -> [n, 2] = x |> l: batch_norm",
        {
            "x": floats([1, 2], [3, -2], [5, 0]),
            "l.weight": floats(2, 1),
            "l.bias": floats(0, 1),
            "l.running_mean": floats(10, 10),
            "l.running_var": floats(4, 4),
        },
        lambda **fed: (
            normed(fed["x"], (0,)) * fed["l.weight"] + fed["l.bias"],
            0.9 * fed["l.running_mean"] + 0.1 * fed["x"].mean(0),
            0.9 * fed["l.running_var"] + 0.1 * fed["x"].var(0, ddof=1),
            np.int32(1),
        ),
        training=True,
    ),
)
