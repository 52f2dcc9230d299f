"""Shown values of a program.

Files of pictures and matrices, their records, their place on a page.
"""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file

import meganeura
from meganeura_dsl.diagnostics.problem import ProblemError, ProblemsError
from meganeura_dsl.ir.graph import Builder
from meganeura_dsl.ir.interpreter import evaluate
from meganeura_dsl.ir.ops import ArgMax, Cast, Compare, Input
from meganeura_dsl.ir.types import DType
from meganeura_dsl.settings.settings_problems import NothingToFollow
from meganeura_runtime.io.preprocess.images import Filter, ImageSteps
from meganeura_runtime.io.preprocess.preparation import ImagePreparation
from meganeura_runtime.train.loop.confusion import CONFUSION, LABELS, LOGITS, with_confusion
from meganeura_runtime.train.loop.evaluation import as_drawn
from meganeura_runtime.train.records.pictures import png, sheet
from meganeura_runtime.train.records.visual_log import FOLDER, VisualLog
from meganeura_runtime.train.report.page_data import run_data
from meganeura_runtime.train.report.run_records import ShownFile
from meganeura_runtime.train.report.run_summary import summary_of
from meganeura_runtime.train.report.shown_data import BUDGET, LARGEST, shown_data
from tests.effort import effort
from tests.runtime.runs import PROGRAM, Workspace

SHOWING = PROGRAM.replace(
    "  minimize cross_entropy(h |> fc2: linear(3), y)\n",
    "  logits = h |> fc2: linear(3)\n"
    "  minimize cross_entropy(logits, y)\n"
    "  show points = x |> rearrange([n, 2 * c] -> [n, 2, c])\n"
    "  show confusion = confusion_matrix(logits, y)\n",
)


@pytest.mark.parametrize(
    ("shape", "is_shown"),
    [
        *(((2, channels, 6, 6), channels in (1, 3)) for channels in (1, 2, 3, 4)),
        *(((2, 6, 5, channels), channels in (1, 3)) for channels in (1, 2, 3, 4)),
        *(((2, 5, 6), True), ((5, 6), True), ((2, 6), True), ((6,), False), ((), False)),
        ((2, 1, 3, 6, 6), False),
    ],
)
def test_pictures_and_matrices_are_shown(
    shape: tuple[int, ...], *, is_shown: bool, tmp_path: Path
) -> None:
    sizes = ", ".join(map(str, shape))
    text = (
        "train fit(x: [batch, 3]):\n"
        "  minimize mean(x |> fc: linear(2))\n"
        f"  show picture = expand(mean(x), [] -> [{sizes}])\n"
        "  run:\n    batch = 2\n    steps = 1\n    optimizer = sgd(lr=0.1)\n"
    )
    (tmp_path / "fit.mgn").write_text(text)
    if is_shown:
        meganeura.load(str(tmp_path / "fit.mgn"))
    else:
        with pytest.raises(ProblemsError, match="E0623"):
            meganeura.load(str(tmp_path / "fit.mgn"))


def test_a_matrix_of_the_batch_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "fit.mgn").write_text(
        "train fit(x: [batch, 3]):\n  minimize mean(x |> fc: linear(2))\n"
        "  show matrix = 2 * x\n"
        "  run:\n    batch = 2\n    steps = 1\n    optimizer = sgd(lr=0.1)\n"
    )
    with pytest.raises(ProblemsError, match="E0623"):
        meganeura.load(str(tmp_path / "fit.mgn"))


def test_a_run_writes_what_its_program_shows(workspace: Workspace) -> None:
    before = workspace.job().spec.program_hash
    workspace.write(SHOWING)
    assert workspace.job().spec.program_hash == before
    folder = workspace.start("run", steps=7)
    folder = workspace.resume("run")
    shown = sorted(path.name for path in (folder.path / FOLDER).iterdir())
    assert shown == [
        f"{name}-{step:08}.{kind}"
        for name, kind in (("confusion", "json"), ("points", "png"))
        for step in (5, 10, 15, 20)
    ]
    records = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
    told = [each["file"] for each in records if each["kind"] == "shown"]
    assert sorted(told) == shown
    matrix = json.loads((folder.path / FOLDER / "confusion-00000020.json").read_text())
    counts = np.array(matrix["rows"]) * matrix["examples"]
    assert (matrix["examples"], counts.shape) == (5, (3, 3))
    np.testing.assert_allclose(counts, np.rint(counts), atol=1e-5)
    labels = load_file(workspace.folder / "points.safetensors")["test.y"]
    np.testing.assert_allclose(counts.sum(1), np.bincount(labels, minlength=3), atol=1e-5)
    found = run_data(summary_of(folder.path))["shown"]
    assert isinstance(found, list)
    assert [(each["name"], [frame["step"] for frame in each["frames"]]) for each in found] == [
        ("points", [5, 10, 15, 20]), ("confusion", [5, 10, 15, 20])
    ]  # fmt: skip


@pytest.mark.parametrize("device", effort(["wgpu:0"], ["cpu", "wgpu:0", "xla:cpu"]))
def test_a_classifier_shows_its_confusion_by_itself(workspace: Workspace, device: str) -> None:
    """As the block of the standard library has it, also over batches of two sizes."""
    accuracy = "  metric accuracy = mean(y == argmax(logits, 1))\n"
    own = "  show own = confusion_matrix(logits, y)\n"
    text = SHOWING[: SHOWING.index("  show")] + accuracy + own + SHOWING[SHOWING.index("  run:") :]
    workspace.write(text)
    program = meganeura.load(str(workspace.folder / "fit.mgn"))
    run = program.train(device=device, settings={"epochs": 1}, out=workspace.folder / "run")
    files = {path.name.split("-")[0]: path for path in (run.folder / FOLDER).iterdir()}
    mistakes = json.loads(files.pop("mistakes.json").read_text())
    assert files.keys() == {"confusion", "own"}
    assert mistakes["count"] == pytest.approx(5 - 5 * run.held_out[-1]["accuracy"], abs=1e-6)
    itself, asked = (json.loads(files[name].read_text()) for name in ("confusion", "own"))
    assert itself == asked
    trace = sum(itself["rows"][each][each] for each in range(3))
    assert trace == pytest.approx(run.held_out[-1]["accuracy"], abs=1e-6)


def test_what_is_no_classifier_shows_nothing(workspace: Workspace) -> None:
    for metric in ("mean(argmax(logits, 1) == argmax(x, 1))", "mean(argmax(logits, 0) == iota(3))"):
        at = SHOWING.index("  show")
        text = f"{SHOWING[:at]}  metric m = {metric}\n{SHOWING[SHOWING.index('  run:') :]}"
        workspace.write(text)
        workspace.start(metric[13:21], "epochs=1")
        assert not (workspace.folder / metric[13:21] / FOLDER).exists()
    wide = np.zeros((2, 60), np.float32)
    for classes, shown in (
        (50, {"accuracy", CONFUSION, LABELS, LOGITS}),
        (51, {"accuracy"}),
        (2, {"accuracy", CONFUSION, LABELS, LOGITS}),
        (1, {"accuracy"}),
    ):
        build = Builder()
        logits = build.add(Input("logits", DType.F32, (2, classes)))
        labels = build.add(Input("labels", DType.I32, (2,)))
        same = build.add(Compare("eq"), build.add(ArgMax(1), logits), labels)
        graph = with_confusion(build.graph({"accuracy": build.add(Cast(DType.F32), same)}))
        assert graph.outputs.keys() == shown
        label = min(3, classes - 1)
        fed = {"logits": wide[:, :classes], "labels": np.array([label, -100], np.int32)}
        if CONFUSION in graph.outputs:
            matrix = evaluate(graph, fed).outputs[CONFUSION]
            assert (matrix.sum(), matrix[label, 0]) == (0.5, 0.5)


def test_a_choice_at_each_of_several_places_is_no_class_of_an_example() -> None:
    build = Builder()
    logits = build.add(Input("logits", DType.F32, (2, 3, 4)))
    labels = build.add(Input("labels", DType.I32, (2, 4)))
    same = build.add(Compare("eq"), build.add(ArgMax(1), logits), labels)
    graph = build.graph({"accuracy": build.add(Cast(DType.F32), same)})
    assert with_confusion(graph) is graph


def test_what_is_shown_is_nothing_a_schedule_follows(workspace: Workspace) -> None:
    workspace.write(SHOWING)
    with pytest.raises(ProblemError) as error:
        workspace.job('schedule=plateau(metric="show points")')
    assert isinstance(error.value.problem, NothingToFollow)
    assert error.value.problem.known == ("loss",)


@pytest.mark.parametrize("shape", [(4, 6), (1, 4, 6), (4, 6, 1), (3, 4, 6), (4, 6, 3)])
def test_pictures_lie_side_by_side(shape: tuple[int, ...]) -> None:
    values = np.linspace(-0.5, 1.5, 5 * int(np.prod(shape)), dtype=np.float32).reshape(5, *shape)
    values[0].flat[0] = np.nan
    image = Image.open(io.BytesIO(png(sheet(list(values)))))
    assert (image.mode, image.size) == ("RGB", (3 * 7 - 1, 2 * 5 - 1))
    pixels = np.asarray(image)
    wide = values.reshape(5, *shape, 1) if len(shape) == 2 else values
    wide = wide.transpose(0, 2, 3, 1) if len(shape) == 3 and shape[0] in (1, 3) else wide
    expected = np.rint(np.clip(np.nan_to_num(wide), 0, 1) * 255)
    np.testing.assert_array_equal(pixels[5:9, 7:13], np.broadcast_to(expected[4], (4, 6, 3)))
    assert (pixels[4] == 128).all()


def test_what_is_shown_stays_as_it_was_when_the_device_gave_it(tmp_path: Path) -> None:
    """The arrays may be its own memory, which the next batch is measured in."""
    shown, pictures, matrix = VisualLog(), np.zeros((2, 3, 3)), np.zeros((2, 2))
    for name, value in (("p", pictures), ("m", matrix)):
        shown.add(name, 2, value)
        value[:] = 1
    files = dict(shown.write(tmp_path, 1))
    assert (np.asarray(Image.open(tmp_path / FOLDER / files["p"])) == 0)[:, :3].all()
    assert json.loads((tmp_path / FOLDER / files["m"]).read_text())["rows"] == [[0, 0], [0, 0]]


def test_matrices_are_means_over_all_examples(tmp_path: Path) -> None:
    shown = VisualLog()
    shown.add("m", 3, np.ones((2, 2), np.float32))
    shown.add("m", 1, np.array([[5, 1], [np.nan, 1]], np.float32))
    assert list(shown.write(tmp_path, 7)) == [("m", "m-00000007.json")]
    stored = json.loads((tmp_path / FOLDER / "m-00000007.json").read_text())
    assert stored == {"examples": 4, "rows": [[2.0, 1.0], [None, 1.0]]}


def test_no_more_pictures_are_kept_than_are_drawn(tmp_path: Path) -> None:
    shown = VisualLog()
    for _ in range(3):
        shown.add("p", 10, np.ones((10, 2, 2), bool))
    list(shown.write(tmp_path, 1))
    with Image.open(tmp_path / FOLDER / "p-00000001.png") as image:
        assert image.size == (4 * 3 - 1, 4 * 3 - 1)


def test_a_page_has_the_newest_that_fit_and_small_matrices(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    noise = np.random.default_rng(0).random((90, 500, 3))
    content = png((noise * 255).astype(np.uint8))
    assert BUDGET / 3 < len(content) * 4 / 3 < BUDGET / 2
    files = [ShownFile("p", f"p-{step}.png", step) for step in range(4)]
    for each in files:
        (tmp_path / FOLDER / each.file).write_bytes(content)
    large = {"examples": 2, "rows": np.arange(130 * 4.0).reshape(130, 4).tolist()}
    (tmp_path / FOLDER / "m.json").write_text(json.dumps(large))
    (pictures,) = shown_data(tmp_path, files)
    assert [each["step"] for each in pictures["frames"]] == [2, 3]
    (matrix,) = shown_data(tmp_path, [ShownFile("m", "m.json", 1)])
    (frame,) = matrix["frames"]
    assert (frame["by"], len(frame["rows"]), len(frame["rows"][0])) == (3, 44, 2)
    assert len(frame["rows"]) <= LARGEST
    assert frame["rows"][0][0] == pytest.approx(np.mean([0, 1, 2, 4, 5, 6, 8, 9, 10]))


@pytest.mark.parametrize(
    "text",
    [
        "{", "[]", "{}", '{"rows": 3}', '{"examples": 1}', '{"rows": [[1]]}',
        '{"rows": [1], "examples": 1}', '{"rows": [["a"]], "examples": 1}',
        '{"rows": [[1]], "examples": "many"}', '{"rows": [[1]], "examples": null}',
        '{"rows": [[1]], "examples": 1e999}', f'{{"rows": [[1{"0" * 400}]], "examples": 1}}',
        "[" * 99_999,
    ],
)  # fmt: skip
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "m.json").write_text(text)
    with pytest.raises(ProblemError, match=r"E0621.*m\.json"):
        shown_data(tmp_path, [ShownFile("m", "m.json", 1)])


def test_the_newest_picture_is_there_though_it_takes_more_than_its_share(tmp_path: Path) -> None:
    """Unless it alone is more than a page may take."""
    (tmp_path / FOLDER).mkdir()
    small, large, enormous = (bytes(size) for size in (10, BUDGET * 3 // 4 * 5 // 8, BUDGET))
    for name, content in (("a", small), ("b", large), ("c", enormous)):
        (tmp_path / FOLDER / f"{name}.png").write_bytes(content)
    files = [
        ShownFile("p", "a.png", 1), ShownFile("p", "b.png", 2),
        ShownFile("q", "b.png", 1), ShownFile("q", "a.png", 2), ShownFile("q", "a.png", 3),
        ShownFile("r", "a.png", 1), ShownFile("r", "c.png", 2),
    ]  # fmt: skip
    found = {each["name"]: each["frames"] for each in shown_data(tmp_path, files)}
    steps = {name: [frame["step"] for frame in frames] for name, frames in found.items()}
    assert steps == {"p": [2], "q": [2, 3], "r": []}


def test_a_matrix_is_drawn_by_blocks_along_its_longer_side(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    numbers: list[list[float]] = np.arange(4 * 130.0).reshape(4, 130).tolist()
    rows = [[None, *numbers[0][1:]], *numbers[1:]]
    (tmp_path / FOLDER / "m.json").write_text(json.dumps({"examples": 2, "rows": rows}))
    (matrix,) = shown_data(tmp_path, [ShownFile("m", "m.json", 1)])
    (frame,) = matrix["frames"]
    assert (frame["by"], len(frame["rows"]), len(frame["rows"][0])) == (3, 2, 44)
    assert frame["rows"][0][0] is None
    assert frame["rows"][1] == [
        pytest.approx(np.mean(range(390 + at, 390 + min(at + 3, 130)))) for at in range(0, 130, 3)
    ]


def test_no_file_outside_of_the_run_is_read(tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(b"secret")
    with pytest.raises(ProblemError, match=r"E0621.*shown/secret\.png"):
        shown_data(tmp_path, [ShownFile("m", "../secret.png", 1)])


@pytest.mark.parametrize(("total", "batch"), [(5, 2), (16, 16), (31, 7), (120, 32), (1000, 64)])
def test_pictures_are_of_examples_from_all_of_them(tmp_path: Path, total: int, batch: int) -> None:
    """So that examples that lie in the order of their classes are not all of the first."""
    shown = VisualLog()
    numbers = np.arange(total, dtype=np.float32) / 1000
    for first in range(0, total, batch):
        part = numbers[first : first + batch]
        shown.add("p", len(part), part[:, None, None])
    list(shown.write(tmp_path, 1))
    pixels = np.asarray(Image.open(tmp_path / FOLDER / "p-00000001.png"))[::2, ::2, 0]
    found = pixels.reshape(-1)[: min(total, 16)].astype(int)
    expected = np.rint(np.linspace(0, total, len(found), endpoint=False) * 0.255)
    assert np.abs(found - expected).max() <= total * 0.255 / 16 + 1


def test_images_are_drawn_as_they_were_before_they_were_normalised() -> None:
    steps = ImageSteps(None, None, Filter.BILINEAR, 1 / 255, (0.5, 0.4, 0.3), (0.2, 0.3, 0.4))
    images = ImagePreparation.of(3, 2, 2, steps)
    before = np.linspace(0, 1, 24, dtype=np.float32).reshape(2, 3, 2, 2)
    mean, std = (np.array(each).reshape(3, 1, 1) for each in (steps.mean, steps.std))
    value = ((before - mean) / std).astype(np.float32)
    build = Builder()
    leaf = build.add(Input("image", DType.F32, (2, 3, 2, 2)))
    drawn = as_drawn(leaf, value, images).astype(np.float32)
    np.testing.assert_allclose(drawn, before, atol=1e-6)
    computed = build.add(Cast(DType.F32), build.add(Compare("eq"), leaf, leaf))
    assert as_drawn(computed, value, images) is value
    assert as_drawn(leaf, value, None) is value
    assert as_drawn(leaf, value[:, :1], images).shape == (2, 1, 2, 2)
