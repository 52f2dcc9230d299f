"""Devices, sums and rates of a spec, by the settings of its run."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.ir.index_checks import checks_of, with_checks
from meganeura_dsl.ir.outputs import Gradient
from meganeura_dsl.ir.text import format_graph
from meganeura_dsl.ir.types import DType
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_dsl.settings.device_sharding import DeviceSharding
from meganeura_dsl.settings.settings_problems import NoSuchMetric, NothingToFollow
from meganeura_dsl.transforms.optimizers.schedules import Reduction
from meganeura_dsl.transforms.step_part import StepPart
from meganeura_runtime.backends.backend import Hosts, OpenDevice, Spread
from meganeura_runtime.backends.base import Session
from meganeura_runtime.backends.errors import DeviceError
from meganeura_runtime.backends.registry import model_of
from meganeura_runtime.backends.webgpu.config.tuned_configs import step_name
from meganeura_runtime.io.data.splits import Feed, StoredSplit
from meganeura_runtime.io.tensors.stored_tensor import StoredTensor
from meganeura_runtime.train.data.run_data import PythonData
from meganeura_runtime.train.loop.evaluation import held_batches
from meganeura_runtime.train.report.run_description import describe
from meganeura_runtime.train.spec.memory_fit import MemoryProbe
from meganeura_runtime.train.spec.step_graphs import TrainSignature
from meganeura_runtime.train.spec.step_planning import device_of_run
from meganeura_runtime.train.spec.train_job import prepare
from meganeura_runtime.train.spec.train_spec import (
    TrainSpec,
    manual_spec,
    require_shares,
    settings_of,
)
from meganeura_runtime.train.training_problems import IndivisibleBatch

PROGRAM = """\
train fit(x: [batch, 6], pairs: [2 * batch, 3], table: whole [v, 6], y: [batch, 3]):
  h = (x + mean(table)) |> fc: linear(3)
  minimize mean((h - y) * (h - y)) + mean(pairs)
  run:
    batch     = 8
    v         = 5
    optimizer = sgd(lr=0.5)
"""
ROWS = {"x": 1, "pairs": 2, "y": 1}
"""Of the inputs that have some for each example."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> pipeline.Program:
    file = tmp_path_factory.mktemp("spec") / "fit.mgn"
    file.write_text(PROGRAM)
    return pipeline.load(str(file))


def spec(program: pipeline.Program, *overrides: str) -> TrainSpec:
    settings = settings_of(program, "fit", ("optimize=false", *overrides))
    return manual_spec(program, "fit", settings)


class Together(OpenDevice):
    """A device of several hosts, which remembers what it was asked to be."""

    def __init__(self, hosts: int = 1) -> None:
        self._hosts = Hosts(hosts)
        self.asked: list[Spread] = []
        self.precisions: list[ComputePrecision] = []

    @property
    def hosts(self) -> Hosts:
        return self._hosts

    def at(self, precision: ComputePrecision) -> OpenDevice:
        self.precisions.append(precision)
        return self

    def spread(self, spread: Spread) -> OpenDevice:
        self.asked.append(spread)
        found = Together()
        found.precisions = self.precisions
        return found

    def open(self, graph: Graph) -> Session:
        raise NotImplementedError


@pytest.mark.parametrize(("devices", "sharding"), [*product((1, 2, 8), DeviceSharding)])
def test_devices_hold_what_the_settings_say(
    program: pipeline.Program, devices: int, sharding: DeviceSharding
) -> None:
    """Those that a run is planned for are those that it uses."""
    found = spec(program, f"devices={devices}", f"sharding={sharding.value}")
    wanted = Spread(devices, sharding, ROWS)
    assert found.spread == (None if devices == 1 else wanted)
    for spread in (
        found.spread_over,
        lambda device: device_of_run(device, found.settings, found.input_spec.rows),
    ):
        device = Together()
        assert (spread(device) is device) == (devices == 1)
        assert device.asked == ([] if devices == 1 else [wanted])


@pytest.mark.parametrize(("devices", "precision"), [*product((1, 2), ComputePrecision)])
def test_devices_compute_in_the_precision_of_the_settings(
    program: pipeline.Program, devices: int, precision: ComputePrecision
) -> None:
    settings = spec(program, f"devices={devices}").settings
    device = Together()
    device_of_run(device, settings.model_copy(update={"precision": precision}), ROWS)
    assert device.precisions == [precision]


def test_hosts_that_train_together_are_told_on_how_many_devices(program: pipeline.Program) -> None:
    with pytest.raises(DeviceError, match="3 hosts train together: --set devices=N"):
        spec(program).spread_over(Together(3))
    device = Together(3)
    assert spec(program, "devices=4").spread_over(device) is not device
    assert [each.devices for each in device.asked] == [4]


@pytest.mark.parametrize(("batch", "devices"), [*product((1, 2, 6, 8), (1, 2, 3, 4, 8, 16))])
def test_a_batch_is_shared_evenly_or_refused(
    program: pipeline.Program, batch: int, devices: int
) -> None:
    given = (f"batch={batch}", f"devices={devices}")
    settings = settings_of(program, "fit", given)
    if batch % devices == 0:
        require_shares("batch", batch, settings)
        return
    for share in (
        lambda: require_shares("batch", batch, settings),
        lambda: manual_spec(program, "fit", settings),
    ):
        with pytest.raises(ProblemError, match="E0567") as caught:
            share()
        assert f"{devices} devices" in str(caught.value)


def test_of_the_batches_that_make_an_update_the_last_one_moves(program: pipeline.Program) -> None:
    for accumulate in (1, 2, 3, 5):
        found = spec(program, f"accumulate={accumulate}")
        moves = [found.part_at(step) is StepPart.WHOLE for step in range(2 * accumulate)]
        assert moves == 2 * [*(accumulate - 1) * [False], True]
        assert {found.part_at(step) for step in range(9)} <= {StepPart.WHOLE, StepPart.SUM}


def test_rates_of_a_run_by_hand_end_with_its_steps(program: pipeline.Program) -> None:
    """A linear schedule falls from 0.5 to 0 in four steps; where none end it, it is steady."""
    found = spec(program, "schedule=linear", "steps=4")
    rates = [found.scheduled_rates(step, [Reduction()]) for step in range(7)]
    assert rates == [(0.5,), (0.375,), (0.25,), (0.125,), (0.0,), (0.0,), (0.0,)]
    halved = [found.scheduled_rates(step, [Reduction(scale=0.5)]) for step in range(7)]
    assert halved == [(rate / 2,) for (rate,) in rates]
    steady = spec(program)
    assert {steady.scheduled_rates(step, [Reduction()]) for step in (0, 5, 99)} == {(0.5,)}


@pytest.mark.parametrize("path", ["", '["fc.*"]'])
def test_a_schedule_follows_what_an_evaluation_measures(tmp_path: Path, path: str) -> None:
    (tmp_path / "fit.mgn").write_text(f'{PROGRAM}    schedule{path} = plateau(metric="size")\n')
    wrong = pipeline.load(str(tmp_path / "fit.mgn"))
    with pytest.raises(ProblemError) as caught:
        spec(wrong)
    problem = caught.value.problem
    assert isinstance(problem, NothingToFollow)
    assert (problem.metric, problem.known) == ("size", ("loss",))
    assert problem.span.text == f'schedule{path} = plateau(metric="size")'
    assert spec(wrong, f'schedule{path}=plateau(metric="loss")').settings.all_schedules


def test_the_best_is_chosen_by_what_an_evaluation_measures(program: pipeline.Program) -> None:
    with pytest.raises(ProblemError) as caught:
        spec(program, "best=highest size")
    problem = caught.value.problem
    assert isinstance(problem, NoSuchMetric)
    assert (problem.name, problem.metrics) == ("size", ("loss",))
    assert spec(program, "best=lowest loss").settings.best_metric.name == "loss"


@pytest.mark.parametrize("device", ["cpu", "wgpu:0"])
def test_a_recipe_is_for_the_device_of_its_settings(program: pipeline.Program, device: str) -> None:
    assert spec(program, f"device={device}").device == model_of(device)


def test_what_is_planned_for_is_the_step_of_the_run(tmp_path: Path) -> None:
    """The step drops out and moves statistics; the evaluation beside it does not."""
    file = tmp_path / "fit.mgn"
    layers = "fc: linear(3) |> norm: batch_norm |> dropout(0.5)"
    file.write_text(PROGRAM.replace("fc: linear(3)", layers))
    found = pipeline.load(str(file))
    shapes = {"x": (8, 6), "pairs": (16, 3), "table": (5, 6), "y": (8, 3)}
    data = PythonData(train={name: np.zeros(shape, np.float32) for name, shape in shapes.items()})
    made = prepare(found, "fit", tmp_path, ("optimize=false",), data=data)
    probe = MemoryProbe.of(found, "fit", made.settings, "cpu")
    planned = probe.planned(dict(made.settings.sizes), None)
    assert format_graph(planned.graph) == format_graph(made.spec.compiled)
    backend = probe.backend
    assert planned.memory.step == backend.memory(made.spec.compiled, probe.device)
    assert planned.memory.evaluation == backend.memory(
        with_checks(made.spec.graphs.evaluation({})), probe.device
    )


@pytest.mark.parametrize(
    "picked",
    [
        "  y = gather(x, i32(round(sum(x))) % 9)\n",
        "  y = x[0]\n  scan t in 0..3:\n    y = y + gather(x, i32(round(sum(y))) % 9)\n",
    ],
    ids=["plain", "in a loop"],
)
def test_a_step_is_known_by_no_place(tmp_path: Path, picked: str) -> None:
    """Nor by that of the check of an index: what was tuned, or trained so far, is found again."""
    text = (
        f"train fit(x: [batch, 6]):\n{picked}  minimize sum(y) * mean(x |> fc: linear(3))\n"
        "  run:\n    batch = 8\n    optimizer = sgd(lr=0.5)\n"
    )
    known: list[tuple[str, str]] = []
    for written in (text, f"# A line more.\n{text}", text.replace("% 9", "% 10")):
        (tmp_path / "fit.mgn").write_text(written)
        found = spec(pipeline.load(str(tmp_path / "fit.mgn")))
        assert checks_of(found.compiled)
        known.append((found.program_hash, step_name(found.compiled)))
    assert known[0] == known[1]
    assert known[0][0] != known[2][0]
    assert known[0][1] != known[2][1]


def test_steps_of_other_sizes_have_their_examples_and_parts(program: pipeline.Program) -> None:
    found = spec(program)
    for batch, part in product((8, 3), (StepPart.WHOLE, StepPart.GRADIENTS)):
        step = found.graphs.sized({"batch": batch}, part)
        assert (step.examples, step.part) == (batch, part)
        names = {name for name in step.step.outputs if isinstance(name, Gradient)}
        assert bool(names) == (part is StepPart.GRADIENTS)
    assert TrainSignature.of(program, "fit", found.settings).measured == ("loss",)


@pytest.mark.parametrize(
    ("size", "batch", "devices", "is_last", "cure"),
    [
        ("batch", 7, 4, False, "--set batch=8"),
        ("n", 5, 4, False, "--set n=4"),
        ("n", 1, 4, False, "--set n=4"),
        ("", 7, 4, False, "--set devices=1"),
        ("batch", 7, 4, True, "--set drop_last=true"),
    ],
)
def test_what_shares_a_batch_evenly_is_offered(
    size: str, batch: int, devices: int, cure: str, *, is_last: bool
) -> None:
    report = IndivisibleBatch(size, batch, devices, is_last).report()
    assert report.help is not None
    assert report.help.code == cure
    assert report.headline.startswith("the last batch" if is_last else "a batch")


@pytest.mark.parametrize(("devices", "sizes"), [(1, [5, 5, 5, 5]), (2, [8, 8, 4]), (4, [8, 8, 4])])
def test_batches_held_out_are_even_where_the_devices_share_them(
    program: pipeline.Program, devices: int, sizes: list[int]
) -> None:
    """Of 20 examples, at most eight at a time."""
    made = spec(program, f"devices={devices}")
    x = StoredTensor(Path("x"), "x", "f32", np.zeros((20, 6), np.float32))
    found = [*held_batches(made, StoredSplit({"x": Feed(x, DType.F32, 1)}, 20))]
    assert [each.examples for each in found] == sizes
    assert [dict(each.sizes) for each in found] == [{"batch": size} for size in sizes]
    assert all(each.is_cut for each in found)


def test_a_description_has_the_length_of_a_run_by_hand_and_what_moves(
    program: pipeline.Program,
) -> None:
    for steps, of_epoch, epochs in ((7, 3, 3), (6, 3, 2), (1, 3, 1)):
        made = spec(program, f"steps={steps}", f"steps_per_epoch={of_epoch}")
        about = describe(made, None, None, 2.5)
        assert (about.epochs, about.steps_per_epoch, about.batch) == (epochs, of_epoch, 8)
        assert (about.examples, about.held_out, about.seconds, about.device) == (0, 0, 2.5, "")
    about = describe(spec(program, 'optimizer["*.bias"]=none'), None, None, 0.0)
    assert (about.epochs, about.steps_per_epoch) == (0, 0)
    known = {each.name: (each.type, each.kind, each.moves) for each in about.parameters}
    assert known == {
        "fc.weight": ("f32[3, 6]", "param", True), "fc.bias": ("f32[3]", "param", False),
    }  # fmt: skip
    inputs = {each.name: (each.type, each.declared, each.elements) for each in about.inputs}
    assert inputs["pairs"] == ("f32[16, 3]", "f32[2*batch, 3]", 48)
    assert inputs.keys() == {"x", "pairs", "table", "y"}


FOLLOWED = """\
block Net()(x: [n, 2]) -> [n, 2] = x |> fc: linear(2, bias=false)

train fit(x: [batch, 2]):
  layer online: Net()
  layer target: Net() = online
  minimize mean((x |> online) * (x |> target(frozen=true)))
  update target = 0.75 * target + 0.25 * online
  run:
    batch     = 2
    optimizer = sgd(lr=0.5)
"""


@pytest.mark.parametrize(
    ("given", "begins"),
    [
        ({}, None),
        ({"online": 1}, {"online": 1, "target": 1}),
        ({"online": 1, "target": 2}, {"online": 1, "target": 2}),
    ],
)
def test_a_copy_begins_as_what_is_given_for_it_or_else_as_its_original(
    given: dict[str, int], begins: dict[str, int] | None, tmp_path: Path
) -> None:
    (tmp_path / "fit.mgn").write_text(FOLLOWED)
    found = spec(pipeline.load(str(tmp_path / "fit.mgn")))
    weights = {f"{name}.fc.weight": np.full((2, 2), each, "f4") for name, each in given.items()}
    first = replace(found, given=weights).initial_values()
    online, target = first["online.fc.weight"], first["target.fc.weight"]
    if begins is None:
        assert len(np.unique(online)) == 4
        assert np.array_equal(online, target)
    else:
        assert {"online": online.max(), "target": target.max()} == begins
