"""Folders of classes: each file an example, decoded by any number of processes."""

import os
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import soundfile
from PIL import Image

from meganeura_dsl.diagnostics.problem import Problem, ProblemError
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.settings.run_settings import ReaderOptions
from meganeura_dsl.symbolic.size import Size, dim
from meganeura_runtime.io.data.batches import order_of_epoch
from meganeura_runtime.io.data.class_folders import (
    HELD_OUT,
    DecodedFiles,
    class_folder,
    class_names,
    is_class_folder,
)
from meganeura_runtime.io.data.dataset import Dataset, InputSpec, match_data
from meganeura_runtime.io.data.decode_pool import DecodePool
from meganeura_runtime.io.data.decoders import (
    ImageDecoder,
    SoundDecoder,
    decoder_of,
    decoder_text,
)
from meganeura_runtime.io.data.folder_problems import NoClasses, WorkerDied, WrongReader
from meganeura_runtime.io.data.readers import Reader
from meganeura_runtime.io.data.splits import StoredSplit
from meganeura_runtime.io.files.file_problems import UnreadableFile
from meganeura_runtime.io.preprocess.audio import read_sound
from meganeura_runtime.io.preprocess.images import (
    Cover,
    Filter,
    ImageSteps,
    Middle,
    Stretch,
    read_image,
)
from meganeura_runtime.io.preprocess.input_transforms import Choices
from meganeura_runtime.io.preprocess.preprocess_problems import UnfitInput

BATCH = dim("batch")


def demand(*shape: Size, name: str = "image") -> InputSpec:
    label = TensorType(DType.I32, (BATCH,))
    return InputSpec({name: TensorType(DType.F32, (BATCH, *shape)), "label": label}, {"batch": 4})


def paint(path: Path, shade: int, size: tuple[int, int] = (20, 16)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.full((*size, 3), shade, np.uint8)
    pixels[0, 0] = 255
    Image.fromarray(pixels).save(path)


@pytest.fixture
def flowers(tmp_path: Path) -> Path:
    """Classes whose names are out of order, with a folder in one of them and files to pass over."""
    for number in range(7):
        paint(tmp_path / "rose" / f"{number}.png", 10 + number)
        paint(tmp_path / "aster" / "more" / f"{number}.JPG", 100 + number)
    (tmp_path / "rose" / "notes.txt").write_text("red")
    (tmp_path / "rose" / ".hidden.png").write_text("no image")
    (tmp_path / "README.txt").write_text("no class")
    paint(tmp_path / ".cache" / "0.png", 1)
    return tmp_path


def read(
    path: Path, wanted: InputSpec, workers: int = 0, reading: ReaderOptions | None = None
) -> Dataset:
    tensors = Reader(wanted, reading or ReaderOptions(), workers).tensors(path)
    return match_data(tensors, wanted, path)


def refused(path: Path, wanted: InputSpec, reading: ReaderOptions | None = None) -> Problem:
    with pytest.raises(ProblemError) as caught:
        read(path, wanted, 0, reading)
    caught.value.problem.report()
    return caught.value.problem


def taken(dataset: Dataset, rows: slice) -> Mapping[str, np.ndarray]:
    return dataset.train.take(rows)


def test_each_file_is_an_example_of_its_folder(flowers: Path) -> None:
    dataset = read(flowers, demand(3, 16, 16))
    fed = taken(dataset, slice(0, 14))
    assert fed["label"].tolist() == [0] * 7 + [1] * 7
    steps = Choices().image_steps(TensorType(DType.F32, (1, 3, 16, 16)))
    assert steps is not None
    for row, path in ((2, "aster/more/2.JPG"), (9, "rose/2.png")):
        assert np.array_equal(fed["image"][row], read_image(flowers / path, 3, steps.steps).values)


@pytest.mark.parametrize("workers", [1, 3])
def test_any_number_of_processes_gives_the_same(flowers: Path, workers: int) -> None:
    """None is lost or repeated, in the order that the seed says."""
    alone, others = read(flowers, demand(1, 8, 8)), read(flowers, demand(1, 8, 8), workers)
    for epoch in range(3):
        order = order_of_epoch(5, epoch, 14, shuffle=True)
        for at in range(0, 14, 4):
            rows = order[at : at + 4]
            one, other = alone.train.take(rows), others.train.take(rows)
            assert np.array_equal(one["image"], other["image"])
            assert np.array_equal(one["label"], other["label"])


def test_two_splits_have_the_same_classes(tmp_path: Path) -> None:
    both = tmp_path / "both"
    for split, names in (("train", ("a", "b", "c")), ("val", ("c", "a"))):
        for name in names:
            paint(both / split / name / "1.png", 50)
    dataset = read(both, demand(3, 8, 8))
    assert dataset.test is not None
    assert dataset.train.take(slice(0, 3))["label"].tolist() == [0, 1, 2]
    assert dataset.test.take(slice(0, 2))["label"].tolist() == [0, 2]
    paint(both / "val" / "d" / "1.png", 50)
    assert isinstance(refused(both, demand(3, 8, 8)), NoClasses)


def test_a_sound_is_a_spectrogram(tmp_path: Path) -> None:
    for name, pitch in (("high", 900), ("low", 200)):
        (tmp_path / name).mkdir()
        wave = np.sin(np.arange(8_000) / 16_000 * 2 * np.pi * pitch)
        soundfile.write(tmp_path / name / "1.wav", wave, 16_000)
        soundfile.write(tmp_path / name / "2.flac", wave[:4_000], 16_000)
    dataset = read(tmp_path, demand(20, 50, name="sound"), workers=1)
    fed = taken(dataset, slice(0, 4))
    assert fed["label"].tolist() == [0, 0, 1, 1]
    assert np.array_equal(fed["sound"][2], read_sound(tmp_path / "low" / "1.wav", 20, 50).values)
    crop = ReaderOptions(crop=0.5)
    assert isinstance(refused(tmp_path, demand(20, 50, name="sound"), crop), WrongReader)
    assert isinstance(refused(tmp_path, demand(20, 50, 2, name="sound")), UnfitInput)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_there_is_one_mean_for_all_colors_or_one_for_each(count: int, flowers: Path) -> None:
    for more in (ReaderOptions(mean=[0.5] * count), ReaderOptions(std=[0.5] * count)):
        for colors in (1, 3):
            if count in (1, colors):
                found = taken(read(flowers, demand(colors, 8, 16), 0, more), slice(0, 1))
                assert found["image"].shape == (1, colors, 8, 16)
            else:
                problem = refused(flowers, demand(colors, 8, 16), more)
                assert isinstance(problem, UnfitInput)
                assert f"has {count} numbers" in problem.reason
                assert problem.advice == f"give one, or one for each channel: {colors}"


def test_what_is_asked_of_images_is_done(flowers: Path) -> None:
    reading = ReaderOptions(crop=0.5, mean=[0.0], std=[1.0], resample="nearest")
    fed = taken(read(flowers, demand(3, 8, 8), 0, reading), slice(7, 8))["image"]
    assert np.array_equal(fed, np.full((1, 3, 8, 8), np.float32(10) * np.float32(1 / 255)))
    whole = taken(
        read(flowers, demand(3, 16, 16), 0, ReaderOptions(mean=[0.0], std=[1.0])), slice(7, 8)
    )
    assert whole["image"].min() == fed.min()


@pytest.mark.parametrize(
    ("wanted", "kind"),
    [
        (demand(2, 8, 8), UnfitInput),
        (demand(64), UnfitInput),
        (demand(3, 8, 8, name="x"), WrongReader),
    ],
)
def test_an_input_that_images_do_not_fit_is_refused(
    flowers: Path, wanted: InputSpec, kind: type[Problem]
) -> None:
    assert isinstance(refused(flowers, wanted), kind)


@pytest.mark.parametrize(("edge", "fits"), [(8, True), (9, False)])
def test_images_prepared_for_a_model_have_the_size_of_the_input(
    edge: int, tmp_path: Path, flowers: Path, *, fits: bool
) -> None:
    config = tmp_path / "preprocessor_config.json"
    config.write_text(f'{{"size": {{"height": {edge}, "width": 8}}, "image_mean": [0, 0, 0]}}')
    wanted = demand(3, 8, 8)
    reader = Reader(wanted, ReaderOptions(), 0, preprocess=config)
    if fits:
        assert reader.tensors(flowers)["image"].shape == (14, 3, 8, 8)
    else:
        with pytest.raises(ProblemError) as caught:
            reader.tensors(flowers)
        assert isinstance(caught.value.problem, UnfitInput)


@pytest.mark.parametrize(("tensors", "folder"), [(True, "notes"), (True, ""), (False, ".cache")])
def test_a_folder_of_tensors_may_have_folders(
    folder: str, tmp_path: Path, *, tensors: bool
) -> None:
    (tmp_path / folder).mkdir(exist_ok=True)
    if tensors:
        np.save(tmp_path / "x.npy", np.zeros((3, 2), np.float32))
    found = Reader(demand(2, name="x"), ReaderOptions(), 0).tensors(tmp_path)
    assert [*found] == ["x"] * tensors


def test_a_folder_without_classes_is_refused(tmp_path: Path, flowers: Path) -> None:
    (flowers / "empty").mkdir()
    assert isinstance(refused(flowers, demand(3, 8, 8)), NoClasses)
    only = tmp_path / "only" / "texts"
    only.mkdir(parents=True)
    (only / "a.txt").write_text("a")
    assert isinstance(refused(tmp_path / "only", demand(3, 8, 8)), NoClasses)
    soundfile.write(only / "a.wav", np.zeros(100), 16_000)
    paint(only / "a.png", 1)
    assert isinstance(refused(tmp_path / "only", demand(3, 8, 8)), NoClasses)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_damaged_file_is_named_and_the_others_are_read(flowers: Path, workers: int) -> None:
    (flowers / "rose" / "3.png").write_bytes(b"no image")
    dataset = read(flowers, demand(3, 8, 8), workers)
    with pytest.raises(ProblemError) as caught:
        dataset.train.take(slice(8, 14))
    problem = caught.value.problem
    assert isinstance(problem, UnreadableFile)
    assert problem.file == flowers / "rose" / "3.png"
    assert dataset.train.take(slice(0, 10))["image"].shape == (10, 3, 8, 8)


def test_a_process_that_ends_is_reported(flowers: Path) -> None:
    dataset = read(flowers, demand(3, 8, 8), workers=1)
    dataset.train.take(slice(0, 4))
    assert isinstance(dataset.train, StoredSplit)
    content = dataset.train.feeds["image"].tensor.content
    assert isinstance(content, DecodedFiles)
    content.pool._processes[0].kill()
    with pytest.raises(ProblemError) as caught:
        dataset.train.take(slice(4, 8))
    assert isinstance(caught.value.problem, WorkerDied)
    assert dataset.train.take(slice(4, 8))["label"].tolist() == [0, 0, 0, 1]


def digest_of(folder: Path, height: int = 8) -> str | None:
    train = read(folder, demand(3, height, 8)).train
    assert isinstance(train, StoredSplit)
    content = train.feeds["image"].tensor.content
    assert isinstance(content, DecodedFiles)
    return content.digest


def test_other_files_and_other_sizes_are_other_data(flowers: Path) -> None:
    """Wherever the folder lies: its files are known by their names, folders and sizes."""
    data = flowers / "data"
    data.mkdir()
    for name in ("rose", "aster"):
        (flowers / name).rename(data / name)
    before = digest_of(data)
    assert digest_of(data, 9) != before
    assert digest_of(data.rename(flowers / "moved")) == before
    data = flowers / "moved"
    image = data / "rose" / "6.png"
    image.write_bytes(bytes(len(image.read_bytes())))
    assert digest_of(data) == before, "no file is decoded to know it"
    image.write_bytes(image.read_bytes() + b"\0")
    found = [before, digest_of(data)]
    image.rename(data / "rose" / "7.png")
    found.append(digest_of(data))
    (data / "aster" / "more").rename(data / "aster" / "most")
    found.append(digest_of(data))
    paint(data / "rose" / "9.png", 3)
    found.append(digest_of(data))
    image.with_name(os.fsdecode(b"\xff.png")).write_bytes(b"")
    found.append(digest_of(data))
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    "other", [{"rounds_down": True}, {"mean": 0.1 + 1e-8}, {"std": 0.5 + 1e-8}]
)
def test_images_that_are_prepared_otherwise_are_other_data(
    flowers: Path, other: dict[str, float]
) -> None:
    """Also where it is said in the same words."""

    def digest(*, rounds_down: bool = False, mean: float = 0.1, std: float = 0.5) -> str:
        crop = Middle(5, 5, rounds_down=rounds_down)
        steps = ImageSteps(None, crop, Filter.BILINEAR, 1 / 255, (mean,), (std,))
        decoder = ImageDecoder(3, 5, 5, steps)
        return DecodedFiles([flowers / "rose" / "6.png"], decoder, DecodePool(decoder, 0)).digest

    assert digest(**cast("dict[str, Any]", other)) != digest()
    assert digest() == digest()


def test_files_are_in_the_order_of_their_names_and_those_of_folders_behind_them(
    tmp_path: Path,
) -> None:
    """Whatever order the system lists them in."""
    names = ["0.png", "10.png", "9.png", "a/1.png", "a/b/0.png", "c/0.png", "d/0.png"]
    for name in names[::-1]:
        for kind in ("rose", "aster"):
            path = tmp_path / kind / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    expected = [(tmp_path / kind / name) for kind in ("aster", "rose") for name in names]
    assert [path for path, _ in class_folder([tmp_path]).files[""]] == expected


def test_hidden_files_and_folders_are_no_examples(tmp_path: Path) -> None:
    for name in ("0.png", "more/1.png"):
        paint(tmp_path / "rose" / name, 50)
    for name in (".0.png", ".ipynb_checkpoints/0.png", "more/.cache/deep/1.png"):
        paint(tmp_path / "rose" / name, 50)
    files = [path for path, _ in class_folder([tmp_path]).files[""]]
    assert [str(each.relative_to(tmp_path)) for each in files] == ["rose/0.png", "rose/more/1.png"]
    (tmp_path / ".label.npy").write_bytes(b"no array")
    assert is_class_folder(tmp_path)


@pytest.mark.parametrize(
    ("names", "classes"),
    [
        (("bus", "train"), ("bus", "train")),
        (("bus", "train/bus"), ("bus",)),
        (("bus", "train", "val"), None),
        (("train",), None),
    ],
)
def test_a_class_may_be_called_train(
    names: tuple[str, ...], classes: tuple[str, ...] | None, tmp_path: Path
) -> None:
    """Of vehicles, say; where it may be a split whose classes are missing, that is refused."""
    for name in names:
        paint(tmp_path / name / "0.png", 50)
    if classes is None:
        assert isinstance(refused(tmp_path, demand(3, 8, 8)), NoClasses)
    else:
        assert class_folder([tmp_path]).classes == class_names([tmp_path]) == classes


def test_there_may_be_many_classes(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"{number:03}").mkdir()
        (tmp_path / f"{number:03}" / "0.wav").touch()
    labels = class_folder([tmp_path]).tensors(tmp_path, SoundDecoder(80, 100), 0)["label"]
    assert labels.bits.tolist() == [*range(300)]


@pytest.mark.parametrize("name", ["val", "valid", "validation", "test", "more"])
def test_a_folder_beside_that_of_training_is_held_out_by_its_name(
    name: str, tmp_path: Path
) -> None:
    for split in ("train", name):
        (tmp_path / split / "a").mkdir(parents=True)
        (tmp_path / split / "a" / "0.png").touch()
    prefixes = ["train."] if name == "more" else ["train.", "test."]
    assert [*class_folder([tmp_path]).files] == prefixes


@pytest.mark.parametrize("resize", [None, Cover(9, 8), Stretch(8, 9)])
def test_a_decoder_is_told_to_a_process_as_it_is(resize: Cover | Stretch | None) -> None:
    steps = ImageSteps(resize, Middle(8, 8, rounds_down=True), Filter.BOX, 1 / 255, (0.1,), (0.3,))
    for decoder in (ImageDecoder(3, 8, 8, steps), SoundDecoder(80, 100)):
        assert decoder_of(decoder_text(decoder)) == decoder


@pytest.mark.parametrize("pair", list(combinations(HELD_OUT, 2)), ids="-".join)
def test_two_folders_that_could_be_held_out_are_refused(
    pair: tuple[str, str], tmp_path: Path
) -> None:
    for split in ("train", *pair):
        for kind in ("aster", "rose"):
            paint(tmp_path / split / kind / "0.png", 40)
    with pytest.raises(ProblemError) as caught:
        class_folder((tmp_path,))
    assert isinstance(caught.value.problem, NoClasses)
    assert all(f"`{name}`" in caught.value.problem.reason for name in pair)


@pytest.mark.parametrize(
    ("painted", "missing"),
    [
        ("train/a train/b test/a test/b", ""),
        ("train/a train/b test/a", ""),
        ("train/a test/a test/b", "b"),
        ("train/a", "b"),
        ("a b", ""),
        ("a", "b"),
    ],
)
def test_a_class_without_examples_is_refused_where_it_is_trained_on(
    painted: str, missing: str, tmp_path: Path
) -> None:
    is_split = "train" in painted
    for folder in ("train/a", "train/b", "test/a", "test/b") if is_split else ("a", "b"):
        (tmp_path / folder).mkdir(parents=True)
    for folder in painted.split():
        paint(tmp_path / folder / "1.PNG", 50)
    if missing:
        with pytest.raises(ProblemError) as refusal:
            class_folder((tmp_path,))
        problem = refusal.value.problem
        assert isinstance(problem, NoClasses)
        assert f"{missing}` has no images" in problem.reason
    else:
        assert class_folder((tmp_path,)).classes == ("a", "b")


def painted(folder: Path, *names: str) -> None:
    """One picture of each class."""
    for shade, name in enumerate(names):
        paint(folder / name / "1.png", 10 * shade)


def test_classes_of_several_folders_are_numbered_over_all_of_their_names(tmp_path: Path) -> None:
    painted(tmp_path / "s-1", "cat", "dog")
    painted(tmp_path / "s-2", "bird", "cat")
    dataset = read(tmp_path / "s-*", demand(3, 8, 8))
    assert isinstance(dataset.train, StoredSplit)
    images, labels = (dataset.train.feeds[name].tensor.content for name in ("image", "label"))
    assert isinstance(images, DecodedFiles)
    found = {(path.parts[-3], path.parts[-2]) for path in images.paths}
    assert found == {("s-1", "cat"), ("s-1", "dog"), ("s-2", "bird"), ("s-2", "cat")}
    numbers = {"bird": 0, "cat": 1, "dog": 2}
    assert [numbers[path.parts[-2]] for path in images.paths] == np.asarray(labels).tolist()
    assert dataset.train.is_slow
    assert dataset.train.feeds["image"].is_verified


def test_splits_of_several_folders_are_joined(tmp_path: Path) -> None:
    for folder in ("s-1", "s-2"):
        painted(tmp_path / folder / "train", "a", f"z{folder}")
        painted(tmp_path / folder / "val", "a")
    dataset = read(tmp_path / "s-?", demand(3, 8, 8))
    assert dataset.test is not None
    assert dataset.train.take(slice(0, 4))["label"].tolist() == [0, 0, 1, 2]
    assert dataset.test.take(slice(0, 2))["label"].tolist() == [0, 0]
    painted(tmp_path / "s-3", "a")
    problem = refused(tmp_path / "s-?", demand(3, 8, 8))
    assert isinstance(problem, NoClasses)
    assert problem.folder.name == "s-3"


@pytest.mark.parametrize("name", ["s-0.txt", "s-9.npz"])
def test_folders_of_classes_are_joined_with_nothing_else(name: str, tmp_path: Path) -> None:
    painted(tmp_path / "s-1", "a", "b")
    (tmp_path / name).write_text("no folder")
    problem = refused(tmp_path / "s-*", demand(3, 8, 8))
    assert isinstance(problem, NoClasses)
    assert problem.folder.name == name


def test_held_out_classes_are_those_that_are_trained_on(tmp_path: Path) -> None:
    painted(tmp_path / "held", "b", "c")
    reader = Reader(demand(3, 8, 8), ReaderOptions(), 0, classes=("a", "b", "c"))
    assert reader.tensors(tmp_path / "held")["label"].bits.tolist() == [1, 2]
    painted(tmp_path / "held", "d")
    with pytest.raises(ProblemError) as caught:
        reader.tensors(tmp_path / "held")
    assert isinstance(caught.value.problem, NoClasses)
    assert caught.value.problem.reason == "nothing is trained on its class `d`, only on a, b, c"
