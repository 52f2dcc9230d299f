"""Inputs that may be left out: what they are then, and that they leave no trace in a graph."""

from pathlib import Path

import numpy as np
import pytest

import meganeura
from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.ir.interpreter import evaluate
from meganeura_dsl.ir.ops import Add, Input, Where

SHIFTED = """\
block Shifted()(x: [n, d], by: [d] = 0, keep: bool[n, d] = true, scale: [] = 2) -> [n, d]:
  return where(keep, x + by, -1) * scale

block Root()(x: [n, d], y: [d], m: bool[n, d]) -> [n, d]:
  return ({call}) + 0 * (insert_axis(y, 0, n) + f32(m))

model root = Root()
"""
GIVEN = {
    "Shifted()(x)": lambda x, **_: x * 2,
    "Shifted()(x, y)": lambda x, y, **_: (x + y) * 2,
    "Shifted()(x, keep=m)": lambda x, m, **_: np.where(m, x, -1) * 2,
    "x |> Shifted()(y, m, scale=3)": lambda x, y, m: np.where(m, x + y, -1) * 3,
    "Shifted(x, scale=0.5)": lambda x, **_: x / 2,
    "x |> Shifted(keep=m)(scale=1, by=y)": lambda x, y, m: np.where(m, x + y, -1),
}


@pytest.mark.parametrize("call", GIVEN)
def test_a_call_gives_some_and_the_others_have_their_defaults(call: str, tmp_path: Path) -> None:
    (tmp_path / "root.mgn").write_text(SHIFTED.format(call=call))
    model = meganeura.load(str(tmp_path / "root.mgn")).model()
    generator = np.random.default_rng(0)
    x, y = (generator.normal(size=shape).astype(np.float32) for shape in ((3, 2), (2,)))
    m = np.array([[1, 0], [0, 1], [1, 1]], np.bool_)
    found = np.asarray(model.run({"x": x, "y": y, "m": m})["output"])
    np.testing.assert_allclose(found, GIVEN[call](x=x, y=y, m=m), rtol=1e-6)


@pytest.mark.parametrize(
    ("written", "sign"), [("x + by", 1), ("by + x", 1), ("x - by", 1), ("by - x", -1)]
)
def test_what_is_not_given_is_zero_on_either_side(written: str, sign: int, tmp_path: Path) -> None:
    graph = graph_of(
        f"block Shifted()(x: [n, d], by: [n, d] = 0) -> [n, d]:\n  return {written}\n"
        "model root = Shifted()\n",
        tmp_path,
        n=2,
        d=3,
    )
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(evaluate(graph, {"x": x}).outputs["output"], sign * x)


@pytest.mark.parametrize("written", ["x + by", "by + x", "x - by", "x - 0 * by"])
def test_what_is_not_given_gives_its_shape_all_the_same(written: str, tmp_path: Path) -> None:
    text = (
        f"block Shifted()(x: [d], by: [3, d] = 0) -> [3, d]:\n  return {written}\n"
        "model root = Shifted()\n"
    )
    x = np.arange(2, dtype=np.float32)
    found = evaluate(graph_of(text, tmp_path, d=2), {"x": x}).outputs["output"]
    np.testing.assert_array_equal(found, [x, x, x])


KINDS = {
    "": ("0.5", 0.5),
    "f16": ("0.5", 0.5),
    "i32": ("-3", -3),
    "u32": ("7", 7),
    "bool": ("true", True),
}


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("rank", [0, 1])
def test_a_default_is_of_the_element_type_of_its_input(
    dtype: str, rank: int, tmp_path: Path
) -> None:
    written, number = KINDS[dtype]
    text = (
        f"block B()(x: [n], by: {dtype}{['[]', '[n]'][rank]} = {written}) -> {dtype}[n]:\n"
        f"  return where(x > 0, by, by)\n"
        "model root = B()\n"
    )
    found = evaluate(graph_of(text, tmp_path, n=2), {"x": np.ones(2, np.float32)})
    np.testing.assert_array_equal(found.outputs["output"], [number, number])


def graph_of(text: str, folder: Path, **sizes: int) -> Graph:
    (folder / "root.mgn").write_text(text)
    program = pipeline.load(str(folder / "root.mgn"))
    return pipeline.elaborate_model(program, sizes=sizes or None).graph


def test_what_is_not_given_leaves_nothing_behind(tmp_path: Path) -> None:
    text = (
        "block Shifted()(x: [n, d], by: [d] = 0, keep: bool[n, d] = true) -> [n, d]:\n"
        "  return where(keep, x + by, -1)\nmodel root = Shifted()\n"
    )
    graph = graph_of(text, tmp_path)
    assert [value.op.name for value in graph.values if isinstance(value.op, Input)] == ["x"]
    assert not [value for value in graph.values if isinstance(value.op, Add | Where)]


ATTENTION = """\
block Root()(q: [n, heads, s, d], m: bool[n, heads, s, s]) -> [n, heads, s, d]:
  return {call} * mean(m)

model root = Root()
"""


def test_attention_is_as_large_without_what_is_not_given(tmp_path: Path) -> None:
    plain, masked = (
        graph_of(ATTENTION.format(call=call), tmp_path)
        for call in ("attention(q, q, q)", "attention(q, q, q, mask=m)")
    )
    assert not [value for value in plain.values if isinstance(value.op, Where)]
    of_scores_and_of_weights = 2
    assert [type(value.op) for value in masked.values].count(Where) == of_scores_and_of_weights


def codes(text: str) -> list[str]:
    """The codes of a program's errors."""
    result = pipeline.check(Source("optional.mgn", text), lambda _: None)
    return [problem.code for problem in result.problems if problem.code.startswith("E")]


REFUSED = (
    ("by: [n] = true", "B()(x)", "E0203"),
    ("by: i32[n] = 0.5", "B()(x)", "E0203"),
    ("by: bool[n] = 1", "B()(x)", "E0203"),
    ("by: [m] = 0", "B()(x)", "E0203"),
    ('by: [n] = "a"', "B()(x)", "E0203"),
    ("by: [n] = zeros([2])", "B()(x)", "E0303"),
    ("by: [n] = 0", "B()(x, by=1)", "E0202"),
    ("by: [n] = 0", "B()(by=x)", "E0202"),
    ("by: [n] = 0", "B()(x, x, by=x)", "E0202"),
    ("by: [n] = 0", "B()(x, by=x, by=x)", "E0122"),
    ("by: [n] = 0", "B()(x, to=x)", "E0202"),
    ("by: [] = 0", "B()(x, by=true)", "E0203"),
)


@pytest.mark.parametrize(("item", "call", "code"), REFUSED)
def test_what_cannot_be_left_out_or_given_is_refused(item: str, call: str, code: str) -> None:
    text = (
        f"block B()(x: [n], {item}) -> [n]:\n  return x + sum(f32(by))\n\n"
        f"block A()(x: [n]) -> [n]:\n  return {call}\n"
    )
    assert code in codes(text)
