"""Mistakes of kernels and memory: what is fused, the order of reads and writes, and layouts."""

import numpy as np

from meganeura_dsl.ir.graph import Array
from tests.silent_bugs.case import Case, drawn, floats, wholes


def _step(p1: Array, p2: Array, x: Array, m1: Array, m2: Array) -> tuple[Array, ...]:
    hidden = x @ p1
    cotangent = 2 * (hidden @ p2)
    g1, g2 = x.T @ (cotangent @ p2.T), hidden.T @ cotangent
    m1, m2 = m1 + 0.05 * (g1 - m1), m2 + 0.05 * (g2 - m2)
    return p1 - 0.01 * m1, p2 - 0.01 * m2, m1, m2


def _windows(x: Array) -> Array:
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2).mean((3, 5))


def _half_step(x: Array) -> tuple[Array, ...]:
    turned = np.floor(np.swapaxes(x, 1, 2))
    return np.concatenate((x, x), 1), turned.mean(2), turned


def _shuffled(x: Array, ids: Array) -> tuple[Array, ...]:
    written = np.zeros_like(x)
    np.add.at(written, ids, x * 2)
    return (written + written[::-1],)


def _halved(x: Array) -> tuple[Array, ...]:
    total, iterations = np.zeros(len(x)), []
    for each in x.T:
        total = 0.5 * total + each
        iterations.append(total)
    return total, np.stack(iterations, 1)


CASES = (
    Case(
        "sum_beside_a_reversal",
        "pytorch 162410",
        "a sum and a read of other positions are fused into one loop",
        "(x: [n, n], y: [n, n]) -> [n, n]:\n"
        "  y = insert_axis(sum(y, 1), 1, n) + y\n"
        "  return reverse(x, 1) + y",
        {"x": drawn("x", 20, 20), "y": drawn("y", 20, 20)},
        lambda x, y: (x[:, ::-1] + y.sum(1, keepdims=True) + y,),
    ),
    Case(
        "write_and_reversal",
        "pytorch 198270",
        "a write by indices is fused with a read of what it writes at other positions",
        "(x: [n, d], ids: i32[n]) -> [n, d]:\n"
        "  written = scatter_add(ids, x * 2, n)\n"
        "  return written + reverse(written, 0)",
        {"x": drawn("x", 40, 33), "ids": wholes(*((7 * i) % 40 for i in range(40)))},
        _shuffled,
    ),
    Case(
        "moments_of_two_layers",
        "pytorch 183575",
        "memory of a moment is given to a gradient while the moment is still an output",
        "(p1: [d, d], p2: [d, d], x: [n, d], m1: [d, d], m2: [d, d])\n"
        "    -> [d, d], [d, d], [d, d], [d, d]:\n"
        "  loss = sum((x @ p1 @ p2) ** 2)\n"
        "  m1 = m1 + 0.05 * (grad(loss, p1) - m1)\n"
        "  m2 = m2 + 0.05 * (grad(loss, p2) - m2)\n"
        "  return p1 - 0.01 * m1, p2 - 0.01 * m2, m1, m2",
        {
            **{name: 0.3 * drawn(name, 32, 32) for name in ("p1", "p2", "m1", "m2")},
            "x": drawn("x", 16, 32),
        },
        _step,
        single=1e-4,
    ),
    Case(
        "order_of_results",
        "pytorch 114223",
        "a mean changes with the order in which results are returned",
        "(x: [n, c, s]) -> [n, c + c, s], [n, s], [n, s, c]:\n"
        "  turned = floor(rearrange(x, [n, c, s] -> [n, s, c]))\n"
        "  return concat(x, x, axis=1), mean(turned, 2), turned",
        {"x": 10 * drawn("x", 5, 8, 40)},
        _half_step,
    ),
    Case(
        "place_beside_its_value",
        "pytorch 114229",
        "the place of the largest changes once the tensor itself is a result too",
        "(x: [n, d]) -> [n, d], i32[n], [n]:\n"
        "  y = sin(x) * cos(x)\n"
        "  return y, argmax(y, 1), max(y, 1)",
        {"x": drawn("x", 9, 70)},
        lambda x: (
            np.sin(x) * np.cos(x),
            np.argmax(np.sin(x) * np.cos(x), 1),
            np.max(np.sin(x) * np.cos(x), 1),
        ),
    ),
    Case(
        "place_in_a_turned_matrix",
        "pytorch 183082",
        "the place of the largest is one of the matrix before it was transposed",
        "(x: [n, d]) -> i32[] = argmax(rearrange(sin(x), [n, d] -> [d * n]), 0)",
        {"x": drawn("x", 5, 7)},
        lambda x: (np.argmax(np.sin(x).T.ravel()),),
    ),
    Case(
        "pooled_and_flattened",
        "pytorch 179931",
        "a sum reads what pooling wrote with another stride, so that only the first is right",
        "(x: [n, c, 8, 8]) -> [n], [n, c * 16]:\n"
        "  y = rearrange(avg_pool(2)(x), [n, c, h, w] -> [n, c * h * w])\n"
        "  return sum(y, 1), y",
        {"x": drawn("x", 4, 65, 8, 8)},
        lambda x: (_windows(x).reshape(4, -1).sum(1), _windows(x).reshape(4, -1)),
        single=1e-4,
    ),
    Case(
        "window_of_one",
        "pytorch 143720",
        "pooling of one element gives another number than that element",
        "(x: [n, c, s]) -> [n, c, s], [n, c, s]:\n  return avg_pool(1)(x), max_pool(1)(x)",
        {"x": floats([[-3.25]])},
        lambda x: (x, x),
    ),
    Case(
        "many_axes",
        "pytorch 118087",
        "a product with a tensor of nine axes goes wrong",
        "(x: [a, b, c, d, e, f, g, h, i], w: [i, o]) -> [a, b, c, d, e, f, g, h, o] = x @ w",
        {"x": drawn("x", 3, 2, 3, 1, 2, 2, 1, 3, 2), "w": drawn("w", 2, 2)},
        lambda x, w: (x @ w,),
    ),
    Case(
        "shape_of_a_result",
        "pytorch 168278",
        "a chain over single elements gives another shape once it is compiled",
        "(x: [n, c, s]) -> [n, c, s] = sqrt(sqrt(abs(x)))",
        {"x": drawn("x", 6, 2, 3)},
        lambda x: (np.sqrt(np.sqrt(np.abs(x))),),
    ),
    Case(
        "iterations_of_a_loop",
        "pytorch 96064",
        "an unrolled loop gives another sum",
        "(x: [n, d]) -> [n], [n, d]:\n"
        "  total = zeros([n])\n"
        "  y = x\n"
        "  scan t in 0..d:\n"
        "    total = 0.5 * total + x[:, t]\n"
        "    y[:, t] = total\n"
        "  return total, y",
        {"x": drawn("x", 3, 9)},
        _halved,
    ),
)
