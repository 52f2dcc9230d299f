"""Start-up tricks change no result, can be switched off, and refuse versions they do not know."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.startup.tricks import PLAIN, VARIABLE, StartupError, Trick, is_enabled
from meganeura_dsl.transforms.egraph.encoding import egglog_engine
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_runtime.backends.errors import DeviceError
from meganeura_runtime.backends.webgpu.device import adapters
from tests.cli.command import Command

ROOT = Path(__file__).parents[2]

TRAIN = ("train", "digits_mlp", "--set", "epochs=1", "--set", "log_every=0", "--out", "run")
COMMANDS = (
    ("check", "digits_mlp"),
    ("build", "digits_mlp", "--emit", "optimized"),
    (*TRAIN, "--device", "wgpu:0"),
)


def started(folder: Path, tricks: str, *arguments: str) -> str:
    """What a process of its own prints, with these tricks switched off."""
    folder.mkdir(exist_ok=True)
    environment = {**os.environ, VARIABLE: tricks, "MEGANEURA_CACHE": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, "-m", "meganeura", *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


@pytest.mark.adapter
def test_results_are_the_same_without_tricks(tmp_path: Path) -> None:
    for command in COMMANDS[:2]:
        plain = started(tmp_path / "plain", PLAIN, *command)
        assert plain == started(tmp_path / "fast", "", *command) != ""
    for name, tricks in (("plain", PLAIN), ("fast", "")):
        started(tmp_path / name, tricks, *COMMANDS[2])
    weights = [tmp_path / name / "run/weights.safetensors" for name in ("plain", "fast")]
    assert weights[0].read_bytes() == weights[1].read_bytes()


LOADED = "import sys; sys.argv[0] = 'meganeura'\nfrom meganeura.cli.app import run\n" + (
    "run(sys.argv[1:])\nprint(sys.modules.keys() & {'numpy', 'egglog'})"
)


@pytest.mark.parametrize(
    ("tricks", "command", "loaded"),
    [
        ("", ("check", "resnet18"), "set()"),
        ("numpy", ("check", "resnet18"), "{'numpy'}"),
        ("", ("explain-opt", "digits_mlp"), "{'numpy'}"),
        ("egglog", ("explain-opt", "digits_mlp"), "{'egglog', 'numpy'}"),
    ],
)
def test_a_trick_is_used_unless_it_is_switched_off(
    tricks: str, command: tuple[str, ...], loaded: str
) -> None:
    environment = {**os.environ, VARIABLE: tricks, "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *command],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert set(eval(done.stdout.splitlines()[-1])) == set(eval(loaded))  # noqa: S307


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
    for trick in (*Trick, PLAIN):
        assert f"| `{trick}` | `" in page


def test_versions_are_those_that_are_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    major, minor = adapters.VERSION
    assert f"egglog=={egglog_engine.VERSION}" in project["dependencies"]
    assert f"wgpu>={major}.{minor},<{major}.{minor + 1}" in project["dependencies"]


def test_another_wgpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    other = ModuleType("wgpu")
    other.__dict__.update(__version__="0.33.1", version_info=(0, 33, 1))
    monkeypatch.setitem(sys.modules, "wgpu", other)
    with pytest.raises(DeviceError, match=r"wgpu 0\.33\.1 is installed, 0\.32 is needed"):
        adapters.wgpu_module()


@pytest.mark.parametrize("tricks", ["", PLAIN])
def test_another_egglog_is_refused(
    monkeypatch: pytest.MonkeyPatch, meganeura: Command, tricks: str
) -> None:
    monkeypatch.setenv(VARIABLE, tricks)
    monkeypatch.setattr(egglog_engine, "VERSION", "99.0")
    monkeypatch.delitem(sys.modules, "egglog.bindings", raising=False)
    monkeypatch.setattr(egglog_engine, "_KNOWN", egglog_engine._Known())
    with pytest.raises(ProblemError, match=r"egglog 99\.0 is needed, and egglog-\S+ is installed"):
        RewriteOptions().optimize(Graph((), {}), "infer")
    shown = meganeura("explain-opt", "digits_mlp")
    assert shown.code == 1
    assert "egglog 99.0 is needed" in shown.err
