"""Labels that each iteration would declare again are refused in the proof, not only in models."""

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError, Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.pipeline import Program, elaborate_model

AROUND = """\
block Inner(c)(x: [n, d]) -> [n, c] = x |> inner: linear(c)
block Own()(x: [n, d]) -> [n, d]:
  param w: [d] = ones
  return x * w
block Four()(x: [n, 4]) -> [n, 4] = x |> fc: linear(4)
block Plain()(x: [n, d]) -> [n, d] = x + 1
block Given(k, body: block)(x: [n, d]) -> [n, d]:
  for i in 0..k:
    x = x |> same: body
  return x
block One(k)(x: [n, 4]):
  if k > 1:
    return x
  return x |> fc: Four
block AsDeclared(k)(x: [n, 4]) -> [n, 4]:
  if k > 1:
    return x
  return x |> fc: Four
block ForTwo(k)(x: [n, 4]):
  if k <= 2:
    return x |> fc: Four
  return x
block Acts()(x: [n, 4]) -> [n, 4] = x |> plain: Plain
block Wrapped()(x: [n, 4]) -> [n, 4] = x |> . : Four
block Either(is_first: bool)(x: [n, 4]) -> [n, 4]:
  return (x |> fc: Four) if is_first else x
block First(is_first: bool)(x: [n, 4]) -> [n, 4]:
  if is_first:
    x = x |> fc: Four
  return x
block All(is_wide: bool)(x: [n, 4]) -> [n, 4]:
  if is_wide:
    x = x |> wide: Four
  return x |> fc: Four
model tower = Four()
"""
BODIES = {
    "one label": ("for i in 0..k:\n    x = x |> fc: linear(4)", "E0205"),
    "its index": ("for i in 0..k:\n    x = x |> fc{i}: linear(4)", ""),
    "an index behind": ("for i in 0..k:\n    x = x |> fc[i + 1]: linear(4)", ""),
    "a word like the index": ("for i in 0..k:\n    x = x |> i_fc: linear(4)", "E0205"),
    "a layer without weights": ("for i in 0..k:\n    x = x |> act: relu", ""),
    "a label inside": ("for i in 0..k:\n    x = x |> Inner(4)", "E0205"),
    "a label around": ("for i in 0..k:\n    x = x |> fc[i]: Inner(4)", ""),
    "the path of the block": ("for i in 0..k:\n    x = x |> . : Inner(4)", "E0205"),
    "a parameter": ("for i in 0..k:\n    param w: [4] = ones\n    x = x * w", "E0205"),
    "parameters": ("for i in 0..k:\n    param w{i}: [4] = ones\n    x = x * w{i}", ""),
    "of a block": ("for i in 0..k:\n    x = x |> own: Own", "E0205"),
    "a declared layer": ("for i in 0..k:\n    layer fc: linear(4)\n    x = x |> fc", "E0223"),
    "layers": ("for i in 0..k:\n    layer fc[i]: linear(4)\n    x = x |> fc[i]", ""),
    "shared": ("layer fc: linear(4)\n  for i in 1..k:\n    x = x |> fc", ""),
    "shared before": ("x = x |> fc: linear(4)\n  for i in 1..k:\n    x = x |> fc", ""),
    "twice in an iteration": (
        "for i in 0..k:\n    x = x |> fc{i}: linear(4)\n    x = x |> fc{i}",
        "",
    ),
    "a model": ("for i in 1..k:\n    x = x |> tower", ""),
    "a model with a label": ("for i in 0..k:\n    x = x |> fc: tower", "E0205"),
    "the outer index": (
        "for i in 0..k:\n    for j in 0..k:\n      x = x |> fc{i}: linear(4)",
        "E0205",
    ),
    "the inner index": (
        "for i in 0..k:\n    for j in 0..k:\n      x = x |> fc{j}: linear(4)",
        "E0205",
    ),
    "both": ("for i in 0..k:\n    for j in 0..k:\n      x = x |> fc{i}[j]: linear(4)", ""),
    "one number inside": (
        "for i in 0..k:\n    for j in 0..2:\n      x = x |> fc{j}: Four",
        "E0205",
    ),
    "a number that grows": (
        "m = 3\n  for i in 0..k:\n    x = x |> fc{m}: linear(4)\n    m = m + 1",
        "",
    ),
    "where sizes grow": (
        "y = x\n  for i in 0..k:\n    y = concat(y, x |> fc: Four, axis=1)\n  x = y[:, :4]",
        "E0205",
    ),
    "in the first alone": (
        "for i in 0..k + 1:\n    if i == 0:\n      x = x |> fc: linear(4)",
        "",
    ),
    "by a choice": (
        "for i in 0..k:\n    if k > 1:\n      x = x |> fc: linear(4)",
        "E0205",
    ),
    "by a choice of one iteration": (
        "for i in 0..k:\n    if k <= 1:\n      x = x |> fc: linear(4)",
        "",
    ),
    "an iteration that returns": ("for i in 1..k:\n    return x |> fc: linear(4)", ""),
    "as many as one": ("for i in k..k + 1:\n    x = x |> fc: linear(4)", ""),
    "weights for one iteration": ("for i in 0..k:\n    x = x |> One(k)", ""),
    "weights for one iteration, declared": ("for i in 0..k:\n    x = x |> AsDeclared(k)", ""),
    "weights for one iteration, first": ("for i in 1..k:\n    x = x |> ForTwo(k)", ""),
    "no weights below": ("for i in 0..k:\n    x = x |> Acts", ""),
    "weights on its own path": ("for i in 0..k:\n    x = x |> Wrapped", "E0205"),
    "weights by an expression": ("for i in 0..k:\n    x = x |> Either(i == 0)", ""),
    "weights that are read": (
        (
            "for i in 0..k:\n    x = x |> a{i}: linear(4) |> b: linear(4)\n"
            "    x = x * sum(a{i}.weight) * sum(b.weight)"
        ),
        "E0205",
    ),
    "weights for the first": ("for i in 0..k:\n    x = x |> First(i == 0)", ""),
    "weights for all": ("for i in 0..k:\n    x = x |> All(true)", "E0205"),
    "a block that is given": ("x = x |> given: Given(k, Plain)", ""),
    "a loop behind one": (
        "for i in n..2:\n    x = x |> fc: Four\n  for i in 0..k:\n    x = x |> fc{i}: Four",
        "",
    ),
    "at most one": ("for i in k..2:\n    x = x |> fc: linear(4)", ""),
    "two": ("for i in k..k + 2:\n    x = x |> fc: linear(4)", "E0205"),
}
UNASKED = ("E0207", "E0404", "N0001")
"""Bodies, and the code of what is wrong with them for all `k` from 1, if anything is."""


def text(body: str) -> str:
    return f"{AROUND}block Loop(k)(x: [n, 4]) -> [n, 4]:\n  {body}\n  return x\n"


@pytest.mark.parametrize("name", BODIES)
def test_what_each_iteration_declares_again_is_refused_for_all_sizes(name: str) -> None:
    body, code = BODIES[name]
    checked = pipeline.check(Source("net.mgn", text(body)), lambda _: None)
    codes = [each.code for each in checked.reports if each.code not in UNASKED]
    assert codes == ([code] if code else [])
    outcomes = {outcome(body, k) for k in (1, 2, 3)}
    assert outcomes - {""} == ({code} if code else set())


def outcome(body: str, k: int) -> str:
    """The code of what is wrong with a model that has so many iterations, or nothing."""
    model = f"block Net()(x: [2, 4]) = x |> loop: Loop({k})\nmodel net = Net()\n"
    module = Linker(lambda _: None, Sink()).link(Source("net.mgn", text(body) + model))
    try:
        elaborate_model(Program(module), "net")
    except ProblemError as error:
        return error.problem.code
    return ""


def test_at_most_one_iteration_may_have_one_label() -> None:
    block = "block Loop(k)(x: [n, 4]) -> [n, 4]\n    where k <= {}:\n"
    body = "  for i in 0..k:\n    x = x |> fc: linear(4)\n  return x\n"
    proved = pipeline.check(Source("net.mgn", block.format(1) + body), lambda _: None)
    refused = pipeline.check(Source("net.mgn", block.format(2) + body), lambda _: None)
    assert proved.proved
    (report,) = [each for each in refused.reports if each.code == "E0205"]
    assert report.label is not None
    assert report.label.span.text == "fc: linear(4)"


def test_iterations_as_many_as_the_data_say_declare_nothing_again() -> None:
    text = (
        "train fit(x: [n, 4]):\n  for i in 0..n:\n"
        "    x = x |> a: linear(4) |> b: linear(4)\n  minimize sum(x)\n"
    )
    checked = pipeline.check(Source("net.mgn", text), lambda _: None)
    assert [each.code for each in checked.reports] == ["E0205"]
    at_b = text.replace("a: linear", "a[i]: linear")
    checked = pipeline.check(Source("net.mgn", at_b), lambda _: None)
    (report,) = checked.reports
    assert report.headline == "`b.weight` is defined twice"
