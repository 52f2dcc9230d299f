"""The 13 families of TorchLean's BugZoo, as programs that have to keep what they promise."""

import numpy as np

from meganeura_dsl.ir.graph import Array
from tests.silent_bugs.case import (
    BY_DIFFERENCES,
    INF,
    Case,
    Value,
    drawn,
    floats,
    slope,
    softmax,
    wholes,
)

STATES = {
    "l.weight": floats(2, 1, 0.5),
    "l.bias": floats(0, 1, -1),
    "l.running_mean": floats(0.5, -1, 2),
    "l.running_var": floats(1e-6, 4, 0.25),
}
HEADS = {name: drawn(name, 2, 2, 4, 4) for name in "qkv"}
LOGITS = floats([1e4, -1e4, 0], [0, 0, 0], [-80, 90, 3], [1e30, 1, 2])


def _by_statistics(**fed: Array) -> tuple[Array, ...]:
    scale = fed["l.weight"] / np.sqrt(fed["l.running_var"] + 1e-3)
    return ((fed["x"] - fed["l.running_mean"]) * scale + fed["l.bias"],)


def _attended(q: Array, k: Array, v: Array, seen: Array) -> Array:
    scores = np.where(seen, q @ np.swapaxes(k, -1, -2) / 2, -INF)
    anything = seen.any(-1, keepdims=True)
    return np.where(anything, softmax(np.where(anything, scores, 0)), 0) @ v


def _causal(q: Array, k: Array, v: Array) -> tuple[Array, ...]:
    seen = np.broadcast_to(np.tri(4) > 0, (2, 2, 4, 4))
    return _attended(q, k, v, seen), np.zeros_like(q[:, :, :2])


def _masked(**fed: Array) -> tuple[Array, ...]:
    q, k, v, seen = (fed[name] for name in ("q", "k", "v", "seen"))
    weights = fed["q"] * 0 + 1
    return (
        _attended(q, k, v, seen),
        slope(lambda each: np.sum(weights * np.sin(_attended(each, k, v, seen))), q),
    )


def _turned(x: Array, first: int) -> Array:
    rate = 10_000.0 ** (-np.arange(2) / 2)
    angle = (first + np.arange(x.shape[2]))[:, None] * rate
    left, right = x[..., :2], x[..., 2:]
    return np.concatenate(
        (
            left * np.cos(angle) - right * np.sin(angle),
            right * np.cos(angle) + left * np.sin(angle),
        ),
        -1,
    )


def _entropy(logits: Array, labels: Array) -> Value:
    top = logits.max(-1, keepdims=True)
    logs = logits - top - np.log(np.sum(np.exp(logits - top), -1, keepdims=True))
    return -np.mean(np.take_along_axis(logs, labels[:, None], -1))


def _losses(logits: Array, labels: Array) -> tuple[Value, ...]:
    one_hot = np.eye(logits.shape[1])[labels]
    binary = np.maximum(logits, 0) - logits * one_hot + np.log1p(np.exp(-np.abs(logits)))
    return (
        _entropy(logits, labels),
        (softmax(logits) - one_hot) / len(logits),
        np.mean(binary),
    )


def _protected(x: Array) -> tuple[Array, ...]:
    safe = np.where(x == 0, 1, x)
    return (
        np.where(x == 0, 0, 1 / safe),
        np.where(x == 0, 0, -1 / safe**2),
        np.where(x > 0, 0.5 / np.sqrt(np.abs(safe)), 0),
    )


def _projected(corners: Array, camera: Array) -> tuple[Array, ...]:
    points = corners @ camera.T
    places = points[..., :2] / points[..., 2:]
    return (
        np.concatenate((places.min(1), places.max(1)), 1),
        points[..., 2].min(1) > 0,
    )


BOX = np.array(np.meshgrid((-1, 1), (-0.5, 0.5), (4, 6))).reshape(3, 8).T
BEHIND = BOX - (0, 0, 5)

CASES = (
    Case(
        "place_of_epsilon",
        "NormalizationState",
        "epsilon stands outside of the square root, or the statistics are those of the batch",
        "(x: [n, 3]) -> [n, 3] = x |> l: batch_norm(eps=1e-3)",
        {"x": drawn("x", 5, 3), **STATES},
        _by_statistics,
        single=1e-4,
    ),
    Case(
        "what_is_ahead",
        "AttentionMask",
        "a query of causal attention depends on a key that is ahead of it",
        "(q: [n, h, s, d], k: [n, h, s, d], v: [n, h, s, d])\n"
        "    -> [n, h, s, d], [n, h, 2, d]\n"
        "    where s >= 2:\n"
        "  later = expand(iota(s) >= 2, [s] -> [n, h, s, d])\n"
        "  y = attention(causal=true)(q, k, v)\n"
        "  z = attention(causal=true)(q, where(later, 9 * k, k), where(later, 1 - v, v))\n"
        "  return y, (y - z)[:, :, :2]",
        HEADS,
        _causal,
    ),
    Case(
        "queries_that_see_nothing",
        "AttentionMask",
        "a query whose keys are all hidden is NaN, as are gradients",
        "(q: [n, h, s, d], k: [n, h, t, d], v: [n, h, t, d], seen: bool[n, h, s, t])\n"
        "    -> [n, h, s, d], [n, h, s, d]:\n"
        "  y = attention(q, k, v, mask=seen)\n"
        "  return y, grad(sum(sin(y)), q)",
        {
            **HEADS,
            "seen": (drawn("seen", 2, 2, 4, 4) > 0) & (np.arange(4) != 2)[:, None],
        },
        _masked,
        close=BY_DIFFERENCES,
        single=1e-4,
    ),
    Case(
        "a_row_and_its_batch",
        "BatchInvariance",
        "a row of a batch gives another result than the row alone",
        "(x: [n, d], w: [d, k]) -> [n, k], [1, k]\n"
        "    where n >= 2:\n"
        "  alone = x[1:2] |> layer_norm_of_rows\n"
        "  return softmax(layer_norm_of_rows(x) @ w), softmax(alone @ w)",
        {"x": drawn("x", 7, 33), "w": drawn("w", 33, 5)},
        lambda x, w: (
            softmax(_rows(x) @ w),
            softmax(_rows(x[1:2]) @ w),
        ),
        imports=(
            "block layer_norm_of_rows()(x: [n, d]) -> [n, d]:\n"
            "  centered = x - insert_axis(mean(x, 1), 1, d)\n"
            "  return centered / sqrt(insert_axis(variance(x, 1), 1, d) + 1e-5)\n"
        ),
        single=1e-4,
    ),
    Case(
        "cache_of_keys",
        "KVCache",
        "what is appended to a cache lies at another place, or replaces what was there",
        "(q: [n, h, s, d], k: [n, h, s, d], v: [n, h, s, d]) -> [n, h, s, d], [n, h, s, d]:\n"
        "  keys = zeros(shape(k))\n"
        "  values = zeros(shape(v))\n"
        "  y = zeros(shape(q))\n"
        "  scan t in 0..s:\n"
        "    keys[:, :, t] = k[:, :, t]\n"
        "    values[:, :, t] = v[:, :, t]\n"
        "    at = insert_axis(q[:, :, t], 2, 1)\n"
        "    seen = expand(iota(s) <= t, [s] -> [n, h, 1, s])\n"
        "    y[:, :, t] = attention(at, keys, values, mask=seen)[:, :, 0]\n"
        "  return y, attention(causal=true)(q, k, v)",
        HEADS,
        lambda q, k, v: (_causal(q, k, v)[0],) * 2,
    ),
    Case(
        "position_of_a_token",
        "RoPEPosition",
        "an appended token has another position than in the whole sequence",
        "(x: [n, h, s, d]) -> [n, h, s, d], [n, h, 2, d]\n"
        "    where d % 2 == 0, s >= 3:\n"
        "  return rope(x), rope(x[:, :, s - 2:], offset=s - 2)",
        {"x": drawn("x", 2, 2, 4, 4)},
        lambda x: (_turned(x, 0), _turned(x[:, :, 2:], 2)),
    ),
    Case(
        "stable_losses",
        "StableLoss",
        "a loss of large logits is infinite or NaN, or its gradient is",
        "(logits: [n, c], labels: i32[n]) -> [], [n, c], []\n"
        "    where 0 <= labels, labels < c:\n"
        "  loss = cross_entropy(logits, labels)\n"
        "  return loss, grad(loss, logits), bce(logits, one_hot(labels, c))",
        {"logits": LOGITS, "labels": wholes(0, 1, 2, 0)},
        _losses,
    ),
    Case(
        "labels_that_are_all_ignored",
        "IgnoredLabelLoss",
        "the mean over no label is NaN, and so is the gradient",
        "(logits: [n, c], labels: i32[n]) -> [], [n, c]:\n"
        "  loss = masked_cross_entropy(-100)(logits, labels)\n"
        "  return loss, grad(loss, logits)",
        {"logits": drawn("logits", 3, 4), "labels": wholes(-100, -100, -100)},
        lambda **fed: (np.zeros(()), np.zeros_like(fed["logits"])),
    ),
    Case(
        "division_in_front_of_which_a_mask_stands",
        "AutogradDomain",
        "a mask in front of a division is moved behind it, and the gradient is NaN",
        "(x: [n]) -> [n], [n], [n]:\n"
        "  y = where(x != 0, 1 / where(x != 0, x, 1), 0)\n"
        "  z = where(x > 0, sqrt(where(x > 0, x, 1)), 0)\n"
        "  return y, grad(sum(y), x), grad(sum(z), x)",
        {"x": floats(0, 2, -4, 0.5, -0.0)},
        _protected,
    ),
    Case(
        "rounding_of_a_sum",
        "FloatBoundary",
        "a sum in single precision is further from the exact one than its rounding explains",
        "(x: [n, d]) -> [n], [n]\n"
        "    where d >= 2:\n"
        "  return sum(x, 1), (x[:, 0] + x[:, 1]) - x[:, 0]",
        {"x": np.concatenate((floats([4096], [-4096]), drawn("x", 2, 999)), 1)},
        lambda x: (x.sum(1), x[:, 1]),
        single=3e-4,
    ),
    Case(
        "boxes_in_an_image",
        "Geometry3DProjection",
        "a box of what is behind the camera, or one that does not enclose its corners",
        "(corners: [n, 8, 3], camera: [3, 3]) -> [n, 4], bool[n]:\n"
        "  points = corners @ rearrange(camera, [a, b] -> [b, a])\n"
        "  depth = expand(points[..., 2], [n, c] -> [n, c, 2])\n"
        "  places = points[..., :2] / depth\n"
        "  box = concat(min(places, 1), max(places, 1), axis=1)\n"
        "  return box, min(points[..., 2], 1) > 0",
        {
            "corners": np.stack((BOX, BEHIND)).astype(np.float32),
            "camera": floats([500, 0, 320], [0, 500, 240], [0, 0, 1]),
        },
        _projected,
        single=1e-4,
    ),
)


def _rows(x: Array) -> Array:
    centered = x - x.mean(1, keepdims=True)
    return centered / np.sqrt(x.var(1, keepdims=True) + 1e-5)
