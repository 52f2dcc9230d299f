"""A check of a text, with summaries of its layers."""

from collections.abc import Iterator
from textwrap import dedent

import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.diagnostics.terminal import render
from meganeura_dsl.elaborate.body.blocks import block_application
from meganeura_dsl.elaborate.declarations import models, training_blocks
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.elaborate.scope.linker import LinkedModule
from meganeura_dsl.elaborate.scope.summary import Summaries
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.pipeline import CheckResult, Program, check
from meganeura_dsl.syntax import ast


def found(elaboration: Elaboration) -> dict[str, object]:
    """All that a check asks of an elaboration: of bindings, the type of the first at a place."""
    bound: dict[tuple[Span, str], TensorType] = {}
    for each in elaboration.bindings:
        bound.setdefault((each.span, each.name), each.type)
    return {
        "parameters": [
            (each.name, each.type, each.kind, each.stored, each.initializer)
            for each in (*elaboration.parameters, *elaboration.caches)
        ],
        "inputs": elaboration.inputs,
        "outputs": {name: value.type for name, value in elaboration.graph.outputs.items()},
        "updates": {name: value.type for name, value in elaboration.graph.updates.items()},
        "bindings": bound,
        "notes": [note.report() for note in elaboration.notes],
        "stated": elaboration.facts.stated,
        "own": elaboration.own,
        "blocks": elaboration.blocks,
    }


def elaborations(program: Program, summaries: Summaries | None) -> Iterator[Elaboration]:
    """Every model of a program, and every `train` block."""
    module = program.module
    for model in module.models.values():
        for training in (False, True):
            yield models.elaborate_model(
                module, model, config={}, sizes=None, training=training, summaries=summaries
            )
    for train in module.trains.values():
        yield training_blocks.elaborate_train(
            module, train, sizes={}, training=True, summaries=summaries
        )


def checked(text: str) -> CheckResult:
    return check(Source("net.mgn", dedent(text)), lambda _: None)


def checked_by_layers(text: str, monkeypatch: pytest.MonkeyPatch) -> CheckResult:
    """Returns the result of a check without summaries."""
    with monkeypatch.context() as patch:
        patch.setattr(block_application, "apply_summary", lambda *arguments: arguments[-1]())
        return checked(text)


BODIES = """\
block Twice(d)(x: [n, c]) -> [n, d]:
  y = x |> fc1: linear(d)
  return y |> fc2: linear(d)

block Halved(flag)(x: [n, c]) -> [n, c]:
  if flag:
    return x
  return x * 2

block Outer(f: block()(x: [a, b]) -> [a, b] = relu)(x: [n, c]) -> [n, c]:
  return x |> f()

block Frozen(d)(x: [n, c]) -> [n, d]:
  return stop_gradient(x |> fc: linear(d))

"""


def told(
    module: LinkedModule, model: ast.Model, summaries: Summaries | None
) -> dict[str, object] | str:
    """All that a check asks of a model, or why it is refused."""
    try:
        elaboration = models.elaborate_model(
            module, model, config={}, sizes=None, training=True, summaries=summaries
        )
    except ProblemError as error:
        return render(error.problem.report())
    return found(elaboration)


def texts(result: CheckResult) -> list[str]:
    """Returns the messages in full."""
    return [render(each) for each in result.reports]
