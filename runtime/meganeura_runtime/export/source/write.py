"""A model or a training as a file of source."""

from collections.abc import Mapping

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.declarations.training_blocks import FED
from meganeura_dsl.elaborate.problems.location import Location
from meganeura_dsl.elaborate.problems.name_problems import NotAllowedHere
from meganeura_dsl.elaborate.scope.linker import LinkedModule
from meganeura_dsl.elaborate.values import StaticValue
from meganeura_dsl.ir.objectives import reached
from meganeura_dsl.pipeline import Program, elaborate_train, ragged_of, whole_inputs
from meganeura_dsl.settings.run_settings import RunSettings
from meganeura_dsl.syntax import ast
from meganeura_dsl.transforms.joined_loss import joins_of
from meganeura_runtime.export.source.jax.target import JAX
from meganeura_runtime.export.source.source_file import SourceSystem, source_text, training_text
from meganeura_runtime.export.source.torch.target import TORCH
from meganeura_runtime.export.source.training.train_block import LOSS, loss_model
from meganeura_runtime.export.source.training.training import Training, require_written
from meganeura_runtime.io.data.dataset import InputSpec

MARK = "# Written by `meganeura export"
"""The beginning of a file that `meganeura export` wrote and may replace."""
TARGETS: Mapping[str, SourceSystem] = {"torch": TORCH, "jax": JAX}
"""The systems that source is written for, by the word behind `--to`."""


def written(
    module: LinkedModule,
    model: ast.Model,
    config: Mapping[str, StaticValue],
    sizes: Mapping[str, int],
    to: str,
) -> str:
    """Returns the source of a model. Raises `ProblemError`."""
    body = source_text(TARGETS[to], module, model, config, sizes)
    return _whole(model.name.text, to, body)


def written_training(
    program: Program,
    name: str,
    settings: RunSettings,
    places: Mapping[str, Span],
    to: str,
) -> str:
    """Returns the source of a `train` block: its loss, its optimizer and its loop.

    `places` has the place of each setting by its key. Raises `ProblemError`.
    """
    train = program.module.trains[name]
    for size in ragged_of(program, name).names:
        reason = "is a ragged size, whose examples the source of a loop does not join"
        raise ProblemError(NotAllowedHere(Location(train.name.span), f"`{size}`", reason))
    loss = loss_model(program.module, train)
    symbolic = elaborate_train(program, name, sizes={}, training=True)
    inputs = {each: of for each, of in symbolic.inputs.items() if each not in FED}
    whole = whole_inputs(program, name)
    spec = InputSpec(inputs, settings.sizes, whole, settings.tensors)
    joins = joins_of(symbolic.graph, spec.counter)[0]
    training = Training(
        name=name,
        settings=settings,
        input_spec=spec,
        measured=loss.measured,
        parameters=symbolic.parameters,
        reached=reached(symbolic.graph.outputs[LOSS]),
        joins=joins,
        span=train.name.span,
    )
    require_written(training, places)
    return _whole(name, to, training_text(TARGETS[to], loss, training))


def _whole(name: str, to: str, body: str) -> str:
    closing = '\n\n\nif __name__ == "__main__":\n    main()\n'
    return f"{MARK} {name} --to {to}`.\n\n{body}{closing}"
