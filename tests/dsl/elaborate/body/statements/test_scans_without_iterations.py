"""Scans that have no iteration for some sizes: what is left then, and what may not be said."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.ir.interpreter import evaluate
from meganeura_dsl.program import loader_beside
from meganeura_dsl.testing import assert_gradients
from tests.folded import each_of

HEAD = "block Net(k = 2)(x: [n, s, 3]) -> [n, 3]\n    where k >= 0:\n"


def _sum_behind_first(x: np.ndarray, _: int) -> np.ndarray:
    return x[:, 0] + x[:, 1:].sum(1)


def _slopes(x: np.ndarray, _: int) -> np.ndarray:
    """Those of sum(h) and of b with respect to a, forward, element by element."""
    h, a, slope = x[:, 0], 2 * x[:, 0], 0 * x[:, 0]
    for t in range(1, x.shape[1]):
        h, slope = h * a + x[:, t], slope * a + h
    iterations = x.shape[1] - 1
    others = np.zeros_like(x[:, 0])
    if iterations:
        others[0] = x[:, 0].sum() * iterations * a[0].mean() ** (iterations - 1) / 3
    return slope + others


WORKS = {
    "what is carried": (
        "  h = x[:, 0]\n  scan t in 1..s:\n    h = h + x[:, t]\n  return h\n",
        _sum_behind_first,
    ),
    "by two and more": (
        "  h = x[:, 0]\n  scan t in 3..s:\n    h = h + x[:, t - 1] * f32(t)\n  return h\n",
        lambda x, _: x[:, 0] + sum((x[:, t - 1] * t for t in range(3, x.shape[1])), 0 * x[:, 0]),
    ),
    "of configuration that may be 0": (
        "  h = x[:, 0]\n  scan t in 0..k:\n    h = 2 * h + f32(t)\n  return h\n",
        lambda x, k: 2.0**k * x[:, 0] + (0, 0, 1)[k],
    ),
    "a part that is read and written": (
        "  y = x\n  scan t in 1..s:\n    y[:, t] = y[:, t - 1] + x[:, t]\n  return y[:, s - 1]\n",
        _sum_behind_first,
    ),
    "a part that is written": (
        "  y = x\n  scan t in 1..s:\n    y[:, t - 1] = 2 * x[:, t]\n  return y[:, 0]\n",
        lambda x, _: x[:, 0] if x.shape[1] == 1 else 2 * x[:, 1],
    ),
    "what fits only where there is an iteration": (
        (
            "  h = x[:, 0]\n  scan t in 1..s:\n    rest = x[:, 1:]\n"
            "    c = rearrange(rest, [n, q, d] -> [n, d, q]) |> conv(ones([3, 1, 1]), groups=3)\n"
            "    h = h + sum(c, 2) / (s - 1) + mean(rest, 1) * (s // (s - 1)) + 0 * x[:, t]\n"
            "  return h\n"
        ),
        lambda x, _: (
            x[:, 0] + x[:, 1:].sum(1) + (x.shape[1] // max(x.shape[1] - 1, 1)) * x[:, 1:].sum(1)
        ),
    ),
    "a scan in a scan": (
        (
            "  h = x[:, 0]\n  scan t in 1..s:\n    scan u in 2..s:\n"
            "      h = h + x[:, u] * f32(t)\n"
            "  return h\n"
        ),
        lambda x, _: x[:, 0] + x[:, 2:].sum(1) * sum(range(1, x.shape[1])),
    ),
    "one that may end": (
        "  h = x[:, 0]\n  scan t in 1..s while t < 2:\n    h = h + x[:, t]\n  return h\n",
        lambda x, _: x[:, :2].sum(1),
    ),
    "a gradient in each iteration": (
        (
            "  h = x[:, 0]\n  scan t in 1..s:\n    h = h - 0.1 * grad(sum(h * h * x[:, t]), h)\n"
            "  return h\n"
        ),
        lambda x, _: x[:, 0] * np.prod(1 - 0.2 * x[:, 1:], axis=1),
    ),
    "a choice": (
        (
            "  h = x[:, 0]\n  scan t in 1..s:\n    if k > 1:\n      h = h + x[:, t]\n    else:\n"
            "      h = h - x[:, t]\n  return h\n"
        ),
        lambda x, k: x[:, 0] + (1 if k > 1 else -1) * x[:, 1:].sum(1),
    ),
    "a gradient through iterations that may not be there": (
        (
            "  h = x[:, 0]\n  a = 2 * h\n  b = sum(h)\n  scan t in 1..s:\n    h = h * a + x[:, t]\n"
            "    b = b * mean(a[0:1])\n  g = grad(sum(h), a)\n  return g + grad(b, a)\n"
        ),
        _slopes,
    ),
    "a gradient of what is never read without iterations": (
        (
            "  a = x[:, 0]\n  h = ones([n, 3])\n  scan t in 1..s:\n    h = h * x[:, t] + a\n"
            "  return grad(sum(h), a)\n"
        ),
        lambda x, _: sum(
            (np.prod(x[:, t + 1 :], axis=1) for t in range(1, x.shape[1])), 0 * x[:, 0]
        ),
    ),
}


def _checked(text: str) -> pipeline.CheckResult:
    return pipeline.check(Source("net.mgn", text), loader_beside(Path("net.mgn")))


def codes(text: str) -> list[str]:
    return [each.code for each in _checked(text).problems]


@pytest.mark.parametrize("name", WORKS)
def test_values(name: str) -> None:
    body, wanted = WORKS[name]
    result = _checked(f"{HEAD}{body}\nmodel net = Net()\n")
    assert result.fine, [report.headline for report in result.reports]
    for s in (1, 2, 4):
        for k in (0, 2):
            graph = pipeline.elaborate_model(
                result.program, "net", sizes={"n": 2, "s": s}, config={"k": k}
            ).graph
            x = np.random.default_rng(s).standard_normal((2, s, 3)).astype(np.float32)
            (found,) = evaluate(graph, {"x": x}).outputs.values()
            np.testing.assert_allclose(found, wanted(x, k), rtol=1e-5, atol=1e-6)
            assert_gradients(graph)


def test_weights_and_states_are_those_of_other_sizes() -> None:
    text = (
        f"{HEAD}  h = x[:, 0]\n  state seen: [] = zeros\n  scan t in 1..s:\n"
        "    h = h |> cell: linear(3) |> bn: batch_norm |> dropout(0.1)\n"
        "    if k > 3:\n      h = h |> wide: linear(3)\n    else:\n"
        "      h = h |> narrow: linear(3, bias=false)\n"
        "    h = h + random_uniform([n, 3]) + x[:, t]\n    update seen = seen + 1\n"
        "  return h + seen\n\nmodel net = Net()\n"
    )
    text = text.replace("where k >= 0", "where k >= 0, n >= 2")
    result = _checked(text)
    assert result.fine, [report.headline for report in result.reports]

    def kinds(s: int) -> Mapping[str, str]:
        sizes = {"n": 2, "s": s}
        made = pipeline.elaborate_model(result.program, "net", sizes=sizes, training=True)
        assert bool(made.graph.updates) is (s > 1)
        return {each.name: f"{each.kind} {each.type}" for each in made.parameters}

    assert kinds(1) == kinds(2) == kinds(5)
    assert "narrow.weight" in kinds(1)
    assert "wide.weight" not in kinds(1)


REFUSED = {
    "what is collected": (
        "  scan t in 1..s:\n    y[:, t - 1] = x[:, t]\n  return y[:, 0]\n",
        ["E0305"],
    ),
    "what is known in an iteration, behind it": (
        "  h = x[:, 0]\n  scan t in 1..s:\n    h = h + x[:, t]\n  return h + mean(x[:, 1:], 1)\n",
        ["E0305"],
    ),
    "a part that is in an iteration, behind it": (
        (
            "  h = x[:, 0]\n  scan t in 1..s:\n    h = h + x[:, t] + mean(x[:, 1:], 1)\n"
            "  return h + mean(x[:, 1:], 1)\n"
        ),
        ["E0305"],
    ),
    "what a fact of an iteration says of the sizes": (
        (
            "  h = x[:, 0]\n  scan t in 1..s:\n    at = argmax(x[:, 1:], 1) |> Kept(s - 1)\n"
            "    h = h + f32(at) + x[:, t]\n  return h + mean(x[:, 1:], 1)\n"
        ),
        ["E0305"],
    ),
    "what whole numbers of an iteration say of the sizes": (
        (
            "  h = x[:, 0]\n  scan t in 1..s:\n    at = ids |> Kept(s - 1)\n"
            "    h = h + f32(at) + x[:, t]\n  return h + mean(x[:, 1:], 1)\n"
        ),
        ["E0305"],
    ),
    "more iterations than none, for no size": (
        "  h = x[:, 0]\n  scan t in s..0:\n    h = h + x[:, t]\n  return h\n",
        ["E0335"],
    ),
    "no iterations, said so": (
        "  h = x[:, 0]\n  scan t in 3..3:\n    h = h + f32(t)\n  return h\n",
        ["E0335"],
    ),
    "an entry that is not there": (
        "  h = x[:, 0]\n  scan t in 1..s + 1:\n    h = h + x[:, t]\n  return h\n",
        ["E0315"],
    ),
    "iterations from below 0": (
        "  h = x[:, 0]\n  scan t in s - 2..s:\n    h = h + x[:, t]\n  return h\n",
        ["E0305"],
    ),
}
OTHERS = """\
block Kept(c)(ids: i32[n, d]) -> i32[n, d]
    where 0 <= ids, ids < c, 0 <= result, result < c:
  return ids

"""


def _with_ids(body: str) -> str:
    head = HEAD.replace("3])", "3], ids: i32[n, 3])") if "ids" in body else HEAD
    return f"{OTHERS}{head}{body}"


@each_of("name", REFUSED)
def test_what_does_not_hold_without_an_iteration(name: str) -> None:
    body, wanted = REFUSED[name]
    assert codes(_with_ids(body)) == wanted


@each_of("name", [name for name, (_, wanted) in REFUSED.items() if wanted == ["E0305"]])
def test_it_holds_where_there_is_one(name: str) -> None:
    body, _ = REFUSED[name]
    assert codes(_with_ids(body).replace("where k >= 0", "where k >= 0, s >= 2")) == []
