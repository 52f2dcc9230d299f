"""A backend of another package, which is a folder and an entry point: tests/toy_backend."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import meganeura as api
from meganeura_dsl.plugins import plugin_groups
from meganeura_runtime.backends import registry
from meganeura_runtime.backends.op_support import ALL_OPS
from meganeura_runtime.backends.webgpu.device import adapters
from tests.cli.command import Command

TOY = Path(__file__).parents[1] / "toy_backend"
SHORT = ("--set", "epochs=1", "--set", "batch=256", "--set", "log_every=0")


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(TOY))
    monkeypatch.setattr(adapters, "list_devices", lambda *_: ())
    # What is installed is looked up once in a process; here it differs from test to test.
    plugin_groups.entry_points.cache_clear()
    yield
    plugin_groups.entry_points.cache_clear()


@pytest.fixture
def image(tmp_path: Path) -> str:
    np.save(tmp_path / "image.npy", np.arange(128, dtype=np.float32).reshape(2, 1, 8, 8) % 17)
    return str(tmp_path / "image.npy")


def test_the_command_line_finds_it_by_its_entry_point(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(TOY), "MEGANEURA_CACHE": "off"}
    command = [sys.executable, "-m", "meganeura", "train", "digits_mlp", "--device", "toy", *SHORT]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("device: toy (as asked)\n")
    assert (tmp_path / "runs/fit-1/weights.safetensors").is_file()


def test_it_trains_and_runs_as_the_reference_does(meganeura: Command, image: str) -> None:
    for device in ("toy:1", "cpu"):
        name = device.partition(":")[0]
        shown = meganeura("train", "digits_mlp", "--device", device, *SHORT, "--out", name)
        assert (shown.code, shown.err) == (0, "")
        trained = ("--weights", f"{name}/weights.safetensors", "--output", f"{name}.npy")
        shown = meganeura("run", "digits_mlp", *trained, "--input", image, "--device", device)
        assert (shown.code, shown.err) == (0, "")
        assert f"device: {device} (as asked)" in shown.out
    found, expected = (load_file(f"{name}/weights.safetensors") for name in ("toy", "cpu"))
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, atol=1e-5)
    np.testing.assert_allclose(np.load("toy.npy"), np.load("cpu.npy"), atol=1e-4)


def test_a_run_goes_on_there_and_can_be_traced(meganeura: Command) -> None:
    assert meganeura("train", "digits_mlp", "--device", "cpu", *SHORT, "--out", "run").code == 0
    again = ("--resume", "run", "--set", "epochs=2", "--profile", "trace.json")
    shown = meganeura("train", "digits_mlp", "--device", "toy", *again)
    assert (shown.code, shown.err) == (0, "")
    events = json.loads(Path("trace.json").read_text())["traceEvents"]
    names = {event["name"] for event in events}
    assert {"step 4", "evaluation", "checkpoint"} <= names
    assert {"toy"} <= {event["args"].get("name") for event in events if event["ph"] == "M"}
    shown = meganeura("train", "digits_mlp", "--resume", "run", "--set", "epochs=3")
    assert shown.out.startswith("device: toy (as asked)\n")


def test_it_is_used_from_python(tmp_path: Path) -> None:
    program = api.load("digits_mlp")
    settings = {"epochs": 1, "batch": 256, "device": "toy"}
    run = program.train(device="toy:0", out=tmp_path / "run", settings=settings)
    with program.model(weights=run.weights).session({"n": 2}, device="toy") as session:
        assert session.step({"image": np.ones((2, 1, 8, 8), np.float32)})["output"].shape == (2, 10)


def test_it_is_listed_and_never_taken_unasked(meganeura: Command) -> None:
    shown = meganeura("devices")
    names = [line.split()[0] for line in shown.out.splitlines() if line]
    assert names[:3] == ["cpu", "toy:0", "toy:1"]
    assert "auto takes toy" not in shown.out


def test_a_compiled_model_runs_there(meganeura: Command, image: str) -> None:
    api.load("digits_mlp").model(seed=1).save("random.safetensors")
    weights = ("--weights", "random.safetensors")
    assert meganeura("build", "digits_mlp", *weights, "--set", "n=2", "-o", "net.mgb").code == 0
    shown = meganeura("run", "net.mgb", "--input", image, "--device", "toy")
    assert (shown.code, shown.err) == (0, "")
    assert "device: toy (as asked)" in shown.out


def test_an_op_that_it_lacks_is_refused_with_its_place(meganeura: Command) -> None:
    shown = meganeura("train", "digits_cnn", "--device", "toy", *SHORT)
    assert shown.code == 1
    assert "error[E0558]: the backend `toy` does not support the op `Conv`" in shown.err
    assert "nn.mgn:" in shown.err
    assert "it is needed here" in shown.err
    assert "--device cpu" in shown.err
    table = registry.backend_of("toy").ops()
    for op in ALL_OPS:
        assert [op in each for each in (table.runs, table.lowers, table.refuses)].count(True) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("profile", "digits_mlp"), "steps cannot be profiled on toy (as asked)"),
        (("tune", "digits_mlp"), "there is nothing to tune on toy (as asked)"),
        (("build", "digits_mlp"), "there is no plan for the toy"),
    ],
)
def test_what_it_cannot_do_is_refused(
    arguments: tuple[str, ...], message: str, meganeura: Command
) -> None:
    shown = meganeura(*arguments, "--device", "toy")
    assert shown.code == 2
    assert message in " ".join(shown.err.replace("│", " ").split())


def test_a_device_that_it_has_not_is_refused(meganeura: Command) -> None:
    shown = meganeura("train", "digits_mlp", "--device", "toy:7", *SHORT)
    assert (shown.code, "error[E0551]: there is no toy:7" in shown.err) == (2, True)
    shown = meganeura("train", "digits_mlp", "--device", "toy:x", *SHORT)
    assert shown.code == 2
    assert (
        "`device` must be auto, cpu, dawn, dawn:N, toy, toy:N, wgpu, wgpu:N, xla, xla:cpu, "
        "xla:gpu or xla:gpu:N" in shown.err
    )


def installed(folder: Path, name: str, points: str, monkeypatch: pytest.MonkeyPatch) -> None:
    info = folder / f"{name}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[meganeura.backends]\n{points}\n")
    monkeypatch.syspath_prepend(str(folder))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("nowhere:BACKEND", "is not imported: ModuleNotFoundError: No module named 'nowhere'"),
        ("json:nothing", "is not imported: AttributeError: module 'json' has no attribute"),
        ("json", "is not of the form `module:attribute`"),
        ("json:dumps", "is no instance of a class that derives from `Backend`"),
        ("meganeura_toy.backend:BACKEND", "is the backend `toy`, and its entry point is `bad`"),
    ],
)
def test_one_that_is_broken_is_told_where_it_is_asked_for(
    value: str, reason: str, meganeura: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, "broken", f"bad = {value}", monkeypatch)
    shown = meganeura("train", "digits_mlp", "--device", "bad", *SHORT)
    assert shown.code == 1
    for err in (shown.err, meganeura("devices").err):
        said = " ".join(err.split())
        assert "error[E0592]: the backend `bad` of `broken 1` cannot be used" in said
        assert f"because `{value}` {reason}" in said
        assert "help: update or uninstall `broken`" in said
    assert "toy:0" in meganeura("devices").out


def test_of_two_packages_with_one_name_none_is_taken(
    meganeura: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, "other", "toy = meganeura_toy.backend:BACKEND", monkeypatch)
    shown = meganeura("train", "digits_mlp", "--device", "toy", *SHORT)
    assert shown.code == 1
    assert (
        "error[E0592]: the backend `toy` of `meganeura-toy 1` and `other 1` cannot be used"
        in shown.err
    )
    assert "uninstall all but one of them" in shown.err
    assert meganeura("devices").err.strip() == shown.err.strip()


def test_a_program_may_name_it(meganeura: Command) -> None:
    program = Path("net.mgn")
    program.write_text(
        "train fit(x: [batch, 2], y: [batch, 1]):\n  minimize mse(x |> fc: linear(1), y)\n"
        '  run:\n    data = "digits"\n    batch = 4\n    device = "toy"\n'
    )
    shown = meganeura("check", str(program))
    assert "device" not in shown.err
    program.write_text(program.read_text().replace('"toy"', '"joy"'))
    shown = meganeura("check", str(program))
    assert (
        "`device` must be auto, cpu, dawn, dawn:N, toy, toy:N, wgpu, wgpu:N, xla, xla:cpu, "
        "xla:gpu or xla:gpu:N" in shown.out + shown.err
    )


def test_its_gradients_are_held_against_the_reference(meganeura: Command) -> None:
    Path("net.mgn").write_text("block Net()(x: [n, 2]) -> [n, 2]:\n  return exp(x) * x\n")
    shown = meganeura("gradcheck", "net.mgn", "--device", "toy", "--examples", "5")
    assert (shown.code, shown.err) == (0, "")
    assert "device: toy (as asked)" in shown.out
