"""Runs on folders of images: the same with any number of processes, resumed or not."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

import meganeura
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.backends.base import Uploaded
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.io.data.data_problems import OutsideFolder
from meganeura_runtime.io.preprocess.preparation import CLASSES, preparation_of
from meganeura_runtime.io.tensors.safetensors_file import read_tensors, write_tensors
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.events import Event, Started
from meganeura_runtime.train.loop.feeder import Feeder
from meganeura_runtime.train.loop.prefetcher import Prefetcher
from tests.effort import effort
from tests.runtime.runs import Workspace, contents

PROGRAM = """\
train fit(image: [batch, 3, 8, 8], label: i32[batch]):
  minimize cross_entropy(image |> mean(2, 3) |> fc: linear(3), label)
  run:
    data       = images("flowers", crop=0.5)
    validation = 0.2
    batch      = 4
    epochs     = 3
    log_every  = 1
"""
UNKNOWN = "[unk]"
NEXT = """\
train text(ids: i32[batch, 65]):
  minimize cross_entropy(ids[:, :64] |> table: embedding(256, 256), ids[:, 1:])
  run:
    batch     = 2
    optimizer = sgd(lr=0.1)
"""
"""The next byte of a text, by the one before it."""


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    generator = np.random.default_rng(0)
    for name in ("aster", "lily", "rose"):
        (tmp_path / "flowers" / name).mkdir(parents=True)
        for number in range(8):
            pixels = generator.integers(0, 255, (12, 10, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "flowers" / name / f"{number}.png")
    workspace = Workspace(tmp_path)
    workspace.write(PROGRAM)
    return workspace


class Staged(Uploaded):
    """The inputs of a step, as they were staged."""

    def __init__(self, fed: Mapping[str, Array]) -> None:
        self.fed = fed

    def close(self) -> None:
        """Nothing is held."""


class Staging(ReferenceSession):
    """A session that holds on to what it stages, of any size."""

    def stage(self, feeds: Mapping[str, Array]) -> Staged:
        return Staged(feeds)


@pytest.mark.parametrize("workers", effort([2], [1, 2, 5]))
def test_an_epoch_has_each_example_once(workspace: Workspace, workers: int) -> None:
    """19 pictures in batches of 4, decoded ahead of time, over two epochs."""
    job = workspace.job(f"workers={workers}", "drop_last=false", "epochs=2")
    everything = job.dataset.train.take(np.arange(19))
    known = {image.tobytes(): number for number, image in enumerate(everything["image"])}
    assert (len(known), job.steps_per_epoch) == (19, 5)
    ahead = Prefetcher(Feeder(job), Staging(job.spec.compiled), job.steps)
    orders: list[list[int]] = []
    for epoch in range(2):
        found: list[int] = []
        for step in range(5 * epoch, 5 * epoch + 5):
            taken = ahead.take(step, lambda: None)
            assert isinstance(taken, Staged)
            numbers = [known[image.tobytes()] for image in taken.fed["image"]]
            assert taken.fed["label"].tolist() == everything["label"][numbers].tolist()
            found += numbers
        assert sorted(found) == [*range(19)]
        orders.append(found)
    assert orders[0] != orders[1]
    ahead.close()


def test_a_run_is_the_same_with_any_number_of_processes(workspace: Workspace) -> None:
    """With one, with others, and where it goes on with another number of them."""
    whole = workspace.start("whole", "workers=0")
    workspace.start("parts", "workers=2", steps=6)
    parts = workspace.resume("parts", "workers=1")
    assert contents(parts.weights) == contents(whole.weights)
    assert set(read_tensors(parts.weights)) == {"fc.weight", "fc.bias"}


def test_a_run_notices_other_pictures(workspace: Workspace) -> None:
    workspace.start("run", "workers=0", steps=3)
    Image.fromarray(np.zeros((5, 5, 3), np.uint8)).save(workspace.folder / "flowers/rose/0.png")
    with pytest.raises(ProblemError, match="E0557"):
        workspace.resume("run")


def test_files_that_a_setting_names_lie_below_the_program(workspace: Workspace) -> None:
    for text in ('images("../flowers", crop=0.5)', 'images("flowers", preprocess="../p.json")'):
        workspace.write(PROGRAM.replace('images("flowers", crop=0.5)', text))
        with pytest.raises(ProblemError) as caught:
            workspace.job()
        assert isinstance(caught.value.problem, OutsideFolder)


def test_a_folder_that_is_held_out_has_the_classes_of_training(workspace: Workspace) -> None:
    """Its own numbers would begin with its first class."""
    for name in ("lily", "rose"):
        (workspace.folder / "later" / name).mkdir(parents=True)
        file = workspace.folder / "flowers" / name / "0.png"
        (workspace.folder / "later" / name / "0.png").write_bytes(file.read_bytes())
    workspace.write(PROGRAM.replace("validation = 0.2", 'validation = "later"'))
    held_out = workspace.job().dataset.test
    assert held_out is not None
    assert held_out.take(np.arange(2))["label"].tolist() == [1, 2]
    (workspace.folder / "later" / "tulip").mkdir()
    with pytest.raises(ProblemError, match="E0610"):
        workspace.job()


def test_several_folders_are_decoded_when_a_step_is_fed(workspace: Workspace) -> None:
    """Names and sizes tell them from others, and a run does not decode all of them to begin."""
    (workspace.folder / "more").mkdir()
    (workspace.folder / "flowers").rename(workspace.folder / "more" / "1")
    painted = workspace.folder / "more" / "2" / "aconite"
    painted.mkdir(parents=True)
    (painted / "0.png").write_bytes(b"no picture")
    text = PROGRAM.replace('images("flowers", crop=0.5)', '"more/*"')
    workspace.write(text.replace("linear(3)", "linear(4)"))
    job = workspace.job()
    assert job.dataset.train.is_slow
    assert {each.tensor: each.type for each in job.fingerprints} == {
        f"{split}.{name}": kind
        for split in ("train", "test")
        for name, kind in (("image", "f32[25, 3, 8, 8]"), ("label", "i32[25]"))
    }


def test_files_say_how_pictures_are_scaled_and_how_words_are_numbered(
    workspace: Workspace,
) -> None:
    """Those that the settings name, and not those of each other."""
    (workspace.folder / "p.json").write_text(
        '{"size": {"height": 8, "width": 8}, "image_mean": [0, 0, 0], "image_std": [1, 1, 1]}'
    )
    workspace.write(PROGRAM.replace("crop=0.5", 'preprocess="p.json"'))
    pictures = workspace.job("workers=0").dataset.train.take(np.arange(4))["image"]
    assert pictures.min() >= 0
    assert pictures.max() <= 1
    words = Tokenizer(WordLevel({UNKNOWN: 0, "to": 1, "be": 2}, unk_token=UNKNOWN))
    words.pre_tokenizer = Whitespace()
    words.save(str(workspace.folder / "t.json"))
    (workspace.folder / "a.txt").write_text("to be or not to be")
    workspace.write(
        "train fit(ids: i32[batch, 3]):\n  minimize mean(ids |> embed: embedding(9, 2))\n"
        '  run:\n    data = text("a.txt", tokenizer="t.json")\n    batch = 2\n'
    )
    numbers = workspace.job().dataset.train.take(np.arange(2))["ids"]
    assert numbers.tolist() == [[1, 2, 0], [0, 1, 2]]


def test_weights_are_measured_by_the_classes_that_they_were_trained_on(
    workspace: Workspace,
) -> None:
    """Whatever folders they are measured on, and not by the numbers of these alone."""
    run = workspace.start("run", "workers=0", "epochs=1")
    program = meganeura.load(str(workspace.folder / "fit.mgn"))

    def loss(folder: Path) -> float:
        data = f'images("{folder}", crop=0.5)'
        return program.evaluate(data=data, weights=run.best, device="cpu")["loss"]

    alone: list[float] = []
    for path in sorted((workspace.folder / "flowers").iterdir()):
        only = workspace.folder / "only" / path.name
        only.mkdir(parents=True)
        (only / path.name).symlink_to(path)
        alone.append(loss(only))
    assert loss(workspace.folder / "flowers") == pytest.approx(sum(alone) / 3)
    (workspace.folder / "only" / "rose" / "tulip").mkdir()
    with pytest.raises(ProblemError, match="E0610"):
        loss(workspace.folder / "only" / "rose")


@pytest.mark.parametrize("text", ['["a"', "[1]", '{"a": 1}'])
def test_what_are_no_names_of_classes_is_refused(workspace: Workspace, text: str) -> None:
    run = workspace.start("run", "workers=0", "epochs=0")
    assert preparation_of([run.weights]).classes == ("aster", "lily", "rose")
    values = {name: each.bits for name, each in read_tensors(run.weights).items()}
    write_tensors(run.weights, values, {CLASSES: text})
    with pytest.raises(ProblemError, match="E0530"):
        preparation_of([run.weights])


def test_texts_shorter_than_a_sequence_are_told(tmp_path: Path) -> None:
    """Those to train on and those held out, each once."""
    for name, length in (("a-1", 700), ("a-2", 3), ("b-1", 90), ("b-2", 0), ("b-3", 64)):
        (tmp_path / f"{name}.txt").write_text("x" * length)
    (tmp_path / "net.mgn").write_text(NEXT)
    program = meganeura.load(str(tmp_path / "net.mgn"))
    events: list[Event] = []
    settings = {"data": str(tmp_path / "a-*.txt"), "batch": 2, "epochs": 1, "steps_per_epoch": 1}
    for validation, files in ((str(tmp_path / "b-*.txt"), 3), (0.2, 1)):
        program.train("text", settings={**settings, "validation": validation}, watch=events.append)
        assert isinstance(events[0], Started)
        assert events[0].empty_files == files
        events.clear()


@pytest.mark.parametrize(
    ("setting", "drawn"), [("sampling_weights", {20}), ("balance", {10, 20, 30})]
)
def test_examples_of_a_table_are_drawn_by_a_column_that_feeds_nothing(
    tmp_path: Path, setting: str, drawn: set[int]
) -> None:
    """Of one that feeds nothing it was said that the table has none."""
    rows = "\n".join(f"{x},{weight}" for x, weight in ((10, 0), (20, 7), (30, 0)) * 4)
    (tmp_path / "fit.mgn").write_text(
        "train fit(x: [batch]):\n  param w: [] = 1\n  minimize mean(x * w)\n"
        '  run:\n    data = table("a.csv")\n    batch = 1\n    epochs = 3\n    log_every = 1\n'
        "    optimizer = sgd(lr=1e-9)\n"
    )
    (tmp_path / "a.csv").write_text(f"x,often\n{rows}\n")
    run = meganeura.load(str(tmp_path / "fit.mgn")).train(settings={setting: "often"})
    assert {round(loss) for _, loss in run.losses} == drawn
