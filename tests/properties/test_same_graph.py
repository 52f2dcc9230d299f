"""Graphs that are one but for names."""

import pytest

from meganeura_dsl.pipeline import elaborate_model
from tests.same_computation import same_computation
from tests.same_graph import first_difference
from tests.written_programs import linked

NET = """\
block Net()(x: [n, 4], y: [n, 4]) -> [n, 4]:
  return (x |> a: linear(4)) - y * (x |> b: linear(4))

model net = Net()
"""


@pytest.mark.parametrize(
    ("old", "new", "is_same"),
    [
        ("a: linear", "z: linear", True),
        ("x", "u", True),
        ("b: linear(4)", "a", False),
        ("y * (x |> b: linear(4))", "(x |> b: linear(4)) * y", False),
        ("- y", "+ y", False),
        ("(x |> a: linear(4)) - y", "y - y", False),
    ],
)
def test_names_alone_may_differ(old: str, new: str, is_same: bool) -> None:  # noqa: FBT001 - a case
    text = (
        NET.replace("(x:", "(u:").replace("(x |>", "(u |>") if old == "x" else NET.replace(old, new)
    )
    one, other = (
        elaborate_model(linked(each), "net", sizes={"n": 3}).graph for each in (NET, text)
    )
    assert (first_difference(one, other) is None) is is_same


SCALED = """\
block Net()(x: [n, 4]) -> [n, 4]:
  h = zeros([4])
  scan t in 0..n:
    h = tanh(h + x[t])
    y[t] = h
  return exp(f32(iota(4)))[1] * y

model net = Net()
"""


@pytest.mark.parametrize(
    ("old", "new", "is_same"),
    [
        ("exp(f32(iota(4)))[1]", "2.7182817", True),
        ("exp(f32(iota(4)))[1]", "2.7183", False),
        ("x[t]", "rearrange(rearrange(x[t], [a] -> [1, a]), [1, a] -> [a])", True),
        ("y[t] = h", "y[t] = rearrange(rearrange(h, [a] -> [a, 1]), [a, 1] -> [a])", True),
        ("x[t]", "x[0]", False),
        ("y[t] = h", "y[t] = -h", False),
        ("zeros([4])", "ones([4])", False),
        ("h + x[t]", "h - x[t]", False),
    ],
)  # fmt: skip
def test_moves_and_constants_may_differ(old: str, new: str, is_same: bool) -> None:  # noqa: FBT001 - a case
    one, other = (
        elaborate_model(linked(each), "net", sizes={"n": 3}).graph
        for each in (SCALED, SCALED.replace(old, new))
    )
    assert same_computation(one, other, {}) is is_same
