"""`-o`: a command replaces what it wrote before, and nothing else without `--force`."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

import meganeura as api
from tests.cli.command import Command

PROGRAM = """\
block Net(classes)(image: [n, 3, h, w]) -> [n, classes]:
  return image |> mean(2, 3) |> fc: linear(classes)

model net = Net(classes=3)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("net.mgn").write_text(PROGRAM)
    api.load("net.mgn").model(seed=0).save("w.safetensors")
    np.save("image.npy", np.zeros((1, 3, 4, 4), np.float32))
    Path("wholly_own.html").write_text("<html>by hand</html>")
    Path("notes.mgb").write_text("no model")
    return tmp_path


WEIGHTS = ("--weights", "w.safetensors")
RUN = ("run", "net.mgn", *WEIGHTS, "--input", "image.npy", "--device", "cpu")
BUILD = ("build", "net.mgn", *WEIGHTS, "--size", "n=1", "--size", "h=4", "--size", "w=4")
REFUSED = [
    (("deploy", "net.mgn", *WEIGHTS, "-o", "page.html"), 2),
    (("deploy", "net.mgn", *WEIGHTS, "-o", "w.safetensors"), 1),
    (("build", "net.mgn", *WEIGHTS, "-o", "net.mgn"), 2),
    (("build", "net.mgn", *WEIGHTS, "-o", "model"), 2),
    ((*BUILD, "-o", "wholly_own.html"), 1),
    ((*BUILD, "-o", "notes.mgb"), 1),
    ((*BUILD, "--split", "-o", "notes.html"), 1),
    ((*RUN, "-o", "w.safetensors"), 1),
    ((*RUN, "-o", "image.npy"), 1),
    ((*RUN, "-o", "net.mgn"), 2),
    (("export", "net.mgn", *WEIGHTS, "-o", "net.mgn"), 2),
]


@pytest.mark.parametrize(("words", "code"), REFUSED, ids=lambda each: str(each)[:60])
def test_what_a_command_did_not_write_stays(
    meganeura: Command, folder: Path, words: tuple[str, ...], code: int
) -> None:
    before = {path: path.read_bytes() for path in folder.iterdir()}
    shown = meganeura(*words)
    assert shown.code == code
    assert "E0539" in shown.err if code == 1 else "the name ends in" in shown.err
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.usefixtures("folder")
def test_weights_of_a_run_are_not_replaced_by_outputs(meganeura: Command) -> None:
    api.load("net.mgn").model(seed=1).save("other.safetensors")
    before = Path("other.safetensors").read_bytes()
    shown = meganeura(*RUN, "-o", "other.safetensors")
    assert "it is not the outputs of a model" in shown.err
    assert Path("other.safetensors").read_bytes() == before
    assert meganeura(*RUN, "-o", "other.safetensors", "--force").code == 0
    assert Path("other.safetensors").read_bytes() != before
    assert meganeura(*RUN, "-o", "other.safetensors").code == 0


@pytest.mark.usefixtures("folder")
def test_what_it_wrote_before_is_replaced(meganeura: Command) -> None:
    for words in (
        (*BUILD, "-o", "net.mgb"),
        (*BUILD, "-o", "net.html"),
        (*BUILD, "--split", "-o", "two.html"),
        ("deploy", "net.mgn", *WEIGHTS, "-o", "small.safetensors"),
        ("export", "net.mgn", *WEIGHTS, "-o", "net.onnx"),
        (*RUN, "-o", "out.npy"),
    ):
        assert meganeura(*words).code == 0, words
        assert meganeura(*words).code == 0, words
    assert meganeura(*BUILD, "-o", "notes.mgb", "--force").code == 0


@pytest.mark.usefixtures("folder")
def test_an_import_replaces_neither_a_program_nor_weights_beside_it(meganeura: Command) -> None:
    assert meganeura("export", "net.mgn", *WEIGHTS, "-o", "net.onnx").code == 0
    before = Path("w.safetensors").read_bytes()
    shown = meganeura("import", "net.onnx", "-o", "net.mgn")
    assert "it is a program" in shown.err
    assert Path("net.mgn").read_text() == PROGRAM
    shown = meganeura("import", "net.onnx", "-o", "w.mgn")
    assert "`w.safetensors` would be replaced" in shown.err
    assert Path("w.safetensors").read_bytes() == before
    assert not Path("w.mgn").exists()
    assert meganeura("import", "net.onnx", "-o", "w.mgn", "--force").code == 0
    assert Path("w.safetensors").read_bytes() != before


def test_a_report_does_not_replace_the_records_of_its_run(meganeura: Command, folder: Path) -> None:
    words = ("--set", "epochs=1", "--set", "batch=64", "--device", "cpu", "--out", "run")
    assert meganeura("train", "digits_mlp", *words).code == 0
    before = (folder / "run" / "metrics.jsonl").read_bytes()
    assert meganeura("report", "run", "-o", "run/metrics.jsonl").code == 2
    assert (folder / "run" / "metrics.jsonl").read_bytes() == before
    assert meganeura("report", "run", "-o", "wholly_own.html").code == 1
    assert meganeura("report", "run", "-o", "run/report.html").code == 0


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_a_folder_is_refused_before_anything_is_computed(
    meganeura: Command, folder: Path, force: tuple[str, ...]
) -> None:
    (folder / "y.npy").mkdir()
    shown = meganeura("run", "net.mgn", *WEIGHTS, "--input", "none.npy", "-o", "y.npy", *force)
    assert shown.code == 1
    assert "it is a folder" in shown.err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("words", [("run", "net.mgn"), ("build", "net.mgn"), ("report", "run")])
def test_force_without_a_file_is_refused(meganeura: Command, words: tuple[str, ...]) -> None:
    shown = meganeura(*words, "--force")
    assert shown.code == 2
    assert "there is no file to replace: give -o FILE" in shown.err


@pytest.mark.usefixtures("folder")
def test_outputs_say_what_they_are(meganeura: Command) -> None:
    assert meganeura(*RUN, "-o", "out.safetensors").code == 0
    with safe_open("out.safetensors", "numpy") as file:
        assert json.loads(json.dumps(file.metadata()))["meganeura.holds"] == "outputs"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("deploy", "digits_mlp", "--weights", "w", "-o", "page.html"), "`meganeura build`"),
        (("export", "digits_mlp", "-o", "net.mgb"), "`meganeura build`"),
        (("run", "digits_mlp", "-o", "net.csv"), "`meganeura predict`"),
    ],
)
def test_another_command_that_writes_a_suffix_is_named(
    words: tuple[str, ...], said: str, meganeura: Command
) -> None:
    shown = meganeura(*words)
    suffix = words[-1].partition(".")[2]
    assert shown.code == 2
    assert f"a .{suffix} is written by {said}" in " ".join(shown.err.split())
