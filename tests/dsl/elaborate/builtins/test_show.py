"""Values by their names, and what a program shows."""

from pathlib import Path

import numpy as np
import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.problems.value_problems import UnknownValue
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.interpreter import evaluate
from meganeura_dsl.ir.outputs import Statistic
from meganeura_dsl.ir.types import DType
from tests.folded import each_of

TEXT = """\
block Two()(x: [n, d]) -> [n, d], [n]:
  y = 2 * x |> show("doubled")
  return y, sum(y, 1)

block Net(depth)(x: [n, s, 2]) -> [n, 2]:
  h = x[:, 0]
  scan t in 1..s:
    part = h + x[:, t]
    h = part
    _every[t - 1] = h
  for i in 0..depth:
    h = h + 1
    h, total = h |> steps[i]: Two
  layer both: linear(2, bias=false)
  h = h |> both
  h = h + sum(total)
  return h |> both

model net = Net(depth=2)
train fit(x: [batch, 3, 2], y: [batch, 2]):
  minimize mse(x |> net, y)
"""
TEXT = TEXT.replace("x: [n, s, 2]) -> [n, 2]:", "x: [n, s, 2]) -> [n, 2]\n    where s >= 2:")
X = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
W = np.array([[1, 2], [3, 4]], np.float32)


def checked(text: str) -> pipeline.CheckResult:
    return pipeline.check(Source("net.mgn", text), lambda _: None)


def values(*patterns: str, shown: bool = False) -> dict[str, Array]:
    result = pipeline.check(Source("net.mgn", TEXT), pipeline.loader_beside(Path("net.mgn")))
    assert result.fine, [each.headline for each in result.reports]
    made = pipeline.elaborate_model(
        result.program, "net", sizes={"n": 2, "s": 3}, asked=pipeline.Asked(patterns, shown=shown)
    )
    return dict(evaluate(made.graph, {"x": X, "both.weight": W}).outputs)


SUMMED = X.sum(1)
FIRST = 2 * (SUMMED + 1)
SECOND = 2 * (FIRST + 1)
LINEAR = SECOND @ W.T
LAST = LINEAR + SECOND.sum()
VALUES = {
    "a name, which is what it was last": ("h", {"h": LAST}),
    "what it was before": ("h#1", {"h#1": X[:, 0]}),
    "a label": ("both", {"both": LAST @ W.T}),
    "a layer that was applied before": ("both#1", {"both#1": LINEAR}),
    "what a scan collected": ("_every", {"_every": np.stack([X[:, :2].sum(1), SUMMED])}),
    "what a scan left": ("h#2", {"h#2": SUMMED}),
    "results of a layer, by their numbers": ("steps.1.?", {
        "steps.1.y": SECOND, "steps.1.0": SECOND, "steps.1.1": SECOND.sum(1)
    }),
    "a name in a layer": ("steps.0.y", {"steps.0.y": FIRST}),
    "a name that the program shows": ("*.doubled", {
        "steps.0.doubled": FIRST, "steps.1.doubled": SECOND
    }),
}  # fmt: skip


@each_of("name", VALUES)
def test_values_by_their_names(name: str) -> None:
    pattern, wanted = VALUES[name]
    found = values(pattern)
    np.testing.assert_array_equal(found.pop("output"), LAST @ W.T)
    assert found.keys() == wanted.keys()
    for key, each in wanted.items():
        np.testing.assert_array_equal(found[key], each)


def test_what_is_shown_comes_unasked_where_it_is_wanted() -> None:
    assert list(values()) == ["output"]
    assert list(values(shown=True)) == ["output", "steps.0.doubled", "steps.1.doubled"]


SHOWN = {
    "by its own name": ('h = x + 1\n  return h |> show("h")', ["h"]),
    "by the label of its layer": ('return x |> fc: linear(2) |> show("fc")', ["fc"]),
    "by the name of an input": ('return 2 * (x |> show("x"))', ["x"]),
    "before it is bound anew": ('h = x |> show("h")\n  h = h + 1\n  return h', ["h#1"]),
    "twice by one name": (
        'h = 2 * (x |> show("a"))\n  return h |> show("a")', ["a#1", "a"]
    ),
    "by the name of the result": ('h = x |> show("output")\n  return 2 * h', ["output#1"]),
    "as the result": ('return (2 * x) |> show("output")', []),
}  # fmt: skip


@each_of("name", SHOWN)
def test_what_a_program_shows_has_its_name(name: str) -> None:
    body, wanted = SHOWN[name]
    result = checked(f"block A()(x: [n, 2]) -> [n, 2]:\n  {body}\n\nmodel net = A()\n")
    assert result.fine, [each.headline for each in result.reports]
    made = pipeline.elaborate_model(
        result.program, "net", sizes={"n": 2}, asked=pipeline.Asked(shown=True)
    )
    assert list(made.graph.outputs) == ["output", *wanted]


def test_the_result_of_a_model_may_be_asked_for() -> None:
    assert list(values("output")) == ["output"]


UNKNOWN = {
    "none at all": ("step.0", ["`steps.0.y`"]),
    "another spelling": ("_evry", ["did you mean `_every`?"]),
    "without its path": ("doubled", ["`steps.0.doubled`, `steps.1.doubled`"]),
    "nothing like it": ("zzz.qqq", ["`*` is all of them"]),
    "a value of an iteration": ("part", ["each iteration of a scan", "_part_all[t] = part"]),
}


@each_of("name", UNKNOWN)
def test_names_of_no_value(name: str) -> None:
    pattern, wanted = UNKNOWN[name]
    with pytest.raises(ProblemError) as caught:
        values(pattern)
    assert isinstance(caught.value.problem, UnknownValue)
    assert all(each in str(caught.value) for each in wanted), str(caught.value)


REFUSED = {
    "no name": ("return show(x)", "E0202"),
    "a name of letters": ("return show(x, a)", "E0201"),
    "a number for a name": ("return x |> show(3)", "E0203"),
    "an empty name": ('return x |> show("  ")', "E0203"),
    "a name over lines": ('return x |> show("' + 65 * "a" + '")', "E0203"),
    "the sign of a number": ('return x |> show("a#1")', "E0203"),
    "no tensor": ('return x * show(3, "three")', "E0203"),
    "two names": ('return show(x, "a", "b")', "E0202"),
    "a value of an iteration": (
        'h = x[0]\n  scan t in 0..n:\n    h = h + x[t] |> show("h")\n  return x + h',
        "E0216",
    ),
}


@each_of("name", REFUSED)
def test_what_show_refuses(name: str) -> None:
    body, code = REFUSED[name]
    body = body.replace("h + x[t] |>", "(h + x[t]) |>")
    result = checked(f"block A()(x: [n, d]) -> [n, d]:\n  {body}\n")
    assert [each.code for each in result.problems][:1] == [code]


def test_a_value_of_an_iteration_is_collected_by_its_name_and_index() -> None:
    body = 'z = x[0]\n  scan i in 1..n:\n    z = z + x[i]\n    z = z |> show("sum")\n  return x + z'
    (problem,) = checked(f"block A()(x: [n, d]) -> [n, d]:\n  {body}\n").problems
    assert "all_z[i] = z" in str(problem.report())


def test_a_training_has_statistics_of_what_is_shown() -> None:
    result = pipeline.check(Source("net.mgn", TEXT), pipeline.loader_beside(Path("net.mgn")))
    sizes = {"batch": 2}
    plain = pipeline.elaborate_train(result.program, sizes=sizes, training=True).graph
    assert list(plain.outputs) == ["loss"]
    made = pipeline.elaborate_train(result.program, sizes=sizes, training=True, shows=True).graph
    x = X.copy()
    x[0, 0, 0], x[1, 2, 1] = np.inf, np.nan
    found = evaluate(made, {"x": x, "y": X[:, 0], "both.weight": W}).outputs
    first = 2 * (x.sum(1) + 1)
    for value, array in (("steps.0.doubled", first), ("steps.1.doubled", 2 * (first + 1))):
        finite = array[np.isfinite(array)]
        wanted = {
            "mean": finite.mean(),
            "deviation": finite.std(),
            "from": finite.min(),
            "to": finite.max(),
            "not finite": 0.5,
        }
        for kind, number in wanted.items():
            assert float(found[Statistic(value, kind)]) == pytest.approx(float(number), rel=1e-6)


def test_whole_numbers_and_truths_have_statistics_and_floats_are_taken_as_they_are() -> None:
    text = """\
train fit(x: [batch, 2], t: i32[batch], m: bool[batch]):
  k = t |> show("ids")
  said = m |> show("said")
  minimize mean(where(said, f32(k), 0)) + mean((x |> fc: linear(1)) |> show("out"))
"""
    result = checked(text)
    assert result.fine, [each.headline for each in result.reports]
    made = pipeline.elaborate_train(
        result.program, sizes={"batch": 4}, training=True, shows=True
    ).graph
    weights = {"fc.weight": W[:1], "fc.bias": W[0, :1]}
    whole = {"t": np.array([1, 2, 3, 6], np.int32), "m": np.array([True, False, True, True])}
    found = evaluate(made, {"x": X[:, :2].reshape(-1, 2)[:4], **whole, **weights}).outputs
    assert float(found[Statistic("ids", "mean")]) == 3
    assert float(found[Statistic("ids", "to")]) == 6
    assert float(found[Statistic("said", "mean")]) == 0.75
    of_floats = [each for each in made.values if isinstance(each.op, ops.Cast)]
    assert all(each.operands[0].type.dtype is not DType.F32 for each in of_floats)
