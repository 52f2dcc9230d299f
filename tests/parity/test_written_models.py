"""Source of PyTorch that is written of models: it computes what they do, or is refused."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from torch import nn

import meganeura as api
from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.export.source.torch.module_attributes import ATTRIBUTES
from meganeura_runtime.export.source.write import written as source_of
from tests.effort import effort
from tests.parity.cases import SMALL
from tests.parity.models import Case
from tests.parity.test_small_models import CASES
from tests.parity.written import assert_agrees, double_precision, written
from tests.written_programs import PROGRAMS, linked

pytestmark = pytest.mark.parity


@pytest.mark.parametrize("case", effort([*SMALL, *CASES][::3], [*SMALL, *CASES]), ids=str)
def test_outputs_gradients_and_states(case: Case) -> None:
    with double_precision():
        assert_agrees(written(linked(case.text)), case.sizes)


@pytest.mark.parametrize("name", PROGRAMS)
def test_small_programs(name: str) -> None:
    text, sizes = PROGRAMS[name]
    with double_precision():
        assert_agrees(written(linked(text)), sizes)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("x = x |> type: linear(4)", "an attribute of that name"),
        ("x = x |> encoder.type: linear(4)", "an attribute of that name"),
        ("x = x |> layers[2].keys: linear(4) |> layers.keys: linear(4)", "an attribute of that"),
        ("x = x |> _modules: linear(4)", "an attribute of that name"),
        ("x = x |> dropout(0.5, training=false)", "a layer in a mode of its own"),
    ],
)
def test_a_refusal_names_the_line(line: str, reason: str) -> None:
    program = f"""\
        block Net()(x: [n, 4], ids: i32[n]) -> [n, 4]:
          {line}
          return x |> fc: linear(4)

        model net = Net()
        """
    with pytest.raises(ProblemError) as refused:
        written(linked(program))
    said = " ".join(str(refused.value).split())
    assert "case.mgn:2" in said
    assert reason in said


@pytest.mark.parametrize(
    ("file", "name", "sizes"),
    [
        ("ddpm", "denoiser", {"n": 2, "h": 8, "w": 8}),
        ("distil", "student", {"n": 3}),
        ("gan", "drawn", {}),
    ],
)
def test_standard_models(file: str, name: str, sizes: dict[str, int]) -> None:
    with double_precision():
        assert_agrees(written(pipeline.load(file), name), sizes, name)


def test_what_has_no_form_otherwise() -> None:
    module = pipeline.load("t5").module
    with pytest.raises(ProblemError, match="a cache"):
        source_of(module, module.models["t5_tiny"], {"capacity": 8}, {}, "torch")
    program = """\
        block Net()(x: [n, 4]) -> [n, 4]:
          h = x |> fc: linear(4)
          scan t in 0..3 while max(h) < 2.0:
            h = 2 * h
            y[t] = h
          return h

        model net = Net()
        """
    with pytest.raises(ProblemError, match="a scan with a condition"):
        written(linked(program))


@pytest.mark.parametrize(
    ("kind", "holder"), [("module", nn.Module), ("list", nn.ModuleList), ("dict", nn.ModuleDict)]
)
def test_the_attributes_that_no_layer_replaces(kind: str, holder: type[nn.Module]) -> None:
    layer = holder()
    names = {
        name
        for name in dir(layer)
        if not name.startswith("__") and not _is_of_another_library(getattr(layer, name))
    }
    assert names <= ATTRIBUTES[kind]


def _is_of_another_library(value: object) -> bool:
    """Returns True for a method that another library, such as transformers, adds to modules."""
    module = getattr(value, "__module__", None)
    return module is not None and module.partition(".")[0] not in {"torch", "typing", "builtins"}


def test_a_block_does_not_take_the_names_of_what_runs_the_file() -> None:
    program = """\
        block sys()(x: [n, 4]) -> [n, 4]:
          return 2 * x

        block load_file()(x: [n, 4]) -> [n, 4]:
          return 3 * x

        block Net()(x: [n, 4]) -> [n, 4]:
          return x |> sys |> load_file |> fc: linear(4)

        model net = Net()
        """
    functions = [each for each in written(linked(program)).text.splitlines() if "def " in each]
    assert functions[:2] == ["def sys_(x):", "def load_file_(x):"]


def test_the_file_compares_what_it_computes_with_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = api.load("digits_mlp").model(seed=3)
    program = written(pipeline.load("digits_mlp"), "digits_mlp")
    (tmp_path / "digits.py").write_text(program.text)
    model.save(tmp_path / "w.safetensors")
    image = np.random.default_rng(0).normal(size=(5, 1, 8, 8)).astype(np.float32)
    found = model.run({"image": image}, device="cpu")["output"]
    save_file({"image": image}, tmp_path / "in.safetensors")
    save_file({"output": found + np.float32(0.5)}, tmp_path / "out.safetensors")

    monkeypatch.chdir(tmp_path)
    files = ["w.safetensors", "in.safetensors", "out.safetensors"]
    monkeypatch.setattr(sys, "argv", ["digits.py", *files])
    runpy.run_path("digits.py", run_name="__main__")
    assert capsys.readouterr().out.startswith("output: largest difference 0.5")
    monkeypatch.setattr(sys, "argv", ["digits.py"])
    with pytest.raises(SystemExit, match="python FILE WEIGHTS INPUTS OUTPUTS"):
        runpy.run_path("digits.py", run_name="__main__")
