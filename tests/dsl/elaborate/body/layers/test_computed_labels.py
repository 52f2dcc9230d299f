"""Labels and names of parameters that are computed from numbers and texts."""

import numpy as np
import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.ir.interpreter import evaluate


def _check(text: str) -> pipeline.CheckResult:
    return pipeline.check(Source("labels.mgn", text), lambda _: None)


def _names(text: str) -> list[str]:
    """The names of all parameters and states of the only model of a text, which is fine."""
    result = _check(text)
    assert result.fine, [report.headline for report in result.reports]
    return [info.name for info in pipeline.elaborate_model(result.program).parameters]


LAYERS = {
    "fc{i}": ["fc0", "fc1"],
    "fc{i + 1}": ["fc1", "fc2"],
    'fc{i}{"_x"}': ["fc0_x", "fc1_x"],
    'fc{""}[i]': ["fc.0", "fc.1"],
    "a{i}.b{2 * i}[i].c": ["a0.b0.0.c", "a1.b2.1.c"],
    "fc{words[i]}": ["fcleft", "fcright"],
}


@pytest.mark.parametrize("label", LAYERS)
def test_labels_of_layers(label: str) -> None:
    text = f"""
block Net(words: list = ["left", "right"])(x: [n, 2]) -> [n, 2]:
  for i in 0..len(words):
    x = x |> {label}: linear(2, bias=false)
  return x

model net = Net()
"""
    if "words" not in label:
        text = text.replace("(words: list = [", "(_words: list = [").replace("len(words)", "2")
    assert _names(text) == [f"{name}.weight" for name in LAYERS[label]]


def test_parameters_and_states() -> None:
    text = """
block Count(most: size, name: text)(x: [n, d]) -> [n, d]:
  for i in 0..most:
    state seen_{name}{i}: [] = zeros
    param w{i}: [] = ones
    update seen_{name}{i} = seen_{name}{i} + 1
    x = x * seen_{name}{i} * w{i}
  return x

block Use()(x: [n, d]) -> [n, d]:
  x = x |> a{1}: Count(2, "t")
  return x * a{1}.w{0} * a1.seen_t{1}

model net = Use()
"""
    assert _names(text) == ["a1.seen_t0", "a1.w0", "a1.seen_t1", "a1.w1"]
    graph = pipeline.elaborate_model(_check(text).program).graph
    assert set(graph.updates) == {"a1.seen_t0", "a1.seen_t1"}


BOUND_ANEW = {
    "param w_l0: [] = ones": ("w_l0", "w_l{k}"),
    "param w_l{k}: [] = ones": ("w_l0", "w_l{k}"),
    "param w01: [] = ones": ("w01", "w{k}{k + 1}"),
    "state w_l0: [] = ones": ("w_l0", "w_l{k}"),
}


@pytest.mark.parametrize("declared", BOUND_ANEW)
def test_a_computed_name_is_what_the_name_is_bound_to(declared: str) -> None:
    """As the name that is written out: what was declared, until it is bound anew."""
    name, computed = BOUND_ANEW[declared]
    text = f"""
block Net()(x: [n]) -> [n]:
  k = 0
  {declared}
  before = {computed}
  {name} = {name} * 3
  return x * before + 10 * x * {computed}

model net = Net()
"""
    result = _check(text)
    assert result.fine, [report.headline for report in result.reports]
    graph = pipeline.elaborate_model(result.program, sizes={"n": 2}).graph
    fed = {"x": np.array([1.0, 2.0], np.float32), name: np.float32(1)}
    (found,) = evaluate(graph, fed).outputs.values()
    np.testing.assert_array_equal(found, [31, 62])


def test_a_model_under_a_computed_label() -> None:
    text = "block A()(x: [n, 2]) -> [n, 2] = x |> fc: linear(2)\nmodel a = b{7 // 2}: A()\n"
    assert _names(text) == ["b3.fc.weight", "b3.fc.bias"]


@pytest.mark.parametrize("label", ["fc{n}", "fc{0.5}", "fc{true}", "fc{x}", "fc{[1]}", 'fc{"."}'])
def test_what_is_no_name_is_refused(label: str) -> None:
    result = _check(f"block A()(x: [n, 2]) -> [n, 2] = x |> {label}: linear(2)\n")
    assert [report.code for report in result.reports] == ["E0226"]


def test_a_size_that_a_caller_takes_from_the_data_is_refused() -> None:
    result = _check(
        "block A(k)(x: [n, 2]) -> [n, 2] = x |> fc{k}: linear(2)\n"
        "block B()(x: [n, 2]) -> [n, 2] = x |> a: A(n)\nmodel b = B()\n"
    )
    assert {report.code for report in result.reports} == {"E0226"}


def test_a_parameter_of_another_number_is_unknown() -> None:
    result = _check("block A()(x: [n]) -> [n]:\n  param w{1}: [] = ones\n  return x * w{2}\n")
    (report,) = result.reports
    assert (report.code, report.headline) == ("E0201", "nothing here is called `w2`")


TWICE = """\
block Part(suffix: text)(x: [n, d]) -> [n, d] = x |> fc{suffix}: linear(d)
block Both()(x: [n, 4]) -> [n, 4]:
  return (x |> .: Part("%s")) + (x |> .: Part("%s"))
model both = Both()
"""


def test_labels_that_differ_by_what_a_block_is_given_are_two() -> None:
    assert _names(TWICE % ("", "_reverse")) == [
        "fc.weight", "fc.bias", "fc_reverse.weight", "fc_reverse.bias",
    ]  # fmt: skip
    assert "Both" in _check(TWICE % ("", "_reverse")).proved


@pytest.mark.parametrize("suffix", ["", "_reverse"])
def test_labels_that_a_block_is_given_twice_are_one(suffix: str) -> None:
    assert "E0205" in [report.code for report in _check(TWICE % (suffix, suffix)).reports]


def test_a_text_that_the_body_binds_anew_is_no_argument() -> None:
    header = "(x: [n, d]) -> [n, d]"
    text = TWICE.replace(f"{header} =", f'{header}:\n  suffix = "a"\n  return')
    assert not _check(text % ("", "_reverse")).fine
