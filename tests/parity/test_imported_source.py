"""PyTorch source that is imported by its file and a name, as the worker process does."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import meganeura as api
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.importing.source import source_import, source_worker
from meganeura_runtime.importing.source.exported_sizes import open_sizes
from meganeura_runtime.importing.source.source_text import example, python_source
from tests.effort import effort

SOURCE = """
import torch
from torch import nn
from parts import double

print("loaded")


class Net(nn.Module):
    def __init__(self, classes, width=4):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.fc = nn.Linear(width, classes)
        self.fc.bias.requires_grad = False

    def forward(self, x, mask=None, *, scale):
        x = torch.relu(self.stem(x)).mean((2, 3)) * scale
        if x.shape[0] > 3:
            return x
        return double(self.fc(x))


class Fixed(nn.Module):
    def forward(self, x, y):
        return x + y + torch.zeros(3, 1)


class Data(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x


class Fails(nn.Module):
    def forward(self, x):
        return x @ torch.zeros(4, 4)


class Exits(nn.Module):
    def __init__(self):
        raise SystemExit(4)


def made(width=2):
    return nn.Linear(3, width)


def number():
    return 3


instance = made()


class Within:
    @staticmethod
    def made():
        return made(4)
"""
PARTS = "def double(x):\n    return x + x\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "sample.py").write_text(SOURCE)
    (tmp_path / "parts.py").write_text(PARTS)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", [*sys.argv])
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in ("sample", "parts"):
        sys.modules.pop(name, None)


def answered(folder: Path, source: str, *examples: str) -> dict[str, Any]:
    sys.modules.pop("sample", None)
    return source_worker.answer(folder, {"source": source, "examples": examples})


def test_names_and_conditions(folder: Path) -> None:
    assert folder.is_dir()
    source = python_source("sample.py:Net(5)")
    assert source is not None
    net = source_worker._module(torch, source)
    given = source_worker._ordered(
        source, net, [example("scale: f32[]"), example("x: f32[n, 3, h, w]")]
    )
    exported, replaced = source_worker._exported(torch, source, net, given)
    sizes = open_sizes(source.text, exported, given, replaced)
    assert sorted(sizes.names.values()) == ["h", "n", "w"]
    assert list(sizes.conditions) == ["n <= 3"]


def _run_here(_source: object, folder: Path, _show: object) -> None:
    source_worker.write_answer(folder)


@pytest.mark.parametrize("asked", effort(["made(width=5)"], ["made(width=5)", "Net(5, width=6)"]))
def test_the_program_gives_what_the_module_gives(
    asked: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = python_source(f"sample.py:{asked}")
    assert source is not None
    is_net, lines = asked.startswith("Net"), list[str]()
    if not is_net:  # the process itself takes seconds, at night
        monkeypatch.setattr(source_import, "_run", _run_here)
    examples = ["scale: f32[]", "x: f32[n, 3, h, w]"] if is_net else ["input: f32[n, 3]"]
    made = source_import.import_source(source, examples, folder / "net.mgn", {}, lines.append)
    sys.modules.pop("sample", None)
    net = source_worker._module(torch, source)
    if is_net:
        trained = {name for name, each in net.named_parameters() if each.requires_grad}
        assert set(made.trained) == trained
        assert lines == ["loaded\n"]
        assert (
            "(x: [n, 3, h, w], scale: []) -> [n, 5]\n    where n <= 3:" in made.program.read_text()
        )
        given = {"x": np.ones((3, 3, 8, 9), np.float32), "scale": np.full((), 0.5, np.float32)}
    else:
        given = {"input": np.ones((2, 3), np.float32)}
    model = api.load(str(made.program)).model(weights=made.weights)
    (found,) = model.run(given, device="cpu").values()
    with torch.no_grad():
        wanted = net(**{name: torch.tensor(each) for name, each in given.items()}).numpy()
    np.testing.assert_allclose(found, wanted, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "width"), [("made(width=3)", 3), ("made", 2), ("instance", 2), ("Within.made()", 4)]
)
def test_functions_and_instances(name: str, width: int, folder: Path) -> None:
    assert folder.is_dir()
    sys.modules.pop("sample", None)
    source = python_source(f"sample.py:{name}")
    assert source is not None
    net = source_worker._module(torch, source)
    assert (net.out_features, net.training) == (width, False)


@pytest.mark.parametrize(
    ("source", "examples", "messages"),
    [
        ("Nett", [], ["it has no `Nett`", "write sample.py:Net"]),
        ("", [], ["it is not said which module", "sample.py:Net or sample.py:Fixed"]),
        ("Net", [], ["missing a required argument: 'classes'", "sample.py:Net(classes=...)"]),
        ("Net(1, 2, 3)", [], ["has too many positional arguments"]),
        ("nn.init", [], ["`nn.init` is of type module, no torch.nn.Module"]),
        ("number", [], ["the result of `number` is of type int, no torch.nn.Module"]),
        ("torch.Tensor", [], ["`torch.Tensor` does not derive from torch.nn.Module"]),
        ("instance()", [], ["is a module already", "write sample.py:instance"]),
        ("Net(1)", ["y: f32[n, 3]"], ["takes `x`, `mask`, `scale`, and an example is of `y`"]),
        ("Net(1)", ["masks: f32[n]"], ["write `mask` in place of `masks`"]),
        ("Net(1)", ["x: f32[n, 3, 8, 8]"], ["no example is of `scale`"]),
        ("made", [], ["`forward` takes `input`, and no example is of `input`"]),
        ("Exits", [], ["failed when `Exits` was called", "SystemExit: 4", "sample.py, line 42"]),
        ("Fails", ["x: f32[n, 5]"], ["run on zeros: x [2, 5]", "(2x5 and 4x4)", "line 37: return"]),
        ("Data", ["x: f32[n, 5]"], ["depends on numbers of a tensor", "line 30: if x.sum() > 0:"]),
        ("Fixed", ["x: f32[n=3, 5]", "y: f32[n=3, 5]"],
         ["`n` is 3 in the program", "line 25: return x + y + torch.zeros", "write 3 in place"]),
        ("Fixed", ["x: f32[3, a=5]", "y: f32[3, b=5]"], ["`b` is `a` in the program"]),
    ],
)  # fmt: skip
def test_refusals(source: str, examples: list[str], messages: list[str], folder: Path) -> None:
    with pytest.raises(ProblemError) as raised:
        answered(folder, f"sample.py:{source}" if source else "sample.py", *examples)
    for each in messages:
        assert each in str(raised.value)


def test_an_error_shows_the_lines_of_its_file_alone(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "sample.py").write_text("import json\njson.loads('{')\n")
    with pytest.raises(ProblemError, match="failed while it was loaded"):
        answered(folder, "sample.py:Net")
    shown = capfd.readouterr().err
    assert 'sample.py", line 2' in shown
    assert "meganeura" not in shown
    (folder / "sample.py").write_text("def f(:\n")
    with pytest.raises(ProblemError, match=r"sample\.py, line 1"):
        answered(folder, "sample.py:Net")
