"""`meganeura fit`: what a step takes, and the largest batch that fits, before anything runs."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import numpy as np
import pytest

from meganeura import load
from meganeura.cli.reports.memory_report import memory_text
from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError, ProblemsError
from meganeura_dsl.ir.cost_model import GPU, DeviceModel
from meganeura_dsl.ir.graph import Builder, Graph
from meganeura_dsl.support.byte_sizes import parsed_bytes
from meganeura_dsl.transforms.training_step import TrainingSettings
from meganeura_runtime.backends import device_problems
from meganeura_runtime.backends.errors import DeviceError
from meganeura_runtime.backends.memory_roles import MemoryRole
from meganeura_runtime.backends.reference.backend import ReferenceBackend
from meganeura_runtime.backends.webgpu.backend import WebGpuBackend
from meganeura_runtime.backends.xla.backend import XlaBackend
from meganeura_runtime.train.spec.memory_fit import MOST, Fit, MemoryProbe, fit, largest_batch
from meganeura_runtime.train.spec.step_planning import PlannedStep, StepPlanner
from meganeura_runtime.train.spec.train_spec import settings_of
from meganeura_runtime.train.training_problems import IndivisibleBatch
from tests.cli.command import Command

PROGRAM = """\
block Net()(x: [n, 784]) -> [n, 10]:
  return x |> fc1: linear(256) |> relu |> fc2: linear(10)

model net = Net()

train fit(image: [batch, 784], label: i32[batch]){where}:
  minimize cross_entropy(image |> net, label)
  run:
    data      = "not-there.safetensors"
    batch     = 64
    optimizer = adam(lr=0.01)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "net.mgn"
    path.write_text(PROGRAM.format(where=""))
    return path


@pytest.fixture
def no_adapter(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(_: WebGpuBackend, name: str, reason: str) -> NoReturn:
        raise DeviceError(f"there is no {name} {reason}")

    monkeypatch.setattr(WebGpuBackend, "open", opened)


@pytest.mark.usefixtures("no_adapter")
def test_a_table_has_a_column_for_each_backend(meganeura: Command, program: Path) -> None:
    shown = meganeura("fit", str(program), "--memory", "64MiB")
    assert (shown.code, shown.err) == (0, "")
    lines = shown.out.splitlines()
    assert lines[0] == "a training step of `fit` on 64 examples"
    rows = {line.rsplit(maxsplit=2)[0]: line.split()[-2:] for line in lines[2:16] if line}
    assert rows["KiB"] == ["wgpu", "cpu"]
    weights = 784 * 256 + 256 + 256 * 10 + 10
    assert rows["parameters"] == [f"{4 * weights / (1 << 10):,.1f}"] * 2
    assert rows["optimizer state"] == [f"{8 * weights / (1 << 10):,.1f}"] * 2
    assert "states" not in rows
    assert "wgpu: any GPU" in lines
    assert "largest batch in 64 MiB" in lines


RECURRENT = """\
block Net()(x: [n, s, 2]) -> [n, 16]:
  h = zeros([n, 16])
  scan t in 0..s:
    h = tanh((x[:, t] |> ih: linear(16)) + (h |> hh: linear(16)))
  return h

model net = Net()

train fit(x: [batch, 64, 2], y: [batch, 16]):
  minimize mse(x |> net, y)
  run:
    data      = "x.npz"
    batch     = 8
    optimizer = sgd(lr=0.01)
"""


@pytest.mark.usefixtures("no_adapter")
def test_iterations_are_recomputed_where_memory_is_short(
    meganeura: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "net.mgn"
    path.write_text(RECURRENT)

    def found(*arguments: str) -> dict[str, object]:
        shown = meganeura("fit", str(path), "--device", "cpu", "--no-opt", "--json", *arguments)
        assert (shown.code, shown.err) == (0, "")
        return json.loads(shown.out)["devices"][0]

    whole = found()
    size = int(str(whole["bytes"]))
    enough = found("--set", f"memory={size}")
    assert (enough["bytes"], enough["recomputes"], enough["available"]) == (size, False, size)
    assert found("--set", "memory=1KiB", "--memory", "1GiB")["fits"] is False
    less = found("--set", f"memory={size - 1}")
    assert (whole["recomputes"], less["recomputes"]) == (False, True)
    assert int(str(less["bytes"])) * 4 < size
    largest = found("--memory", str(size))["largest_batch"]
    assert isinstance(largest, int)
    assert largest > 32
    shown = meganeura("fit", str(path), "--device", "cpu", "--no-opt", "--set", "memory=64KiB")
    assert "cpu: iterations of scans are recomputed to take no more than `memory`" in shown.out

    random = np.random.default_rng(0)
    x, y = random.normal(size=(16, 64, 2)), random.normal(size=(16, 16))
    np.savez(tmp_path / "x.npz", x=x.astype(np.float32), y=y.astype(np.float32))
    plain, recomputing, optimized = (
        [loss for _, loss in load(path).train(device="cpu", settings=settings).losses]
        for settings in (
            {"optimize": False},
            {"memory": "64KiB", "optimize": False},
            {"memory": "64KiB"},
        )
    )
    assert plain[0] == recomputing[0]  # to the bit
    assert recomputing == pytest.approx(plain, rel=1e-6)
    assert optimized == pytest.approx(plain, rel=1e-6)
    monkeypatch.setattr(device_problems, "gigabytes", str)
    with pytest.raises(ProblemError, match=r"E0554.*a run takes \d{5} .*, and `memory` is 8192"):
        load(path).train(device="cpu", settings={"memory": "8KiB", "optimize": False})


@pytest.mark.parametrize("device", ["cpu", "wgpu"])
@pytest.mark.usefixtures("no_adapter")
def test_one_byte_decides_over_the_largest_batch(
    meganeura: Command, program: Path, device: str
) -> None:
    def found(*arguments: str) -> dict[str, object]:
        shown = meganeura("fit", str(program), "--device", device, "--json", *arguments)
        assert shown.code == 0
        return json.loads(shown.out)["devices"][0]

    whole = found()
    assert whole["largest_batch"] is None
    exact = found("--memory", f"{whole['bytes']}B")
    assert (exact["fits"], exact["largest_batch"]) == (True, 64)
    less = found("--memory", f"{int(str(whole['bytes'])) - 1}")
    assert (less["fits"], less["largest_batch"]) == (False, 63)
    assert found("--memory", "1KB")["largest_batch"] is None


@pytest.mark.usefixtures("no_adapter")
def test_a_limit_of_the_device_is_named(meganeura: Command, program: Path) -> None:
    program.write_text(PROGRAM.format(where="").replace("784", "4000000").replace("(256)", "(1)"))
    shown = meganeura("fit", str(program), "--device", "wgpu", "--memory", "1TiB")
    assert shown.code == 0
    assert "wgpu: 8; a larger one exceeds a limit" in shown.out
    assert "f32[9, 4000000]" in shown.out
    assert "max-storage-buffer-binding-size" in shown.out
    assert re.search("^step +-$", shown.out, re.MULTILINE)  # of 64 examples there is no plan


def test_a_batch_that_the_program_refuses_is_not_offered(meganeura: Command, program: Path) -> None:
    """The one example of a batch has no variance, so two are the least."""
    text = PROGRAM.format(where="\n    where batch >= 2").replace("|> relu", "|> bn: batch_norm")
    program.write_text(text)
    arguments = ("fit", str(program), "--device", "cpu", "--json", "--set", "batch=2")
    two = json.loads(meganeura(*arguments).out)["devices"][0]["bytes"]
    for memory, largest in ((two, 2), (two - 1, None)):
        data = json.loads(meganeura(*arguments, "--memory", str(memory)).out)["devices"][0]
        assert data["largest_batch"] == largest


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("--memory", "8potatoes"), 2, "no amount of memory"),
        (("--memory", "0"), 2, "less than a byte"),
        (("--device", "abacus"), 2, "E0551"),
        (("--set", "batch=0"), 2, "E0513"),
        (("--set", "size=3"), 2, "E0510"),
    ],
)
def test_mistakes(
    meganeura: Command, program: Path, arguments: tuple[str, ...], code: int, text: str
) -> None:
    shown = meganeura("fit", str(program), *arguments)
    assert shown.code == code
    assert text in shown.err


def test_from_python() -> None:
    program = load("digits_mlp")
    found = program.fit(memory="1GB", device="cpu", settings={"batch": 100})
    assert found.batch == 100
    assert found.largest is not None
    assert found.memory is not None
    assert found.memory.step.roles[MemoryRole.INPUTS] == 100 * (64 + 1) * 4
    larger = program.fit(device="cpu", settings={"batch": found.largest + 1}).memory
    assert larger is not None
    assert larger.bytes > 10**9
    with pytest.raises(ValueError, match="no amount"):
        program.fit(memory="much")
    with pytest.raises(ProblemsError, match="E0513"):
        program.fit(device="abacus")


def test_a_program_that_python_feeds_needs_no_data(tmp_path: Path, meganeura: Command) -> None:
    path = tmp_path / "net.mgn"
    path.write_text(
        PROGRAM.format(where="").replace('    data      = "not-there.safetensors"\n', "")
    )
    shown = meganeura("fit", str(path), "--device", "cpu", "--json")
    memory = load(path).fit(device="cpu").memory
    assert memory is not None
    assert json.loads(shown.out)["devices"][0]["bytes"] == memory.bytes


@pytest.mark.usefixtures("no_adapter")
def test_no_device_is_planned_for_that_lacks_the_precision(
    meganeura: Command, program: Path
) -> None:
    for device in ((), ("--device", "wgpu"), ("--device", "cpu")):
        shown = meganeura("fit", str(program), "--set", "precision=bf16", *device)
        assert (shown.code, shown.out) == (1, "")
        assert "E0559" in shown.err


def test_the_device_is_chosen_as_a_run_of_its_precision_does(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of several, the first that has it; and what the optimizer takes for it is that one too."""
    models: list[DeviceModel] = []

    def planned(
        planner: StepPlanner, step: Graph, how: TrainingSettings, held: Graph, most: int | None
    ) -> PlannedStep:
        models.append(planner.rewriting.device)
        return plan(planner, step, how, held, most)

    plan = StepPlanner.plan
    monkeypatch.setattr(StepPlanner, "plan", planned)
    monkeypatch.setattr(XlaBackend, "preferred", lambda _: "xla:cpu")
    monkeypatch.setattr(WebGpuBackend, "preferred", lambda _: "wgpu:0")
    monkeypatch.setattr(WebGpuBackend, "cost_model", lambda *_: GPU)
    narrow = {"precision": "bf16"}
    found = [load(str(program)).fit(device=each, settings=narrow) for each in ("auto", "xla:cpu")]
    assert found[0].memory == found[1].memory
    assert found[0].description == found[1].description
    assert models == [XlaBackend().cost_model("xla:cpu")] * 2
    assert models[0] != GPU


def test_xla_says_what_it_has_laid_out() -> None:
    program = load("digits_mlp")
    found, counted = program.fit(device="xla:cpu").memory, program.fit(device="cpu").memory
    assert found is not None
    assert counted is not None
    for role in (MemoryRole.PARAMETERS, MemoryRole.OPTIMIZER, MemoryRole.INPUTS):
        assert found.step.roles[role] == counted.step.roles[role]
    assert found.step.held == counted.step.held
    assert found.step.roles[MemoryRole.TEMPORARIES] > 0
    with pytest.raises(ProblemError, match=r"E0551.*JAX has 1"):
        program.fit(device="xla:cpu", settings={"devices": 8})


@pytest.mark.parametrize(
    ("text", "size"),
    [("4096", 4096), ("8GiB", 8 << 30), ("7.5 GB", 7_500_000_000), ("1kib", 1024), ("2T", None)],
)
def test_amounts_of_memory(text: str, size: int | None) -> None:
    if size is None:
        with pytest.raises(ValueError, match="no amount"):
            parsed_bytes(text)
    else:
        assert parsed_bytes(text) == size


def anything(_: int) -> bool:
    return True


@pytest.mark.parametrize("start", [1, 7, 1000, MOST])
@pytest.mark.parametrize(
    "size",
    [
        lambda n: 1000 + 10 * n,
        lambda n: 1000 + 10 * (n // 16) * 16,
        lambda n: 1000 + n * n // 10,
        lambda n: 1000 + 10 * n if n < 333 else None,
        lambda n: 5000 if n < 90 else 1_000_000,
    ],
)
def test_the_search_finds_the_last_batch_that_fits(
    size: Callable[[int], int | None], start: int
) -> None:
    measured: list[int] = []

    def measure(n: int) -> int | None:
        measured.append(n)
        return size(n)

    found = largest_batch(measure, anything, start, 10_000)
    last = max(n for n in range(1, 1100) if (taken := size(n)) is not None and taken <= 10_000)
    assert found == last
    assert len(measured) <= 35
    assert len(set(measured)) == len(measured)


SHARED = """\
train fit(x: [{batch}, 6], table: whole [3], pair: [{pair}, 6], bias: whole []):
  minimize mean(x |> fc1: linear(4)) + mean(pair) * mean(table) + bias
  run:
    data = "x.npz"
"""


def probe(folder: Path, batch: str, *overrides: str) -> MemoryProbe:
    """A probe of a run on any device of a backend."""
    pair = f"2 * {batch}" if batch == "batch" else "8"
    (folder / "fit.mgn").write_text(SHARED.format(batch=batch, pair=pair))
    program = pipeline.load(str(folder / "fit.mgn"))
    settings = settings_of(program, "fit", overrides)
    return MemoryProbe(program, "fit", settings, "cpu", ReferenceBackend(), None)


def test_several_devices_share_a_batch(tmp_path: Path) -> None:
    several = probe(tmp_path, "batch", "batch=4", "devices=2")
    assert (several.name, several.counter) == ("cpu x2 data", "batch")
    assert several.rows == {"x": 1, "pair": 2}
    assert [batch for batch in range(1, 9) if several.accepts(batch)] == [2, 4, 6, 8]
    alone = probe(tmp_path, "batch", "batch=4")
    assert alone.name == "cpu"
    assert all(alone.accepts(batch) for batch in range(1, 9))
    fixed = probe(tmp_path, "4")
    assert (fixed.counter, fixed.rows, fixed.accepts(1)) == (None, {}, False)
    for batch, counter, examples in (("batch", "batch", 3), ("4", "", 1)):
        chosen = ("batch=3",) if counter else ()
        with pytest.raises(ProblemError) as caught:
            fit(probe(tmp_path, batch, *chosen, "devices=2"))
        assert caught.value.problem == IndivisibleBatch(counter, examples, 2)


def test_a_batch_that_is_fixed_fits_or_does_not(tmp_path: Path) -> None:
    fixed = probe(tmp_path, "4")
    shown = memory_text("fit", [fit(fixed)])
    assert shown.startswith("a training step of `fit` on 1 example\n")
    memory = fit(fixed).memory
    assert memory is not None
    for spare, largest in ((0, 1), (-1, None)):
        found = fit(fixed, memory.bytes + spare)
        assert (found.batch, found.fits, found.largest) == (1, spare == 0, largest)


@pytest.mark.parametrize(
    ("stated", "available", "allowed", "within", "largest"),
    [
        (None, None, None, None, None),
        (None, 1000, 1000, 1000, 10),
        (500, None, 500, 500, 5),
        (500, 1000, 500, 500, 5),
        (1000, 500, 1000, 500, 5),
    ],
)
def test_no_more_is_available_than_is_stated(
    stated: int | None,
    available: int | None,
    allowed: int | None,
    within: int | None,
    largest: int | None,
) -> None:
    """A step of so many examples takes a hundred bytes for each."""
    asked: set[int | None] = set()

    def planned(sizes: dict[str, int], most: int | None) -> object:
        asked.add(most)
        memory = SimpleNamespace(bytes=100 * sizes["batch"])
        return SimpleNamespace(memory=memory, recomputes=False)

    settings = SimpleNamespace(sizes={"batch": 3}, memory_bytes=stated, devices=1)
    faked = SimpleNamespace(
        settings=settings, counter="batch", name="", description="", planned=planned, accepts=bool
    )
    found = fit(cast("MemoryProbe", faked), available)
    assert asked == {allowed}
    assert (found.available, found.largest, found.fits) == (within, largest, True)


def test_a_step_that_has_no_plan_does_not_fit() -> None:
    assert not Fit("wgpu", "any GPU", 4, None).fits


@pytest.mark.parametrize("silent", [0, 1])
def test_a_backend_says_what_both_steps_take_or_nothing_does(silent: int) -> None:
    """That which trains, and that which evaluates."""
    said: list[object] = [object(), object()]
    said[silent] = None
    answers = iter(said)
    backend = SimpleNamespace(name="odd", memory=lambda _graph, _device: next(answers))
    planner = StepPlanner(cast("Any", backend), None, cast("Any", SimpleNamespace(enabled=False)))
    with pytest.raises(DeviceError, match="`odd` does not say"):
        planner._memory(Builder().graph({}), Builder().graph({}))


def test_a_search_has_an_end() -> None:
    assert largest_batch(lambda _: 1, anything, 5, 10) == MOST
    assert largest_batch(lambda _: 11, anything, 500, 10) is None
    assert largest_batch(lambda _: None, anything, 500, 10) is None
    even = largest_batch(lambda n: n, lambda n: n % 2 == 0, 4, 101)
    assert even == 100


def test_a_linear_program_takes_few_measurements() -> None:
    measured: list[int] = []

    def measure(n: int) -> int:
        measured.append(n)
        return 123_456 + 789 * n

    generator = np.random.default_rng(0)
    for available in generator.integers(200_000, 8 * 10**8, 20):
        measured.clear()
        found = largest_batch(measure, anything, 64, int(available))
        assert found == (int(available) - 123_456) // 789
        assert len(measured) <= 6
