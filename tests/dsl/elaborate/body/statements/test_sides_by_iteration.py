"""An `if` whose condition changes by iteration, where the number of iterations is open."""

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.source import Source

HEAD = "block B(depth)(x: [n, d]) -> [n, d] where d >= depth:\n  for i in 0..depth:\n"

PROVED = {
    "no activation behind the last": (
        "    x = x |> l[i]: linear(d)\n    if i < depth - 1:\n      x = relu(x)\n"
    ),
    "one of two, one in the other": (
        "    if i % 2 == 0:\n      y = relu(x)\n    else:\n      y = tanh(x)\n"
        "      if i > 3:\n        y = y * 2\n    x = y\n"
    ),
    "the condition is a fact of one side": (
        "    y = x[:, 0]\n    if i < depth - 1:\n      y = x[:, i + 1]\n"
        "    x = x + insert_axis(y, 1, d)\n"
    ),
    "its opposite is one of the other": (
        "    if i == 0:\n      y = x[:, i]\n    else:\n      y = x[:, i - 1]\n"
        "    x = x + insert_axis(y, 1, d)\n"
    ),
    "a number that both have": "    k = 1\n    if i > 0:\n      k = 1 + 0 * i\n    x = x * k\n",
}
LEFT = {
    "another shape on one side": "    if i < depth - 1:\n      x = concat(x, x, axis=1)\n",
    "weights of one side": "    if i < depth - 1:\n      x = x |> l[i]: linear(d)\n",
    "a name of one side": "    if i > 0:\n      y = x\n    x = y\n",
    "a number that differs": "    k = 1\n    if i > 0:\n      k = 2\n    x = x * k\n",
    "an index that the condition does not bound": (
        "    y = x[:, 0]\n    if i > 0:\n      y = x[:, i + 1]\n    x = x + insert_axis(y, 1, d)\n"
    ),
    "an index that the opposite does not bound": (
        "    if i > 0:\n      y = x[:, i]\n    else:\n      y = x[:, i + d]\n"
        "    x = x + insert_axis(y, 1, d)\n"
    ),
    "a result": "    if i > 0:\n      return x\n",
}


def _check(text: str) -> pipeline.CheckResult:
    return pipeline.check(Source("sides.mgn", text), lambda _: None)


@pytest.mark.parametrize("name", PROVED)
def test_both_sides_are_proved_for_any_iteration(name: str) -> None:
    text = f"{HEAD}{PROVED[name]}  return x\n"
    models = "".join(
        f"expect B(depth={depth}) maps [2, {size}] -> [2, {size}]\n"
        for depth in range(1, 6)
        for size in range(depth, 7)
    )
    result = _check(text + models)
    assert (result.proved, result.reports) == (("B",), ())


@pytest.mark.parametrize("name", LEFT)
def test_nothing_is_proved_where_the_sides_differ(name: str) -> None:
    result = _check(f"{HEAD}{LEFT[name]}  return x\n")
    assert not result.proved
    assert not result.fine


def test_a_model_that_has_no_mistake_is_fine_though_a_side_is_not_proved() -> None:
    """A side that fails may not be reached: it is left to the models."""
    own = f"{HEAD}{LEFT['weights of one side']}  return x\n"
    assert _check(f"{own}expect B(depth=3) maps [2, 3] -> [2, 3]\n").fine
    grows = f"{HEAD}{LEFT['another shape on one side']}  return x\n"
    assert _check(f"{grows}expect B(depth=1) maps [2, 3] -> [2, 3]\n").fine
    assert not _check(f"{grows}expect B(depth=2) maps [2, 3] -> [2, 3]\n").fine


def test_an_error_behind_both_sides_is_told() -> None:
    cut = "    y = x[:, 1:]\n    if i > 0:\n      y = x[:, :d - 1]\n    x = x + y\n"
    head = HEAD.replace("d >= depth", "d >= 2")
    assert [each.code for each in _check(f"{head}{cut}  return x\n").reports] == ["E0301"]


APART = "block B(depth, d)(x: [n, d]) -> [n, d] where depth >= 1:\n"
IN_LOOP = """\
  for i in 0..depth:
    if IS_LAST:
      x = x |> last: linear(d)
    else:
      x = x |> l[i]: linear(d) |> relu
  return x
"""
SWAPPED = """\
  for i in 0..depth:
    if IS_LAST:
      x = x |> l[i]: linear(d) |> relu
    else:
      x = x |> last: linear(d)
  return x
"""
BEHIND = """\
  for i in 0..depth - 1:
    x = x |> l[i]: linear(d) |> relu
  return x |> last: linear(d)
"""
MODEL = "\nmodel b = B(depth=3, d=4)\n"


@pytest.mark.parametrize("model", ["", MODEL])
@pytest.mark.parametrize(
    ("body", "is_last"),
    [
        (IN_LOOP, "i == depth - 1"),
        (IN_LOOP, "i + 1 == depth"),
        (IN_LOOP, "i >= depth - 1"),
        (SWAPPED, "i < depth - 1"),
        (SWAPPED, "i + 1 < depth"),
        (SWAPPED, "i != depth - 1"),
    ],
)
def test_a_last_iteration_with_layers_of_its_own_is_told_to_stand_behind_the_loop(
    body: str, is_last: str, model: str
) -> None:
    source = Source("b.mgn", APART + body.replace("IS_LAST", is_last) + model)
    (report,) = pipeline.check(source, lambda _: None).reports
    form = "`for i in 0..depth - 1:`, and the last iteration behind it"
    assert report.code == ("N0001" if model else "E0404")
    assert form in [each.text for each in report.remarks]
    assert not pipeline.check(Source("b.mgn", APART + BEHIND + model), lambda _: None).reports


@pytest.mark.parametrize("condition", ["i == 1", "i == depth - 2"])
def test_other_conditions_have_no_such_form(condition: str) -> None:
    source = Source("b.mgn", APART + IN_LOOP.replace("IS_LAST", condition) + MODEL)
    (report,) = pipeline.check(source, lambda _: None).reports
    assert (report.code, report.remarks) == ("N0001", ())
