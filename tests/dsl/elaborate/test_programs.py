"""Whole programs as people write them, of families that the library does not have."""

from pathlib import Path

import numpy as np
import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import Severity, Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.gradcheck.random_inputs import RandomInputs
from meganeura_dsl.ir.interpreter import Interpreter, Precision
from meganeura_dsl.pipeline import elaborate_train, load
from meganeura_dsl.syntax.formatter.formatter import find_comments, format_module
from meganeura_dsl.syntax.parser.parser import parse
from meganeura_dsl.transforms.optimizers.optimizers import Sgd
from meganeura_dsl.transforms.training_step import TrainingSettings, training_step

PROGRAMS = {each.stem: each for each in Path(__file__).with_name("programs").glob("*.mgn")}
TRAININGS = {
    "actor_critic": ("a2c", ("actor.", "critic.")),
    "byol": ("byol", ("online.", "predictor.", "target.")),
    "fine_tuning": ("fit", ("head.",)),
}
"""Trainings, and the parameters that each moves."""


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_program_is_fine_and_formatted(name: str) -> None:
    source = Source(name, PROGRAMS[name].read_text(encoding="utf-8"))
    result = pipeline.check(source, pipeline.loader_beside(PROGRAMS[name]))
    assert result.fine
    assert not [each.headline for each in result.reports if each.severity is Severity.ERROR]
    assert format_module(parse(source, Sink()), find_comments(source)) == source.text


@pytest.mark.parametrize("name", TRAININGS)
def test_a_step_moves_what_it_says(name: str) -> None:
    train, moves = TRAININGS[name]
    program = load(str(PROGRAMS[name]))
    forward = elaborate_train(program, train, sizes={"batch": 2}, training=True)
    step = training_step(forward.graph, TrainingSettings(Sgd(0.1)))
    feeds = RandomInputs(1).feeds(step)
    updates = Interpreter(step, Precision.DOUBLE).run(feeds).updates
    trained = {each.name for each in forward.parameters if each.kind == "param"}
    moved = {name for name in trained & updates.keys() if (updates[name] != feeds[name]).any()}
    assert moved == {name for name in trained if name.startswith(moves)}
    assert all(np.isfinite(updates[name]).all() for name in moved)
