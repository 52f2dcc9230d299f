"""A compiled model: it comes back as it was, runs without the compiler, and refuses other files."""

import hmac
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from meganeura.cli.driver.compiled_training import compiled_training, training_job
from meganeura.cli.driver.stages import Mode, stages_of
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Array, Builder
from meganeura_dsl.ir.ops import Add, Input
from meganeura_dsl.ir.types import DType
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.backends.webgpu.backend import WebGpuBackend
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.device.webgpu_types import WebGpuDevice
from meganeura_runtime.backends.webgpu.device.wgpu_native import WGPU
from meganeura_runtime.backends.webgpu.open_adapter import OpenAdapter
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.backends.webgpu.session import WebGpuSession
from meganeura_runtime.export import mgb
from meganeura_runtime.export.deployment.inference_form import deploy
from meganeura_runtime.export.mgb import Artefact, container
from meganeura_runtime.export.mgb.container import KEY
from meganeura_runtime.export.mgb.container_problems import NotAnArtefact
from meganeura_runtime.export.mgb.seal import is_sealed, seal
from meganeura_runtime.io.tensors.safetensors_file import open_tensors, write_tensors
from meganeura_runtime.io.weights import STRICT
from tests.narrow import NARROW, trained

WITHOUT_THE_COMPILER = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.startswith(("egglog", "lark", "meganeura_dsl.syntax", "meganeura_dsl.elaborate")):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocked())

import numpy as np
from meganeura_runtime.export import mgb

with mgb.open(sys.argv[1], sys.argv[2]) as session:
    np.save(sys.argv[4], session.step({"image": np.load(sys.argv[3])})["output"])
assert not [name for name in sys.modules if name.startswith(("egglog", "meganeura_dsl.syntax"))]
"""


@cache
def compiled(name: str = "digits_cnn") -> tuple[Artefact, Array, Array]:
    """A compiled model, an input, and what the model itself makes of it."""
    model = NARROW[name].elaborate()
    values = trained(model)
    made = deploy(model.graph, values, RewriteOptions())
    plan = plan_graph(made.graph, DeviceLimits())
    x = np.random.default_rng(1).normal(size=(2, 1, 8, 8)).astype(np.float32)
    with ReferenceSession(model.graph) as session:
        session.load(values)
        output = session.step({"image": x})["output"]
    return Artefact(name, made.graph, plan, made.values), x, output


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache folder of another installation."""
    monkeypatch.setenv("MEGANEURA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def file(tmp_path: Path, kept: Path) -> Path:
    assert kept
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
    with mgb.open(file, "cpu") as session:
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
    wanted = "its format is 3, and 4 is read here: compile it again"
    assert reason(rewritten(file, version=3)) == wanted


def test_a_graph_that_does_not_fit_is_refused(file: Path) -> None:
    assert reason(rewritten(file, graph="%0 = Moth()")).startswith("its graph cannot be read: ")
    assert "not the parameters" in reason(rewritten(file, graph=""))


def test_weights_alone_are_refused(tmp_path: Path) -> None:
    save_file({"a": np.zeros(1, np.float32)}, tmp_path / "model.mgb")
    assert reason(tmp_path / "model.mgb") == "it holds tensors, but no plan"


# --- hostile -------------------------------------------------------------------------------------

Change = Callable[[dict[str, Any]], object]
"""Of a plan as data."""


def forged(file: Path, change: Change, graph: tuple[str, str] = ("", "")) -> Path:
    """The file with another plan or graph, and checksums that are right, as anybody can make."""
    tensors, metadata = open_tensors(file)
    header = json.loads(metadata[KEY])
    change(header["plan"])
    header["graph"] = header["graph"].replace(*graph) if graph[0] else header["graph"]
    arrays = {name: tensor.bits for name, tensor in tensors.items()}
    write_tensors(file, arrays, {**metadata, KEY: json.dumps(header)})
    return file


def first_slot(**changes: int) -> Change:
    return lambda plan: plan["dispatches"][0]["slots"][0].update(changes)


def first(kind: str, **changes: object) -> Change:
    return lambda plan: plan[kind][0].update(changes)


def first_place(kind: str, **changes: int) -> Change:
    return lambda plan: plan[kind][0]["slot"].update(changes)


def in_one_place(plan: dict[str, Any]) -> None:
    place = plan["parameters"][0]["slot"]
    for each in plan["parameters"]:
        each["slot"] = place


def swapped(plan: dict[str, Any]) -> None:
    plan["dispatches"].reverse()


SLOT = {"buffer": 0, "offset": 0, "bytes": 1 << 40}
FORGED: dict[str, Change] = {
    "a buffer that is not there": first_slot(buffer=99),
    "a buffer before the first": first_slot(buffer=-1),
    "an offset beyond": first_slot(offset=1 << 40),
    "an offset before": first_slot(offset=-256),
    "an offset between words": first_slot(offset=3),
    "an offset no adapter binds": first_slot(offset=128),
    "a range of 2**63 bytes": first_slot(bytes=1 << 63),
    "a range of 10**4000 bytes": first_slot(bytes=10**4000),
    "a buffer of 2**50 bytes": first("buffers", bytes=1 << 50),
    "a buffer of -4 bytes": first("buffers", bytes=-4),
    "a buffer of no bytes": first("buffers", bytes=0),
    "a buffer for another purpose": first("buffers", role="temporaries"),
    "a kernel that is not there": first("dispatches", kernel=99),
    "a kernel before the first": first("dispatches", kernel=-1),
    "no workgroups": first("dispatches", workgroups=[0, 1, 1]),
    "2**31 workgroups": first("dispatches", workgroups=[1 << 31, 1 << 31, 1]),
    "fewer than no workgroups": first("dispatches", workgroups=[-1, 1, 1]),
    "a range too few": lambda plan: plan["dispatches"][0]["slots"].pop(),
    "no kernel text": lambda plan: plan["kernels"].__setitem__(0, ""),
    "a null byte": lambda plan: plan["kernels"].__setitem__(0, plan["kernels"][0] + "\0"),
    "no dispatches": lambda plan: plan.update(dispatches=[]),
    "the last dispatch is missing": lambda plan: plan["dispatches"].pop(),
    "dispatches in another order": swapped,
    "an input of another shape": first("inputs", shape=[7]),
    "an input of the same size": first("inputs", shape=[1, 2, 8, 8]),
    "an input elsewhere": first_place("inputs", offset=1 << 30),
    "an input among the parameters": first_place("inputs", buffer=0),
    "an input that is cut short": first_place("inputs", bytes=4),
    "an output elsewhere": first_place("outputs", offset=1 << 30),
    "a larger output": first("outputs", shape=[1, 100_000]),
    "an output of -1 rows": first("outputs", shape=[-1, 10]),
    "an output of a thousand axes": first("outputs", shape=[1] * 1000),
    "an output of another name": first("outputs", name="\x1b[31mx"),
    "a parameter of another shape": first("parameters", shape=[1]),
    "a parameter of another type": first("parameters", dtype="i32"),
    "a parameter of another name": first("parameters", name="x"),
    "parameters in one place": in_one_place,
    "a parameter twice": lambda plan: plan["parameters"].append(plan["parameters"][0]),
    "a loop of nothing": lambda plan: plan.update(loops=[{"first": 0, "last": 0, "iterations": 1}]),
    "an endless loop": lambda plan: plan.update(
        loops=[{"first": 0, "last": 1, "iterations": 1 << 62}]
    ),
    "a copy": lambda plan: plan.update(copies=[{"source": SLOT, "target": SLOT}]),
    "a copy in bounds": lambda plan: plan.update(
        copies=[{"source": plan["inputs"][0]["slot"], "target": plan["inputs"][0]["slot"]}]
    ),
}


@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED)
def test_a_forged_plan_is_refused(file: Path, change: Change) -> None:
    assert reason(forged(file, change))


@pytest.mark.parametrize("kind", ["inputs", "outputs"])
def test_two_tensors_in_one_place_are_refused(kind: str, kept: Path, tmp_path: Path) -> None:
    """Also where all kernels agree on the place, and nothing else is amiss."""
    assert kept
    build = Builder()
    x = [build.add(Input(name, DType.F32, (3,))) for name in "abc"]
    graph = build.graph({f"twice {each.op}": build.add(Add(), each, each) for each in x})
    file = tmp_path / "net.mgb"
    Artefact("net", graph, plan_graph(graph, DeviceLimits()), {}).write(file)

    def moved(plan: dict[str, Any]) -> None:
        place, other, _ = (json.dumps(each["slot"]) for each in plan[kind])
        plan.update(json.loads(json.dumps(plan).replace(other, place)))

    assert "two of its tensors lie in the same place" in reason(forged(file, moved))


GRAPHS = {
    "a larger input": ("shape=[2, 1, 8, 8]) : f32[2, 1, 8, 8]", "shape=[8, 8]) : f32[8, 8]"),
    "another output": ('output "output"', 'output "other"'),
    "no output": ('output "output"', '# "output"'),
    "a size of 10**4000": ("[2, 1, 8, 8]", f"[2, 1, 8, {10**4000}]"),
    "a size that is not known": ("[2, 1, 8, 8]", "[n, 1, 8, 8]"),
}


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_a_forged_graph_is_refused(file: Path, graph: tuple[str, str]) -> None:
    assert reason(forged(file, lambda _: None, graph))


def test_a_plan_and_a_graph_that_were_changed_by_hand_are_refused(file: Path) -> None:
    with safe_open(file, "np") as content:
        metadata = content.metadata()
    header = json.loads(metadata[KEY])
    header["graph"] = header["graph"].replace("Maximum", "Minimum")
    save_file(load_file(file), file, {**metadata, KEY: json.dumps(header)})
    with pytest.raises(ProblemError, match="E0542"):
        Artefact.read(file)


@pytest.mark.parametrize(
    "change", [lambda array: array.astype(np.float64), lambda array: array.reshape(-1, 1)]
)
def test_a_tensor_of_another_type_or_shape_is_refused(
    file: Path, change: Callable[[Array], Array]
) -> None:
    tensors, metadata = open_tensors(file)
    arrays = {name: change(tensor.bits) for name, tensor in tensors.items()}
    write_tensors(file, arrays, metadata)
    assert "wants f32" in reason(file)


# --- what is trusted -----------------------------------------------------------------------------


def test_only_what_was_compiled_here_is_trusted(
    kept: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Artefact.read(file).trusted
    assert (kept / "seal.key").stat().st_mode & 0o77 == 0
    forge = forged(file, lambda plan: plan["dispatches"][0].update(flops=1))
    assert not Artefact.read(forge).trusted
    compiled()[0].write(file)
    for elsewhere in (str(kept / "other"), "off"):
        monkeypatch.setenv("MEGANEURA_CACHE", elsewhere)
        assert not Artefact.read(file).trusted


def test_a_file_of_others_is_not_sealed_by_writing_it_again(kept: Path, file: Path) -> None:
    (kept / "seal.key").unlink()
    found = Artefact.read(file)
    found.write(file)
    assert not Artefact.read(file).trusted
    replace(found, trusted=True).write(file)
    assert Artefact.read(file).trusted


def test_no_seal_is_a_file_that_is_not_trusted(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEGANEURA_CACHE", "off")
    compiled()[0].write(tmp_path / "model.mgb")
    monkeypatch.setenv("MEGANEURA_CACHE", str(kept))
    assert not Artefact.read(tmp_path / "model.mgb").trusted
    made = seal(b"x")
    assert made is not None
    assert is_sealed(b"x", made)
    assert not any(is_sealed(b"x", part) for part in ("", made[:-1], made + "0"))
    assert not Artefact.read(tmp_path / "model.mgb").trusted, "nor where there is a key"


@pytest.mark.parametrize("key", [b"", b"k" * 8])
def test_a_key_that_was_cut_short_vouches_for_nothing(kept: Path, key: bytes) -> None:
    kept.mkdir(exist_ok=True)
    (kept / "seal.key").write_bytes(key)
    assert not is_sealed(b"x", hmac.digest(key, b"x", "sha256").hex())


@pytest.mark.adapter
def test_kernels_of_others_are_checked(
    kept: Path, tmp_path: Path, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each index is compared with its buffer, though the device was told not to."""
    unchecked: list[str] = []
    plain = WGPU.unchecked_module

    def trusting(of: WebGpuDevice, text: str) -> object:
        unchecked.append(text)
        return plain(of, text)

    monkeypatch.setattr(device, "checked", False)
    monkeypatch.setattr(WGPU, "unchecked_module", trusting)
    monkeypatch.setattr(
        container, "choose_device", lambda *_, **__: OpenAdapter.of(WebGpuBackend(), device)
    )
    build = Builder()
    doubled = build.add(Add(), *[build.add(Input("x", DType.F32, (3,)))] * 2)
    graph = build.graph({"y": doubled})
    Artefact("net", graph, plan_graph(graph, DeviceLimits()), {}).write(tmp_path / "net.mgb")
    for expected in (1, 0):
        with mgb.open(tmp_path / "net.mgb") as session:
            output = session.step({"x": np.arange(3, dtype=np.float32)})["y"]
        assert output.tolist() == [0, 2, 4]
        assert len(unchecked) == expected
        unchecked.clear()
        (kept / "seal.key").unlink(missing_ok=True)


@pytest.mark.adapter
def test_its_graph_may_be_planned_for_the_adapter_it_is_opened_on(
    file: Path, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own plan is for any; what is planned here is not checked as kernels of others are."""
    monkeypatch.setattr(
        container, "choose_device", lambda *_, **__: OpenAdapter.of(WebGpuBackend(), device)
    )
    found = Artefact.read(file)
    for plan, replan in (
        (found.plan, False),
        (plan_graph(found.graph, device.limits, device.style), True),
    ):
        with mgb.open(file, replan=replan) as session:
            assert isinstance(session, WebGpuSession)
            assert session.plan == plan
            output = session.step({"image": compiled()[1]})["output"]
            np.testing.assert_allclose(output, compiled()[2], rtol=1e-4, atol=1e-5)
    assert plan != found.plan


def test_planned_or_not_it_is_its_graph_without_an_adapter(file: Path) -> None:
    with mgb.open(file, "cpu", replan=True) as session:
        output = session.step({"image": compiled()[1]})["output"]
    np.testing.assert_allclose(output, compiled()[2], rtol=1e-4, atol=1e-5)


@pytest.mark.adapter
def test_a_kernel_that_is_none_is_refused(
    file: Path, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nonsense(plan: dict[str, Any]) -> None:
        plan["kernels"][0] = plan["kernels"][0].replace("fn main", "fn moth")

    monkeypatch.setattr(
        container, "choose_device", lambda *_, **__: OpenAdapter.of(WebGpuBackend(), device)
    )
    before = device.allocated
    with pytest.raises(ProblemError, match="E0581"):
        mgb.open(forged(file, nonsense))
    assert device.allocated == before


def test_missing_tensors_are_refused(tmp_path: Path) -> None:
    whole = compiled()[0]
    values = {name: array for name, array in whole.values.items() if name != "fc.bias"}
    replace(whole, values=values).write(tmp_path / "model.mgb")
    assert "not the parameters" in reason(tmp_path / "model.mgb")


# --- training ------------------------------------------------------------------------------------


@cache
def training_step() -> Artefact:
    """A compiled training step, and the run it is of."""
    stages = stages_of("digits_mlp", Mode.TRAIN, (), (), RewriteOptions())
    return compiled_training(training_job("digits_mlp", stages, None, STRICT), stages)


def test_a_training_step_comes_back_and_steps(tmp_path: Path) -> None:
    file = tmp_path / "step.mgb"
    written = training_step()
    written.write(file)
    found = Artefact.read(file)
    assert found.training == written.training
    assert found.training is not None
    assert [each.examples for each in found.training.evaluations] == [30, 1]
    assert found.bounds["label"].count == 10
    feeds = {
        "image": np.ones((32, 1, 8, 8), np.float32),
        "label": np.zeros(32, np.int32),
    }
    with found.open("cpu") as session:
        losses = [float(session.step(feeds)["loss"]) for _ in range(3)]
    assert losses == sorted(losses, reverse=True)


FORGED_RUNS: dict[str, Change] = {
    "no data": lambda run: run.update(inputs=[]),
    "other data": lambda run: run["inputs"][0].update(name="moth"),
    "a parameter that is not there": lambda run: run["parameters"][0].update(name="moth"),
    "no batch": lambda run: run.update(batch=0),
    "no rate": lambda run: run.update(rates=[]),
    "no epochs": lambda run: run.update(epochs=-1),
    "an evaluation of another model": lambda run: run["evaluations"][0]["plan"]["parameters"][
        0
    ].update(name="moth"),
    "an evaluation out of its buffers": lambda run: run["evaluations"][0]["plan"]["dispatches"][0][
        "slots"
    ][0].update(offset=1 << 40),
    "an evaluation of nothing": lambda run: run["evaluations"][0].update(examples=0),
}


@pytest.mark.parametrize("change", FORGED_RUNS.values(), ids=FORGED_RUNS)
def test_a_forged_run_is_refused(tmp_path: Path, change: Change) -> None:
    assert reason(forged_run(tmp_path / "step.mgb", change))


def forged_run(file: Path, change: Change) -> Path:
    training_step().write(file)
    tensors, metadata = open_tensors(file)
    header = json.loads(metadata[KEY])
    change(header["training"])
    arrays = {name: tensor.bits for name, tensor in tensors.items()}
    write_tensors(file, arrays, {**metadata, KEY: json.dumps(header)})
    return file


def test_other_bounds_than_the_graph_has_are_refused(file: Path) -> None:
    bounds = {"image": {"count": 10, "exempt": []}}
    assert "bounds" in reason(rewritten(file, bounds=bounds))


def test_a_seal_stays_good_when_others_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEGANEURA_CACHE", str(tmp_path / "cache"))
    first = seal(b"a")
    assert first is not None
    assert seal(b"b") not in (None, first)
    assert seal(b"a") == first
    assert is_sealed(b"a", first)
    assert not is_sealed(b"b", first)
    (key,) = (tmp_path / "cache").iterdir()
    assert key.stat().st_mode & 0o077 == 0
