"""Start-up tricks change no result, can be switched off, and refuse versions they do not know."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from safetensors.numpy import save_file

from meganeura_dsl.startup.tricks import PLAIN, VARIABLE, StartupError, Trick, is_enabled
from meganeura_dsl.transforms.egraph.encoding import egglog_engine
from meganeura_runtime.backends.errors import DeviceError
from meganeura_runtime.backends.webgpu.device import wgpu_native
from tests.cli.command import Command

ROOT = Path(__file__).parents[2]

PROGRAM = """\
model line = Line()

block Line()(x: [n, 2]) -> [n, 1]:
  return x |> fc: linear(1)

train fit(x: [batch, 2], y: [batch, 1]):
  minimize mse(x |> line, y)
  run:
    data = "points.safetensors"
    batch = 4
"""

COMMANDS = (
    ("check", "line.mgn"),
    ("build", "line.mgn", "--emit", "optimized"),
    ("train", "line.mgn", "--device", "wgpu:0", "--out", "run"),
)

SCRIPT = f"""
import sys
from meganeura.cli.app import run
for command in {COMMANDS}:
    assert run(list(command)) == 0
    print("loaded", sorted(sys.modules.keys() & {{"numpy", "egglog"}}))
"""


def started(folder: Path, tricks: str) -> list[str]:
    """Returns the output of the commands in a new process, with these tricks switched off."""
    folder.mkdir()
    (folder / "line.mgn").write_text(PROGRAM)
    random = np.random.default_rng(0)
    points = {"x": random.normal(size=(8, 2)), "y": random.normal(size=(8, 1))}
    save_file(
        {f"{split}.{name}": each.astype(np.float32) for split in ("train", "test")
         for name, each in points.items()},
        folder / "points.safetensors",
    )  # fmt: skip
    environment = {**os.environ, VARIABLE: tricks, "MEGANEURA_CACHE": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=folder, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.splitlines()


def before_training(lines: list[str]) -> tuple[list[str], list[str]]:
    """Returns the output of `check` and `build`; a training prints times."""
    first, second, _ = (at for at, line in enumerate(lines) if line.startswith("loaded"))
    return lines[:first], lines[first + 1 : second]


@pytest.mark.adapter
def test_results_are_the_same_without_tricks(tmp_path: Path) -> None:
    """Nor is NumPy loaded by a check, nor the package of egglog by anything, with tricks."""
    plain, fast = (started(tmp_path / name, tricks) for name, tricks in TRICKS.items())
    loaded = [[line for line in lines if line.startswith("loaded")] for lines in (plain, fast)]
    assert loaded[0] == ["loaded ['numpy']", *["loaded ['egglog', 'numpy']"] * 2]
    assert loaded[1] == ["loaded []", *["loaded ['numpy']"] * 2]
    before = [before_training(lines) for lines in (plain, fast)]
    assert before[0] == before[1]
    assert any("output" in line for line in before[0][1])
    weights = [tmp_path / name / "run/weights.safetensors" for name in TRICKS]
    assert weights[0].read_bytes() == weights[1].read_bytes()


TRICKS = {"plain": PLAIN, "fast": ""}


def loaded(*arguments: str) -> set[str]:
    """The modules that a command loads in its own process, where no proof is kept."""
    script = """\
import sys
from meganeura.cli.main import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)"""
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, VARIABLE: "", "MEGANEURA_CACHE": "off"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return set(done.stderr.split())


def test_a_check_loads_what_it_needs() -> None:
    """A check loads no other command, no device and no NumPy."""
    found = loaded("check", "digits_mlp")
    commands = {each for each in found if each.startswith("meganeura.cli.commands.")}
    assert commands == {"meganeura.cli.commands.check"}
    assert not found & {"egglog", "jax", "numpy", "wgpu"}


def test_help_loads_no_program_and_no_pydantic() -> None:
    found = loaded("--help")
    assert "meganeura.cli.commands.check" in found
    assert not found & {"meganeura_dsl.pipeline", "numpy", "pydantic"}


def test_names_of_tricks_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "gc, numpy")
    assert [each for each in Trick if not is_enabled(each)] == [Trick.GC, Trick.NUMPY]
    monkeypatch.setenv(VARIABLE, PLAIN)
    assert not any(map(is_enabled, Trick))
    monkeypatch.setenv(VARIABLE, "numpi")
    with pytest.raises(StartupError, match="names `numpi`; there are plain, cffi, egglog, gc"):
        is_enabled(Trick.GC)
    done = subprocess.run(
        [sys.executable, "-m", "meganeura", "check", "resnet18"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert done.stderr.startswith(f"Error: {VARIABLE} names `numpi`")
    assert "Traceback" not in done.stderr


def test_every_trick_is_documented_with_its_gain() -> None:
    page = (ROOT / "docs/performance.md").read_text()
    assert VARIABLE in page
    for trick in Trick:
        assert f"| `{trick}` | `" in page


def test_versions_are_those_that_are_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    major, minor = wgpu_native.VERSION
    assert project["optional-dependencies"]["optimize"] == [f"egglog=={egglog_engine.VERSION}"]
    assert f"wgpu>={major}.{minor},<{major}.{minor + 1}" in project["dependencies"]


def test_another_wgpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    other = ModuleType("wgpu")
    other.__dict__.update(__version__="0.33.1", version_info=(0, 33, 1))
    monkeypatch.setitem(sys.modules, "wgpu", other)
    with pytest.raises(DeviceError, match=r"wgpu 0\.33\.1 is installed, 0\.32 is needed"):
        wgpu_native.WGPU.module()


@pytest.mark.parametrize("tricks", ["", PLAIN])
def test_another_egglog_is_refused(
    monkeypatch: pytest.MonkeyPatch, meganeura: Command, tricks: str
) -> None:
    monkeypatch.setenv(VARIABLE, tricks)
    monkeypatch.setattr(egglog_engine, "VERSION", "99.0")
    monkeypatch.delitem(sys.modules, "egglog.bindings", raising=False)
    monkeypatch.setattr(egglog_engine, "_KNOWN", egglog_engine._Known())
    shown = meganeura("explain-opt", "digits_mlp")
    assert shown.code == 1
    assert "egglog 99.0, which optimizes programs, is not installed" in shown.err
    assert "there is  egglog-13.2.0" in shown.err
