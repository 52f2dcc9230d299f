"""A program is named by its file, by one declaration of it, or by a standard name."""

from pathlib import Path

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError, ProblemsError, Report
from meganeura_dsl.diagnostics.source import Source

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
    known = ("digits_cnn:fit", "digits_mlp:fit", "optimizers:fit", "resnet:fit")
    assert report.help.text == f"name one of {', '.join(f'`{each}`' for each in known)}"
    assert refused("resnet:nothing").headline == "resnet.mgn declares no model called `nothing`"


def test_a_model_is_trained_by_what_applies_it(file: Path) -> None:
    train = "train fit(x: [n], y: [n]):\n  minimize mean((x |> small) * y)\n  run:\n    n = 2\n"
    file.write_text(f"{BLOCK}model small = f(2)\nmodel large = f(3)\n{train}")
    assert pipeline.load(f"{file}:small").train() == "fit"
    with pytest.raises(ProblemError) as refusal:
        pipeline.load(f"{file}:large").train()
    report = refusal.value.problem.report()
    assert report.help is not None
    assert f"`{file}:fit`" in report.help.text


@pytest.mark.parametrize("holders", [1, 2, 3])
def test_a_standard_name_of_several_files_is_said_with_its_file(
    holders: int, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("one", "two", "three", "four")
    monkeypatch.setattr("meganeura_dsl.program.standard_models", lambda: file.parent)
    monkeypatch.setattr("meganeura_dsl.program.standard_model_names", lambda: names)
    for number, name in enumerate(names):
        other = "mine" if number < holders else "other"
        (file.parent / f"{name}.mgn").write_text(f"{BLOCK}model {other} = f({number + 2})\n")
    if holders == 1:
        assert pipeline.find("mine").path == file.parent / "one.mgn"
    else:
        with pytest.raises(ProblemError) as refusal:
            pipeline.find("mine")
        report = refusal.value.problem.report()
        assert report.help is not None
        assert [name for name in names if f"`{name}:mine`" in report.help.text] == [
            *names[:holders]
        ]


BODY = "block Body()(x: [n, 3]) -> [n, 2] = x |> fc: linear(2)\nmodel body = Body()\n"
BAD = "block Bad()(x: [n]) -> [n, 1] = x\nmodel bad = Bad()\n"
HEAD = "train fit(x: [n, 3]):\n  minimize mean(x |> body |> head: linear(1))\n"


@pytest.mark.parametrize(
    ("text", "noted"),
    [
        (BODY + HEAD, True),
        (BODY + HEAD.replace(" |> head: linear(1)", ""), False),
        (BODY + BAD + HEAD, False),
        (BAD + BODY + HEAD, False),
        (BODY + BODY.replace("ody", "oth").replace("fc", "head") + HEAD, False),
    ],
)
def test_weights_that_no_model_holds_are_noted(text: str, *, noted: bool) -> None:
    """Of which models hold what, nothing is known where one of them is wrong."""
    result = pipeline.check(Source("net.mgn", text), lambda _: None)
    assert ("N0004" in {each.code for each in result.problems}) == noted


OUTER = "block Outer()(x: [n]) -> [n]:\n  b = x |> Inner()\n  return b\n"
INNER = "\n\nblock Inner()(x: [n]) -> [n] where n > 5:\n  c = x + x\n  return c\n"
OWN = "from part import Outer\nblock Own()(x: [n]) -> [n] where n > 9:\n  a = x |> Outer()\n"
OWN += "  return a\n"


def test_types_are_those_of_the_file_itself() -> None:
    """A value of a file that is imported may stand in the line of one of this file."""
    other = OUTER.replace("[n]:", "[n] where n > 7:", 1) + INNER
    result = pipeline.check(Source("net.mgn", OWN), lambda _: Source("part.mgn", other))
    assert result.problems == ()
    assert [*result.types] == [(3, "Outer"), (3, "a")]


def test_blocks_of_other_files_are_proved_innermost_first() -> None:
    other = OUTER + INNER.replace("c = x + x", "c = x |> linear(n)")
    result = pipeline.check(Source("net.mgn", OWN), lambda _: Source("part.mgn", other))
    inner, outer = [each.report().headline for each in result.problems]
    assert inner.startswith("`linear` owns weights")
    assert outer.endswith("needs `n > 5`")


def test_a_name_that_is_asked_for_goes_before_that_of_the_target(file: Path) -> None:
    file.write_text(f"{BLOCK}model small = f(2)\nmodel large = f(3)\n{TRAIN}")
    program = pipeline.load(f"{file}:small")
    assert program.model("large") == "large"
    with pytest.raises(ProblemError, match="no model called `huge`"):
        program.model("huge")


def test_a_file_may_have_any_name(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    Path("net").write_text(f"{BLOCK}model small = f(2)\n")
    assert pipeline.load("net").models == ("small",)
    assert refused("nothing").headline == "there is no file or standard model called `nothing`"
    headline = refused("nothing:small").headline
    assert headline == "there is no file or standard model called `nothing:small`"


def test_of_a_file_of_ones_own_all_is_checked_and_of_a_standard_one_what_is_chosen(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[object] = []
    monkeypatch.setattr(pipeline, "store_notes", lambda texts, _: kept.append(texts))
    file.write_text(f"{BLOCK}model small = f(2)\nmodel wrong = f(2, d=3)\n")
    assert not pipeline.check_file(f"{file}:small").fine
    assert not kept
    file.write_text(f"{BLOCK}model small = f(2)\n")
    assert pipeline.check_file(f"{file}:small").fine
    assert len(kept) == 1
    assert pipeline.check_file("resnet18").fine
    assert len(kept) == 1
    report = pipeline.check_file(f"{file}:larger").reports[0]
    assert report.help is not None
    assert f"{file}" in report.headline


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        ("f(2, 3)", "`f` got 1 argument too many"),
        ("f(2, 3, 4)", "`f` got 2 arguments too many"),
        ("f(2, c=2)", "`f` got `c` twice"),
        ("small(3, 4)", "`small` got 1 argument too many"),
        ("small(3, c=4)", "`small` got `c` twice"),
    ],
)
def test_what_a_model_gives_its_block_is_taken_or_refused(
    call: str, fault: str, file: Path
) -> None:
    file.write_text(f"{BLOCK}model small = f(2)\nmodel wrong = {call}\n")
    report = pipeline.check_file(str(file)).reports[0]
    assert (report.code, report.headline) == ("E0202", fault)
    with pytest.raises(ProblemsError):
        pipeline.load(f"{file}:wrong")


def test_a_model_of_a_model_changes_what_it_says(file: Path) -> None:
    file.write_text(
        "block g(c, d=1)(x: [n]) -> [n] = c * x + d\n"
        "model one = g(2, d=5)\nmodel two = one(3)\nmodel three = two(4, 6)\n"
    )
    assert pipeline.check_file(str(file)).fine
