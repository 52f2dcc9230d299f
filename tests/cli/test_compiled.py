"""`build -o model.mgb` and `run model.mgb`: a model in one file."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from meganeura import load
from meganeura_runtime.export.mgb import Artefact
from meganeura_runtime.io.weights import write_weights
from tests.cli.command import Command, Outcome
from tests.narrow import NARROW, trained

SIZES = ("--size", "n=2", "--size", "h=8", "--size", "w=8")


def build(meganeura: Command, folder: Path, *options: str) -> Outcome:
    model = NARROW["digits_cnn"].elaborate()
    write_weights(folder / "in.safetensors", model.parameters, trained(model), {})
    files = ("--weights", str(folder / "in.safetensors"), "-o", str(folder / "model.mgb"))
    return meganeura("build", "digits_cnn", "--mode", "infer", *SIZES, *files, *options)


def test_a_compiled_model_gives_what_the_model_gives(meganeura: Command, tmp_path: Path) -> None:
    shown = build(meganeura, tmp_path)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith(f"written: {tmp_path / 'model.mgb'} (")
    x = np.random.default_rng(1).normal(size=(2, 1, 8, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    given = ("--input", str(tmp_path / "x.npy"), "--device", "cpu", "--output")
    weights = ("--weights", str(tmp_path / "in.safetensors"))
    meganeura("run", "digits_cnn", *weights, *given, str(tmp_path / "plain.npy"))
    shown = meganeura("run", str(tmp_path / "model.mgb"), *given, str(tmp_path / "fast.npy"))
    assert (shown.code, shown.err) == (0, "")
    assert "output: float32[2, 10]" in shown.out
    plain, fast = (np.load(tmp_path / f"{name}.npy") for name in ("plain", "fast"))
    np.testing.assert_allclose(fast, plain, rtol=1e-4, atol=1e-5)


def test_another_process_compiles_the_same_bytes(meganeura: Command, tmp_path: Path) -> None:
    """So a model of somebody else can be compared with one that is built anew."""
    build(meganeura, tmp_path)
    again = tmp_path / "again.mgb"
    files = ("--weights", str(tmp_path / "in.safetensors"), "-o", str(again))
    command = [sys.executable, "-m", "meganeura", "build", "digits_cnn", "--mode", "infer"]
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    subprocess.run([*command, *SIZES, *files], check=True, env=environment, stdout=subprocess.PIPE)
    assert again.read_bytes() == (tmp_path / "model.mgb").read_bytes()


def test_it_can_be_built_as_it_is_written(meganeura: Command, tmp_path: Path) -> None:
    fast = build(meganeura, tmp_path).out
    plain = build(meganeura, tmp_path, "--no-opt").out
    assert int(plain.split("(")[1].split()[0]) > int(fast.split("(")[1].split()[0])


def test_arguments_and_sizes_can_be_set(meganeura: Command) -> None:
    given = ("--emit", "graph", "--mode", "infer", "--set", "classes=7", "--set", "n=3")
    assert "[3, 7]" in meganeura("build", "digits_cnn", *given).out
    shown = meganeura("build", "digits_cnn", "--emit", "graph", "--set", "batch=5")
    assert "[5, 1, 8, 8]" in shown.out


def test_what_it_needs_is_asked_for(meganeura: Command, tmp_path: Path) -> None:
    out = ("-o", str(tmp_path / "model.mgb"))
    assert "--weights" in meganeura("build", "digits_cnn", "--mode", "infer", *SIZES, *out).err
    for option in (("--split",), ("--with-data",), ("--white", "16")):
        assert "it is about a page" in meganeura("build", "digits_cnn", *out, *option).err
    page = ("-o", str(tmp_path / "page.html"), "--with-data", "--weights", "x.safetensors")
    assert "has no data" in meganeura("build", "digits_cnn", *SIZES, *page).err
    assert "--weights" in meganeura("build", "digits_cnn", *out).err
    shown = meganeura("build", "digits_cnn", "--mode", "infer", *out, "--weights", "x.safetensors")
    needed = "numbers are needed for h, n, w, as --size h=... --size n=1 --size w=..."
    assert needed in " ".join(shown.err.split())


def test_a_precision_that_it_does_not_have_is_refused(meganeura: Command, tmp_path: Path) -> None:
    weights = tmp_path / "x.safetensors"
    out = ("-o", str(tmp_path / "model.mgb"), "--weights", str(weights))
    for precision in ("tf32", "bf16"):
        shown = meganeura("build", "digits_cnn", *SIZES, *out, "--precision", precision)
        assert f"in f32 or f16, and not in {precision}" in shown.err
    shown = meganeura("build", "digits_cnn", "--mode", "train", *out, "--precision", "f16")
    assert "f16 for an inference alone" in shown.err
    assert not (tmp_path / "model.mgb").exists()


TWO = """
block Dense(out)(x: [n, 3]) -> [n, out] = x |> fc: linear(out)

model actor  = pi: Dense(2)
model critic = v: Dense(1)
"""


def test_one_of_the_models_of_a_run_is_taken(meganeura: Command, tmp_path: Path) -> None:
    """A run of several models writes the weights of all; each is compiled by itself."""
    source, weights = tmp_path / "two.mgn", tmp_path / "weights.safetensors"
    source.write_text(TWO)
    draw = np.random.default_rng(0)
    shapes = {"pi.fc.weight": (2, 3), "pi.fc.bias": 2, "v.fc.weight": (1, 3), "v.fc.bias": 1}
    values = {name: draw.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    save_file(values, weights)
    x = draw.normal(size=(2, 3)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    expected = x @ values["pi.fc.weight"].T + values["pi.fc.bias"]
    excused = ("--allow-unexpected", "v.*")
    for command, file in (
        ("build", "actor.mgb"),
        ("export", "a.onnx"),
        ("deploy", "a.safetensors"),
    ):
        size = ("--size", "n=2") * (command == "build")
        given = (f"{source}:actor", "--weights", str(weights), *size, "-o", str(tmp_path / file))
        refused = meganeura(command, *given)
        assert (refused.code, "E0540" in refused.err) == (1, True)
        assert "--allow-unexpected 'v.*'" in refused.err
        assert meganeura(command, *given, *excused).code == 0
        other = meganeura(command, *given, "--allow-unexpected", "w.*")
        assert (other.code, "E0541" in other.err) == (2, True)
    out = str(tmp_path / "y.npy")
    run = ("--input", str(tmp_path / "x.npy"), "--device", "cpu", "--output", out)
    for model in (
        (str(tmp_path / "actor.mgb"),),
        (f"{source}:actor", "--weights", str(tmp_path / "a.safetensors")),
    ):
        assert meganeura("run", *model, *run).code == 0
        np.testing.assert_allclose(np.load(out), expected, rtol=1e-5)
    commands = (("build", (), "b.mgb"), ("export", ("--random-weights", "0"), "b.onnx"))
    for command, random, name in commands:
        file = str(tmp_path / name)
        shown = meganeura(command, f"{source}:actor", *random, *excused, "-o", file)
        assert "there are no weights to compare with" in shown.err


def test_what_it_was_compiled_with_cannot_be_given_again(
    meganeura: Command, tmp_path: Path
) -> None:
    build(meganeura, tmp_path)
    given = ("run", str(tmp_path / "model.mgb"), "--input", "x.npy")
    for option in (("--weights", "w.safetensors"), ("--set", "n=3"), ("--no-opt",)):
        shown = meganeura(*given, *option)
        assert shown.code == 2
        assert option[0] in shown.err


def test_another_file_is_refused(meganeura: Command, tmp_path: Path) -> None:
    build(meganeura, tmp_path)
    (tmp_path / "in.safetensors").rename(tmp_path / "other.mgb")
    shown = meganeura("run", str(tmp_path / "other.mgb"), "--input", "x.npy")
    assert shown.code == 1
    assert "error[E0581]" in shown.err


def test_a_training_step_is_compiled_and_is_no_model(meganeura: Command, tmp_path: Path) -> None:
    file = str(tmp_path / "step.mgb")
    shown = meganeura("build", "digits_mlp", "--mode", "train", "-o", file)
    assert (shown.code, shown.err) == (0, "")
    shown = meganeura("run", file, "--input", "x.npy")
    assert "error[E0581]" in shown.err
    assert "it is a training step" in shown.err
    shown = meganeura(
        "build", "digits_mlp", "--mode", "train", "--set", "drop_last=false", "-o", file
    )
    assert "error[E0630]" in shown.err
    changes = (
        "schedule=plateau()",
        'schedule["*"]=cosine()',
        "balance=label",
        "steps_per_epoch=7",
        "steps=7",
        "ema=0.9",
    )
    for change in (*changes, "accumulate=2", "stop_after=2", "not_finite=skip"):
        shown = meganeura("build", "digits_mlp", "--mode", "train", "--set", change, "-o", file)
        assert "error[E0630]" in shown.err
    scheduled = ("--set", "schedule=cosine(warmup=5)", "--set", "epochs=2", "-o", file)
    assert meganeura("build", "digits_mlp", "--mode", "train", *scheduled).code == 0
    training = Artefact.read(Path(file)).training
    assert training is not None
    assert len(training.rates) == 88
    assert max(training.rates) > training.rates[0]


def test_a_model_that_writes_is_compiled_for_a_page(meganeura: Command, tmp_path: Path) -> None:
    load("lm_tiny").model("lm_tiny", seed=1).save(tmp_path / "lm.safetensors")
    weights = ("--weights", str(tmp_path / "lm.safetensors"))
    given = ("build", "lm_tiny", "--mode", "generate")
    out = ("-o", str(tmp_path / "lm.mgb"))
    shown = meganeura(*given, *weights, "--set", "capacity=8", *out)
    assert (shown.code, shown.err) == (0, "")
    form = Artefact.read(tmp_path / "lm.mgb").generation
    assert form is not None
    assert (form.capacity, form.vocabulary, form.ends) == (8, 256, ())
    assert "a page does" in meganeura("run", str(tmp_path / "lm.mgb")).err
    assert "update" in meganeura(*given, "--emit", "plan").out
    for words, told in {
        (*given, *out): "--weights",
        (*given, *weights, *out, "--size", "n=1"): "one sequence",
        (*given, *weights, *out, "--set", "capacity=0"): "`capacity` is a number",
        (*given, *weights, "-o", "x.html", "--white", "16"): "has no pictures",
        (*given, *weights, *out, "--tokenizer", str(tmp_path / "none.json")): "none.json",
        (*given, "--tokenizer", "x.json"): "reads or writes texts",
        ("build", "lm_tiny", "--tokenizer", "x.json"): "about a page",
        ("build", "digits_mlp", "--mode", "generate", *weights, *out): "E0660",
    }.items():
        found = meganeura(*words)
        assert found.code
        assert told in found.err, found.err
        assert "Traceback" not in found.err
