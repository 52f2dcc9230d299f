"""Source of JAX that is written of models: it computes what they do, or is refused."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import meganeura as api
from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.types import example_sizes
from meganeura_runtime.export.source.write import written
from tests.effort import effort
from tests.kinds import KINDS
from tests.written_jax import assert_agrees
from tests.written_programs import PROGRAMS, linked

QUICK = (
    "a loop of layers and a choice",
    "a parameter and a state",
    "a scan from its end",
    "axes moved and merged",
    "statistics of groups, and paths that are left out",
)
"""The programs that every run of the suite tries."""


@pytest.mark.parametrize("name", effort(QUICK, tuple(PROGRAMS)))
def test_outputs_gradients_and_states(name: str) -> None:
    text, sizes = PROGRAMS[name]
    assert_agrees(linked(text), sizes)


REFUSED = ("maml:adapted",)
"""The models that are not written."""
STARTS = {"repvgg_a0": {"n": 4}}
"""Sizes other than 1: statistics of two numbers in 22 layers, one behind another, magnify the last
bits of double precision to 3e-5 of a gradient; of four numbers, to 2e-10."""


@pytest.mark.parametrize("name", effort(("gan:generator",), tuple({*KINDS} - {*REFUSED})))
def test_standard_models(name: str) -> None:
    program, config = pipeline.load(name), KINDS[name]
    model = name.rpartition(":")[2]
    model = model if model in program.module.models else next(iter(program.module.models))
    symbolic = pipeline.elaborate_model(program, model, config=config)
    sizes = dict.fromkeys(example_sizes(symbolic.inputs.values()), 1) | STARTS.get(name, {})
    while True:
        try:
            assert_agrees(program, sizes, model, config)
        except ProblemError:  # too small for the windows of the model
            if max(sizes.values()) > 32:
                raise
            sizes = {each: 2 * size for each, size in sizes.items()}
        else:
            return


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_names_the_line(name: str) -> None:
    program = pipeline.load(name)
    model = program.module.models[name.rpartition(":")[2]]
    with pytest.raises(ProblemError, match=r"E0598[\s\S]*\.mgn:\d+"):
        written(program.module, model, {}, {}, "jax")


def test_a_layer_has_any_name() -> None:
    text = """\
        block Net()(x: [n, 4]) -> [n, 4]:
          return x |> type: linear(4) |> keys.params: linear(4)

        model net = Net()
        """
    assert_agrees(linked(text), {"n": 2})


def test_random_numbers_are_of_the_keys_that_are_given(tmp_path: Path) -> None:
    text = """\
        block Net()(x: [n, s, 4]) -> [n, s, 4]:
          x = x |> fc: linear(4) |> dropout(0.5)
          scan t in 0..s:
            y[:, t] = x[:, t] |> dropout(0.5)
          return y

        model net = Net()
        """
    program = linked(text)
    (tmp_path / "net.py").write_text(
        written(program.module, program.module.models["net"], {}, {}, "jax")
    )
    lines = """\
import jax
import jax.numpy as jnp
from net import net, random_keys
params = {"fc": {"weight": jnp.eye(4), "bias": jnp.ones(4)}}
x = jnp.ones((64, 5, 4))
plain = net(params, x, keys=random_keys(jax.random.key(0)))
first, again, other = (
    net(params, x, training=True, keys=random_keys(jax.random.key(seed))) for seed in (0, 0, 1)
)
print((plain == 2).all(), (first == again).all(), (first == other).mean() < 0.9)
print(sorted({float(each) for each in first.ravel()}), abs((first == 0).mean() - 0.75) < 0.05)
print(bool((first[:, 0] == first[:, 1]).all()))
"""
    found = subprocess.run(
        [sys.executable, "-c", lines], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert found.stdout.splitlines() == ["True True True", "[0.0, 8.0] True", "False"]


def test_the_file_compares_what_it_computes_with_a_run(tmp_path: Path) -> None:
    program = pipeline.load("digits_mlp")
    text = written(program.module, program.module.models["digits_mlp"], {}, {}, "jax")
    (tmp_path / "digits.py").write_text(text)
    model = api.load("digits_mlp").model(seed=3)
    model.save(tmp_path / "w.safetensors")
    image = np.random.default_rng(0).normal(size=(5, 1, 8, 8)).astype(np.float32)
    found = model.run({"image": image}, device="cpu")["output"]
    save_file({"image": image}, tmp_path / "in.safetensors")
    save_file({"output": found + np.float32(0.5)}, tmp_path / "out.safetensors")

    def said(*files: str) -> subprocess.CompletedProcess[str]:
        words = (sys.executable, "digits.py", *files)
        return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)

    compared = said("w.safetensors", "in.safetensors", "out.safetensors")
    assert (compared.returncode, compared.stderr) == (0, "")
    assert compared.stdout.startswith("output: largest difference 0.5")
    alone = said()
    assert (alone.returncode, alone.stdout) == (1, "")
    assert "python FILE WEIGHTS INPUTS OUTPUTS" in alone.stderr
