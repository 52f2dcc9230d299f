"""Training of many small iterations, op by op, names the device that compiles them."""

import pytest

from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.pipeline import Program, elaborate_train
from meganeura_runtime.backends.loop_advice import iterations, other_device
from meganeura_runtime.backends.registry import choose_device
from meganeura_runtime.backends.xla import backend

TEXT = """\
train fit(x: [batch, {s}]):
  h = zeros([batch])
  scan t in 0..{s}:
    g = h
    scan i in 0..40:
      g = 0.5 * g + 0.1
    h = tanh(g + x[:, t])
  minimize mean(h) * mean(h |> insert_axis(1, 1) |> out: linear(1))
"""


def forward(rounds: int) -> Graph:
    text = TEXT.format(s=rounds)
    module = Linker(lambda _: None, Sink()).link(Source("fit.mgn", text))
    return elaborate_train(Program(module), "fit", sizes={"batch": 2}, training=True).graph


def test_iterations_within_iterations_count() -> None:
    assert iterations(forward(30)) == 30 * 41


def test_many_are_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = choose_device("cpu")
    assert "a step has 1,230 iterations" in other_device(forward(30), cpu)
    assert other_device(forward(3), cpu) == ""
    assert other_device(forward(30), choose_device("xla:cpu")) == ""
    monkeypatch.setattr(backend, "find_spec", lambda _: None)
    assert other_device(forward(30), cpu) == ""
