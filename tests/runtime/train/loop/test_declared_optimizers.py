"""Runs whose optimizers the program declares: files, resuming, settings from outside."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import meganeura
from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError, ProblemsError
from meganeura_dsl.ir.graph import Array
from meganeura_runtime.train.loop.earlier_run import EarlierRun
from tests.effort import effort
from tests.optimizers import write_points

RULE = """\
optimizer heavy(lr: real, beta: real = 0.9)(p: [...s], g: [...s]) -> [...s]:
  state count: i32[] = zeros
  state m: [...s] = zeros
  update count = count + 1
  update m = beta * m + g
  return p - lr / sqrt(f32(count)) * m
"""
PROGRAM = """\
from rules import heavy

train fit(x: [batch, 16], y: i32[batch]):
  minimize cross_entropy(x |> fc1: linear(8) |> tanh |> fc2: linear(3), y)
  run:
    data                = "points.safetensors"
    batch               = 8
    epochs              = 4
    log_every           = 0
    device              = "cpu"
    schedule            = cosine(warmup=3)
    clip_norm           = 1.0
    optimizer           = heavy(lr=0.05)
    optimizer["*.bias"] = heavy(lr=0.1)
"""


@pytest.fixture
def program(tmp_path: Path) -> meganeura.Program:
    write_points(tmp_path)
    (tmp_path / "rules.mgn").write_text(RULE)
    (tmp_path / "fit.mgn").write_text(PROGRAM)
    return meganeura.load(str(tmp_path / "fit.mgn"))


def kept(folder: Path) -> Mapping[str, Array]:
    return load_file(folder / "checkpoint.safetensors")


@pytest.mark.parametrize(
    "more", effort([{"accumulate": 2}], [{}, {"accumulate": 2}, {"not_finite": "skip"}]), ids=str
)
def test_a_resumed_run_is_the_uninterrupted_one(
    program: meganeura.Program, tmp_path: Path, more: Mapping[str, object]
) -> None:
    half = {"epochs": 2, "schedule": "cosine(warmup=3, steps=20)", **more}
    whole = {**half, "epochs": 4}
    program.train(out=tmp_path / "whole", settings=whole)
    program.train(out=tmp_path / "half", settings=half)
    program.train(resume=tmp_path / "half", settings={"epochs": 4})
    found, right = kept(tmp_path / "half"), kept(tmp_path / "whole")
    assert found.keys() == right.keys() >= {"optimizer.fc1.weight.m", "optimizer.fc2.bias.count"}
    for name, values in right.items():
        np.testing.assert_array_equal(found[name], values, name)


def test_another_rule_of_the_name_does_not_go_on(
    program: meganeura.Program, tmp_path: Path
) -> None:
    program.train(out=tmp_path / "run", settings={"epochs": 1})
    (tmp_path / "rules.mgn").write_text(RULE.replace("beta * m + g", "beta * m - g"))
    changed = meganeura.load(str(tmp_path / "fit.mgn"))
    with pytest.raises((ProblemError, ProblemsError)):
        changed.train(resume=tmp_path / "run", settings={"epochs": 2})


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({}, "optimizer = heavy(lr=0.05, beta=2.0)"),
        ({"optimizer.beta": 3.0}, "optimizer=heavy(lr=0.05, beta=3.0)"),
        ({"optimizer.lr": 0.5}, "optimizer=heavy(lr=0.5, beta=2.0)"),
    ],
)
def test_arguments_that_a_header_does_not_allow_are_shown_where_they_are_given(
    tmp_path: Path, given: Mapping[str, object], place: str
) -> None:
    write_points(tmp_path)
    bounded = RULE.replace("-> [...s]:", "-> [...s] where beta < 1:")
    (tmp_path / "rules.mgn").write_text(bounded)
    text = PROGRAM.replace("heavy(lr=0.05)", "heavy(lr=0.05, beta=2.0)")
    (tmp_path / "fit.mgn").write_text(text.replace('"*.bias"', '"fc1.bias"'))
    program = meganeura.load(str(tmp_path / "fit.mgn"))
    with pytest.raises((ProblemError, ProblemsError)) as caught:
        program.train(out=tmp_path / "run", settings=given)
    said = str(caught.value)
    assert "E0543" in said
    assert " ".join(place.split()) in " ".join(said.split())
    assert "`heavy` needs `beta < 1`" in said


def test_settings_of_a_run_are_read_with_its_program(
    program: meganeura.Program, tmp_path: Path
) -> None:
    program.train(out=tmp_path / "run", settings={"epochs": 1, "optimizer.beta": 0.5})
    recorded = json.loads((tmp_path / "run/settings.json").read_text())
    assert recorded["optimizer"] == {"kind": "heavy", "lr": 0.05, "beta": 0.5}
    settings = EarlierRun.of(tmp_path / "run").settings(pipeline.load(str(tmp_path / "fit.mgn")))
    assert str(settings.optimizer) == "heavy(lr=0.05, beta=0.5)"
    assert str(settings.optimizers["*.bias"]) == "heavy(lr=0.1, beta=0.5)"
