"""The front of the compiler on one screen: find, parse, link, prove, elaborate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from meganeura_dsl.check_result import CheckResult
from meganeura_dsl.checker import Checker, check
from meganeura_dsl.diagnostics.problem import ProblemError, ProblemsError, Report
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.declarations import (
    generation,
    models,
    ragged_axes,
    training_blocks,
    written_settings,
)
from meganeura_dsl.elaborate.declarations.models import Asked, Elaboration
from meganeura_dsl.elaborate.declarations.ragged_axes import Ragged
from meganeura_dsl.elaborate.declarations.written_settings import WrittenSetting
from meganeura_dsl.elaborate.scope.linker import Loader
from meganeura_dsl.elaborate.values import StaticValue
from meganeura_dsl.program import Program, find, loader_beside
from meganeura_dsl.proof_cache import known_notes, store_notes
from meganeura_dsl.repairs.repaired_help import with_repairs
from meganeura_dsl.startup.collector import few_collections
from meganeura_dsl.support.phases import phase
from meganeura_dsl.symbolic.assumptions import Recorder

__all__ = [
    "Asked",
    "CheckResult",
    "Checker",
    "Elaboration",
    "Program",
    "check",
    "check_file",
    "check_text",
    "elaborate_draw",
    "elaborate_logits",
    "elaborate_model",
    "elaborate_tokens",
    "elaborate_train",
    "find",
    "free_sizes",
    "load",
    "load_text",
    "loader_beside",
    "ragged_of",
    "token_models",
    "train_settings",
    "whole_inputs",
]


@few_collections()
def load(target: str) -> Program:
    """Parse a program, follow its imports, and prove all of it, whatever the target chooses.

    This is the one way to a program: nothing is made of one that is refuted, or one of whose
    expectations fails. What was proved before is not proved again. Raises `ProblemError`, or
    `ProblemsError` with everything that `check` says.
    """
    found = find(target)
    with phase("parse"):
        checker = Checker(found.read(), loader_beside(found.path))
    if not checker.sink.has_errors and found.chosen not in (None, *checker.names):
        raise ProblemError(checker.unknown(found.chosen))
    notes = _proved(checker)
    return Program(checker.module, found.chosen, found.prefix, notes, found.is_standard)


@few_collections()
def load_text(source: Source) -> Program:
    """As `load`, of a text; imports are found beside the path that it is shown under."""
    with phase("parse"):
        checker = Checker(source, loader_beside(Path(source.name)))
    return Program(checker.module, notes=_proved(checker))


def _proved(checker: Checker) -> tuple[Report, ...]:
    """Returns the notes of a program that holds; raises `ProblemsError` with all that is wrong."""
    notes = None if checker.sink.has_errors else known_notes(checker.texts)
    if notes is None:
        with phase("check"):
            result = checker.run()
        if not result.fine:
            raise ProblemsError(result.problems)
        notes = result.reports
        store_notes(checker.texts, notes)
    return notes


@few_collections()
def check_file(target: str, recorder: Recorder | None = None) -> CheckResult:
    """Check all of the file a target names, as `load` does. Raises `ProblemError` if unreadable.

    Of a file of this package only what the target chooses is checked: the rest has not changed.
    `recorder` notes what is proved and refuted of sizes.
    """
    found = find(target)
    checker = Checker(
        found.read(), loader_beside(found.path), found.chosen, found.prefix, recorder=recorder
    )
    checker.only = found.chosen if found.is_standard else None
    result = _repaired(checker, loader_beside(found.path))
    if result.fine and checker.only is None:
        store_notes(checker.texts, result.reports)
    return result


@few_collections()
def check_text(source: Source, recorder: Recorder | None = None) -> CheckResult:
    """As `check_file`, of a text; imports are found beside the path that it is shown under."""
    loader = loader_beside(Path(source.name))
    return _repaired(Checker(source, loader, recorder=recorder), loader)


def _repaired(checker: Checker, loader: Loader) -> CheckResult:
    """The result of a check, whose reports ask about small edits that mend what is wrong."""
    return replace(checker.run(), repaired=partial(with_repairs, checker, loader))


def elaborate_model(
    program: Program,
    model: str | None = None,
    *,
    config: Mapping[str, StaticValue] | None = None,
    sizes: Mapping[str, int] | None = None,
    training: bool = False,
    optional: frozenset[str] = frozenset(),
    asked: Asked | None = None,
) -> Elaboration:
    """The graph of a model; sizes that are not given stay symbols. Raises `ProblemError`.

    `optional` names inputs with a default that are fed as well. The values that are `asked` for are
    outputs behind the results, in evaluation.
    """
    node = program.module.models[program.model(model)]
    inputs = models.Inputs(optional=optional)
    if asked is not None:
        return models.elaborate_values(
            program.module, node, config=config or {}, sizes=sizes, inputs=inputs, asked=asked
        )
    return models.elaborate_model(
        program.module,
        node,
        config=config or {},
        sizes=sizes,
        training=training,
        inputs=inputs,
    )


def elaborate_tokens(
    program: Program,
    model: str | None,
    config: Mapping[str, StaticValue],
    step: generation.TokenStep,
) -> generation.TokenGraph:
    """The graph that draws the token after some others. Raises `ProblemError`."""
    node = program.module.models[program.model(model)]
    return generation.elaborate_tokens(program.module, node, config, step)


def token_models(
    program: Program, train: str
) -> tuple[tuple[str, Callable[[generation.TokenStep], generation.TokenGraph]], ...]:
    """The models that a `train` block applies, by name, each with what elaborates a step of it."""
    node = program.module.trains[program.train(train)]
    return tuple(
        (model.name.text, partial(generation.elaborate_tokens, module, model, {}))
        for module, model in generation.models_applied(program.module, node)
    )


def elaborate_logits(
    program: Program,
    model: str | None,
    config: Mapping[str, StaticValue],
    step: generation.TokenStep,
) -> generation.TokenGraph:
    """The graph that gives the logits of the token after some others. Raises `ProblemError`."""
    node = program.module.models[program.model(model)]
    return generation.elaborate_logits(program.module, node, config, step)


def elaborate_draw(
    program: Program, model: str | None, vocabulary: int, draw: generation.Draw
) -> Elaboration:
    """The graph that draws a token from the logits of a model."""
    node = program.module.models[program.model(model)]
    return generation.elaborate_draw(program.module, node, vocabulary, draw)


def elaborate_train(
    program: Program,
    train: str | None = None,
    *,
    sizes: Mapping[str, int],
    training: bool,
    shows: bool = False,
) -> Elaboration:
    """The graph of a `train` block: its loss and metrics. Raises `ProblemError`.

    With `shows` it has statistics of the values that the program shows, too.
    """
    node = program.module.trains[program.train(train)]
    with phase("check"):
        return training_blocks.elaborate_train(
            program.module, node, sizes=sizes, training=training, shows=shows
        )


def train_settings(program: Program, train: str | None = None) -> dict[str, WrittenSetting]:
    """Returns the settings under `run:`, evaluated but not validated. Raises `ProblemError`."""
    return written_settings.train_settings(
        program.module, program.module.trains[program.train(train)]
    )


def whole_inputs(program: Program, train: str | None = None) -> frozenset[str]:
    """The inputs that are fed as they are at every step."""
    return training_blocks.whole_inputs(program.module.trains[program.train(train)])


def ragged_of(program: Program, train: str | None = None) -> Ragged:
    """Returns the ragged axes of a `train` block."""
    return ragged_axes.ragged_of(program.module.trains[program.train(train)])


def free_sizes(program: Program, train: str | None = None) -> tuple[str, ...]:
    """The sizes `run:` has to give."""
    return training_blocks.free_sizes(program.module.trains[program.train(train)])
