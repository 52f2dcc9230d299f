"""A compiled model: it comes back as it was, runs without the compiler, and refuses other files."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from meganeura_dsl.diagnostics import ProblemError
from meganeura_dsl.graph.core import Array
from meganeura_dsl.optimize.rewriting import Rewriting
from meganeura_runtime import artefact
from meganeura_runtime.artefact import Artefact
from meganeura_runtime.artefact.container import KEY
from meganeura_runtime.artefact.problems import NotAnArtefact
from meganeura_runtime.deploy.convert import deploy
from meganeura_runtime.kernels.limits import DeviceLimits
from meganeura_runtime.plan.schedule import plan_graph
from meganeura_runtime.session import CpuSession
from tests.narrow import NARROW, trained

WITHOUT_THE_COMPILER = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.startswith(("egglog", "lark", "meganeura_dsl.syntax", "meganeura_dsl.check")):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocked())

import numpy as np
from meganeura_runtime import artefact

with artefact.open(sys.argv[1], sys.argv[2]) as session:
    np.save(sys.argv[4], session.step({"image": np.load(sys.argv[3])})["output"])
assert not [name for name in sys.modules if name.startswith(("egglog", "meganeura_dsl.syntax"))]
"""


def compiled(name: str = "digits_cnn") -> tuple[Artefact, Array, Array]:
    """A compiled model, an input, and what the model itself makes of it."""
    model = NARROW[name].elaborate()
    values = trained(model)
    made = deploy(model.graph, values, Rewriting())
    plan = plan_graph(made.graph, DeviceLimits())
    x = np.random.default_rng(1).normal(size=(2, 1, 8, 8)).astype(np.float32)
    with CpuSession(model.graph) as session:
        session.load(values)
        output = session.step({"image": x})["output"]
    return Artefact(name, made.graph, plan, made.values), x, output


@pytest.fixture
def file(tmp_path: Path) -> Path:
    compiled()[0].write(tmp_path / "model.mgb")
    return tmp_path / "model.mgb"


def run_apart(file: Path, device: str) -> Array:
    """The output of a process that has no parser and no optimizer."""
    x, out = file.with_name("x.npy"), file.with_name("out.npy")
    np.save(x, compiled()[1])
    words = [sys.executable, "-c", WITHOUT_THE_COMPILER, str(file), device, str(x), str(out)]
    subprocess.run(words, check=True)
    return np.load(out)


def test_it_runs_without_the_compiler(file: Path) -> None:
    np.testing.assert_allclose(run_apart(file, "cpu"), compiled()[2], rtol=1e-4, atol=1e-5)


@pytest.mark.adapter
def test_it_runs_on_an_adapter_without_the_compiler(file: Path) -> None:
    np.testing.assert_allclose(run_apart(file, "wgpu"), compiled()[2], rtol=1e-4, atol=1e-5)


def test_it_comes_back_as_it_was(file: Path) -> None:
    written, found = compiled()[0], Artefact.read(file)
    assert (found.model, found.plan) == ("digits_cnn", written.plan)
    assert [value.op for value in found.graph.values] == [v.op for v in written.graph.values]
    assert {name: str(of) for name, of in found.inputs.items()} == {"image": "f32[2, 1, 8, 8]"}
    for name, array in written.values.items():
        np.testing.assert_array_equal(found.values[name], array, strict=True)
    with artefact.open(file, "cpu") as session:
        assert set(session.names) == set(written.values)


def rewritten(file: Path, **changes: object) -> Path:
    """The file with parts of its header changed."""
    with safe_open(file, "np") as content:
        header = json.loads(content.metadata()[KEY])
    save_file(load_file(file), file, {KEY: json.dumps({**header, **changes})})
    return file


def reason(file: Path) -> str:
    with pytest.raises(ProblemError) as caught:
        Artefact.read(file)
    assert isinstance(caught.value.problem, NotAnArtefact)
    return caught.value.problem.reason


def test_another_version_is_refused(file: Path) -> None:
    assert "version" in reason(rewritten(file, version=2))


def test_a_graph_that_does_not_fit_is_refused(file: Path) -> None:
    assert reason(rewritten(file, graph="%0 = Moth()")).startswith("its graph cannot be read: ")
    assert "not the parameters" in reason(rewritten(file, graph=""))


def test_weights_alone_are_refused(tmp_path: Path) -> None:
    save_file({"a": np.zeros(1, np.float32)}, tmp_path / "model.mgb")
    assert reason(tmp_path / "model.mgb") == "it holds tensors, but no plan"


def test_missing_tensors_are_refused(tmp_path: Path) -> None:
    whole = compiled()[0]
    values = {name: array for name, array in whole.values.items() if name != "fc.bias"}
    replace(whole, values=values).write(tmp_path / "model.mgb")
    assert "not the parameters" in reason(tmp_path / "model.mgb")
