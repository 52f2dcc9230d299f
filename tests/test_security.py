"""Promises of docs/security.md, as far as no other test covers them."""

import ast
import os
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from meganeura.cli.reports.model_outputs import read_labels
from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.terminal import render
from meganeura_dsl.syntax.parser.source_files import read_source
from meganeura_runtime.export.mgb import Artefact
from meganeura_runtime.io.checkpoint import read_checkpoint
from meganeura_runtime.io.data.data_problems import OutsideFolder
from meganeura_runtime.io.data.idx_files import read_idx
from meganeura_runtime.io.data.numpy_files import read_npy, read_npz
from meganeura_runtime.io.preprocess.preprocessor_config import image_steps
from meganeura_runtime.io.tensors.safetensors_file import read_tensors
from meganeura_runtime.io.tensors.sharded_weights import open_weights
from meganeura_runtime.train.spec.train_job import prepare

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("meganeura", "meganeura_dsl", "runtime/meganeura_runtime")
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_MODULES = {"pickle", "marshal", "shelve", "dill", "joblib", "subprocess", "ctypes"}
STARTS_PROCESSES = {
    ROOT / "runtime/meganeura_runtime/io/data/decode_pool.py",
    ROOT / "runtime/meganeura_runtime/importing/source/source_import.py",
    ROOT / "runtime/meganeura_runtime/support/worker_process.py",
}
"""The modules that do: our own interpreter, a module of ours, no word from a file."""
PROGRAM = """\
train fit(x: [batch, 2]):
  minimize mean(x |> fc: linear(1))
  run:
    data      = "{data}"
    batch     = 2
    optimizer = sgd(lr=0.1)
"""


def nodes() -> Iterator[tuple[Path, ast.AST]]:
    """The syntax of files that have a forbidden word in them, as a name or otherwise."""
    words = re.compile("|".join({*FORBIDDEN_CALLS, *FORBIDDEN_MODULES, "allow_pickle"}))
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if words.search(text):
                for node in ast.walk(ast.parse(text)):
                    yield path, node


def test_nothing_evaluates_text() -> None:
    seen = 0
    evaluating: list[tuple[Path, str]] = []
    for path, node in nodes():
        seen += 1
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in FORBIDDEN_CALLS:
                evaluating.append((path, name))
            case ast.Import(names=names):
                found = {each.name.partition(".")[0] for each in names}
                if path in STARTS_PROCESSES:
                    found -= {"subprocess"}
                assert not found & FORBIDDEN_MODULES, f"{path} imports {found}"
            case ast.ImportFrom(module=str(module)):
                assert module.partition(".")[0] not in FORBIDDEN_MODULES, f"{path}: {module}"
            case ast.keyword(arg="allow_pickle", value=ast.Constant(value=value)):
                assert value is False, f"{path} allows pickle"
            case _:
                pass
    assert evaluating == []
    assert seen > 10_000


@pytest.mark.parametrize("module", ["..secret", ".secret", "/etc/secret", "a/../secret", "~.x"])
def test_an_import_cannot_climb(tmp_path: Path, module: str) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "secret.mgn").write_text("def f(x) = x\n")
    (inner / "net.mgn").write_text(f"from {module} import f\n")
    result = pipeline.check_file(str(inner / "net.mgn"))
    assert not result.fine
    assert not any(re.search(r"secret\.mgn", str(report)) for report in result.reports)


@pytest.mark.parametrize("written", ["../x.safetensors", "sub/../../x.safetensors", "{absolute}"])
def test_data_of_a_program_stays_below_its_folder(tmp_path: Path, written: str) -> None:
    absolute = tmp_path / "x.safetensors"
    save_file({"x": np.ones((4, 2), np.float32)}, absolute)
    inner = tmp_path / "inner"
    inner.mkdir()
    file = inner / "net.mgn"
    file.write_text(PROGRAM.format(data=written.format(absolute=absolute)))
    program = pipeline.load(str(file))
    with pytest.raises(ProblemError) as caught:
        prepare(program, "fit", inner)
    assert isinstance(caught.value.problem, OutsideFolder)
    caught.value.problem.report()
    allowed = prepare(program, "fit", inner, [f"data={absolute}"])
    assert allowed.dataset.train.examples == 4


def test_named_data_of_a_program_stays_below_its_folder(tmp_path: Path) -> None:
    save_file({"points": np.ones((4, 2), np.float32)}, tmp_path / "x.safetensors")
    inner = tmp_path / "inner"
    inner.mkdir()
    text = PROGRAM.replace('"{data}"', 'file("../x.safetensors", x="points")')
    (inner / "net.mgn").write_text(text)
    program = pipeline.load(str(inner / "net.mgn"))
    with pytest.raises(ProblemError, match="E0529"):
        prepare(program, "fit", inner)
    path = tmp_path / "x.safetensors"
    allowed = prepare(program, "fit", inner, [f'data=file("{path}", x="points")'])
    assert allowed.dataset.train.examples == 4


def test_data_in_a_folder_below_is_found(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    save_file({"x": np.ones((4, 2), np.float32)}, tmp_path / "data" / "x.safetensors")
    file = tmp_path / "net.mgn"
    file.write_text(PROGRAM.format(data="data/x.safetensors"))
    assert prepare(pipeline.load(str(file)), "fit", tmp_path).steps_per_epoch == 2


def test_every_promise_names_a_test_that_exists() -> None:
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page)
    assert len(named) >= 9
    for path, test in named:
        assert f"def {test}(" in (ROOT / path).read_text(encoding="utf-8"), f"{path}::{test}"


# --- only files ----------------------------------------------------------------------------------


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.fspath(path))


READERS: dict[str, Callable[[Path], object]] = {
    "net.mgn": read_source,
    "x.safetensors": read_tensors,
    "x.npy": read_npy,
    "x.npz": read_npz,
    "x-idx1-ubyte": read_idx,
    "x-idx1-ubyte.gz": read_idx,
    "model.safetensors.index.json": open_weights,
    "checkpoint.safetensors": read_checkpoint,
    "model.mgb": Artefact.read,
    "labels.txt": read_labels,
    "preprocessor_config.json": image_steps,
}


@pytest.mark.parametrize("make", [make_pipe, make_device, make_socket, Path.mkdir])
@pytest.mark.parametrize("name", READERS)
def test_what_is_no_file_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, make: Callable[[Path], None]
) -> None:
    """A pipe that nobody writes to would keep its reader for ever; a device need not end."""
    monkeypatch.chdir(tmp_path)
    make(Path(name))
    with pytest.raises(ProblemError) as caught:
        READERS[name](Path(name))
    words = render(caught.value.problem.report(), colour=False)
    kinds = ("a pipe", "a device", "a socket", "a folder", "there is no")  # in a folder of weights
    assert any(kind in words for kind in kinds)


def test_standard_input_and_its_kin_are_read_if_they_are_files(tmp_path: Path) -> None:
    program = tmp_path / "net.mgn"
    program.write_text("def f(x) = x\n")
    with program.open() as file:
        assert read_source(Path(f"/dev/fd/{file.fileno()}")).text == "def f(x) = x\n"
    ends = os.pipe()
    with pytest.raises(ProblemError) as caught:
        read_source(Path(f"/dev/fd/{ends[0]}"))
    assert "a pipe" in render(caught.value.problem.report(), colour=False)
    for end in ends:
        os.close(end)
