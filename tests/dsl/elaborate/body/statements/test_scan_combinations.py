"""Scans together with parts that are replaced, lists of tensors, layers and blocks as arguments."""

from zlib import crc32

import numpy as np
import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.interpreter import evaluate
from meganeura_dsl.ir.ops import RandomBits, Scan
from meganeura_dsl.ir.text import format_graph
from meganeura_dsl.testing import assert_gradients

X = np.arange(24, dtype=np.float32).reshape(2, 4, 3) - 7


def _one_more(x: Array) -> Array:
    replaced = np.repeat(x[:, None], 4, axis=1)
    for t in range(4):
        replaced[:, t, t] = 0
    return replaced.sum(2)


def _first_kept(x: Array) -> Array:
    rows = np.zeros((2, 3), np.float32), []
    for t in range(4):
        rows[0][:, :1] += x[:, t, :1]
        rows[1].append(rows[0].copy())
    return np.stack(rows[1], 1)


def _until_large(x: Array) -> Array:
    h, y = np.zeros((2, 3), np.float32), np.zeros_like(x)
    for t in range(4):
        if h.max() >= 8 and t >= 2:
            break
        h = h + np.abs(x[:, t])
        y[:, t] = h
    return y + h[:, None]


def _exchanged(x: Array) -> Array:
    g, h, y = x[:, 0], x[:, 3], np.zeros_like(x)
    for t in range(4):
        g, h = h, g + x[:, t]
        y[:, t] = g - 2 * h
    return y + (h - g)[:, None]


WORKS = {
    "a part of what is carried": (
        (
            "  h = zeros([n, d])\n  scan t in 0..s:\n    h[:, 0:1] = h[:, 0:1] + x[:, t, 0:1]\n"
            "    y[:, t] = h\n  return y\n"
        ),
        _first_kept,
    ),
    "a name that each iteration gives another shape, and no iteration reads before": (
        (
            "  h = 2 * x\n  g = sum(h)\n  scan t in 0..s:\n    h = x[:, t] - 1\n"
            "    y[:, t] = h + g\n  return y\n"
        ),
        lambda x: x - 1 + 2 * x.sum(),
    ),
    "the entry of the iteration of what is carried": (
        "  h = x\n  scan t in 0..s:\n    h = h + 1\n    y[:, t] = h[:, t]\n  return y\n",
        lambda x: x + np.arange(1, 5)[:, None],
    ),
    "an entry at twice the iteration": (
        ("  h = concat(x, x, axis=1)\n  scan t in 0..s:\n    y[:, t] = h[:, 2 * t]\n  return y\n"),
        lambda x: np.concatenate([x, x], 1)[:, ::2],
    ),
    "a part at the iteration": (
        "  scan t in 0..s:\n    z = x\n    z[:, t] = 0\n    y[:, t] = sum(z, 1)\n  return y\n",
        _one_more,
    ),
    "the number of an iteration, where the last slices are written first": (
        (
            "  h = zeros([n, d])\n  scan t in 0..s:\n    h = h + x[:, t] * f32(t)\n"
            "    y[:, s - 1 - t] = h\n  return y\n"
        ),
        lambda x: np.cumsum(x * np.arange(4)[:, None], 1)[:, ::-1],
    ),
    "no iteration after the first that a condition leaves out": (
        (
            "  h = zeros([n, d])\n  scan t in 0..s while max(h) < 8 or t < 2:\n"
            "    h = h + abs(x[:, t])\n    y[:, t] = h\n  return y + insert_axis(h, 1, s)\n"
        ),
        _until_large,
    ),
    "what was there where a condition leaves iterations out": (
        ("  y = x\n  scan t in 0..s while t < 2:\n    y[:, s - 1 - t] = 2 * x[:, t]\n  return y\n"),
        lambda x: np.stack([x[:, 0], x[:, 1], 2 * x[:, 1], 2 * x[:, 0]], 1),
    ),
    "not what a condition on the iteration says": (
        "  scan t in 0..s:\n    y[:, t] = where(not (t == 1 and s == 4), x[:, t], 0)\n  return y\n",
        lambda x: x * np.array([1, 0, 1, 1], np.float32)[:, None],
    ),
    "lists of tensors": (
        (
            "  given = [x, 2 * x]\n  scan t in 0..s:\n"
            "    both = [given[0][:, t], given[1][:, s - 1 - t]]\n"
            "    y[:, t] = both[0] + both[1]\n  return y\n"
        ),
        lambda x: x + 2 * x[:, ::-1],
    ),
    "names of the items of a list of tensors": (
        (
            "  g, h = [x, 2 * x]\n  scan t in 0..s:\n    y[:, t] = g[:, t] - h[:, s - 1 - t]\n"
            "  return y\n"
        ),
        lambda x: x - 2 * x[:, ::-1],
    ),
    "what accumulates and what sorts": (
        (
            "  scan t in 0..s:\n    z, ids = sort(x[:, t], axis=-1)\n"
            "    y[:, t] = z + cumsum(x[:, t], axis=-1) + f32(ids)\n  return y\n"
        ),
        lambda x: np.sort(x, 2) + np.cumsum(x, 2) + np.argsort(x, 2),
    ),
    "a block as an argument": (
        (
            "  return x |> Each(tanh)\n\n"
            "block Each(f: block()(x: [n, d]) -> [n, d])(x: [n, s, d]) -> [n, s, d]:\n"
            "  scan t in 0..s:\n    y[:, t] = x[:, t] |> f\n  return y\n"
        ),
        np.tanh,
    ),
    "what no iteration computes, of a layer": (
        (
            "  return x |> Held()\n\n"
            "block Twice()(x: [n, d]) -> [n, d] = 2 * x\n\n"
            "block Held()(x: [n, s, d]) -> [n, s, d]:\n"
            "  h = x[:, 0] |> Twice() |> abs\n  g = x[:, s - 1]\n"
            "  scan t in 0..s:\n    y[:, t] = h\n    g = g + h\n    z[:, t] = g\n    g = h\n"
            "  return y + z + insert_axis(g, 1, s)\n"
        ),
        lambda x: (
            4 * np.abs(x[:, :1])
            + np.stack([x[:, 3], *[2 * np.abs(x[:, 0])] * 3], 1)
            + 2 * np.abs(x[:, :1])
        ),
    ),
    "slices from both ends": (
        (
            "  h = zeros([n, d])\n  scan t in 0..s:\n    h = h + x[:, t]\n    y[:, t] = h\n"
            "    z[:, s - 1 - t] = h\n  return y + 2 * z\n"
        ),
        lambda x: x.cumsum(1) + 2 * x.cumsum(1)[:, ::-1],
    ),
    "more slices from the last one": (
        (
            "  h = zeros([n, d])\n  scan t in 0..s:\n    h = h + x[:, t]\n    y[:, t] = h\n"
            "    z[:, s - 1 - t] = h\n    v[:, s - 1 - t] = x[:, t] + h\n  return y + z - 3 * v\n"
        ),
        lambda x: x.cumsum(1) - 2 * x.cumsum(1)[:, ::-1] - 3 * x[:, ::-1],
    ),
    "iterations that are counted from 1": (
        (
            "  scan t in 1..s + 1:\n    y[:, t - 1] = x[:, t - 1] * f32(t)\n"
            "    z[:, s - t] = x[:, t - 1] / f32(t)\n  return y + z\n"
        ),
        lambda x: x * np.arange(1, 5)[:, None] + (x / np.arange(1, 5)[:, None])[:, ::-1],
    ),
    "slices along the first axis and the last one": (
        (
            "  scan t in 0..n:\n    y[t] = x[t] * f32(t)\n"
            "  scan t in 0..d:\n    z[:, :, d - 1 - t] = x[:, :, t]\n"
            "    v[..., t] = x[..., t] + 1\n"
            "  return y + z * v\n"
        ),
        lambda x: x * np.arange(2)[:, None, None] + x[..., ::-1] * (x + 1),
    ),
    "what was there along other axes, where a condition leaves iterations out": (
        (
            "  y = x\n  z = 3 * x\n  scan t in 0..d while t < 2:\n    y[:, :, t] = 2 * x[:, :, t]\n"
            "    z[:, :, d - 1 - t] = x[:, :, t]\n  return y + 10 * z\n"
        ),
        lambda x: (
            x * np.array([2, 2, 1], np.float32)
            + 10 * np.stack([3 * x[..., 0], x[..., 1], x[..., 0]], 2)
        ),
    ),
    "all that was there, by every iteration": (
        "  y = x\n  q = 3 * x\n  scan t in 0..s:\n    y[:, t] = 2 * x[:, t]\n  return y + q\n",
        lambda x: 5 * x,
    ),
    "a scan within a scan": (
        (
            "  scan t in 0..s:\n    h = zeros([n])\n    scan i in 0..d:\n"
            "      h = h + x[:, t, i] * f32(i + t)\n      row[:, d - 1 - i] = h\n"
            "    y[:, t] = row + insert_axis(h, 1, d)\n  return y\n"
        ),
        lambda x: (
            (x * np.add.outer(np.arange(4), np.arange(3))).cumsum(2)[..., ::-1]
            + (x * np.add.outer(np.arange(4), np.arange(3))).sum(2, keepdims=True)
        ),
    ),
    "entries at the iterations of both": (
        (
            "  scan i in 0..d:\n    scan t in 0..s:\n"
            "      a[:, t] = x[:, t, i] + x[:, s - 1 - t, d - 1 - i] * f32(i)\n"
            "      b[:, t] = sum(x[:, t:t + 1, i], 1) * f32(t)\n"
            "    y[:, :, i] = a - 2 * b\n  return y\n"
        ),
        lambda x: x + x[:, ::-1, ::-1] * np.arange(3) - 2 * x * np.arange(4)[:, None],
    ),
    "what an inner iteration computes, at the iteration of the outer one": (
        (
            "  scan t in 0..s:\n    h = x\n    scan i in 0..d:\n      part = x[:, :, i]\n"
            "      h = h + 1\n      row[:, i] = part[:, t] + h[:, t, i]\n    y[:, t] = row\n"
            "  return y\n"
        ),
        lambda x: 2 * x + np.arange(1, 4),
    ),
    "entries that begin later, or of which there are more than iterations": (
        (
            "  z = concat(x, 2 * x, axis=1)\n  scan t in 0..s:\n"
            "    y[:, t] = z[:, t] - 3 * z[:, t + s] + 5 * z[:, t + 1] - 7 * z[:, s - t]\n"
            "  return y\n"
        ),
        lambda x: (
            x
            - 6 * x
            + np.concatenate([5 * x[:, 1:], 10 * x[:, :1]], 1)
            - np.concatenate([14 * x[:, :1], 7 * x[:, :0:-1]], 1)
        ),
    ),
    "numbers that are no sizes": (
        (
            "  scan t in 0..s:\n    y[:, t] = x[:, t] * (t + 1) - f32(t) ** 2\n"
            "    z[:, t] = 0 * x[:, t] + (2 * t - s)\n"
            "  return y - z\n"
        ),
        lambda x: x * np.arange(1, 5)[:, None] - np.array([-4, -1, 4, 11])[:, None],
    ),
    "an entry at the same iteration along two axes": (
        (
            "  both = x @ rearrange(x, [n, s, d] -> [n, d, s])\n"
            "  scan t in 0..s:\n    y[:, t] = both[:, t, t]\n"
            "  return x * expand(y, [n, s] -> [n, s, d])\n"
        ),
        lambda x: x * np.einsum("nsd,nsd->ns", x, x)[..., None],
    ),
    "three iterations inside each other whose indices have one name": (
        (
            "  h = zeros([n])\n  scan t in 0..s:\n    a = t\n    scan t in 0..d:\n"
            "      b = t\n      scan t in 0..s:\n"
            "        h = h + x[:, t, b] * f32((a + 1) * (b + 2 * t))\n"
            "  return x + expand(h, [n] -> [n, s, d])\n"
        ),
        lambda x: (
            x + 10 * (x * np.add.outer(2 * np.arange(4), np.arange(3))).sum((1, 2), keepdims=True)
        ),
    ),
    "two carries that change places": (
        (
            "  g = x[:, 0]\n  h = x[:, s - 1]\n  scan t in 0..s:\n    k = g\n    g = h\n"
            "    h = k + x[:, t]\n    y[:, t] = g - 2 * h\n"
            "  return y + insert_axis(h - g, 1, s)\n"
        ),
        _exchanged,
    ),
    "a formula of the iteration, in two scans over the same iterations": (
        (
            "  scan t in 0..s:\n    y[:, t] = x[:, t] * weight(t)\n"
            "  scan t in 0..s:\n    z[:, t] = x[:, t] * weight(t)\n  return y + 10 * z\n\n"
            "def weight(t) = f32(t) / 4\n"
        ),
        lambda x: 11 * x * (np.arange(4) / 4)[:, None],
    ),
    "a quotient of sizes beside the iteration": (
        "  scan t in 0..s:\n    y[:, t] = x[:, t] * (s // 3 + t)\n  return y\n",
        lambda x: x * np.arange(1, 5)[:, None],
    ),
    "an input that may be left out": (
        (
            "  return Masked()(x)\n\n"
            "block Masked()(x: [n, s, d], by: [n, s, d] = 3) -> [n, s, d]:\n"
            "  scan t in 0..s:\n    y[:, t] = x[:, t] * by[:, t]\n  return y\n"
        ),
        lambda x: 3 * x,
    ),
}


@pytest.mark.parametrize("name", WORKS)
def test_what_an_iteration_may_do(name: str) -> None:
    body, wanted = WORKS[name]
    text = f"block Net()(x: [n, s, d]) -> [n, s, d]:\n{body}\nmodel net = Net()\n"
    result = pipeline.check(Source("net.mgn", text), lambda _: None)
    assert result.fine, [report.headline for report in result.reports]
    sizes = {"n": 2, "s": 4, "d": 3}
    graph = pipeline.elaborate_model(result.program, "net", sizes=sizes).graph
    (found,) = evaluate(graph, {"x": X}).outputs.values()
    np.testing.assert_allclose(found, wanted(X), rtol=1e-6)
    if "ids" not in body:
        assert_gradients(graph)


def test_slices_of_iterations_within_iterations_are_read_in_order() -> None:
    text = """
block Net()(x: [n, s, d]) -> [n, s, d]:
  scan t in 0..s:
    scan i in 0..d:
      row[:, i] = x[:, t, i] + x[:, s - 1 - t, i]
    y[:, t] = row
  return y
model net = Net()
"""
    program = pipeline.check(Source("net.mgn", text), lambda _: None).program
    graph = pipeline.elaborate_model(program, "net", sizes={"n": 2, "s": 4, "d": 3}).graph
    assert "Gather" not in format_graph(graph)


def test_an_iteration_may_give_what_a_layer_outside_of_it_gave() -> None:
    """The check, which makes no graph, knows nothing of that layer but its type."""
    text = """
block Net()(x: [n, s, 3]) -> [n, s, 3], [n, 3]:
  layer cell: linear(3)
  h = x[:, 0] |> cell
  g = x[:, 0]
  scan t in 0..s:
    y[:, t] = h
    g = g * 0
    g = h
  return y |> cell, g

model net = Net()
"""
    result = pipeline.check(Source("net.mgn", text), lambda _: None)
    assert [report.code for report in result.reports] == []


def test_a_layer_declared_before_has_one_set_of_weights() -> None:
    text = """
block Net()(x: [n, s, 3]) -> [n, s, 3]:
  layer cell: linear(3)
  scan t in 0..s:
    y[:, t] = x[:, t] |> cell |> cell
  return y |> cell

model net = Net()
expect net has 2 params, 12 weights
"""
    assert pipeline.check(Source("net.mgn", text), lambda _: None).fine


def test_a_path_that_an_iteration_takes_goes_on_behind_the_scan() -> None:
    """`flag` is decided in the iteration, and is no other condition behind the scan."""
    text = """
block Net(flag: bool)(x: [n, s, d]) -> [n, d]:
  h = zeros([n, d])
  scan t in 0..s:
    if flag:
      h = h + (x[:, t] |> fc: linear(d))
    else:
      h = h + x[:, t]
  if not flag:
    h = h |> fc: linear(d)
  return h
"""
    result = pipeline.check(Source("net.mgn", text), lambda _: None)
    assert (result.fine, result.proved) == (True, ("Net",))


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("y[:, t] = x[:, t] |> cell{t}: linear(d)", "E0224"),
        ("y[:, t] = x[:, t] |> cell[t]: linear(d)", "E0224"),
        ("y[:, t] = given[t][:, t]", "E0317"),
        ("y[:, t] = x[:, t + p]", "E0315"),
        ("y[:, t] = x[:, p:t, 0:1]", "E0203"),
        ("y[:, t] = z[:, t] + x[:, t]\n    z[:, t + 1] = x[:, t]", "E0315"),
    ],
)
def test_what_no_iteration_can_do(line: str, code: str) -> None:
    text = "block Net()(x: [n, s, d], p: i32[]) -> [n, s, d]\n    where 0 <= p, p < s:\n"
    text += f"  given = [x, x]\n  z = x\n  scan t in 0..s:\n    {line}\n  return y + z + given[0]\n"
    result = pipeline.check(Source("net.mgn", text), lambda _: None)
    assert code in [report.code for report in result.reports]


@pytest.mark.parametrize(
    ("iterations", "headline"),
    [
        ("y[:, t] = x[:, t] * (t // 2)", "a scan has one body for all iterations"),
        ("y[:, t] = x[:, t // 2]", "a scan has one body for all iterations"),
        ("y[:, t] = x[:, t - t // 2]", "a scan has one body for all iterations"),
        ("y[:, t] = x[:, t] * (6 / (t + 1))", "`/` takes f32 or f16, not i32"),
        ("y[:, t] = x[:, t] * 2 ** t", "`**` takes floats"),
        ("h = x[:, t]\n    y[:, t] = h", ""),
        ("y[:, t] = x[:, t]\n    y[:, s - 1 - t] = x[:, t]", "an iteration writes `y` twice"),
        ("y[:, t + 1] = x[:, t]", "slice 0 of `y` is never written"),
        ("y[t, t] = x[:, t]", "an iteration writes one slice of `y`"),
        ("y[:, t:t + 1] = x[:, t:t + 1]", "an iteration writes one slice of `y`"),
        ("y[:, t, :, :] = x[:, t]", "`y` has fewer axes"),
        ("y[:, 2 * t] = x[:, t]", "not every slice of `y` is written once"),
        ("y[:, s - t] = x[:, t]", "not every slice of `y` is written once"),
        (
            "y[:, t] = x[:, t]\n    h = h[0]",
            "`h` does not keep its shape from iteration to iteration",
        ),
        (
            "y[:, t] = x[:, t]\n    h = f16(h)",
            "`h` does not keep its shape from iteration to iteration",
        ),
        (
            "y[:, t] = x[:, t]\n    m = m + 1",
            "`m` does not keep its shape from iteration to iteration",
        ),
        (
            "y[:, t] = x[:, t]\n    f = 2.5",
            "`f` does not keep its shape from iteration to iteration",
        ),
        ("y[:, t] = x[:, t]\n    f = f + 0.0", ""),
        ("y[:, t] = x[:, t]\n    m = m * 1", ""),
        ("y[:, t] = x[:, t]\n    h = x[:, t, 0:1]", "`h` belonged to the iterations of a scan"),
        ("y[:, t] = x[:, t]\n    k = x[:, t]\n    h = h + k", ""),
    ],
)
def test_what_an_iteration_leaves(iterations: str, headline: str) -> None:
    text = "block Net()(x: [n, s, d]) -> [n, s, d]:\n  h = x[:, 0]\n  m = 2\n  f = 1.5\n"
    text += f"  scan t in 0..s:\n    {iterations}\n  return y + insert_axis(h, 1, s) * m * f\n"
    result = pipeline.check(Source("net.mgn", text), lambda _: None)
    assert [each.headline for each in result.reports] == ([headline] if headline else [])


@pytest.mark.parametrize("update", ["", "\n    update s = s + b"])
def test_an_iteration_that_updates_a_state_draws_binds_and_declares_once(update: str) -> None:
    """It is elaborated twice: the first time shows which states it updates."""
    text = f"""
block Net()(x: [n, 4]) -> [n, 4]:
  state s: [4] = zeros
  a = dropout(x, 0.5)
  scan t in 0..n:
    b = dropout(a[t], 0.5) |> fc: linear(4)
    z[t] = b{update}
  c = dropout(z, 0.5)
  return c + s

model net = Net()
"""
    result = pipeline.check(Source("net.mgn", text), lambda _: None)
    assert result.fine
    found = pipeline.elaborate_model(result.program, "net", training=True)
    draws = [each.op for each in found.graph.values if isinstance(each.op, RandomBits)]
    numbers = (0, 1, 3)  # number 2 is that of the draw in the iteration
    assert [each.stream for each in draws] == [crc32(f"#{each}".encode()) for each in numbers]
    assert [each.name for each in found.bindings] == ["a", "fc", "b", "z", "c"]
    assert found.own == ("s", "fc.weight", "fc.bias")


NUMBERS = (
    "t",
    "s - 1 - t",
    "2 * t + 1",
    "3 - t",
    "t * t - 3",
    "(t + 1) * (s - t)",
    "s * t * t - 2 * t",
    "t * (s - 4)",
)
CONDITIONS = (
    "t < 2", "t <= 2", "t > 2", "t >= 2", "t == 2", "t != 2", "2 * t > s", "t * t > t + 1",
    "not t < 2", "t < 1 or t > 2", "t > 0 and t < 3", "t > 0 and t != 2 and t < s",
    "not (t < 1 or t > 2)", "t < 1 or t == 2 or t > s", "not (t == 1 and s == 4)",
    "t < 1 and s == 4 or t > 2", "t < 1 and s == 5 or t > 2", "s == 4 or t > 2", "s < 4 and t > 2",
)  # fmt: skip


@pytest.mark.parametrize("start", [0, 1, 2])
@pytest.mark.parametrize(
    ("number", "condition"),
    [*((each, "t >= 0") for each in NUMBERS), *(("t + 1", each) for each in CONDITIONS)],
)
def test_numbers_of_iterations_are_those_of_their_indices(
    number: str, condition: str, start: int
) -> None:
    text = "block Net()(x: [n, s, d]) -> [n, d] where s >= 3:\n  h = zeros([n, d])\n"
    text += f"  scan t in {start}..s:\n"
    text += f"    h = h + where({condition}, f32({number}), 0) * x[:, t]\n"
    text += "  return h\nmodel net = Net()\n"
    result = pipeline.check(Source("net.mgn", text), lambda _: None)
    assert result.fine, [report.headline for report in result.reports]
    graph = pipeline.elaborate_model(result.program, "net", sizes={"n": 2, "s": 4, "d": 3}).graph
    (found,) = evaluate(graph, {"x": X}).outputs.values()
    iterations = [{"t": t, "s": 4} for t in range(start, 4)]
    factors = [eval(number, at) if eval(condition, at) else 0 for at in iterations]  # noqa: S307
    np.testing.assert_array_equal(found, np.einsum("ntd,t->nd", X[:, start:], factors))


def test_a_scan_carries_the_states_that_its_iterations_update() -> None:
    """One that was updated before it is read as it is, in every iteration."""
    text = """
block Net()(x: [n, s]) -> [n, s]:
  state before: [] = 0.0
  state within: [] = 0.0
  update before = before + 1
  scan t in 0..s:
    update within = within + before
    y[:, t] = x[:, t] * within
  return y
model net = Net()
"""
    program = pipeline.check(Source("net.mgn", text), lambda _: None).program
    graph = pipeline.elaborate_model(program, "net", sizes={"n": 2, "s": 4}, training=True).graph
    (scan,) = {value.op for value in graph.values if isinstance(value.op, Scan)}
    assert scan.carried == 1
    feeds = {"x": np.ones((2, 4), np.float32), "before": np.float32(2), "within": np.float32(1)}
    found = evaluate(graph, feeds)
    np.testing.assert_array_equal(found.outputs["output"], [[4, 7, 10, 13]] * 2)
    assert (found.updates["before"], found.updates["within"]) == (3, 13)
