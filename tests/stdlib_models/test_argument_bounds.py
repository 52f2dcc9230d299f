"""Arguments without a meaning are refused where they are given, or by the model that gives them."""

from pathlib import Path

import pytest

from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.pipeline import CheckResult, check, loader_beside

INPUTS = {
    "x": "x: [n, 8]",
    "y": "y: [n, 4, 8, 8]",
    "i": "i: i32[n, 4]",
    "wave": "wave: [n, 3, 8, 8]",
}


def checked(text: str) -> CheckResult:
    return check(Source("net.mgn", text), loader_beside(Path("net.mgn")))


def unmet(text: str) -> list[str]:
    """Returns the unmet conditions of blocks; no other error is found."""
    reports = [each for each in checked(text).reports if each.code.startswith("E")]
    assert all(each.code == "E0311" for each in reports)
    return [each.headline for each in reports]


def given(inputs: str, expression: str, number: str) -> tuple[str, str]:
    """A block that gives a number itself, and one that a model gives it."""
    taken = ", ".join(INPUTS[each] for each in inputs.split())
    alone = f"block Net()({taken}) = {expression.replace('@', number)}\n"
    passed = f"block Net(r: real)({taken}) = {expression.replace('@', 'r')}\n"
    return alone + "model net = Net()\n", passed + f"model net = Net({number})\n"


REALS = [
    ("x", "smooth_l1(@)(x, x)", "beta >= 0", ("-0.5", "-1"), ("0", "0.5")),
    ("x", "cross_entropy(@)(x, x)", "0 <= label_smoothing", ("-0.1",), ("0.0", "0.1")),
    ("x", "cross_entropy(@)(x, x)", "label_smoothing <= 1", ("1.1", "2"), ("1", "1.0")),
    ("x", "x |> dropout(@)", "0 <= p", ("-0.1",), ("0", "1", "0.5")),
    ("x", "x |> dropout(@)", "p <= 1", ("1.5", "2"), ()),
    ("y", "y |> dropout2d(@)", "0 <= p", ("-0.1",), ("0.5",)),
    ("y", "y |> dropout2d(@)", "p <= 1", ("1.5",), ()),
    ("x", "x |> drop_path(@)", "0 <= p", ("-0.1",), ("0.5",)),
    ("x", "x |> drop_path(@)", "p <= 1", ("1.5",), ()),
    ("y", "y |> l: batch_norm(@)", "eps >= 0", ("-1e-5",), ("0", "1e-3")),
    ("y", "y |> l: batch_norm(1e-5, @)", "0 <= momentum", ("-0.1",), ("0", "1")),
    ("y", "y |> l: batch_norm(1e-5, @)", "momentum <= 1", ("1.1",), ()),
    ("x", "x |> l: layer_norm(@)", "eps >= 0", ("-1e-5",), ("1e-5",)),
    ("x", "x |> l: rms_norm(@)", "eps >= 0", ("-1e-5",), ("1e-5",)),
    ("y", "y |> l: group_norm(2, @)", "eps >= 0", ("-1e-5",), ("1e-5",)),
    ("y", "y |> instance_norm(@)", "eps >= 0", ("-1e-5",), ("1e-5",)),
    ("y", "y |> rope(@)", "theta > 0", ("-1.0", "0"), ("100.0",)),
]


@pytest.mark.parametrize(("inputs", "expression", "needed", "refused", "fine"), REALS)
def test_a_number_out_of_bounds_is_refused(
    inputs: str, expression: str, needed: str, refused: tuple[str, ...], fine: tuple[str, ...]
) -> None:
    for number in refused:
        for text in given(inputs, expression, number):
            (headline,) = unmet(text)
            assert f"`{needed}`" in headline
    for number in fine:
        for text in given(inputs, expression, number):
            assert checked(text).fine


@pytest.mark.parametrize(
    ("inputs", "expression", "code"),
    [
        ("y", "attention(y, y, y, causal=true, window=-1)", "E0311"),
        ("x", "x |> sample(-1)", "E0311"),
        ("i", "i |> l: embedding(5, 4, padding=-2)", "E0311"),
        ("i", "i |> l: embedding(5, 4, std=-0.5)", "E0203"),
        ("i", "i |> l: embedding(5, 4, 0.02)", "E0220"),
        ("i", "i |> l: embedding(5, 4, 5)", "E0311"),
        ("x", "x |> l: linear(4, weight=uniform(-0.1))", "E0203"),
        ("y", "y |> max_pool(2, 0)", "E0305"),
        ("y", "window_max(y, 2, stride=0)", "E0305"),
    ],
)
def test_a_whole_number_or_an_initial_value_out_of_bounds_is_refused(
    inputs: str, expression: str, code: str
) -> None:
    text = f"block Net()({INPUTS[inputs]}) = {expression}\nmodel net = Net()\n"
    assert {problem.code for problem in checked(text).problems} == {code}


@pytest.mark.parametrize(
    ("call", "needed"),
    [
        ("random_flip(1.5)", "p <= 1"),
        ("random_erase(-0.5)", "0 <= p"),
        ("random_erase(0.5, 1.5)", "largest <= 1"),
    ],
)
def test_an_augmentation_out_of_bounds_is_refused(call: str, needed: str) -> None:
    name = call.partition("(")[0]
    text = f"from augment import {name}\n\nblock Net()({INPUTS['wave']}) = wave |> {call}\n"
    (headline,) = unmet(text)
    assert f"`{needed}`" in headline


def test_a_fact_about_an_open_number_leaves_a_block_proved() -> None:
    """It is proved for all sizes, and each model is held to the fact."""
    layer = "block Layer(d, {})(x: [n, 4]) -> [n, d] = x |> fc: linear(d) |> dropout(p)\n"
    for parameter in ("p: real", "p=0.1", "p"):
        text = layer.format(parameter)
        assert checked(text).proved == ("Layer",)
        assert checked(text + "model net = Layer(8, 0.3)\n").fine
        assert len(unmet(text + "model net = Layer(8, 1.3)\n")) == 1


def test_a_norm_of_another_kind_is_given_for_one_with_facts_about_its_numbers() -> None:
    text = (
        "block Net(norm=batch_norm)(x: [n, 4, 8, 8]) -> [n, 4, 8, 8] = x |> bn: norm\n"
        "model plain = Net()\nmodel other = Net(norm=instance_norm)\n"
    )
    assert checked(text).fine
    refused = checked(text + "model net = Net(norm=instance_norm(-1.0))\n")
    (label,) = (each.label for each in refused.reports)
    assert label is not None
    assert "`instance_norm` needs `eps >= 0`" in label.text


def test_a_number_that_should_be_a_size_is_left_to_each_model() -> None:
    """`2 ** i` is none in the proof: that a clause speaks of it says nothing of the block."""
    text = (
        "block Net(base, depth)(x: [n, 4, h, w]):\n  for i in 0..depth:\n"
        "    x = x |> down{i}: conv2d(base * 2 ** i, 3, pad=1)\n  return x\n"
    )
    assert [each.code for each in checked(text + "model net = Net(8, 2)\n").reports] == ["N0001"]
