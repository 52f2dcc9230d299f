"""Parts of tensors that begin where the graph says: what is proved of them, and what is checked."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meganeura
from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.interpreter import evaluate
from meganeura_dsl.ir.text import format_graph
from tests.scans import forward

WINDOW = """\
block Window(k)(x: [n, s], p: i32[]) -> [n, k]
    where 0 <= p, p + k <= s:
  return x[:, p:p + k]
"""


def codes(text: str) -> list[str]:
    """The codes of a program's errors."""
    result = pipeline.check(Source("parts.mgn", text), lambda _: None)
    return [problem.code for problem in result.problems if problem.code.startswith("E")]


PROVED = (
    "x[:, argmax(y, 0)]",
    "x[:, argsort(y)[0]]",
    "x[:, q % s]",
    "x[:, minimum(maximum(q, 0), s - 1)]",
    "x[:, gather(iota(s), q % s)]",
    "x[:, p:p + 2][:, 1]",
    "x[:, 2 * p - p + 1]",
    "x[:, (p + p) // 2]",
    "x[:, s - 1 - (p + 1)]",
)


@pytest.mark.parametrize("part", PROVED)
def test_what_is_known_of_numbers_proves_that_a_part_is_within(part: str) -> None:
    header = "block A()(x: [n, s], y: [s], p: i32[], q: i32[]) -> [n]\n    where p + 2 <= s:\n"
    rest = "  z = sum(y) + f32(p) + f32(q)\n"
    assert codes(f"{header}{rest}  return {part} + z\n") == []


REFUSED = (
    ("x[:, q]", "E0315"),
    ("x[:, p + 2]", "E0315"),
    ("x[:, p - 1]", "E0315"),
    ("x[:, argmax(y, 0) + 1]", "E0315"),
    ("x[:, minimum(q, s - 1)]", "E0315"),
    ("x[:, maximum(q, 0)]", "E0315"),
    ("x[:, i32(y[0])]", "E0315"),
    ("sum(x[:, p:p + 3], 1)", "E0315"),
    ("sum(x[:, p:], 1)", "E0316"),
    ("sum(x[:, argmax(y, 0):argmax(y, 0) + p], 1)", "E0316"),
    ("x[:, iota(s)]", "E0203"),
    ("Window(2)(x, p + 1)[:, 0]", "E0311"),
    ("Window(2)(x, p - 1)[:, 0]", "E0311"),
    ("Window(1)(x, q)[:, 0]", "E0311"),
)


@pytest.mark.parametrize(("part", "code"), REFUSED)
def test_what_is_not_known_is_refused(part: str, code: str) -> None:
    header = "block A()(x: [n, s], y: [s], p: i32[], q: i32[]) -> [n]\n    where p + 2 <= s:\n"
    rest = "  z = sum(y) + f32(p) + f32(q)\n"
    assert codes(f"{WINDOW}\n{header}{rest}  return {part} + z\n") == [code]


ELLIPSES = (
    ("y = x[..., 1:]", "y = x[:, :, :, 1:]"),
    ("y = x[0, ...]", "y = x[0]"),
    ("y = x[0, ..., -1]", "y = x[0, :, :, -1]"),
    ("y = x[...]", "y = x"),
    ("y = x[:, :, :, 0, ...]", "y = x[:, :, :, 0]"),
    ("y = x[..., p:p + 2, :]", "y = x[:, :, p:p + 2]"),
    ("y = x\n  y[..., p] = 1", "y = x\n  y[:, :, :, p] = 1"),
    ("cache y: [2, 3, 4, 5] = zeros\n  update y[..., p:] = x[..., :1]",
     "cache y: [2, 3, 4, 5] = zeros\n  update y[:, :, :, p:] = x[:, :, :, :1]"),
    ("scan t in 0..3:\n    y[..., t, :] = x[..., t, :, 0]",
     "scan t in 0..3:\n    y[:, t] = x[:, t, :, 0]"),
    ("scan t in 0..4:\n    y[..., t] = x[0, ..., t, :]",
     "scan t in 0..4:\n    y[:, :, t] = x[0, :, t]"),
)  # fmt: skip


@pytest.mark.parametrize(("short", "long"), ELLIPSES)
def test_an_ellipsis_is_as_many_whole_axes_as_fit(short: str, long: str) -> None:
    header = "block A()(x: [2, 3, 4, 5], p: i32[]):\n  x = x + f32(p)\n  p = 4\n"
    if "p + 2" in short:
        header = header.replace("4\n", "1\n")
    graphs = [
        format_graph(forward(f"{header}  {body}\n  return y\nmodel a = A()\n"))
        for body in (short, long)
    ]
    assert [line.partition("  # ")[0] for line in graphs[0].splitlines()] == [
        line.partition("  # ")[0] for line in graphs[1].splitlines()
    ]


@pytest.mark.parametrize(
    ("part", "code"), [("x[..., 0, ...]", "E0203"), ("x[0, ..., 0, 0]", "E0302")]
)
def test_an_ellipsis_stands_once_and_for_no_fewer_axes_than_none(part: str, code: str) -> None:
    assert codes(f"block A()(x: [n, s]) -> [n]:\n  return {part}\n") == [code]


def test_a_number_is_not_named_as_a_size_is() -> None:
    text = "block A()(x: [n, p], p: i32[]) -> [n]\n    where p + 1 <= n:\n  return x[:, p]\n"
    assert codes(text) == ["E0122"]


def test_a_call_inside_of_a_proved_block_hands_its_facts_on() -> None:
    outer = (
        "block Outer(k)(x: [n, s], p: i32[]) -> [n, k]\n    where p + 2 * k <= s:\n"
        "  return Window(k)(x, p) + Window(k)(x, p + k) * Window(k)(x, 2 * k - k + p)\n"
    )
    assert codes(f"{WINDOW}\n{outer}") == []


def run(text: str, feeds: dict[str, Array], folder: Path) -> Array:
    """The output of a model of a program on the CPU."""
    (folder / "parts.mgn").write_text(text)
    program = meganeura.load(str(folder / "parts.mgn"))
    return np.asarray(program.model().run(feeds)["output"])


def test_a_model_checks_the_numbers_it_is_fed(tmp_path: Path) -> None:
    text = f"{WINDOW}\nmodel window = Window(k=3)\n"
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    for place in (0, 3):
        found = run(text, {"x": x, "p": np.array(place, np.int32)}, tmp_path)
        np.testing.assert_array_equal(found, x[:, place : place + 3])
    for place in (-1, 4):
        with pytest.raises(ProblemError, match=f"E0535.*`p` holds {place}"):
            run(text, {"x": x, "p": np.array(place, np.int32)}, tmp_path)
    with pytest.raises(ProblemError, match=r"E0535.*`p` holds 0, and must be below s - 2 = 0"):
        run(text, {"x": x[:, :2], "p": np.array(0, np.int32)}, tmp_path)


INDICES = (
    np.s_[1], np.s_[-1], np.s_[:, 1:], np.s_[:, :-1], np.s_[:, -2:], np.s_[:, -2:-1], np.s_[:, 1:2],
    np.s_[:, :1], np.s_[0, :, 1:3, -1], np.s_[1, 2, 3, 4], np.s_[1, -1, :, -2], np.s_[..., 2],
    np.s_[1, ..., -2], np.s_[..., 1:-1, :], np.s_[:, 1, 1:], np.s_[0, 1:3, :, 1], np.s_[:, :, 1:4],
    np.s_[1, 1:, 1:2, 2:-1], np.s_[1:, :, :, 3:5], np.s_[:, 0:3, 0:4, 0], np.s_[:, :, :, 0:5],
    np.s_[1, ..., 1], np.s_[0:1, 2, :, 4], np.s_[..., 1:3, 1], np.s_[:, 2:3, 1:3],
)  # fmt: skip
Index = Any
"""The type of NumPy's subscripts."""
X = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)


@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("index", INDICES, ids=str)
def test_a_part_is_that_of_numpy(index: Index, *, computed: bool) -> None:
    found = of_arrays(f"  return x{written(index, computed=computed)}")
    np.testing.assert_array_equal(found, X[index])


@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("index", INDICES, ids=str)
def test_what_is_written_stands_where_numpy_has_it(index: Index, *, computed: bool) -> None:
    part = written(index, computed=computed)
    for value, changed in (("7", 7.0), (f"y{written(index, computed=False)}", 1000 + X[index])):
        wanted = X.copy()
        wanted[index] = changed
        found = of_arrays(f"  x{part} = {value}\n  return x")
        np.testing.assert_array_equal(found, wanted)


def written(index: Index, *, computed: bool) -> str:
    """The subscripts of an index, with numbers from 1 as those that the graph computes, or not."""
    entries = index if isinstance(index, tuple) else (index,)
    return f"[{', '.join(entry(each, computed=computed) for each in entries)}]"


def entry(each: object, *, computed: bool) -> str:
    if each is Ellipsis:
        return "..."
    if not isinstance(each, slice):
        return f"p + {each - 1}" if computed and isinstance(each, int) and each > 0 else str(each)
    ends = (each.start, each.stop)
    is_open = not all(isinstance(end, int) and end > 0 for end in ends)
    return ":".join(
        "" if end is None else entry(end, computed=computed and not is_open) for end in ends
    )


def of_arrays(body: str) -> Array:
    """Returns the result of a body for x and for y, which is 1000 more; p is computed, and 1."""
    text = "block A()(x: [2, 3, 4, 5], y: [2, 3, 4, 5], q: i32[]):\n"
    text += "  p = minimum(maximum(q, 1), 1)\n  y = y + f32(0 * p)\n  x = x + 0 * y\n"
    graph = forward(f"{text}{body}\nmodel a = A()\n")
    feeds = {"x": X, "y": 1000 + X, "q": np.array(1, np.int32)}
    return evaluate(graph, feeds).outputs["output"]


def test_what_is_written_replaces_a_part_and_nothing_else(tmp_path: Path) -> None:
    text = (
        "block Put(k)(x: [n, s], y: [n, k], p: i32[]) -> [n, s], [n, s]\n"
        "    where p + k <= s, n >= 2:\n"
        "  before = x\n  x[:, p:p + k] = y\n  x[1, s - 1] = 7\n  return x, before\n"
        "model put = Put(k=2)\n"
    )
    x, y = np.zeros((2, 6), np.float32), np.ones((2, 2), np.float32)
    (tmp_path / "put.mgn").write_text(text)
    model = meganeura.load(str(tmp_path / "put.mgn")).model()
    found = model.run({"x": x, "y": y, "p": np.array(3, np.int32)})
    expected = x.copy()
    expected[:, 3:5], expected[1, 5] = 1, 7
    np.testing.assert_array_equal(found["output0"], expected)
    np.testing.assert_array_equal(found["output1"], x)


WRONGLY_WRITTEN = (
    ("x[:, 0] = x", "E0303"),
    ("x[0, 0, 0] = 1", "E0302"),
    ("x[:, s] = 1", "E0315"),
    ("x[:, 0] = iota(n)", "E0303"),
    ('x[:, 0] = "a"', "E0203"),
    ("n[0] = 1", "E0203"),
)


@pytest.mark.parametrize(("line", "code"), WRONGLY_WRITTEN)
def test_what_cannot_be_written_is_refused(line: str, code: str) -> None:
    text = f"block A()(x: [n, s]) -> [n, s]:\n  {line}\n  return x\n"
    assert code in codes(text)


@pytest.mark.parametrize(("longest", "found"), [(10, []), (11, ["E0315"]), (9, [])])
def test_what_a_train_block_states_of_its_inputs_is_known_of_them(
    longest: int, found: list[str]
) -> None:
    text = f"""\
train fit(p: whole i32[], x: [batch, 10]) where p + 4 <= {longest}:
  minimize mean((x[:, p:p + 4] |> y: linear(1)) ** 2)
"""
    assert codes(text) == found
