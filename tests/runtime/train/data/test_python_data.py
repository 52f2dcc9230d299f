"""Data from Python: arrays, data sets of examples and batches train as files do."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

import meganeura
from meganeura.program import Program, Run
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.size import dim
from meganeura_runtime.io.data.dataset import InputSpec
from meganeura_runtime.io.data.python_data import Batches, python_data
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.data.run_data import PythonData
from meganeura_runtime.train.events import Event, Stepped
from meganeura_runtime.train.loop.feeder import Feeder
from meganeura_runtime.train.spec.train_job import prepare
from meganeura_runtime.train.training_problems import LossNotFinite
from tests.effort import effort

X = np.random.default_rng(0).normal(size=(22, 6)).astype(np.float32)
Y = np.random.default_rng(1).integers(0, 3, 22)
PROGRAM = """\
train fit(x: [batch, 6], y: i32[batch]):
  minimize cross_entropy(x |> fc: linear(3), y)
  run:
    data      = "points.safetensors"
    batch     = 4
    epochs    = 2
    log_every = 1
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    monkeypatch.chdir(tmp_path)
    Path("fit.mgn").write_text(PROGRAM)
    return meganeura.load("fit.mgn")


class Pairs:
    """A data set as PyTorch has them: `len()`, `[i]`, tuples."""

    def __len__(self) -> int:
        return 22

    def __getitem__(self, number: int) -> tuple[Array, int]:
        return X[number], int(Y[number])


class Table:
    """One that gives several rows at once, as dictionaries, as Hugging Face's do."""

    asked = 0

    def __getitem__(self, number: int) -> Mapping[str, object]:
        return self.__getitems__([number])[0]

    def __len__(self) -> int:
        return 22

    def __getitems__(self, numbers: Sequence[int]) -> list[Mapping[str, object]]:
        self.asked += 1
        return [{"x": X[each].tolist(), "y": int(Y[each]), "text": "one"} for each in numbers]


class Loader:
    """A `DataLoader` as it describes itself: its batches, its sampler, its batch size."""

    def __init__(self, batch: int = 4, *, drop_last: bool = False) -> None:
        self.batch_size, self.drop_last, self.sampler = batch, drop_last, range(22)
        self.passes = 0

    def __len__(self) -> int:
        return 22 // self.batch_size if self.drop_last else -(-22 // self.batch_size)

    def __iter__(self) -> Iterator[list[Array]]:
        self.passes += 1
        for at in range(0, self.batch_size * len(self), self.batch_size):
            yield [X[at : at + self.batch_size], Y[at : at + self.batch_size]]


class Another:
    """One batch a pass, another one each time."""

    passes = 0

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[dict[str, Array]]:
        first = 4 * self.passes
        self.passes += 1
        yield {"x": X[first : first + 4], "y": Y[first : first + 4]}


def train(program: Program, data: object, validation: object = None, **settings: object) -> Run:
    return program.train("fit", data=data, validation=validation, device="cpu", settings=settings)


def generated() -> Iterator[dict[str, Array]]:
    while True:
        yield {"x": X[:4], "y": Y[:4]}


def refused(program: Program, data: object, code: str, **settings: object) -> str:
    with pytest.raises(meganeura.ProblemError) as caught:
        train(program, data, **settings)
    assert caught.value.problem.code == code
    return str(caught.value.problem.report())


def test_arrays_and_examples_train_as_a_file_does(program: Program) -> None:
    np.savez("points.npz", x=X, y=Y)
    file = program.train("fit", device="cpu", settings={"data": "points.npz"})
    table = Table()
    for data in ({"x": X, "y": Y}, {"x": X.tolist(), "y": Y}, Pairs(), table):
        assert train(program, data).losses == file.losses
    assert table.asked == 13  # once for each batch; thrice to know it
    rows = [{"x": x, "y": y} for x, y in zip(X, Y, strict=True)]
    assert train(program, rows).losses == file.losses


def test_batches_come_in_their_own_order(program: Program) -> None:
    inorder = train(program, {"x": X, "y": Y}, shuffle=False)
    loader = Loader()
    assert train(program, loader).losses == inorder.losses
    assert loader.passes == 2
    assert train(program, Loader(drop_last=True)).losses == inorder.losses
    batches = [{"x": X[at : at + 4], "y": Y[at : at + 4]} for at in range(0, 22, 4)]
    assert train(program, batches).losses == inorder.losses


def test_a_pass_of_one_batch_reads_it_each_time(program: Program) -> None:
    both = [{"x": X[at : at + 4], "y": Y[at : at + 4]} for at in (0, 4)]
    data = Another()
    assert train(program, data, epochs=2).losses == train(program, both, epochs=1).losses
    assert data.passes == 2


def test_a_last_batch_is_trained_on_where_that_is_asked(program: Program) -> None:
    whole = train(program, {"x": X, "y": Y}, shuffle=False, drop_last=False)
    assert whole.steps == 12
    assert train(program, Loader(), drop_last=False).losses == whole.losses
    full = train(program, Loader(drop_last=True), drop_last=False)  # which has no last batch
    assert full.losses == train(program, {"x": X, "y": Y}, shuffle=False).losses


def test_what_has_no_length_trains_so_many_steps(program: Program) -> None:
    refused(program, generated(), "E0603")
    run = train(program, generated(), steps_per_epoch=3)
    assert run.steps == 6
    assert len(run.epochs) == 2
    refused(program, iter([(X[:4], Y[:4])] * 5), "E0604", steps_per_epoch=3)
    assert train(program, iter([(X[:4], Y[:4])] * 6), steps_per_epoch=3).losses == run.losses


def test_streams_of_their_own_lengths_feed_one_step(program: Program) -> None:
    """Whole inputs come anew with each batch, from data that knows nothing of the other."""
    Path("two.mgn").write_text(
        PROGRAM.replace("y: i32[batch])", "y: i32[batch], other: whole [many, 6])").replace(
            "linear(3), y)", "linear(3), y) + mean(other ** 2)"
        )
    )
    two, sizes = meganeura.load("two.mgn"), {"many": 7, "steps_per_epoch": 5, "shuffle": False}
    others = [np.full((7, 6), each, np.float32) for each in range(10)]
    labelled = [{"x": X[at : at + 4], "y": Y[at : at + 4]} for at in range(0, 20, 4)]
    both = ({**labelled[each % 5], "other": others[each]} for each in range(10))
    run = train(two, both, **sizes)
    alone = train(program, labelled, shuffle=False)
    for (step, loss), (_, plain) in zip(run.losses, alone.losses, strict=True):
        assert loss == pytest.approx(plain + (step - 1) ** 2, rel=1e-6)


def test_an_input_that_is_whole_does_not_say_what_an_item_is() -> None:
    """It has as many axes in an example as in a batch."""
    x, table = (TensorType(DType.F32, shape) for shape in ((dim("batch"), 6), (7, 6)))
    demand = InputSpec({"x": x, "table": table}, {"batch": 2}, whole=frozenset({"table"}))
    examples = [{"x": row, "table": np.zeros((7, 6))} for row in X]
    assert isinstance(python_data(examples, demand), Mapping)
    batches = [{"x": X[:2], "table": np.zeros((7, 6))}]
    assert isinstance(python_data(batches, demand), Batches)


def stopping(after: int) -> Callable[[Event], None]:
    """Ends a run after so many of its steps."""
    made: list[Event] = []

    def watch(event: Event) -> None:
        made.extend([event] if isinstance(event, Stepped) else [])
        if len(made) == after:
            raise meganeura.StopTraining

    return watch


@pytest.mark.parametrize("steps", effort([7], [2, 5, 7, 9]))
def test_a_run_on_data_of_python_goes_on(program: Program, tmp_path: Path, steps: int) -> None:
    """Arrays and examples, loaders that begin anew, and an iterator that is where it was."""
    batches = [{"x": X[at : at + 4], "y": Y[at : at + 4]} for at in range(0, 20, 4)]
    sources: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "arrays": (lambda: {"x": X, "y": Y}, lambda: {"x": X, "y": Y}),
        "examples": (Pairs, Pairs),
        "loader": (Loader, Loader),
        "iterator": (lambda: iter(batches * 2), lambda: iter((batches * 2)[steps:])),
    }
    for name, (whole, rest) in sources.items():
        asked = {"shuffle": name in ("arrays", "examples"), "steps_per_epoch": 5}
        runs = [tmp_path / f"{name}-{kind}" for kind in ("whole", "part")]
        program.train("fit", data=whole(), device="cpu", settings=asked, out=runs[0])
        program.train(
            "fit", data=whole(), device="cpu", settings=asked, out=runs[1], watch=stopping(steps)
        )
        again = program.train("fit", data=rest(), device="cpu", resume=runs[1])
        assert again.steps == 10
        files = [(each / "checkpoint.safetensors").read_bytes() for each in runs]
        assert files[0] == files[1], name
    with pytest.raises(meganeura.ProblemError, match="E0606"):
        program.train("fit", device="cpu", resume=tmp_path / "arrays-part")
    with pytest.raises(ValueError, match="has its folder"):
        program.train("fit", data=Loader(), device="cpu", resume=tmp_path, out=tmp_path)
    with pytest.raises(meganeura.ProblemError, match="E0557"):
        program.train("fit", data=batches[:4], device="cpu", resume=tmp_path / "loader-part")


def test_an_epoch_may_be_longer_or_shorter_than_the_data(program: Program) -> None:
    """Passes go on over epochs, so that every example is met as often as in as many steps."""
    usual = train(program, {"x": X, "y": Y}, epochs=4)
    for data in ({"x": X, "y": Y}, Pairs()):
        longer = train(program, data, epochs=2, steps_per_epoch=10)
        assert longer.losses == usual.losses
        assert (len(longer.epochs), longer.steps) == (2, 20)
    rest = train(program, {"x": X, "y": Y}, epochs=2, drop_last=False)
    shorter = train(program, {"x": X, "y": Y}, epochs=4, steps_per_epoch=3, drop_last=False)
    assert shorter.losses == rest.losses
    assert np.mean(shorter.epochs[:1]) != rest.epochs[0]


def test_what_is_held_out(program: Program) -> None:
    data = {"x": X, "y": Y}
    of_arrays = train(program, data, data)
    assert len(of_arrays.held_out) == 2
    of_batches = train(program, data, Loader())
    for one, other in zip(of_batches.held_out, of_arrays.held_out, strict=True):
        assert one == pytest.approx(other, rel=1e-6)
    np.savez("held.npz", x=X, y=Y)
    assert train(program, data, validation="held.npz")
    divided = train(program, data, validation=0.2)
    assert divided.steps == 2 * (18 // 4)
    assert divided.held_out != of_arrays.held_out


def test_weights_are_measured_on_any_data(program: Program) -> None:
    data = {"x": X, "y": Y}
    run = train(program, data, data)
    for given in (data, Pairs(), Loader()):
        found = program.evaluate("fit", data=given, weights=run.weights, device="cpu")
        assert found == pytest.approx(run.held_out[-1], rel=1e-6)
    two = {"train.x": X, "train.y": Y, "test.x": X[:3], "test.y": Y[:3]}
    few = program.evaluate(data={"x": X[:3], "y": Y[:3]}, weights=run.weights, device="cpu")
    assert program.evaluate(data=two, weights=run.weights, device="cpu") == few
    with pytest.raises(meganeura.ProblemError, match="E0522"):
        program.evaluate(data={"x": X}, weights=run.weights, device="cpu")


RUN = {
    "share": "    validation = 0.25\n",
    "file": '    validation = "held.npz"\n',
    "weights": '    sampling_weights = "often"\n    stop_after = 1\n',
    "balance": '    balance = "kind"\n    schedule = plateau()\n',
}
"""Settings of a run that are nothing to what its weights are measured on."""


@pytest.mark.parametrize("said", RUN)
def test_weights_are_measured_on_all_that_is_given(program: Program, said: str) -> None:
    """However the program holds examples out, draws them and goes on by what it measures."""
    data = {"x": X, "y": Y}
    run = train(program, data, epochs=1)
    expected = program.evaluate(data=data, weights=run.weights, device="cpu")
    np.savez("held.npz", x=X[:4], y=Y[:4])
    np.savez("given.npz", x=X, y=Y)
    Path("other.mgn").write_text(f"{PROGRAM}{RUN[said]}")
    other = meganeura.load("other.mgn")
    for given in (data, Loader(), "given.npz"):
        found = other.evaluate(data=given, weights=run.weights, device="cpu")
        assert found == pytest.approx(expected, rel=1e-6)


def test_a_share_is_held_out_whole(program: Program) -> None:
    """Each example is trained on once an epoch or held out, as the seed says."""
    job = prepare(
        program._program, "fit", Path(), ["validation=0.25", "batch=1"], data=PythonData(Pairs())
    )
    feeder, held_out = Feeder(job), job.dataset.test
    assert held_out is not None
    assert (job.steps_per_epoch, held_out.examples) == (16, 6)  # a quarter of 22, rounded
    rows = [feeder.feeds(step)["x"] for step in range(16)]
    met = np.concatenate([*rows, held_out.take(slice(0, 6))["x"]])
    assert sorted(met[:, 0]) == sorted(X[:, 0])


def test_classes_are_drawn_equally_often(program: Program) -> None:
    rare = np.array([0] * 20 + [1, 2])
    weights = {"x": X, "y": rare, "often": np.where(rare == 2, 1.0, 0.0)}
    only = train(program, weights, sampling_weights="often", epochs=1)
    alone = train(program, {"x": X[21:].repeat(20, 0), "y": rare[21:].repeat(20)}, epochs=1)
    assert only.losses == alone.losses
    job = prepare(
        program._program, "fit", Path(), ["balance=y"], data=PythonData({"x": X, "y": rare})
    )
    feeder = Feeder(job)
    counts = np.bincount(np.concatenate([feeder.feeds(step)["y"] for step in range(200)]))
    assert counts == pytest.approx(800 / 3, rel=0.2)
    refused(program, {"x": X, "y": rare, "often": -np.ones(22)}, "E0609", sampling_weights="often")
    refused(program, {"x": X, "y": rare, "often": np.ones(3)}, "E0609", sampling_weights="often")
    refused(program, {"x": X, "y": rare, "often": np.ones(22)}, "E0609", balance="often")
    refused(program, {"x": X, "y": rare}, "E0522", sampling_weights="often")


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ("points", "E0520"),
        (3, "E0600"),
        (b"points", "E0600"),
        (X, "E0600"),
        ([], "E0600"),
        ([3], "E0600"),
        ([(X[0],)], "E0600"),
        ([{"x": X[0], "label": 1}], "E0600"),
        ({"x": X, "y": ["one"] * 22}, "E0600"),
        ({"x": X, "y": Y.astype(complex)}, "E0600"),
        ({"x": X}, "E0522"),
        ({"x": X[:, :5], "y": Y}, "E0523"),
        ({"x": X, "y": Y.astype(float)}, "E0524"),
        ({"x": X, "y": Y[:20]}, "E0525"),
        ({"x": X[:3], "y": Y[:3]}, "E0526"),
        ({"x": X, "y": Y + 3}, "E0535"),
        ({"x": np.where(X > 1, np.inf, X), "y": Y}, "E0531"),
        ([(X[0], 0), (X[1, :5], 1)] * 4, "E0601"),
        ([(X[0], 0)] * 6 + [(X[1], 3)] * 2, "E0535"),
        ([(X[:4], Y[:4]), (X[:4, :5], Y[:4])] * 2, "E0523"),
        ([(X[:4], Y[:4] + 3)] * 2, "E0535"),
        (Loader(5), "E0602"),
    ],
)
def test_what_does_not_fit_is_refused(program: Program, data: object, code: str) -> None:
    refused(program, data, code)


def test_what_a_stream_cannot_do_is_refused(program: Program) -> None:
    for setting, value in (("shuffle", True), ("validation", 0.5), ("balance", "y")):
        assert setting in refused(program, Loader(), "E0605", **{setting: value})
    with pytest.raises(meganeura.ProblemError, match="E0603"):
        train(program, {"x": X, "y": Y}, generated())


def test_a_share_that_is_none_or_all_is_refused(program: Program) -> None:
    refused(program, {"x": X, "y": Y}, "E0608", validation=0.01)
    refused(program, {"x": X, "y": Y}, "E0608", validation=0.99)
    two = {"train.x": X, "train.y": Y, "test.x": X[:3], "test.y": Y[:3]}
    assert len(train(program, two).held_out) == 2
    refused(program, two, "E0608", validation=0.5)
    for value in (0.0, 1.5, 3):
        with pytest.raises(meganeura.ProblemsError, match=r"E051[23]"):
            train(program, two, validation=value)


def test_a_loss_that_is_not_finite_is_reported(program: Program) -> None:
    """Though the batches that led to it cannot be had again."""
    Path("fit.mgn").write_text(PROGRAM.replace("minimize ", "minimize log(0.5 - mean(x)) + "))
    program = meganeura.load("fit.mgn")
    refused(program, [(X[:4] * 0 + at, Y[:4]) for at in range(4)], "E0550")


def test_the_batches_of_a_stream_are_not_asked_for_again(program: Program) -> None:
    """Other batches would be taken for those that led to the loss: no line is named by them."""
    Path("fit.mgn").write_text(PROGRAM.replace("minimize ", "minimize log(0.5 - mean(x)) + "))
    program = meganeura.load("fit.mgn")
    given: list[int] = []

    def batches() -> Iterator[dict[str, Array]]:
        for at in range(4):
            given.append(at)
            yield {"x": X[:4] * 0 + at, "y": Y[:4]}

    with pytest.raises(meganeura.ProblemError) as caught:
        train(program, batches(), steps_per_epoch=4, epochs=1)
    problem = caught.value.problem
    assert isinstance(problem, LossNotFinite)
    assert (problem.step, problem.first) == (2, "")
    assert given == sorted(set(given))


def test_data_may_be_a_file(program: Program, tmp_path: Path) -> None:
    """By its path, as a text or not: what the setting of that name says."""
    path = tmp_path / "other.npz"
    np.savez(path, x=X, y=Y)
    given = train(program, {"x": X, "y": Y})
    assert train(program, path).losses == train(program, "other.npz").losses == given.losses
    measured = (
        program.evaluate("fit", data=each, weights=given.weights, device="cpu")
        for each in (path, {"x": X, "y": Y})
    )
    assert next(measured) == next(measured)
