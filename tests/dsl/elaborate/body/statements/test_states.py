"""A name means the value it was bound to; a state's own name is bound anew by `update`."""

from pathlib import Path
from textwrap import dedent, indent

import numpy as np
import pytest

from meganeura_dsl.diagnostics.problem import ProblemsError
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.ir.graph import Leaf
from meganeura_dsl.ir.interpreter import evaluate
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.pipeline import check, elaborate_model, elaborate_train, load

START = {"a": 1.0, "b": 5.0, "c": 7.0}
STATES = "".join(f"state {name}: [1] = {value}\n" for name, value in START.items())
STEP = "update a = a + 10"

BLOCKS = """\
block Both(_unused=1)(x: [1], y: [1]) -> [1], [1]:
  return x, y

block Later(_unused=1)(x: [1]) -> [1]:
  update_me = x + 10
  return x + 0 * update_me

block Counter()(x: [1]) -> [1], [1]:
  state count: [1] = 1.0
  before = count
  if training:
    update count = count + 10
  return before + 0 * x, count + 0 * x
"""

READS = [
    pytest.param(f"old = a\n{STEP}", "old", 1, id="a name"),
    pytest.param(f"_old = a\n{STEP}", "a", 11, id="its own name"),
    pytest.param(f"old = a\nolder = old\n{STEP}", "older", 1, id="a name of a name"),
    pytest.param(f"{STEP}\nold = a\n{STEP}", "old", 11, id="between two updates"),
    pytest.param(f"{STEP}\n_old = a\n{STEP}", "a", 21, id="after two updates"),
    pytest.param(f"old, _same = Both()(a, b)\n{STEP}", "old", 1, id="a result"),
    pytest.param(f"old = Later()(a)\n{STEP}", "old", 1, id="an argument of a block"),
    pytest.param(f"old = twice(a)\n{STEP}", "old", 2, id="an argument of a def"),
    pytest.param(f"old = a if 1 < 2 else b\n{STEP}", "old", 1, id="a choice"),
    pytest.param(f"if training:\n  old = a\n  {STEP}", "old", 1, id="in a branch"),
    pytest.param("old = a\nfor i in 0..3:\n  update a = a + i", "old", 1, id="before a loop"),
    pytest.param("_old = a\nfor i in 0..3:\n  update a = a + i", "a", 4, id="after a loop"),
    pytest.param(
        "old = b\nfor i in 0..3:\n  old = a\n  update a = a + 10", "old", 21, id="in a loop"
    ),
    pytest.param("x = a\nupdate a = b\ny = a\nupdate b = x\nold = x + 2 * y", "old", 11, id="both"),
    pytest.param("a = 100 + a\nupdate a = a + 10", "a", 111, id="a local name of a state's name"),
    pytest.param(
        "_old, _new = b |> cell: Counter()\n_x, new = b |> cell", "new", 21, id="applied again"
    ),
    pytest.param(
        "_old, _new = b |> cell: Counter()\nold, _x = b |> cell", "old", 11, id="applied again, old"
    ),
    pytest.param("_x, _y = b |> cell: Counter()", "cell.count", 11, id="by path"),
    pytest.param(
        "_x, _y = b |> cell: Counter()\nold = cell.count\nupdate cell.count = b",
        "old",
        11,
        id="a name of a path",
    ),
]


def program(body: str, seen: str) -> str:
    text = dedent(body)
    inside = indent(f"{STATES}{text}\nmetric seen = sum({seen})\n", "  ")
    return (
        f"def twice(x) = 2 * x\n\n{BLOCKS}\n"
        f"train fit(x: [batch, 1]):\n  param w: [1] = ones\n{inside}  minimize mean(x * w)\n"
    )


def step(tmp_path: Path, text: str) -> dict[str, float]:
    """Returns the metrics of one training step, and every state after it."""
    path = tmp_path / "fit.mgn"
    path.write_text(text)
    elaboration = elaborate_train(load(str(path)), sizes={"batch": 1}, training=True)
    first = {**START, "cell.count": 1.0, "w": 1.0}
    feeds = {
        value.op.name: np.full(
            concrete_shape(value.type.shape), first.get(value.op.name, 1.0), np.float32
        )
        for value in elaboration.graph.values
        if isinstance(value.op, Leaf)
    }
    results = evaluate(elaboration.graph, feeds)
    return {name: float(x.sum()) for name, x in {**results.outputs, **results.updates}.items()}


@pytest.mark.parametrize(("body", "seen", "expected"), READS)
def test_a_name_keeps_its_value(tmp_path: Path, body: str, seen: str, expected: float) -> None:
    assert step(tmp_path, program(body, seen))["seen"] == expected


def test_two_states_are_swapped_through_a_name(tmp_path: Path) -> None:
    after = step(tmp_path, program("t = a\nupdate a = b\nupdate b = c\nupdate c = t", "a - b"))
    assert (after["a"], after["b"], after["c"], after["seen"]) == (5, 7, 1, -2)


def test_updates_without_a_name_are_in_order(tmp_path: Path) -> None:
    after = step(tmp_path, program("update a = b\nupdate b = c\nupdate c = a", "c"))
    assert (after["a"], after["b"], after["c"], after["seen"]) == (5, 7, 5, 5)


def test_a_block_may_not_update_what_its_caller_has_a_name_for(tmp_path: Path) -> None:
    """Its caller's name would go on to mean the old value."""
    text = """\
        block Sly(sizes=[1])(x: [n, 1]) -> [n, 1]:
          update a = 3 * ones([1])
          return x * sizes[0]

        train fit(x: [batch, 1]):
          param w: [1] = ones
          state a: [1] = 1.0
          y = x |> Sly()
          minimize mean(y * w + a)
        """
    with pytest.raises(ProblemsError, match="nothing here is called `a`"):
        step(tmp_path, dedent(text))


def test_a_proof_follows_updates() -> None:
    """In a proof a state has its declared shape before and after any number of iterations."""
    text = """\
        block Rolling(iterations)(x: [n, c]) -> [n, c]:
          state a: [c] = zeros
          state b: [c] = ones
          for i in 0..iterations:
            t = a
            if training:
              update a = b
              update b = t
            x = x + t
          return x + a - b
        """
    result = check(Source("rolling.mgn", dedent(text)), lambda _: None)
    assert result.fine
    assert result.proved == ("Rolling",)


@pytest.mark.parametrize(
    ("dtype", "value", "code"),
    [
        ("f32", "f32(x)", ""),
        ("f32", "f16(x)", ""),
        ("f16", "f32(x)", ""),
        ("f16", "f16(x)", ""),
        ("i32", "i32(x)", ""),
        ("bool", "x > 0", ""),
        ("f32", "i32(x)", "E0303"),
        ("f16", "i32(x)", "E0303"),
        ("i32", "f32(x)", "E0303"),
        ("i32", "x > 0", "E0303"),
        ("bool", "i32(x)", "E0303"),
        ("f32", "x > 0", "E0303"),
        ("f32", "x[0]", "E0303"),
        ("f32", "sum(x)", "E0303"),
        ("f32", "3", "E0203"),
    ],
)
def test_a_state_keeps_its_type(dtype: str, value: str, code: str) -> None:
    text = f"""\
        block Net()(x: [4, 3]) -> [4, 3]:
          state s: {dtype}[4, 3]
          if training:
            update s = {value}
          return x + f32(s)
        model net = Net()
        """
    result = check(Source("net.mgn", dedent(text)), lambda _: None)
    assert [each.code for each in result.reports] == ([code] if code else [])
    if not code:
        graph = elaborate_model(result.program, "net", training=True).graph
        assert str(graph.updates["s"].type) == f"{dtype}[4, 3]"


def test_states_that_iterations_of_a_scan_update_follow_from_iteration_to_iteration() -> None:
    text = """\
        block Net()(x: [4, 3]) -> [4, 3]:
          state a: [] = 1.0
          state b: [] = 5.0
          state c: [] = 2.0
          update c = c + 1
          scan t in 0..4:
            y[t] = x[t] * a + c
            update a = a + b
            update b = 2 * b
          return y + b
        model net = Net()
        """
    result = check(Source("net.mgn", dedent(text)), lambda _: None)
    assert result.reports == ()
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    feeds = {
        "x": x,
        **{name: np.array(of, np.float32) for name, of in zip("abc", (1, 5, 2), strict=True)},
    }
    found = evaluate(elaborate_model(result.program, "net", training=True).graph, feeds)
    assert {name: float(each) for name, each in found.updates.items()} == {"a": 76, "b": 80, "c": 3}
    wanted = x * np.array([[1], [6], [16], [36]]) + 3 + 80
    np.testing.assert_array_equal(found.outputs["output"], wanted)
