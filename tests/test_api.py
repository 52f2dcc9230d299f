"""The package as a user of Python meets it."""

import ast
import builtins
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import cast

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import meganeura
import meganeura.model
import meganeura.program
from meganeura.cli.app import run
from meganeura_dsl.diagnostics.problem import ProblemError, ProblemsError
from meganeura_runtime.backends import base
from meganeura_runtime.train.events import EpochEnded, Event, Finished

IMAGE = np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8) % 17
HEAVY = ("numpy", "wgpu", "egglog", "pydantic", "lark", "rich", "typer")


def test_importing_it_loads_nothing_heavy() -> None:
    program = f"import sys, meganeura; print([n for n in {HEAVY!r} if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_program_is_trained_and_its_weights_are_used(tmp_path: Path) -> None:
    events: list[Event] = []
    program = meganeura.load("digits_mlp")
    run = program.train(
        device="cpu", out=tmp_path / "run", settings={"epochs": 2}, watch=events.append
    )
    assert isinstance(events[-1], Finished)
    ended = [event.loss for event in events if isinstance(event, EpochEnded)]
    assert run.epochs == tuple(ended)
    assert run.final_loss == run.epochs[-1] < run.epochs[0]
    assert run.steps == 2 * (1437 // 32)
    assert len(run.held_out) == 2
    assert run.held_out[-1]["accuracy"] > 0.8

    trained = program.model(weights=run.weights)
    fresh = program.model(seed=3)
    image = np.arange(3 * 64, dtype=np.float32).reshape(3, 1, 8, 8) % 17
    outputs = trained.run({"image": image})["output"]
    assert outputs.shape == (3, 10)
    assert not np.allclose(outputs, fresh.run({"image": image})["output"])


def test_no_epochs_leave_no_loss(tmp_path: Path) -> None:
    program = meganeura.load("digits_mlp")
    run = program.train(device="cpu", out=tmp_path / "run", settings={"epochs": 0})
    assert (run.steps, run.epochs, run.losses, run.held_out) == (0, (), (), ())
    assert run.final_loss is None
    initial, kept = (program.model(weights=run.weights), program.model(seed=0))
    for name, values in kept.values.items():
        np.testing.assert_array_equal(initial.values[name], values)


def test_saved_weights_are_read_back(tmp_path: Path) -> None:
    program = meganeura.load("digits_mlp")
    first = program.model(seed=7)
    first.save(tmp_path / "weights.safetensors")
    second = program.model(weights=tmp_path / "weights.safetensors")
    assert first.values.keys() == second.values.keys()
    for name, value in first.values.items():
        np.testing.assert_array_equal(value, second.values[name])


def test_a_session_is_kept_for_many_runs() -> None:
    model = meganeura.load("digits_mlp").model(seed=0)
    image = np.ones((2, 1, 8, 8), np.float32)
    with model.session({"n": 2}, device="cpu") as session:
        first = session.step({"image": image})["output"]
        second = session.step({"image": 2 * image})["output"]
        np.testing.assert_array_equal(session.read("fc1.weight"), model.values["fc1.weight"])
    assert not np.allclose(first, second)


def test_values_come_by_their_names() -> None:
    model = meganeura.load("digits_mlp").model(seed=0)
    image = np.ones((2, 1, 8, 8), np.float32)
    found = model.run({"image": image}, values=["fc*"], device="cpu")
    assert list(found) == ["output", *(name for name in found if name.startswith("fc"))]
    assert found["fc1"].shape[0] == 2
    with model.session({"n": 2}, values=["fc1"], device="cpu") as session:
        outputs = session.step({"image": image})
        assert list(outputs) == ["output", "fc1"]
        np.testing.assert_array_equal(outputs["fc1"], found["fc1"])
    with pytest.raises(TypeError, match=r"values=\['fc1'\]"):
        model.run({"image": image}, values="fc1")
    with pytest.raises(meganeura.ProblemError, match="no value here is called `fc9`"):
        model.run({"image": image}, values=["fc9"])


@pytest.mark.parametrize("given", [IMAGE, "picture.png", [IMAGE]], ids=["array", "path", "list"])
def test_inputs_have_their_names(given: object) -> None:
    model = meganeura.load("digits_mlp").model(seed=0)
    with pytest.raises(TypeError, match=r'given by their names: \{"image": \.\.\.\}'):
        model.run(cast("dict[str, np.ndarray]", given))


def test_a_model_has_no_weights_that_nobody_asked_for() -> None:
    model = meganeura.load("digits_mlp").model()
    assert model.values == {}
    for use in (lambda: model.run({"image": IMAGE}), model.session, lambda: model.save("never")):
        with pytest.raises(ValueError, match="no weights"):
            use()


def test_some_weights_are_loaded_and_the_others_start_anew(tmp_path: Path) -> None:
    program = meganeura.load("digits_mlp")
    first = program.model(seed=7)
    first.save(tmp_path / "weights.safetensors")
    model = program.model(
        weights=[tmp_path / "weights.safetensors"],
        allow_missing=["fc2.*"],
        allow_unexpected=["fc2.*"],
        config={"classes": 3},
        seed=5,
    )
    np.testing.assert_array_equal(model.values["fc1.weight"], first.values["fc1.weight"])
    np.testing.assert_array_equal(
        model.values["fc2.weight"],
        program.model(seed=5, config={"classes": 3}).values["fc2.weight"],
    )
    assert model.run({"image": IMAGE})["output"].shape == (1, 3)
    with pytest.raises(ProblemError, match="E0540"):
        program.model(weights=tmp_path / "weights.safetensors", config={"classes": 3})
    with pytest.raises(ValueError, match="no weights"):
        program.model(seed=0, allow_missing=["fc2.*"])


def test_arrays_of_other_types_are_converted_or_refused() -> None:
    model = meganeura.load("digits_mlp").model(seed=0)
    expected = model.run({"image": IMAGE})["output"]
    for dtype in (np.float64, np.uint8, ">i4"):
        np.testing.assert_array_equal(model.run({"image": IMAGE.astype(dtype)})["output"], expected)
    with pytest.raises(ProblemError, match="E0561"):
        model.run({"image": IMAGE[0]})
    with pytest.raises(ProblemError, match="E0560"):
        model.run({"picture": IMAGE})
    with pytest.raises(ProblemError, match="E0531"):
        model.run({"image": IMAGE * np.float32(np.nan)})


def test_training_starts_from_weights(tmp_path: Path) -> None:
    program = meganeura.load("digits_mlp")
    still = {"epochs": 1, "optimizer": "sgd(lr=1e-30)"}
    run = program.train(device="cpu", out=tmp_path / "first", settings={"epochs": 1})
    more = program.train(device="cpu", out=tmp_path / "more", settings=still, weights=run.weights)
    before, after = program.model(weights=run.weights), program.model(weights=more.weights)
    for name, values in before.values.items():
        np.testing.assert_allclose(after.values[name], values, rtol=1e-6)


def test_a_mistake_is_an_error_with_its_cure() -> None:
    with pytest.raises(ProblemError, match="no file or standard model called `digits_cn`"):
        meganeura.load("digits_cn")
    assert meganeura.check("digits_cnn").fine


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            {"data": {"train.image": np.zeros((1000, 3))}},
            "`data` must be the path of a file or folder, not a value of type dict",
        ),
        (
            {"data": np.zeros(3)},
            "`data` must be the path of a file or folder, not a value of type ndarray",
        ),
        ({"data": "x" * 5000}, "there is no data `xxx"),
        ({"epochs": None}, "`epochs` must be a number or a text, not a value of type NoneType"),
        ({"epochs": [1, np.int64(2)]}, r"`epochs` must be a whole number, not \[1, 2\]"),
        ({"disabled_rules": ["no-such"]}, "no-such"),
    ],
)
def test_settings_of_another_kind_are_refused(
    tmp_path: Path, settings: dict[str, object], told: str
) -> None:
    with pytest.raises((ProblemError, ProblemsError), match=told):
        meganeura.load("digits_mlp").train(device="cpu", out=tmp_path / "run", settings=settings)
    assert not (tmp_path / "run").exists()


# --- names and errors ----------------------------------------------------------------------------

PUBLIC = (meganeura, meganeura.model, meganeura.program, base)
"""The modules whose functions and methods a user of Python calls."""

NAMED = re.compile(r"`(\w+Error)`")


def public_functions(module: ModuleType) -> Iterator[ast.FunctionDef]:
    """The functions and methods of a module without `_`, as they are written."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield node


def raised_in(module: ModuleType) -> Iterator[str]:
    """The names of exceptions that stand after a `raise` anywhere in a module."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            assert isinstance(node.exc.func, ast.Name)
            yield node.exc.func.id


def test_all_errors_that_are_raised_or_documented_can_be_imported() -> None:
    documented = {
        name
        for module in PUBLIC
        for function in public_functions(module)
        for name in NAMED.findall(ast.get_docstring(function) or "")
    }
    raised = {name for module in PUBLIC for name in raised_in(module)}
    assert {"ProblemError", "ProblemsError", "FeedError", "SessionError"} <= documented
    own = {name for name in documented | raised if not hasattr(builtins, name)}
    assert own <= set(meganeura.__all__)


def test_the_types_of_options_can_be_imported() -> None:
    """Those of `**options: Unpack[Options]`, to which docstrings point."""
    types = {
        ast.unparse(function.args.kwarg.annotation.slice)
        for module in PUBLIC
        for function in public_functions(module)
        if function.args.kwarg and isinstance(function.args.kwarg.annotation, ast.Subscript)
    }
    assert "WritingOptions" in types
    assert types <= set(meganeura.__all__)


def test_every_public_name_is_there_and_documented() -> None:
    for name in meganeura.__all__:
        public = getattr(meganeura, name)
        assert name == "__version__" or inspect.getdoc(public)
    assert meganeura.SessionError is base.SessionError
    with pytest.raises(AttributeError, match="`nothing`"):
        _ = meganeura.nothing


def test_each_error_is_what_its_mistake_raises(tmp_path: Path) -> None:
    program = meganeura.load("digits_mlp")
    model = program.model(seed=0)
    for use in (
        lambda: model.run({"image": IMAGE}, device="wgpu:99"),
        lambda: model.session({"n": 1}, device="cuda"),
        lambda: model.session({"n": 0}, device="cpu"),
        lambda: program.train(device="wgpu:99", out=tmp_path / "run"),
        lambda: program.model("nothing"),
        lambda: program.model(weights=tmp_path / "no.safetensors"),
    ):
        with pytest.raises((meganeura.ProblemError, meganeura.ProblemsError)):
            use()
    assert not (tmp_path / "run").exists()
    with model.session({"n": 1}, device="cpu") as session:
        with pytest.raises(meganeura.FeedError, match="did you mean `image`"):
            session.step({"image": IMAGE, "imgae": IMAGE})
        with pytest.raises(meganeura.FeedError, match="no value was fed"):
            session.step({})
        with pytest.raises(meganeura.SessionError, match="no step"):
            session.outputs()


@pytest.mark.parametrize(
    ("sizes", "told"),
    [
        ({}, "leave open n; given are none"),
        (None, "leave open n; given are none"),
        ({"m": 3}, "leave open n; given are m"),
        ({"n": 1, "m": 3}, "leave open n; given are n, m"),
    ],
)
def test_a_session_needs_exactly_the_open_sizes(sizes: dict[str, int] | None, told: str) -> None:
    model = meganeura.load("digits_mlp").model(seed=0)
    with pytest.raises(ValueError, match=told):
        model.session(sizes, device="cpu")


def test_inputs_and_sizes_may_have_any_name(tmp_path: Path) -> None:
    path = tmp_path / "net.mgn"
    path.write_text(
        "block Sum()(device: [self, sizes], inputs: [self, sizes]) -> [self, sizes] =\n"
        "  device + inputs\n\nmodel sum_up = Sum()\n"
    )
    model = meganeura.load(str(path)).model()
    ones = np.ones((2, 3), np.float32)
    outputs = model.run({"device": ones, "inputs": [[1, 2, 3]] * 2}, device="cpu")
    np.testing.assert_array_equal(outputs["output"], [[2, 3, 4]] * 2)
    with model.session({"self": np.int64(2), "sizes": 3}, device="cpu") as session:
        np.testing.assert_array_equal(
            session.step({"device": ones, "inputs": ones})["output"], 2 * ones
        )


def test_the_rest_of_a_shape_is_one_axis_in_a_model(tmp_path: Path) -> None:
    path = tmp_path / "net.mgn"
    path.write_text("block Half()(x: [...s, d]) -> [...s, d] = x / 2\n\nmodel half = Half()\n")
    model = meganeura.load(str(path)).model()
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(model.run({"x": x}, device="cpu")["output"], x / 2)
    with model.session({"s0": 2, "d": 3}, device="cpu") as session:
        np.testing.assert_array_equal(session.step({"x": x})["output"], x / 2)


def test_files_are_loaded_by_other_names(tmp_path: Path) -> None:
    program = meganeura.load("digits_mlp")
    whole = program.model(seed=3)
    whole.save(tmp_path / "whole.safetensors")
    values = load_file(tmp_path / "whole.safetensors")
    save_file({f"net.{name}": each for name, each in values.items()}, tmp_path / "part.safetensors")
    files = meganeura.Weights(tmp_path / "part.safetensors", rename={r"net\.(.*)": r"\1"})
    model = program.model(weights=files)
    np.testing.assert_array_equal(model.values["fc1.weight"], whole.values["fc1.weight"])
    below = meganeura.Weights(tmp_path / "whole.safetensors", prefix="net.")
    with pytest.raises(meganeura.ProblemError, match="E0540"):
        program.model(weights=below)
    settings = {"epochs": 0}
    run = program.train(weights=files, settings=settings, device="cpu", out=tmp_path / "run")
    np.testing.assert_array_equal(load_file(run.weights)["fc2.bias"], values["fc2.bias"])


@pytest.mark.parametrize("way", ["weights by other names", "weights"])
def test_some_weights_to_begin_with_may_be_missing_and_others_unexpected(
    tmp_path: Path, way: str
) -> None:
    program = meganeura.load("digits_mlp")
    values = program.model(seed=3).values
    given = {"fc1.weight": values["fc1.weight"], "more.bias": values["fc1.bias"]}
    save_file(given, tmp_path / "some.safetensors")
    files = tmp_path / "some.safetensors"
    weights = files if way == "weights" else meganeura.Weights(files)
    begun = program.train(
        weights=weights,
        allow_missing=["fc1.bias", "fc2.*"],
        allow_unexpected=["more.*"],
        settings={"epochs": 0},
        device="cpu",
        out=tmp_path / "run",
    )
    found, anew = load_file(begun.weights), program.model(seed=0).values
    for name, value in {**anew, "fc1.weight": values["fc1.weight"]}.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_the_device_is_that_of_the_settings_unless_it_is_said_beside_them(tmp_path: Path) -> None:
    """Those of the program, or those that take their place."""
    text = "train fit(x: [batch, 2]):\n  minimize mean(x |> fc: linear(1))\n  run:\n    batch = 4\n"
    text += '    data = "points.npz"\n'
    (tmp_path / "auto.mgn").write_text(text)
    (tmp_path / "own.mgn").write_text(f'{text}    device = "cpu"\n')
    own, auto = (meganeura.load(str(tmp_path / f"{name}.mgn")) for name in ("own", "auto"))
    data = {"x": np.ones((4, 2), np.float32)}
    on_cpu = {"device": "cpu"}
    for number, (program, settings, device) in enumerate(
        (
            (own, {}, None),
            (auto, on_cpu, None),
            (auto, {}, "cpu"),
            (auto, {"device": "auto"}, "cpu"),
        )
    ):
        out = tmp_path / str(number)
        run = program.train(data=data, out=out, settings=settings, device=device)
        assert json.loads((run.folder / "settings.json").read_text())["device"] == "cpu"
        with program.trainer(settings=settings, device=device) as trainer:
            assert trainer.device.startswith("cpu")
        assert program.fit(settings=settings, device=device).device == "cpu"


def test_an_exception_says_what_the_command_line_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "net.mgn"
    target.write_text("block A()(x: [n, d], y: [n, e]) -> [n, d]:\n  z = w\n  return x + y\n")
    with pytest.raises(meganeura.ProblemsError) as caught:
        meganeura.load(str(target))
    text = str(caught.value)
    assert "    ^" in text
    assert "E0201" in text
    assert "E0301" in text
    assert "Problem" in repr(caught.value)
    assert "\n" not in repr(caught.value)
    assert run(["check", str(target)]) == 1
    printed = "".join(capsys.readouterr())
    for part in text.split("\n\n"):
        assert part in printed
    model = meganeura.load("digits_mlp").model(seed=0)
    with pytest.raises(meganeura.ProblemError) as refused:
        model.run({"image": np.zeros((1, 19), np.float32)})
    assert "[1, 19]" in str(refused.value)
    assert "f32[n, 1, 8, 8]" in str(refused.value)
    assert repr(refused.value).startswith("ProblemError('error[E0561]: ")


def test_what_is_shown_of_programs_models_and_runs(tmp_path: Path) -> None:
    program = meganeura.load("digits_mlp")
    assert repr(program) == "<Program digits_mlp: models digits_mlp; train fit>"
    model = program.model()
    held = "image: f32[n, 1, 8, 8]): 4,810 weights in 4 parameters"
    assert repr(model) == f"<Model digits_mlp({held}, without values>"
    assert repr(program.model(seed=0)) == f"<Model digits_mlp({held}>"
    done = program.train(settings={"epochs": 1}, out=tmp_path / "run", device="cpu")
    assert repr(done).startswith(f"<Run fit in {tmp_path / 'run'}: 44 steps, held out loss ")
    assert "accuracy" in repr(done)
