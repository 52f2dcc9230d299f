"""The note on weights that a `train` block trains and no model holds."""

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.resources import standard_model_names
from tests.effort import effort
from tests.standard import checked

NET = """
block Net(d=4, deep=false)(x: [n, 8]) -> [n, d]:
  x = x |> fc1: linear(8)
  if deep:
    x = x |> fc2: linear(8)
  return x |> fc: linear(d)

model net = g: Net()

train fit(x: [batch, 8], y: [batch, 4]):
  minimize mse(FOUND, y)
"""


def notes(found: str) -> list[str]:
    """Returns the notes on a `train` block with weights that belong to it."""
    source = Source("net.mgn", NET.replace("FOUND", found))
    reports = pipeline.check(source, lambda _: None).reports
    assert all(report.code == "N0004" for report in reports)
    return [report.label.text for report in reports if report.label is not None]


def test_what_no_model_holds_is_noted() -> None:
    assert notes("x |> net |> head: linear(4)") == ["head.weight, head.bias"]
    assert notes("x |> g: Net() |> head: linear(4, bias=false)") == ["head.weight"]
    assert notes("x |> other: Net()") == ["other.fc1.weight, other.fc1.bias, other.fc.weight, ..."]


def test_what_a_model_holds_is_not() -> None:
    assert notes("x |> net") == []
    assert notes("x |> net(deep=true)") == []  # the model, as it is configured here
    assert notes("x |> g: Net()") == []
    assert notes("x |> [0]: net") == []


SMALL = ("digits_cnn", "digits_mlp", "gan", "lora", "maml", "recurrent", "sage", "vae")
"""Files of small models, with one block to train and with several."""


def test_standard_models_can_run_all_they_train() -> None:
    for name in effort(SMALL, standard_model_names()):
        assert [each.code for each in checked(name).reports if each.code != "N0001"] == [], name
