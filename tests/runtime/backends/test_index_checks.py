"""Indices out of range are told on every device, before anything that they spoiled is written."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import meganeura
from meganeura.cli.app import run
from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Builder
from meganeura_dsl.ir.ops import Add, Input, Parameter
from meganeura_dsl.ir.outputs import IndexCheck
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.index_checks import UpdatingSession, with_indices_checked
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.export.mgb import Artefact
from meganeura_runtime.export.reference_run import reference_run
from meganeura_runtime.io.checkpoint import read_checkpoint
from meganeura_runtime.io.data.index_problems import ComputedIndexOutside, IndexOutside
from meganeura_runtime.train.loop.feeder import Feeder
from meganeura_runtime.train.spec.train_job import prepare
from tests.effort import effort

DEVICES = ("cpu", "xla:cpu", pytest.param("wgpu", marks=pytest.mark.adapter))

TRAIN = """\
train fit(x: [batch, 3], y: i32[batch], table: whole [9, 2]):
  z = x |> fc: linear(2)
  minimize {loss} + 0 * mean(table) + 0 * mean(z) + 0 * mean(f32(y))
  run:
    data      = "points.safetensors"
    batch     = 4
    epochs    = 2
    optimizer = sgd(lr=0.1)
    shuffle   = false
    log_every = 100
"""

WORDS = """\
block Words()(word: i32[n], shift: i32[n]) -> [n, 4]:
  param table: [7, 4] = normal(1.0)
  return gather(table, word) + gather(table, shift + 1)

model words = Words()
"""


def program(folder: Path, loss: str, labels: list[int], held_out: list[int]) -> Path:
    """A program and its data, eleven steps of which are right if the labels are."""
    x = np.ones((len(labels), 3), np.float32)
    tensors = {"train.x": x, "train.y": np.array(labels, np.int32)}
    tensors |= {"test.x": x[: len(held_out)], "test.y": np.array(held_out, np.int32)}
    save_file({**tensors, "table": np.ones((9, 2), np.float32)}, folder / "points.safetensors")
    (folder / "fit.mgn").write_text(TRAIN.format(loss=loss))
    return folder / "fit.mgn"


@pytest.mark.parametrize("device", effort(DEVICES[::2], DEVICES))
@pytest.mark.parametrize("optimize", effort([True], [True, False]))
@pytest.mark.parametrize(
    ("loss", "value", "count"),
    [
        ("cross_entropy(z, y - 1)", -1, 2),
        ("mean(gather(table, y + 5))", 9, 9),
        ("mean(scatter_add(2 * y, z, 4))", 8, 4),
        ("cross_entropy(z, one_hot(y - 1, 2))", -1, 2),
        ("mean(one_hot(y + 5, 9) @ table)", 9, 9),
    ],
)
def test_a_computed_index_stops_the_run_before_its_weights_are_written(
    tmp_path: Path, device: str, loss: str, value: int, count: int, *, optimize: bool
) -> None:
    wrong = 0 if value < 0 else 4
    path = program(tmp_path, loss, [1] * 44 + [wrong] * 4, [1, 1])
    settings = {"optimize": optimize, "epochs": 1}
    with pytest.raises(ProblemError) as caught:
        meganeura.load(str(path)).train(device=device, out=tmp_path / "run", settings=settings)
    problem = caught.value.problem
    assert isinstance(problem, ComputedIndexOutside)
    assert (problem.value, problem.count) == (value, count)
    assert problem.location.startswith("fit.mgn:3  ")
    assert read_checkpoint(tmp_path / "run" / "checkpoint.safetensors")[1].step == 0
    assert not (tmp_path / "run" / "weights.safetensors").exists()


def test_after_a_wrong_step_nothing_can_be_read(tmp_path: Path) -> None:
    path = program(tmp_path, "cross_entropy(z, y - 1)", [1, 1, 1, 4], [1])
    job = prepare(pipeline.load(str(path)), "fit", tmp_path, ["device=cpu"])
    with with_indices_checked(
        job.spec.compiled, ReferenceSession(job.spec.compiled), {}
    ) as session:
        session.load(job.spec.initial_values())
        session.persistent()
        with pytest.raises(ProblemError, match="E0537"):
            session.step(Feeder(job).feeds(0))
        with pytest.raises(ProblemError, match="E0537"):
            session.persistent()
        for name in session.names:
            with pytest.raises(ProblemError, match="E0537"):
                session.read(name)


class Ahead(ReferenceSession):
    """One that is handed steps before those so far are done."""

    steps = 0

    @property
    def ahead(self) -> int:
        return self.steps


@pytest.mark.parametrize(("ahead", "told_at"), [(0, 1), (1, 2), (2, 3), (9, 4)])
def test_a_wrong_step_is_told_before_so_many_others_and_before_anything_is_read(
    ahead: int, told_at: int
) -> None:
    """The second of four steps is wrong, and no other; it stays, whatever is asked then."""
    build = Builder()
    total = build.add(Parameter("total", DType.U32, (), "state"))
    index = build.add(Input("index", DType.U32, ()))
    check = IndexCheck(0, DType.U32, 5, "a.mgn:1")
    graph = build.graph({check: index, "y": total}, {"total": build.add(Add(), total, index)})
    inner = Ahead(graph)
    inner.steps = ahead
    session = UpdatingSession(graph, inner, {}, (check,))
    session.write("total", np.array(0, np.uint32))
    for number, value in enumerate((4, 5, 0, 3)):
        feeds = {"index": np.array(value, np.uint32)}
        if number == told_at:
            with pytest.raises(ProblemError, match="E0537"):
                session.step(feeds)
            break
        assert [*session.step(feeds)] == ["y"]
    for ask in (session.settle, session.settle, session.persistent, lambda: session.read("total")):
        with pytest.raises(ProblemError) as caught:
            ask()
        assert caught.value.problem == ComputedIndexOutside(5, 5, "a.mgn:1")


@pytest.mark.parametrize("device", DEVICES)
def test_a_computed_index_of_an_example_held_out_is_told(tmp_path: Path, device: str) -> None:
    path = program(tmp_path, "cross_entropy(z, y - 1)", [1] * 8, [1, 3])
    with pytest.raises(ProblemError) as caught:
        meganeura.load(str(path)).train(device=device, out=tmp_path / "run")
    problem = caught.value.problem
    assert isinstance(problem, ComputedIndexOutside)
    assert problem.value == 2
    assert not (tmp_path / "run" / "best.safetensors").exists()


@pytest.mark.parametrize("device", effort(DEVICES[2:], DEVICES))
def test_checks_change_no_result(tmp_path: Path, device: str) -> None:
    path = program(tmp_path, "cross_entropy(z, y - 1)", [1, 2] * 4, [1, 2])
    done = meganeura.load(str(path)).train(device=device, out=tmp_path / "run")
    assert set(done.held_out[-1]) == {"loss"}
    program(tmp_path, "cross_entropy(z, y)", [0, 1] * 4, [0, 1])
    plain = meganeura.load(str(path)).train(device=device, out=tmp_path / "plain")
    found, expected = load_file(done.weights), load_file(plain.weights)
    np.testing.assert_allclose(found["fc.weight"], expected["fc.weight"], rtol=1e-6)


@pytest.mark.parametrize(
    ("labels", "held_out", "name", "index"),
    [([0, 1, 2, 1], [0, 1], "train.y", (2,)), ([0, 1, 0, 1], [0, 2], "test.y", (1,))],
)
def test_an_index_of_the_data_is_told_before_a_step(
    tmp_path: Path, labels: list[int], held_out: list[int], name: str, index: tuple[int, ...]
) -> None:
    path = program(tmp_path, "cross_entropy(z, y)", labels, held_out)
    with pytest.raises(ProblemError) as caught:
        prepare(pipeline.load(str(path)), "fit", tmp_path)
    problem = caught.value.problem
    assert isinstance(problem, IndexOutside)
    assert (problem.name, problem.index, problem.value) == (name, index, 2)
    assert problem.file == str(tmp_path / "points.safetensors")
    assert problem.bound.location == "fit.mgn:3  cross_entropy(z, y)"


def test_an_index_of_a_whole_input_is_told_with_the_size_it_is_below(tmp_path: Path) -> None:
    text = """\
train fit(x: whole [v, 3], source: whole i32[e]):
  minimize mean(gather(x, source) |> fc: linear(2))
  run:
    data = "graph.safetensors"
    v = 4
    e = 3
"""
    (tmp_path / "fit.mgn").write_text(text)
    graph = {"x": np.zeros((4, 3), np.float32), "source": np.array([0, 4, 1], np.int32)}
    save_file(graph, tmp_path / "graph.safetensors")
    with pytest.raises(ProblemError, match="`source` holds 4, and must be below v = 4"):
        prepare(pipeline.load(str(tmp_path / "fit.mgn")), "fit", tmp_path)


# --- models, sessions and compiled models --------------------------------------------------------

GOOD = np.zeros(3, np.int32)
WRONG = [
    (np.array([0, 7, 1], np.int32), GOOD, "E0535"),
    (np.array([0, -1, 1], np.int32), GOOD, "E0535"),
    (GOOD, np.array([0, 6, 0], np.int32), "E0537"),
    (GOOD, np.array([0, -2, 0], np.int32), "E0537"),
]


PICKED = ("gather(table, shift + 1)", "one_hot(shift + 1, 7) @ table")
picked_by = pytest.mark.parametrize("picked", PICKED)


def words(folder: Path, picked: str = PICKED[0]) -> Path:
    (folder / "words.mgn").write_text(WORDS.replace(PICKED[0], picked))
    return folder / "words.mgn"


@pytest.mark.parametrize("device", effort(DEVICES[1:], DEVICES))
@picked_by
@pytest.mark.parametrize(("word", "shift", "code"), WRONG)
def test_a_model_that_runs_tells(
    tmp_path: Path, device: str, picked: str, word: np.ndarray, shift: np.ndarray, code: str
) -> None:
    model = meganeura.load(str(words(tmp_path, picked))).model(seed=0)
    assert list(model.run({"word": GOOD, "shift": GOOD}, device=device)) == ["output"]
    with pytest.raises(ProblemError, match=code):
        model.run({"word": word, "shift": shift}, device=device)


@pytest.mark.parametrize("device", DEVICES)
def test_a_computed_index_is_told_where_it_picks(tmp_path: Path, device: str) -> None:
    """Whichever of two tables has nothing there."""
    text = """\
block Words()(word: i32[n], place: i32[n]) -> [n, 4]:
  param table: [7, 4] = normal(1.0)
  param places: [9, 4] = normal(1.0)
  x = gather(table, word + 1)
  return x + gather(places, place + 1)

model words = Words()
"""
    (tmp_path / "words.mgn").write_text(text)
    model = meganeura.load(str(tmp_path / "words.mgn")).model(seed=0)
    for word, place, line in ((6, 0, 4), (0, 8, 5)):
        with pytest.raises(ProblemError) as caught:
            model.run({"word": np.array([word]), "place": np.array([place])}, device=device)
        problem = caught.value.problem
        assert isinstance(problem, ComputedIndexOutside)
        assert problem.value == problem.count == max(word, place) + 1
        assert problem.location.startswith(f"words.mgn:{line}  ")


@pytest.mark.parametrize("device", DEVICES)
def test_a_session_tells_when_its_outputs_are_read(tmp_path: Path, device: str) -> None:
    model = meganeura.load(str(words(tmp_path))).model(seed=0)
    with model.session({"n": 3}, device=device) as session:
        for word, shift, code in WRONG:
            with pytest.raises(ProblemError, match=code):
                _ = session.step({"word": word, "shift": shift})["output"]
        outputs = session.step({"word": GOOD, "shift": GOOD})
        assert outputs["output"].shape == (3, 4)
        with pytest.raises(ProblemError, match="E0535"):
            session.upload({"word": GOOD + 7, "shift": GOOD})


@pytest.mark.parametrize("device", DEVICES)
@picked_by
def test_a_compiled_model_tells(tmp_path: Path, device: str, picked: str) -> None:
    path = words(tmp_path, picked)
    meganeura.load(str(path)).model(seed=0).save(tmp_path / "words.safetensors")
    built = tmp_path / "words.mgb"
    given = ["--mode", "infer", "--size", "n=3", "--weights", str(tmp_path / "words.safetensors")]
    assert run(["build", str(path), *given, "-o", str(built)]) == 0
    assert Artefact.read(built).outputs == ("output",)
    with Artefact.read(built).open(device) as session:
        assert list(session.step({"word": GOOD, "shift": GOOD})) == ["output"]
        for word, shift, code in WRONG:
            with pytest.raises(ProblemError, match=code):
                _ = session.step({"word": word, "shift": shift})["output"]


def test_a_run_to_compare_with_tells(tmp_path: Path) -> None:
    """Before what is exported of a model is held against it."""
    model = meganeura.load(str(words(tmp_path))).model(seed=0)
    graph = pipeline.elaborate_model(pipeline.load(str(words(tmp_path))), sizes={"n": 3}).graph
    found = reference_run(graph, model.values, {"word": GOOD, "shift": GOOD})
    assert found["output"].shape == (3, 4)
    for word, shift, _ in WRONG[:2]:
        with pytest.raises(ProblemError, match="E0535"):
            reference_run(graph, model.values, {"word": word, "shift": shift})


def test_a_parameter_that_is_an_index_is_looked_at_when_it_is_written(tmp_path: Path) -> None:
    text = "block Pick()(x: [n, 3]) -> [2, 3]:\n  frozen param at: i32[2] = zeros\n"
    text += "  return gather(x, at)\n\nmodel pick = Pick()\n"
    (tmp_path / "pick.mgn").write_text(text)
    model = meganeura.load(str(tmp_path / "pick.mgn")).model(seed=0)
    with model.session({"n": 4}, device="cpu") as session:
        session.write("at", np.array([0, 3], np.int32))
        with pytest.raises(ProblemError, match="`at` holds 4, and must be below 4"):
            session.write("at", np.array([0, 4], np.int32))
