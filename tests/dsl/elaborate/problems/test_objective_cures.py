"""Two losses that move the same weights are told which layers each of them is to move."""

import pytest

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.diagnostics.report import Severity
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.pipeline import check

GAN = """\
block Net(d)(x: [n, 64]) -> [n, d]:
  return x |> fc1: linear(8) |> fc2: linear(d)
model generator = g: Net(64)
model critic = d: Net(1)
train fit(x: [batch, 64]):
  fake = x |> generator
  fooled = mean(fake |> critic)
{}
"""
TWO = "fooled - mean(x |> critic)"


def first_error(text: str) -> tuple[str, Help]:
    found = check(Source("net.mgn", text), lambda _: None).reports
    report = next(each for each in found if each.severity is Severity.ERROR)
    assert report.help is not None
    return report.code, report.help


@pytest.mark.parametrize(
    ("first", "second", "layers"),
    [
        (TWO, "-fooled", ("critic", "generator")),
        ("-fooled", TWO, ("generator", "critic")),
        (TWO, "mean(fake |> critic) + mse(fake, x)", ("critic", "generator")),
    ],
)
def test_the_loss_of_a_layer_is_that_with_a_term_of_it_alone(
    first: str, second: str, layers: tuple[str, str]
) -> None:
    lines = [f"minimize {each}" for each in (first, second)]
    cured = [f"{line} over {layer}" for line, layer in zip(lines, layers, strict=True)]
    code, cure = first_error(GAN.format("  " + "\n  ".join(lines)))
    assert code == "E0508"
    assert cure.code == "\n".join(cured)
    assert check(Source("net.mgn", GAN.format("  " + "\n  ".join(cured))), lambda _: None).fine


def test_where_nothing_tells_the_losses_apart_the_layers_are_named() -> None:
    code, cure = first_error(GAN.format("  minimize fooled\n  minimize fooled * fooled"))
    assert code == "E0508"
    assert (cure.text, cure.code) == (
        "say by `over` which of `critic` and `generator` each of the two moves",
        None,
    )


def test_an_accuracy_is_no_loss() -> None:
    text = """\
train fit(x: [batch, 64], label: i32[batch]):
  logits = x |> net: linear(10)
  minimize 1 - mean(f32(argmax(logits, 1) == label))
"""
    code, cure = first_error(text)
    assert code == "E0584"
    assert "measure this by `metric`" in cure.text


@pytest.mark.parametrize(("second", "wanted"), [("y * y", "E0508"), ("x |> net", "E0584")])
def test_losses_of_one_layer_are_added(second: str, wanted: str) -> None:
    text = f"""\
train fit(x: [batch, 64]):
  layer net: linear(1)
  y = x |> net
  minimize mean(y)
  minimize mean({second})
"""
    code, cure = first_error(text)
    assert code == wanted
    assert "minimize the sum" in cure.text
