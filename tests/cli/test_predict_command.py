"""`meganeura predict`: a row for each image, equal to what `run` gives for it alone."""

import csv
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from meganeura import ProblemError, load
from meganeura_runtime.infer.prediction import Prediction, write_table
from tests.cli.command import Command

PROGRAM = """\
block Net(classes)(image: [n, 3, h, w]) -> [n, classes]:
  return image |> conv: conv2d(4, 3, pad=1) |> relu |> mean(2, 3) |> fc: linear(classes)

model net = Net(classes=2)

train fit(image: [batch, 3, 8, 8], label: i32[batch]):
  logits = image |> net
  minimize cross_entropy(logits, label)
  metric accuracy = mean(argmax(logits, 1) == label)
  run:
    data       = images("pictures")
    batch      = 4
    epochs     = 1
    workers    = 0
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("predicted")
    generator = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (place / "pictures" / name).mkdir(parents=True)
        for number in range(4):
            pixels = generator.integers(0, 255, (9, 11, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(place / "pictures" / name / f"{number}.png")
    (place / "net.mgn").write_text(PROGRAM)
    load(place / "net.mgn").train(out=place / "run", device="cpu")
    return place


def command(folder: Path, *more: str) -> tuple[str, ...]:
    weights = ("--weights", str(folder / "run" / "weights.safetensors"), "--device", "cpu")
    return "predict", str(folder / "net.mgn"), *more, *weights


def test_a_row_is_what_run_gives(meganeura: Command, folder: Path, tmp_path: Path) -> None:
    """In batches of three, the last of which is smaller."""
    table, pictures = tmp_path / "predictions.csv", folder / "pictures"
    shown = meganeura(*command(folder, str(pictures), "-o", str(table), "--batch", "3"))
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.endswith(f"device: cpu (as asked)\nwritten: {table}, 8 rows\n")
    with table.open(newline="") as file:
        head, *rows = csv.reader(file)
    assert head == ["file", "class", "name", "cat", "dog"]
    assert [row[0] for row in rows] == [str(each) for each in sorted(pictures.rglob("*.png"))]
    model = load(folder / "net.mgn").model(weights=folder / "run")
    for path, number, name, *shares in rows:
        (logits,) = model.run({"image": path}, device="cpu").values()
        powers = np.exp(logits[0] - logits[0].max())
        np.testing.assert_allclose([*map(float, shares)], powers / powers.sum(), atol=2e-6)
        assert (int(number), name) == (logits[0].argmax(), ("cat", "dog")[int(number)])
    again = meganeura(*command(folder, str(pictures), "-o", str(table)))
    assert again.code == 0
    printed = meganeura(*command(folder, str(pictures)))
    assert printed.out == table.read_text()


def test_python_predicts_the_same(meganeura: Command, folder: Path) -> None:
    pictures = folder / "pictures"
    model = load(folder / "net.mgn").model(weights=folder / "run" / "weights.safetensors")
    found = model.predict(pictures, batch=3, device="cpu")
    table = StringIO()
    assert write_table(found, table) == 8
    assert table.getvalue() == meganeura(*command(folder, str(pictures))).out
    first = model.predict([str(pictures / "dog"), pictures / "cat" / "0.png"], device="cpu")
    assert [each.file.name for each in first] == ["0.png", "1.png", "2.png", "3.png", "0.png"]
    assert first[-1].outputs["output"].shape == (2,)
    assert first[-1].probabilities is not None
    assert first[-1].probabilities.tolist() == found[0].probabilities.tolist()  # pyright: ignore[reportOptionalMemberAccess]
    assert first[-1].name == ("cat", "dog")[first[-1].label or 0]
    named = model.predict(pictures / "cat", classes=("one", "two"), device="cpu")
    assert named[0].name in ("one", "two")
    assert repr(named[0]).startswith(
        f"<Prediction of {pictures / 'cat' / '0.png'}: {named[0].name}, "
    )


def test_python_says_what_the_command_prints(
    meganeura: Command, folder: Path, tmp_path: Path
) -> None:
    model = load(folder / "net.mgn").model(weights=folder / "run")
    (tmp_path / "broken.png").write_text("mine")
    (tmp_path / "names.txt").write_text("one\n")
    good = folder / "pictures" / "cat" / "0.png"
    for path, names in (
        (tmp_path / "broken.png", None),
        (tmp_path / "none.png", None),
        (good, ("x",)),
    ):
        with pytest.raises(ProblemError) as caught:
            model.predict(path, classes=names, device="cpu")
        more = () if names is None else ("--labels", str(tmp_path / "names.txt"))
        printed = meganeura(*command(folder, str(path), *more)).err
        said = str(caught.value).replace("`classes`", f"`{tmp_path / 'names.txt'}`")
        # The topic stands at the end of a headline that has room for it.
        assert " ".join(said.replace("(inputs)", "").split()) in " ".join(printed.split())
    for wrong in ([], [np.zeros((1, 3, 8, 8))], np.zeros((1, 3, 8, 8))):
        with pytest.raises(ValueError, match="`run` takes arrays"):
            model.predict(wrong)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="`batch` is a number from 1, not 0"):
        model.predict(good, batch=0)
    with pytest.raises(ValueError, match="`image_size` is a number from 1, not 0"):
        model.predict(good, image_size=0)
    with pytest.raises(TypeError, match=r"classes=\['ab'\]"):
        model.predict(good, classes="ab")
    with pytest.raises(ValueError, match="has no weights"):
        load(folder / "net.mgn").model().predict(good)


@pytest.mark.parametrize(
    ("more", "code", "told"),
    [
        (("nowhere.png",), 2, "E0533"),
        (("notes.txt",), 1, "no image and no sound"),
        (("empty",), 1, "no image and no sound"),
        (("broken.png",), 1, "broken.png"),
        (("good.png", "-o", "notes.txt"), 2, ".csv"),
        (("good.png", "-o", "notes.csv"), 1, "not a table of predictions"),
        (("good.png", "--labels", "notes.txt"), 1, "has 1 name, and the model gives 2 classes"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(
    meganeura: Command,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    more: tuple[str, ...],
    code: int,
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    for name in ("notes.txt", "notes.csv", "broken.png"):
        (tmp_path / name).write_text("mine\n")
    Image.fromarray(np.zeros((9, 11, 3), np.uint8)).save("good.png")
    shown = meganeura(*command(folder, *more))
    assert shown.code == code, shown.err
    assert "written" not in shown.out
    assert told in " ".join(shown.err.split())
    assert "Traceback" not in shown.err
    assert (tmp_path / "notes.csv").read_text() == "mine\n"


@pytest.mark.parametrize(
    ("head", "made", "told"),
    [
        (
            "image: [n, 3, h, w]) -> []",
            "mean(0, 1, 2, 3)",
            "`output` of `net` has no row for each example",
        ),
        (
            "image: [n, 3, h, w]) -> [4, n]",
            "mean(2, 3) |> rearrange([n, c] -> [c, n])",
            "and gives output: f32[4, n]",
        ),
        (
            "image: [n, 3, h, w], _x: [n]) -> [n, 4]",
            "mean(2, 3)",
            "`net` has 2 inputs; predictions are of one",
        ),
    ],
)
def test_a_model_without_rows_of_one_input_is_refused(
    meganeura: Command, folder: Path, tmp_path: Path, head: str, made: str, told: str
) -> None:
    body = f"  return image |> conv: conv2d(4, 3, pad=1) |> {made}"
    (tmp_path / "net.mgn").write_text(f"block Net()({head}:\n{body}\nmodel net = Net()\n")
    (tmp_path / "w.safetensors").write_bytes(b"")
    weights = ("--weights", str(tmp_path / "w.safetensors"))
    shown = meganeura("predict", str(tmp_path / "net.mgn"), str(folder / "pictures"), *weights)
    assert (shown.code, shown.out) == (1, "")
    assert told in " ".join(shown.err.split())


def test_of_other_outputs_all_numbers_are_written() -> None:
    stream = StringIO()
    row = {"box": np.array([[1, 2.5], [3, 4]], np.float32), "count": np.array(7, np.int32)}
    found = Prediction(Path("a,b.png"), row)
    assert (found.probabilities, found.label, found.name) == (None, None, None)
    assert repr(found) == "<Prediction of a,b.png: box [2, 2], count []>"
    assert write_table([found], stream) == 1
    assert stream.getvalue().splitlines() == [
        "file,box.0.0,box.0.1,box.1.0,box.1.1,count",
        '"a,b.png",1,2.5,3,4,7',
    ]


def test_weights_are_asked_for(meganeura: Command, folder: Path) -> None:
    shown = meganeura("predict", str(folder / "net.mgn"), str(folder / "pictures"))
    assert shown.code == 2
    assert "--weights runs/fit-1/best.safetensors" in " ".join(shown.err.split())
