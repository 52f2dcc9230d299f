"""The number of steps of a run, and of examples in each, by force."""

from pathlib import Path

import numpy as np
import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.pipeline import Program
from meganeura_dsl.transforms.step_part import StepPart
from meganeura_runtime.train.data.run_data import PythonData
from meganeura_runtime.train.loop.feeder import Feeder
from meganeura_runtime.train.spec.session_inputs import leaves
from meganeura_runtime.train.spec.train_job import TrainJob, prepare
from meganeura_runtime.train.training_problems import IndivisibleBatch

PROGRAM = """\
train fit(x: [batch, 2]):
  minimize mean(x |> fc: linear(1))
  run:
    batch     = 4
    optimize  = false
    optimizer = sgd(lr=0.1)
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    file = tmp_path_factory.mktemp("job") / "fit.mgn"
    file.write_text(PROGRAM)
    return pipeline.load(str(file))


def job(program: Program, examples: int, *overrides: str) -> TrainJob:
    data = PythonData(train={"x": np.zeros((examples, 2), np.float32)})
    return prepare(program, "fit", Path(), overrides, data=data)


LENGTHS = (("epochs=1",), ("epochs=3",), ("steps=7",), ("epochs=2", "steps_per_epoch=5"),
           ("steps=9", "steps_per_epoch=2"))  # fmt: skip


@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("examples", [4, 6, 8, 11])
def test_steps_and_their_examples_follow_from_the_data_and_the_length(
    program: Program, examples: int, *, drop_last: bool
) -> None:
    """Batches of four; a pass over the data and an epoch may end at different steps."""
    sizes = examples // 4 * [4] + ([] if drop_last or examples % 4 == 0 else [examples % 4])
    for length in LENGTHS:
        found = job(program, examples, f"drop_last={str(drop_last).lower()}", *length)
        given = dict(each.split("=") for each in length)
        per_epoch = int(given.get("steps_per_epoch", len(sizes)))
        steps = int(given.get("steps", int(given.get("epochs", 1)) * per_epoch))
        assert (found.steps_per_pass, found.steps_per_epoch) == (len(sizes), per_epoch)
        assert (found.steps, found.length.steps) == (steps, steps)
        assert found.length.steps_per_epoch == per_epoch
        assert (found.epochs - 1) * per_epoch < steps <= found.epochs * per_epoch
        assert found.left_out == examples - sum(sizes)
        taken = [sizes[step % len(sizes)] for step in range(steps + 1)]
        assert [found.examples_of(step) for step in range(steps + 1)] == taken
        for step in range(steps):
            is_last = (step + 1) % per_epoch == 0 or taken[step] != taken[step + 1]
            assert found.is_last_of_its_size(step) == is_last
        assert [each.examples for each in found.others] == sizes[examples // 4 :]


def test_a_step_is_of_its_size_and_of_its_part(program: Program) -> None:
    """Ten examples are batches of 4, 4 and 2, of which each second one moves the parameters."""
    found = job(program, 10, "drop_last=false", "accumulate=2", "epochs=2")
    others = {(each.examples, each.part) for each in found.others}
    feeder = Feeder(found)
    assert others == {(2, StepPart.WHOLE), (2, StepPart.SUM), (4, StepPart.SUM)}
    for step, examples in enumerate((4, 4, 2, 4, 4, 2)):
        graph = found.step_at(step, feeder.feeds(step))
        moves = "fc.weight" in graph.updates
        (fed,) = (each.shape for each in leaves(graph) if each.name == "x")
        assert (fed, moves) == ((examples, 2), step % 2 == 1)
        inputs = {leaf.name: leaf.shape for leaf in leaves(graph) if not leaf.is_persistent}
        for feeds in (feeder.feeds, feeder.whole):
            assert {name: each.shape for name, each in feeds(step).items()} == inputs


@pytest.mark.parametrize("shuffle", ["true", "false"])
def test_each_pass_has_each_example_once_wherever_epochs_end(
    program: Program, shuffle: str
) -> None:
    """Eight examples are two steps, and three steps are an epoch."""
    x = np.arange(16, dtype=np.float32).reshape(8, 2)
    options = ("steps=12", "steps_per_epoch=3", f"shuffle={shuffle}")
    found = prepare(program, "fit", Path(), options, data=PythonData(train={"x": x}))
    steps = [Feeder(found).feeds(step)["x"][:, 0].tolist() for step in range(12)]
    passes = [steps[at] + steps[at + 1] for at in range(0, 12, 2)]
    assert all(sorted(each) == x[:, 0].tolist() for each in passes)
    assert len({tuple(each) for each in passes}) == (6 if shuffle == "true" else 1)
    own = Feeder(found, lambda count: range(1, count - 1))
    for step in (3, 3, 4):
        assert own.feeds(step)["x"][:, 0].tolist() == steps[step][1:3]
        assert own.whole(step)["x"][:, 0].tolist() == steps[step]


def test_examples_are_drawn_anew_in_each_pass(program: Program) -> None:
    x = np.arange(16, dtype=np.float32).reshape(8, 2)
    data = PythonData(train={"x": x, "often": np.array([1, 1, 1, 1, 0, 0, 0, 1], np.float32)})
    options = ("epochs=9", "sampling_weights=often")
    feeder = Feeder(prepare(program, "fit", Path(), options, data=data))
    steps = [feeder.feeds(step)["x"][:, 0].tolist() for step in range(18)]
    passes = [steps[at] + steps[at + 1] for at in range(0, 18, 2)]
    assert len({tuple(each) for each in passes}) == 9
    assert {each for drawn in passes for each in drawn} == {0, 2, 4, 6, 14}


@pytest.mark.parametrize(("examples", "devices", "is_last"), [(10, 4, True), (12, 3, False)])
def test_devices_share_every_batch_evenly(
    program: Program, examples: int, devices: int, *, is_last: bool
) -> None:
    """Batches of four, and the last one too."""
    with pytest.raises(ProblemError) as caught:
        job(program, examples, "drop_last=false", f"devices={devices}")
    wanted = IndivisibleBatch("batch", examples % 4 or 4, devices, is_last)
    assert caught.value.problem == wanted
    assert job(program, examples, "drop_last=false", "devices=2").steps == 3
