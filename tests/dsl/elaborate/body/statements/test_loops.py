"""Loops in proofs: the verdict of a proof, and the loop for numbers of iterations."""

from collections.abc import Callable

import numpy as np
import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError, Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.ir.interpreter import evaluate
from meganeura_dsl.pipeline import Program, elaborate_model

OPEN = "left open"
"""Of a block that no proof decides, which is checked in each model."""
LOOPS = [
    ("[n, d]", "", "for i in 0..k:\n    x = x |> fc[i]: linear(d)\n  return x", "proved"),
    ("[n, d + k]", "", "for i in 0..k:\n    x = concat(x, x[:, :1], axis=1)\n  return x", "proved"),
    (
        "[n, d + 2 * k]",
        "",
        (
            "for i in 0..k:\n    x = concat(x, x[:, :1], axis=1)\n"
            "    x = concat(x[:, :1], x, axis=1)\n  return x"
        ),
        "proved",
    ),
    ("[n, d + k]", "", "for i in 2..k:\n    x = concat(x, x[:, :1], axis=1)\n  return x", OPEN),
    ("[n, d + k - 2]", "", "for i in 2..k:\n    x = concat(x, x[:, :1], axis=1)\n  return x", OPEN),
    (
        "[n, d + k - 2]",
        "k >= 2",
        "for i in 2..k:\n    x = concat(x, x[:, :1], axis=1)\n  return x",
        "proved",
    ),
    (
        "[n, d + k - 2]",
        "k >= 1",
        "for i in 2..k:\n    x = concat(x, x[:, :1], axis=1)\n  return x",
        OPEN,
    ),
    (
        "[n, d + k]",
        "k >= 2",
        "for i in 2..k:\n    x = concat(x, x[:, :1], axis=1)\n  return x",
        "E0303",
    ),
    ("[n, 2 * d]", "", "for i in 0..k:\n    x = concat(x, x, axis=1)\n  return x", OPEN),
    (
        "[n, d]",
        "",
        ("y = x[:, :1]\n  for i in 0..k:\n    y = x |> fc[i]: linear(d)\n  return y"),
        "proved",
    ),
    (
        "[n, d]",
        "k >= 1",
        ("y = x[:, :1]\n  for i in 0..k:\n    y = x |> fc[i]: linear(d)\n  return y"),
        "proved",
    ),
    ("[n, 3]", "k >= 1", "for i in 0..k:\n    x = x |> fc[i]: linear(3)\n  return x", "proved"),
    ("[n, 3]", "", "for i in 0..k:\n    x = x |> fc[i]: linear(3)\n  return x", "proved"),
    ("[n, 3]", "k >= 2", "for i in 1..k:\n    x = x |> fc[i]: linear(3)\n  return x", "proved"),
    ("[n, 3]", "k >= 1", "for i in 1..k:\n    x = x |> fc[i]: linear(3)\n  return x", OPEN),
    (
        "[n, d + k]",
        "",
        "c = d\n  for i in 0..k:\n    c = c + 1\n  return x |> fc: linear(c)",
        "proved",
    ),
    (
        "[n, d + 3 * k]",
        "",
        "c = d\n  for i in 0..k:\n    c = c + 3\n  return x |> fc: linear(c)",
        "proved",
    ),
    (
        "[n, d * k]",
        "k >= 1",
        "c = d\n  for i in 1..k:\n    c = c + d\n  return x |> fc: linear(c)",
        "proved",
    ),
    ("[n, d]", "", "c = d\n  for i in 0..k:\n    c = c * 2\n  return x |> fc: linear(d)", OPEN),
    (
        "[n, d]",
        "",
        "for i in 0..k:\n    y = x[:, i:i + 1]\n    x = x + sum(y)\n  return x",
        "E0305",
    ),
    (
        "[n, d]",
        "k <= d",
        "for i in 0..k:\n    y = x[:, i:i + 1]\n    x = x + sum(y)\n  return x",
        "proved",
    ),
    (
        "[n, d]",
        "k <= d",
        ("for i in 0..k + 1:\n    y = x[:, i:i + 1]\n    x = x + sum(y)\n  return x"),
        "E0305",
    ),
    (
        "[n, d]",
        "k <= d",
        "for i in 1..k:\n    x = x + x[:, i - 1:i + 1][0, 0]\n  return x",
        "proved",
    ),
    (
        "[n, d]",
        "k <= d",
        (
            "for i in 0..k:\n    for j in i..k:\n"
            "      x = x + sum(x[:, j:j + 1]) - sum(x[:, i])\n  return x"
        ),
        "proved",
    ),
    (
        "[n, d]",
        "k <= d",
        ("for i in 0..k:\n    for j in 0..i:\n      x = x + sum(x[:, i - j - 1])\n  return x"),
        "proved",
    ),
    (
        "[n, d]",
        "",
        (
            "for i in 0..k:\n    if i > 0:\n      x = x |> fc[i]: linear(d)\n    else:\n"
            "      x = x * 2\n  return x"
        ),
        "proved",
    ),
    (
        "[n, d]",
        "",
        (
            "for i in 0..k:\n    if i > 0:\n      x = x |> fc[i]: linear(d)\n    else:\n"
            "      x = x |> fc[i]: linear(d + 1)\n  return x"
        ),
        OPEN,
    ),
    (
        "[n, d]",
        "",
        ("for i in 0..k:\n    x = x |> a[i]: linear(d + i) |> b[i]: linear(d)\n  return x"),
        "proved",
    ),
    (
        "[n, d]",
        "",
        ("for i in 0..k:\n    x = x |> a[i]: linear(d - i) |> b[i]: linear(d)\n  return x"),
        "E0305",
    ),
    (
        "[n, d]",
        "k <= d",
        ("for i in 0..k:\n    x = x |> a[i]: linear(d - i) |> b[i]: linear(d)\n  return x"),
        "proved",
    ),
    ("[n, d]", "", "for i in 0..k:\n    return x\n  return x", "proved"),
    ("[n, d]", "", "for i in 0..k:\n    return x", "proved"),
    ("[n, d]", "k >= 1", "for i in 0..k:\n    return x", "proved"),
    ("[n, d]", "", "for i in 0..k:\n    y = x * 2\n  return y", "proved"),
    ("[n, d]", "k >= 1", "for i in 0..k:\n    y = x * 2\n  return y", "proved"),
    ("[n, d]", "", "h = [x]\n  for i in 0..k:\n    h = h + [x]\n  return h[0]", OPEN),
    ("[n, d]", "", "i = 3\n  for i in 0..k:\n    x = x + i\n  return x * i", "proved"),
    ("[n, d]", "", "f = 1.0\n  for i in 0..k:\n    f = f * 2\n  return x * f", OPEN),
    ("[n, d]", "", "f = true\n  for i in 0..k:\n    f = not f\n  return x * 2 if f else x", OPEN),
    ("[n, d]", "", "for i in 0..k:\n    x = f16(x)\n  return f32(x)", "proved"),
    ("[n, d]", "", "y = f16(x)\n  for i in 0..k:\n    y = y * 2\n  return f32(y)", "proved"),
    (
        "[n, d]",
        "",
        "y = x\n  for i in 0..k:\n    z = y\n    y = x[0]\n    y = z\n  return y",
        "proved",
    ),
    ("[n, d]", "", "y = sum(x)\n  for i in 0..k:\n    y = x\n  return x + sum(y)", "proved"),
    (
        "[n, d + k]",
        "",
        (
            "y = x\n  z = x\n  for i in 0..k:\n    y = concat(y, z[:, :1], axis=1)\n"
            "    z = concat(z, y[:, :1], axis=1)\n  return y + z"
        ),
        "proved",
    ),
    (
        "[n, d + k]",
        "",
        (
            "y = x\n  z = x\n  for i in 0..k:\n    y = concat(y, z[:, :1], axis=1)\n"
            "    z = concat(z, y[:, :2], axis=1)\n  return y"
        ),
        "proved",
    ),
    ("[n + k, d]", "", "for i in 0..k:\n    x = concat(x, x[:1], axis=0)\n  return x", "proved"),
    (
        "[n + k, d + k]",
        "",
        (
            "for i in 0..k:\n    x = concat(x, x[:1], axis=0)\n"
            "    x = concat(x, x[:, :1], axis=1)\n  return x"
        ),
        "proved",
    ),
    ("[n, d]", "d > k", "for i in 0..k:\n    x = x[:, 1:]\n  return x |> fc: linear(d)", "proved"),
    ("[n, d - k]", "d > k", "for i in 0..k:\n    x = x[:, 1:]\n  return x", "proved"),
    ("[n, d - k]", "d >= k", "for i in 0..k:\n    x = x[:, 1:]\n  return x", "E0305"),
    (
        "[n, d]",
        "",
        (
            "for i in 0..k:\n    x = x |> fc[i]: linear(d)\n  for i in k..2 * k:\n"
            "    x = x |> fc[i]: linear(d)\n  return x"
        ),
        "proved",
    ),
    ("[n, d]", "", "for i in 1..k:\n    y = x * 2\n  return y", "E0201"),
    ("[n, d]", "k >= 2", "for i in 1..k:\n    y = x * 2\n  return y", "proved"),
    ("[n, d]", "", "for i in 1..k:\n    return x", OPEN),
    ("[n, d]", "", "for i in 1..k:\n    return x * 2\n  return x", OPEN),
    ("[n, d]", "", "w = x\n  for i in 1..k:\n    x = f16(x)\n  return x + w", OPEN),
    ("[n, d]", "", "w = x\n  for i in 1..k:\n    x = f16(x)\n  return f32(x) + w", OPEN),
    (
        "[n, d + k]",
        "",
        (
            "f = 1.0\n  for i in 0..k:\n    x = concat(x, x[:, :1], axis=1)\n    f = f * 2\n"
            "  return x * f"
        ),
        OPEN,
    ),
    (
        "[n, d + k]",
        "",
        (
            "m = 0\n  for i in 0..k:\n    x = concat(x, x[:, :1], axis=1)\n    m = m + 2\n"
            "  return x * m"
        ),
        "proved",
    ),
    (
        "[n, d + k]",
        "",
        (
            "y = x\n  for i in 0..k:\n    x = concat(x, x[:, :1], axis=1)\n"
            "    y = insert_axis(y, 0, 1)\n  return x + sum(y)"
        ),
        OPEN,
    ),
    (
        "[n, d + k - 1]",
        "",
        (
            "x = concat(x, x[:, :1], axis=1)\n  for i in 2..k:\n"
            "    x = concat(x, x[:, :1], axis=1)\n  return x"
        ),
        OPEN,
    ),
    (
        "[n, d]",
        "k <= d",
        "for i in 0..k:\n    for i in i..k:\n      x = x + sum(x[:, i])\n  return x",
        "proved",
    ),
    (
        "[n, d]",
        "",
        "for i in 2 * k..3 * k:\n    for i in 0..k:\n      x = x + sum(x[:, 40])\n  return x",
        "E0305",
    ),
    (
        "[n, d]",
        "",
        "for i in 0..k:\n    if i >= 2:\n      x = x + sum(x[:, i - 2])\n  return x",
        OPEN,
    ),
    (
        "[n, d]",
        "k <= d",
        "for i in 0..k:\n    if i >= 2:\n      x = x + sum(x[:, i - 2:i + 1])\n  return x",
        "proved",
    ),
    (
        "[n, d]",
        "k <= d",
        (
            "for i in 0..k:\n    for i in 0..k:\n      m = i\n      for i in 0..k:\n"
            "        x = x + sum(ones([m - i + 1]))\n  return x"
        ),
        "E0305",
    ),
    ("[n, d]", "", "y = sum(x)\n  for i in 1..k:\n    y = 3\n  return x * y", OPEN),
    ("[n, d]", "", "y = 3\n  for i in 1..k:\n    y = sum(x)\n  return x * y", OPEN),
    ("[n, d]", "", "y = 3\n  for i in 1..k:\n    y = sum(x)\n  return x |> fc: linear(y)", OPEN),
]
"""Results of a block, its needs, its body, and the verdict for all `k` from 1."""
UNMET = "E0311"


@pytest.mark.parametrize(("result", "where", "body", "verdict"), LOOPS)
def test_what_is_proved_of_a_loop_holds_for_any_number_of_iterations(
    result: str, where: str, body: str, verdict: str
) -> None:
    needs = f"\n    where {where}" if where else ""
    text = f"block Loop(k)(x: [n, d]) -> {result}{needs}:\n  {body}\n"
    checked = pipeline.check(Source("net.mgn", text), lambda _: None)
    codes = {each.code for each in checked.reports} - {"E0207", "E0404", "N0001"}
    found = "proved" if checked.proved else next(iter(codes), OPEN)
    assert (found, len(codes)) == (verdict, 0 if verdict in ("proved", OPEN) else 1)
    outcomes = [outcome(text, k, d) for k in (1, 2, 3) for d in (1, 2, 5)]
    if verdict == "proved":
        assert set(outcomes) <= {"", UNMET}
        assert "" in outcomes
    elif verdict != OPEN:
        assert not set(outcomes) <= {"", UNMET}


def outcome(text: str, k: int, d: int) -> str:
    """The code of what is wrong with so many iterations on so many channels, or nothing."""
    text += f"block Net()(x: [2, {d}]):\n  return x |> loop: Loop({k})\nmodel net = Net()\n"
    module = Linker(lambda _: None, Sink()).link(Source("net.mgn", text))
    try:
        elaborate_model(Program(module), "net")
    except ProblemError as error:
        return error.problem.code
    return ""


VALUES = [
    ("for i in 0..k:\n    x = x + i\n  return x", lambda k: sum(range(k))),
    ("for i in 2..k:\n    x = x + i\n  return x", lambda k: sum(range(2, k))),
    ("for i in 0..k:\n    if i == 1:\n      return 10 * x + 10\n    x = x + 1\n  return x",
     lambda k: 20 if k > 1 else k),
    ("for i in 0..k:\n    return x + i + 5\n  return x", lambda k: 5 if k else 0),
    (("for i in 0..k:\n    for j in 0..i:\n      if j == 2:\n        return x + 100 * i + j\n"
      "      x = x + 1\n  return x"), lambda k: 302 + 1 + 2 + 2 if k > 3 else k * (k - 1) // 2),
    (("h = []\n  for i in 0..k:\n    h = h + [x + i]\n  for i in 0..k:\n"
      "    x = x + h[k - 1 - i] * i\n  return x"),
     lambda k: sum(i * (k - 1 - i) for i in range(k))),
    ("w = [3, 1, 2, 7]\n  for i in 0..len(w[:k]):\n    x = x + w[i]\n  return x",
     lambda k: sum([3, 1, 2, 7][:k])),
    ("w = [3, 1, 2, 7]\n  return x + sum(w[1:k]) + w[-1] + len(w[k:])",
     lambda k: sum([3, 1, 2, 7][1:k]) + 7 + len([3, 1, 2, 7][k:])),
    ("m = 1\n  for i in 0..k:\n    m = 2 * m\n  return x + m", lambda k: 2**k),
    ("m = 1.5\n  for i in 0..k:\n    m = m + 0.5\n  return x + m", lambda k: 1.5 + k / 2),
    ("if k > 2 and 12 // (k - 2) == 6:\n    x = x + 1\n  return x", lambda k: int(k == 4)),
    ("if k <= 2 or 12 // (k - 2) == 6:\n    x = x + 1\n  return x", lambda k: int(k in (1, 2, 4))),
    ("if not (k == 1 or k == 3):\n    x = x + 1\n  else:\n    x = x - 1\n  return x",
     lambda k: -1 if k in (1, 3) else 1),
    (("if k == 1:\n    x = x + 1\n  else:\n    if k == 3:\n      return x + 30\n    x = x + 4\n"
      "  return x + 0.5"), lambda k: {1: 1.5, 3: 30}.get(k, 4.5)),
    ("y = x + 1 if k > 2 else x - 1 if k > 1 else x\n  return y", lambda k: (0, 0, -1, 1, 1)[k]),
]  # fmt: skip
"""Bodies, and what is added to an x of zeros for a number `k`."""


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize(("body", "wanted"), VALUES)
def test_a_loop_and_a_choice_do_what_they_say(
    body: str, wanted: Callable[[int], float], k: int
) -> None:
    text = f"block Net(k: size)(x: [3]) -> [3]:\n  {body}\nmodel net = Net({k})\n"
    checked = pipeline.check(Source("net.mgn", text), lambda _: None)
    assert {each.code for each in checked.reports} <= {"N0001", "E0207"}
    graph = elaborate_model(checked.program, "net").graph
    (found,) = evaluate(graph, {"x": np.zeros(3, np.float32)}).outputs.values()
    np.testing.assert_array_equal(found, [wanted(k)] * 3)


BEHIND = {
    "as a size of a pattern": "x |> rearrange([n, i * j] -> [n, i, j])",
    "as a number": "x * i",
    "as a label": "x |> more[i]: linear(8)",
}


@pytest.mark.parametrize("iterations", ["3", "k"])
@pytest.mark.parametrize("name", BEHIND)
def test_the_index_of_a_loop_ends_with_it(name: str, iterations: str) -> None:
    text = (
        "block Use(k: size)(x: [n, 8 + 0 * k]):\n"
        f"  for i in 0..{iterations}:\n    x = x |> layers[i]: linear(8)\n  return {BEHIND[name]}\n"
        "model use = Use(3)\n"
    )
    result = pipeline.check(Source("loop.mgn", text), lambda _: None)
    assert ("E0201", "nothing here is called `i`") in [
        (report.code, report.headline) for report in result.reports
    ]


@pytest.mark.parametrize("iterations", ["3", "0", "k"])
def test_what_the_index_of_a_loop_hides_is_back_behind_it(iterations: str) -> None:
    text = (
        "block Use(k: size)(x: [n, 8 + 0 * k]) -> [n, 5]:\n  i = 5\n"
        f"  for i in 0..{iterations}:\n    x = x |> layers[i]: linear(8)\n  return x[:, :i]\n"
    )
    assert pipeline.check(Source("loop.mgn", text), lambda _: None).proved == ("Use",)


def test_a_weight_is_read_by_the_index_of_a_loop() -> None:
    text = (
        "block Step(d: size)(x: [n, d]) -> [n, d] = x |> fc: linear(d)\n"
        "block Use()(x: [n, 4]) -> [n, 4]:\n"
        "  for i in 0..3:\n    x = x |> steps[i]: Step(4)\n"
        "  for i in 0..{}:\n    x = x + steps[i].fc.{}\n  return x\nmodel use = Use()\n"
    )
    assert pipeline.check(Source("loop.mgn", text.format(3, "bias")), lambda _: None).fine
    for wrong in ((4, "bias"), (3, "scale"), (3, "weight[0:2]")):
        result = pipeline.check(Source("loop.mgn", text.format(*wrong)), lambda _: None)
        assert not result.fine
