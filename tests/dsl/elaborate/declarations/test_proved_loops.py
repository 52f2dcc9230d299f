"""Loops of any number of iterations: proved by induction, or left to each model."""

import gc
from collections.abc import Callable
from textwrap import indent

import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.body.statements.induction import UnstableError
from meganeura_dsl.elaborate.scope.undecided import UndecidableError
from tests.dsl.elaborate.declarations.proving import checked, codes


def test_a_loop_of_any_length_is_checked_by_induction() -> None:
    result = checked(
        """\
        block Deep(depth)(x: [n, d]) -> [n, d]:
          for i in 0..depth:
            x = x + (x |> layers[i]: linear(d) |> relu)
          return x
        """
    )
    assert result.proved == ("Deep",)


def test_a_loop_that_changes_a_shape_is_left_to_each_model() -> None:
    text = """\
        block Shrink(depth)(x: [n, 4, h, w]):
          for i in 0..depth:
            x = x |> layers[i]: conv2d(4, 3, 2, pad=1)
          return x
        model small = Shrink(depth=3)
        """
    assert [code for code, _ in codes(text)] == ["N0001"]
    assert what_is_kept_of_failures(lambda: codes(text)) == []


def what_is_kept_of_failures(action: Callable[[], object]) -> list[Exception]:
    """The refusals that an action leaves to the garbage collector, and what their frames hold."""
    kinds = (ProblemError, UndecidableError, UnstableError)
    gc.collect()  # what is left is old: the youngest generation is what the action makes
    gc.disable()
    try:
        action()
        return [each for each in gc.get_objects(generation=0) if isinstance(each, kinds)]
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("for i in 0..k:\n  x = relu(x)\nif k == 0:\n  return x[:, 0:2]\nreturn x", "E0303"),
        ("for i in 0..k:\n  return relu(x)\nreturn x[:, 0:2]", "E0404"),
        ("for i in 0..k:\n  y = relu(x)\nreturn y", "E0201"),
    ],
    ids=["facts", "return", "name"],
)
def test_a_loop_may_have_no_iteration(body: str, code: str) -> None:
    text = "block A(k=0)(x: [n, 4]) -> [n, 4]:\n" + indent(body, "  ") + "\n"
    assert [found for found, _ in codes(text)] == [code]
    assert checked(text.replace("k=0", "k=1")).proved == ("A",)


def test_what_an_iteration_chooses_is_chosen_behind_the_loop() -> None:
    result = checked(
        """\
        block A(k=0, wide=false)(x: [n, 4]) -> [n, 4]:
          y = x
          for i in 0..k:
            if wide:
              x = x + 1
          if wide:
            x = x * y
          return x
        """
    )
    assert result.proved == ("A",)


@pytest.mark.parametrize("change", ["m = 2 * m + 1", "x = concat(x, x, axis=1)"])
def test_a_loop_that_changes_a_value_in_no_regular_way_is_left_to_each_model(change: str) -> None:
    text = f"""\
        block A(k)(x: [n, 8]):
          m = 0
          for i in 0..k:
            {change}
          return x[:, 0 : m + 1]
        model a = A(k=3)
        """
    assert [code for code, _ in codes(text)] == ["N0001"]


GROWING = {
    "by the same step": ("[n, d]", "[n + 3 * k, d]", "x = concat(x, x[:1], x[:1], x[:1], axis=0)"),
    "to nothing but one": ("[n, d]\n    where k < n", "[n - k, d]", "x = x[1:]"),
    "by a size": ("[n, d]", "[n, d + k * c]", "x = concat(x, zeros([n, c]), axis=1)"),
    "on two axes": ("[n, d]", "[n + k, d + 2 * k]", "x = pad(pad(x, 0, 1), 1, 1, 1)"),
    "as its index says": ("[n, d]", "[n + k, d]", "x = x[:n + i] |> pad(0, 0, 1)"),
    "with a number": ("[n, d]", "[n + 2 * k, d]", "x = pad(x[:m], 0, 0, 2)\n    m = m + 2"),
    "with weights of its size": (
        "[n, d]",
        "[n + k, d]",
        "param w{i}: [c + i] = ones\n    x = pad(x, 0, 0, size(w{i}, 0) - c - i + 1)",
    ),
    "in two loops": ("[n, d]", "[n + k * c, d]", "for _j in 0..c:\n      x = pad(x, 0, 0, 1)"),
    "from the second iteration on": (
        "[n, d]", "[n + k, c]", "x = pad(x |> fc[i]: linear(c), 0, 0, 1)"
    ),
    "or not, in the first iteration": (
        "[n, d]", "[n + k - 1, d]", "if i > 0:\n      x = pad(x, 0, 0, 1)"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GROWING)
def test_sizes_that_grow_by_the_same_step_are_proved(name: str) -> None:
    takes, gives, change = GROWING[name]
    header, _, where = takes.partition("\n")
    text = f"""\
block A(k, c)(x: {header}) -> {gives}
    {where.strip() or "where c >= 1"}:
  m = n
  for i in 0..k:
    {change}
  return x + 0 * m

block B(k, c)(x: {header}) -> {gives.replace("]", " + 1]")}
    {where.strip() or "where c >= 1"}:
  m = n
  for i in 0..k:
    {change}
  return x + 0 * m
"""
    reports = [report for report in checked(text).reports if report.code != "E0207"]
    assert [(report.code, report.headline) for report in reports] == [
        ("E0303", "`B` returns another shape than it says")
    ]


def test_a_growing_loop_without_an_iteration_leaves_its_sizes() -> None:
    text = """\
        block A(k)(x: [n]) -> [n + k - 1]:
          for _i in 1..k:
            x = pad(x, 0, 0, 1)
          return x
        model one = A(1)
        model four = A(4)
        expect one maps [n] -> [n]
        expect four maps [n] -> [n + 3]
        """
    assert checked(text).fine
    assert checked(text).proved == ("A",)


def test_what_is_declared_before_a_failed_attempt_is_declared_once() -> None:
    text = """\
        block A(k)(x: [n, 4]) -> [n, 4 + k]:
          x = x |> fc: linear(4)
          for i in 0..k:
            x = concat(x, x |> grow{i}: linear(1), axis=1)
          return x * fc.weight[0, 0]
        model a = A(3)
        expect a has 8 params
        """
    assert not codes(text)


def test_an_index_is_no_size_of_the_same_name() -> None:
    text = """\
        block A(k)(x: [n, 4]) -> [4]:
          y = sum(x, 0)
          for n in 1..k:
            y = y + sum(x[0:n], 0)
          return y
        """
    assert [code for code, _ in codes(text)] == ["E0305"]


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_loop_that_changes_an_axis_is_left_to_each_model(axis: int) -> None:
    text = f"""\
        block Grow(k)(x: [n, c, d]):
          for _i in 0..k:
            x = concat(x, x, axis={axis})
          return x
        model twice = Grow(k=2)
        """
    assert [code for code, _ in codes(text)] == ["N0001"]
