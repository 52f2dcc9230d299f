"""A program is named by its file, by one declaration of it, or by a standard name."""

from pathlib import Path

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError, ProblemsError, Report

BLOCK = "block f(c)(x: [n]) -> [n] = c * x\n"
TRAIN = "train fit(x: [n, 3]):\n  minimize mean(x |> w: linear(1))\n  run:\n    batch = 2\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "net.mgn"


def refused(target: str) -> Report:
    with pytest.raises(ProblemError) as refusal:
        pipeline.load(target).model()
    return refusal.value.problem.report()


def test_one_model_needs_no_name(file: Path) -> None:
    file.write_text(f"{BLOCK}model small = f(2)\n{TRAIN}")
    program = pipeline.load(str(file))
    assert (program.model(), program.train()) == ("small", "fit")
    assert pipeline.load(f"{file}:small").model() == "small"


def test_of_several_models_one_is_named(file: Path) -> None:
    file.write_text(f"{BLOCK}model small = f(2)\nmodel large = f(3)\n")
    assert pipeline.load(f"{file}:large").model() == "large"
    report = refused(str(file))
    assert report.headline == f"{file} declares several: which model is meant?"
    assert report.help is not None
    assert report.help.text == f"name one of `{file}:small`, `{file}:large`"
    assert report.help.code == f"{file}:small"


def test_what_a_file_does_not_declare_is_refused(file: Path) -> None:
    file.write_text(BLOCK)
    assert refused(str(file)).headline == f"{file} declares no model"
    report = refused(f"{file}:large")
    assert report.headline == f"{file} declares no model called `large`"
    assert report.help is None
    file.write_text(f"{BLOCK}model small = f(2)\n")
    report = refused(f"{file}:large")
    assert report.help is not None
    assert report.help.text == "it declares `small`"


def test_a_name_that_is_nearly_right_is_told() -> None:
    report = refused("resnet81")
    assert report.headline == "there is no file or standard model called `resnet81`"
    assert report.help is not None
    assert "`resnet18`" in report.help.text
    assert refused("qqqqqqqq").help is None


def test_a_program_with_mistakes_is_not_loaded(file: Path) -> None:
    file.write_text("from nowhere import f\n")
    with pytest.raises(ProblemsError) as refusal:
        pipeline.load(str(file))
    assert [each.report().code for each in refusal.value.problems] == ["E0211"]


TRAINS = TRAIN.replace("w: linear(1)", "{}").replace("fit", "{}")
NET = "block Net()(x: [n, 3]) -> [n, 1]:\n  return x |> w: linear(1)\n"


def test_of_several_trainings_one_is_named(file: Path) -> None:
    file.write_text(TRAIN + TRAIN.replace("fit", "again"))
    with pytest.raises(ProblemError) as refusal:
        pipeline.load(str(file)).train()
    report = refusal.value.problem.report()
    assert report.headline == f"{file} declares several: which train is meant?"
    assert report.help is not None
    assert report.help.text == f"name one of `{file}:fit`, `{file}:again`"
    assert pipeline.load(f"{file}:again").train() == "again"


def test_a_model_means_the_training_that_applies_it(file: Path) -> None:
    models = "model a = Net()\nmodel b = Net()\nmodel c = Net()\n"
    one, two, three = (TRAINS.format(name, name[0]) for name in ("a_once", "b_once", "b_twice"))
    file.write_text(NET + models + one + two + three)
    assert pipeline.load(f"{file}:a").train() == "a_once"
    with pytest.raises(ProblemError, match="which train is meant"):
        pipeline.load(f"{file}:b").train()
    with pytest.raises(ProblemError, match=r"no `train` of .* applies `c`"):
        pipeline.load(f"{file}:c").train()


def test_a_training_of_a_standard_file_is_named_with_its_file() -> None:
    assert pipeline.load("resnet:fit").train() == "fit"
    assert pipeline.load("resnet:digits").train() == "digits"
    assert pipeline.load("digits_cnn").train() == "fit"
    assert pipeline.load("lm_tiny").train() == "text"
    report = refused("fit")
    assert report.code == "E0405"
    assert report.help is not None
    assert report.help.text == "name one of `digits_cnn:fit`, `digits_mlp:fit`, `resnet:fit`"
    assert refused("resnet:nothing").headline == "resnet.mgn declares no model called `nothing`"
