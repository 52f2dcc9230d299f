"""`meganeura train`, on the CPU: what it prints, what it leaves behind, and how it is stopped."""

import gc
import json
import os
import re
import signal
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from meganeura import load
from meganeura.cli import main
from meganeura_runtime.backends import registry
from meganeura_runtime.backends.backend import ALONE, Hosts, OpenDevice, Rendezvous
from meganeura_runtime.backends.reference.backend import ReferenceBackend
from meganeura_runtime.io.checkpoint import read_checkpoint
from tests.cli.command import Command
from tests.shared_entries import cache_of_processes

SHORT = ("--device", "cpu", "--set", "epochs=2", "--set", "batch=128", "--set", "log_every=10")

PROGRAM = """\
train line(x: [batch, 3], y: [batch, 1]):
  minimize mse(x |> fc: linear(1), y)
  run:
    data      = "points.safetensors"
    batch     = 4
    epochs    = 2
    optimizer = sgd(lr=0.1)
"""

MODEL = """\
block Line()(x: [batch, 3]) -> [batch, 1]:
  return x |> fc: linear(1)

model net = Line()

"""
"""A model with the weights that the program trains, so that there are no notes."""


@pytest.fixture(autouse=True)
def _in_a_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(folder: Path, text: str = PROGRAM) -> str:
    """A program and its data, in a folder of their own."""
    place = folder / "programs"
    place.mkdir()
    (place / "line.mgn").write_text(text)
    x = np.arange(30, dtype=np.float32).reshape(10, 3) / 30
    save_file({"x": x, "y": x.sum(1, keepdims=True)}, place / "points.safetensors")
    return str(place / "line.mgn")


def test_a_standard_model_is_trained_on_embedded_data(meganeura: Command, tmp_path: Path) -> None:
    shown = meganeura("train", "digits_mlp", *SHORT)
    assert (shown.code, shown.err) == (0, "")
    lines = shown.out.splitlines()
    assert lines[0] == "device: cpu (as asked)"
    assert lines[1] == "training fit: 4 params, 4,810 weights, 1,437 examples, 360 held out"
    assert lines[2] == (
        "  1,437 examples, batches of 128: 11 steps an epoch, "
        "29 examples are left out of each epoch; drop_last=false trains on them"
    )
    assert lines[3].startswith("epoch 1/2  step  1/22  loss 2.3")
    means = [line for line in lines if "mean loss" in line]
    for number, line in enumerate(means, 1):
        assert re.fullmatch(rf"epoch {number}: mean loss \d\.\d+ over 11 steps in 0:\d\d", line)
    assert len(means) == 2
    assert lines[-1].startswith("done after 22 steps in 0:0")
    assert lines[-1].endswith(str(Path("runs") / "fit-1" / "report.html"))
    assert {each.name for each in (tmp_path / "runs" / "fit-1").iterdir()} == {
        "best.safetensors",
        "checkpoint.safetensors",
        "metrics.jsonl",
        "report.html",
        "run.json",
        "settings.json",
        "shown",
        "weights.safetensors",
    }


def test_the_settings_and_metrics_of_a_run_are_kept(meganeura: Command, tmp_path: Path) -> None:
    out = tmp_path / "kept"
    meganeura("train", "digits_mlp", *SHORT, "--out", str(out), "--seed", "7")
    settings = json.loads((out / "settings.json").read_text())
    assert (settings["sizes"], settings["seed"], settings["epochs"]) == ({"batch": 128}, 7, 2)
    assert settings["optimizer"]["lr"] == 0.002
    records = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [(each["kind"], each["step"]) for each in records] == [
        ("step", 1), ("step", 10), ("epoch", 11), ("held_out", 11), ("shown", 11), ("step", 20),
        ("step", 22), ("epoch", 22), ("held_out", 22), ("shown", 22),
    ]  # fmt: skip
    assert records[-2]["accuracy"] > records[3]["accuracy"]


def test_a_seed_decides_the_whole_run(meganeura: Command, tmp_path: Path) -> None:
    def weights(name: str, seed: str) -> np.ndarray:
        meganeura("train", "digits_mlp", *SHORT, "--out", name, "--seed", seed)
        return load_file(tmp_path / name / "weights.safetensors")["fc1.weight"]

    first = weights("a", "1")
    np.testing.assert_array_equal(first, weights("b", "1"))
    assert not np.array_equal(first, weights("c", "2"))


def test_a_seed_of_zero_takes_the_place_of_the_one_in_the_program(
    meganeura: Command, tmp_path: Path
) -> None:
    program = written(tmp_path, PROGRAM + "    seed      = 7\n")
    for name, options, seed in (("as-written", (), 7), ("as-asked", ("--seed", "0"), 0)):
        meganeura("train", program, "--device", "cpu", "--out", name, *options)
        settings = json.loads((tmp_path / name / "settings.json").read_text())
        assert settings["seed"] == seed


def test_each_step_is_looked_at_where_that_is_asked_for(meganeura: Command, tmp_path: Path) -> None:
    """The first loss is finite, and no gradient of it, which only the second loss shows."""
    root = "param w: [3] = zeros\n  minimize sqrt(sum(w * w)) + 0 * mean(x) + 0 * mean(y)"
    program = written(tmp_path, PROGRAM.replace("minimize mse(x |> fc: linear(1), y)", root))
    for step, options in ((2, ()), (1, ("--detect-anomaly",))):
        shown = meganeura("train", program, "--device", "cpu", "--out", f"to-{step}", *options)
        assert shown.code == 1
        assert f" at step {step} " in shown.err


def test_a_run_starts_from_weights(meganeura: Command, tmp_path: Path) -> None:
    meganeura("train", "digits_mlp", *SHORT, "--out", "first")
    still = ("--set", "optimizer=sgd(lr=1e-30)", "--seed", "9", "--out", "second")
    first = tmp_path / "first" / "weights.safetensors"
    shown = meganeura("train", "digits_mlp", *SHORT, *still, "--weights", str(first))
    assert (shown.code, shown.err) == (0, "")
    assert f"weights: {first}" in shown.out.splitlines()
    before, after = load_file(first), load_file(tmp_path / "second" / "weights.safetensors")
    for name, values in before.items():
        np.testing.assert_allclose(after[name], values, rtol=1e-6)


def test_a_run_remembers_the_weights_it_started_from(meganeura: Command, tmp_path: Path) -> None:
    meganeura("train", "digits_mlp", *SHORT, "--out", "first")
    first = tmp_path / "first" / "weights.safetensors"
    origin = {"file": str(first), "sha256": sha256(first.read_bytes()).hexdigest()}
    assert json.loads((tmp_path / "first" / "settings.json").read_text())["weights"] == []
    meganeura("train", "digits_mlp", *SHORT, "--out", "second", "--weights", str(first))
    settings = tmp_path / "second" / "settings.json"
    assert json.loads(settings.read_text())["weights"] == [origin]
    settings.unlink()
    assert meganeura("train", "digits_mlp", "--resume", "second", "--set", "epochs=3").code == 0
    assert json.loads(settings.read_text())["weights"] == [origin]


def test_a_run_that_is_at_its_end_says_so(meganeura: Command) -> None:
    meganeura("train", "digits_mlp", *SHORT, "--out", "run")
    ended = "the run is at its end, and no step is left: give it more with --set epochs=..."
    again = ("train", "digits_mlp", "--resume", "run")
    assert ended in meganeura(*again).out.splitlines()
    assert ended not in meganeura(*again, "--set", "epochs=3").out.splitlines()


def test_a_run_that_goes_on_takes_no_other_weights(meganeura: Command, tmp_path: Path) -> None:
    meganeura("train", "digits_mlp", *SHORT, "--out", "first")
    first = tmp_path / "first" / "weights.safetensors"
    shown = meganeura("train", "digits_mlp", "--resume", "first", "--weights", str(first))
    assert shown.code == 1
    assert "error[E0553]: the run cannot be resumed: `--weights` is for the start" in shown.err
    shown = meganeura("train", "digits_mlp", "--resume", "first", "--out", "second")
    assert shown.code == 2
    assert "the run has its folder" in shown.err


def test_a_run_that_goes_on_says_that_another_metric_is_compared_anew(meganeura: Command) -> None:
    meganeura("train", "digits_mlp", *SHORT, "--set", "epochs=1", "--out", "run")
    resumed = ("train", "digits_mlp", "--resume", "run", "--set", "epochs=2")
    said = "best: highest accuracy from here on; no evaluation before counts"
    assert said not in meganeura(*resumed).out
    shown = meganeura(*resumed[:-1], "epochs=3", "--set", "best=highest accuracy")
    assert said in shown.out.splitlines()
    assert shown.out.count("(best so far)") == 1


def test_a_run_that_goes_on_says_that_its_learning_rate_jumps(meganeura: Command) -> None:
    cosine = ("--set", "epochs=1", "--set", "schedule=cosine()")
    shown = meganeura("train", "digits_mlp", *SHORT, *cosine, "--out", "run")
    assert "learning rate: " not in shown.out
    shown = meganeura("train", "digits_mlp", "--resume", "run", "--set", "epochs=2")
    [line] = [each for each in shown.out.splitlines() if each.startswith("learning rate: ")]
    assert "in the next, as cosine() spreads over" in line
    assert line.endswith("does that still")


@pytest.mark.parametrize("options", [(), ("--no-tuned",)])
def test_what_a_run_takes_is_that_of_its_kernels(
    meganeura: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    """Those planned for the setting `memory` are tuned where those that run are."""
    asked: list[OpenDevice] = []

    def tuned(device: OpenDevice) -> OpenDevice:
        asked.append(device)
        return device

    monkeypatch.setattr(OpenDevice, "tuned", tuned)
    limited = ("train", written(tmp_path), "--device", "cpu", "--set", "memory=1GiB")
    assert meganeura(*limited, "--out", "run", *options).code == 0
    assert bool(asked) == (not options)
    asked.clear()
    again = ("train", limited[1], "--resume", "run", "--set", "epochs=3")
    assert meganeura(*again, *options).code == 0
    assert bool(asked) == (not options)


def test_hosts_that_go_on_meet_on_the_device_of_the_run(
    meganeura: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program says `auto`, on which none can meet; the run was made on another device."""
    met: list[Rendezvous | None] = []

    def meet(_: ReferenceBackend, rendezvous: Rendezvous | None) -> Hosts:
        met.append(rendezvous)
        return ALONE

    monkeypatch.setattr(ReferenceBackend, "meet", meet)
    program = written(tmp_path)
    place = ("--coordinator", "here:1", "--hosts", "1", "--host", "0")
    assert meganeura("train", program, "--device", "cpu", "--out", "run").code == 0
    met.clear()
    again = ("train", program, "--resume", "run", "--set", "epochs=3", *place)
    assert meganeura(*again).code == 0
    assert met == [Rendezvous("here:1", Hosts(1, 0))]
    assert "names its device" in meganeura(*again, "--device", "auto").err
    load(program).train(resume="run", settings={"epochs": 4})
    assert met[1:] == [None]
    shown = meganeura("train", program, "--resume", str(tmp_path / "programs"), "--device", "cpu")
    assert "holds no checkpoint" in shown.err


def test_what_is_excused_starts_anew_as_the_seed_says(meganeura: Command, tmp_path: Path) -> None:
    meganeura("train", "digits_mlp", *SHORT, "--out", "first")
    first = load_file(tmp_path / "first" / "weights.safetensors")
    save_file({name: first[name] for name in first if name != "fc2.bias"}, "some.safetensors")
    arguments = ("--weights", "some.safetensors", "--out", "second")
    shown = meganeura("train", "digits_mlp", *SHORT, *arguments)
    assert shown.code == 1
    assert "1 missing" in shown.err
    assert not (tmp_path / "second").exists()
    shown = meganeura("train", "digits_mlp", *SHORT, *arguments, "--allow-missing", "*.bias")
    assert shown.code == 0
    assert "  at their initial values: fc2.bias" in shown.out.splitlines()
    assert meganeura("train", "digits_mlp", *SHORT, "--allow-missing", "*.bias").code == 2


def test_a_label_that_is_no_class_is_told_before_a_step_is_made(
    meganeura: Command, tmp_path: Path
) -> None:
    program = written(
        tmp_path,
        PROGRAM.replace("y: [batch, 1]", "y: i32[batch]")
        .replace("mse", "cross_entropy")
        .replace("linear(1)", "linear(3)"),
    )
    x, y = np.zeros((10, 3), np.float32), np.arange(10) % 4
    save_file({"x": x, "y": y}, tmp_path / "programs" / "points.safetensors")
    shown = meganeura("train", program, "--device", "cpu")
    assert shown.code == 1
    assert "`y` holds 3, and must be below 3" in shown.err
    assert "line.mgn:4" in shown.err
    assert not (tmp_path / "runs").exists()


def test_data_of_a_program_is_found_beside_it(meganeura: Command, tmp_path: Path) -> None:
    shown = meganeura("train", written(tmp_path), "--device", "cpu")
    assert shown.code == 0
    assert "10 examples, none held out" in shown.out
    assert "done after 4 steps" in shown.out


def test_data_of_the_command_line_is_found_from_here(meganeura: Command, tmp_path: Path) -> None:
    program = written(tmp_path)
    (tmp_path / "programs" / "points.safetensors").rename(tmp_path / "here.safetensors")
    assert meganeura("train", program, "--device", "cpu").code == 1
    shown = meganeura("train", program, "--device", "cpu", "--set", "data=here.safetensors")
    assert shown.code == 0


def test_wrong_data_is_told_at_the_setting_that_names_it(
    meganeura: Command, tmp_path: Path
) -> None:
    program = written(tmp_path, PROGRAM.replace("[batch, 3]", "[batch, 4]"))
    shown = meganeura("train", program, "--device", "cpu")
    assert shown.code == 1
    assert "error[E0523]" in shown.err
    assert "line.mgn:4" in shown.err
    assert "f32[10, 3]" in shown.err
    assert "f32[batch, 4]" in shown.err
    assert not (tmp_path / "runs").exists()


def test_a_batch_larger_than_the_data_is_told(meganeura: Command, tmp_path: Path) -> None:
    shown = meganeura("train", written(tmp_path), "--device", "cpu", "--set", "batch=11")
    assert shown.code == 1
    assert "10 examples do not fill one batch of 11" in shown.err


def test_a_folder_that_holds_something_is_not_written_to(
    meganeura: Command, tmp_path: Path
) -> None:
    shown = meganeura("train", written(tmp_path), "--device", "cpu", "--out", "programs")
    assert shown.code == 1
    assert "the folder is not empty" in shown.err
    assert "`--resume programs`" in shown.err


def test_a_run_that_diverges_is_stopped(meganeura: Command, tmp_path: Path) -> None:
    change = ("--set", "optimizer.lr=1e30", "--set", "log_every=1")
    shown = meganeura("train", written(tmp_path), "--device", "cpu", *change)
    assert shown.code == 1
    assert "error[E0550]: the loss is inf at step 2" in shown.err


def test_an_adapter_that_is_not_there_is_told(meganeura: Command) -> None:
    shown = meganeura("train", "digits_mlp", "--device", "wgpu:99")
    assert shown.code == 2
    assert "error[E0551]" in shown.err


IN_THE_BACKGROUND = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "
"""A shell without job control ignores interrupts in what it starts with `&`."""


@pytest.mark.parametrize(
    ("number", "before"),
    [(signal.SIGINT, ""), (signal.SIGTERM, ""), (signal.SIGINT, IN_THE_BACKGROUND)],
)
def test_an_interrupt_ends_the_run_with_a_checkpoint(
    tmp_path: Path, number: int, before: str
) -> None:
    command = f"{before}import meganeura.cli.main as m; m.main()"
    options = ("--device", "cpu", "--set", "epochs=100000", "--set", "log_every=1")
    with subprocess.Popen(
        [sys.executable, "-c", command, "train", "digits_mlp", *options],
        cwd=tmp_path,
        env={**os.environ, "MEGANEURA_CACHE": cache_of_processes()},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        while not process.stdout.readline().startswith("epoch"):
            pass
        process.send_signal(number)
        out, err = process.communicate()
    assert process.returncode == 128 + number
    assert "stopping after this step" in err
    assert "Traceback" not in err
    assert out.splitlines()[-1].startswith("stopped after ")
    _, progress = read_checkpoint(tmp_path / "runs" / "fit-1" / "checkpoint.safetensors")
    assert progress.step > 0
    assert progress.epoch * 44 + progress.position == progress.step


def test_a_folder_is_trained_in_by_one_process(meganeura: Command, tmp_path: Path) -> None:
    command = "import meganeura.cli.main as m; m.main()"
    options = ("--device", "cpu", "--set", "epochs=100000", "--out", "run")
    with subprocess.Popen(
        [sys.executable, "-c", command, "train", "digits_mlp", *options],
        cwd=tmp_path,
        env={**os.environ, "MEGANEURA_CACHE": cache_of_processes()},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        while not process.stdout.readline().startswith("epoch"):
            pass
        settings = (tmp_path / "run" / "settings.json").read_bytes()
        for asked in (("--out", "run", "--seed", "3"), ("--resume", "run", "--set", "epochs=1")):
            shown = meganeura("train", "digits_mlp", "--device", "cpu", *asked)
            assert shown.code == 1
            told = f"error[E0555]: the run folder `run` is in use by process {process.pid}"
            assert told in shown.err
        assert (tmp_path / "run" / "settings.json").read_bytes() == settings
        process.kill()
    shown = meganeura("train", "digits_mlp", "--resume", "run", "--set", "epochs=1")
    assert (shown.code, shown.err) == (0, "")
    assert not (tmp_path / "run" / ".lock").exists()


def test_data_that_changed_is_told(meganeura: Command, tmp_path: Path) -> None:
    program = written(tmp_path)
    assert meganeura("train", program, "--device", "cpu", "--out", "run").code == 0
    x = np.ones((80, 3), np.float32)
    save_file({"x": x, "y": x[:, :1]}, tmp_path / "programs" / "points.safetensors")
    shown = meganeura("train", program, "--resume", "run", "--set", "epochs=4")
    assert shown.code == 1
    assert "error[E0557]" in shown.err
    assert "10 examples" in shown.err
    assert "80 examples" in shown.err


def test_the_last_batch_is_announced_and_trained_on(meganeura: Command, tmp_path: Path) -> None:
    program = written(tmp_path)
    shown = meganeura("train", program, "--device", "cpu", "--out", "left")
    line = "  10 examples, batches of 4: 2 steps an epoch, 2 examples are left out of each epoch"
    assert f"{line}; drop_last=false trains on them" in shown.out.splitlines()
    keep = ("--set", "drop_last=false", "--set", "log_every=1", "--out", "kept")
    shown = meganeura("train", program, "--device", "cpu", *keep)
    line = "  10 examples, batches of 4: 3 steps an epoch, the last of them on 2 examples"
    assert line in shown.out.splitlines()
    assert "epoch 2/2  step 6/6  loss" in shown.out
    assert "done after 6 steps" in shown.out


def test_no_epochs_write_the_initial_weights(meganeura: Command, tmp_path: Path) -> None:
    program = written(tmp_path, MODEL + PROGRAM.replace("fc: linear(1)", "net"))
    shown = meganeura("train", program, "--device", "cpu", "--set", "epochs=0")
    assert (shown.code, shown.err) == (0, "")
    assert "done after 0 steps" in shown.out
    folder = tmp_path / "runs" / "line-1"
    first = load_file(folder / "weights.safetensors")
    assert first["fc.weight"].any()
    shown = meganeura(
        "train",
        str(tmp_path / "programs" / "line.mgn"),
        "--resume",
        str(folder),
        "--set",
        "epochs=1",
    )
    assert (shown.code, shown.err) == (0, "")
    assert "done after 2 steps" in shown.out


def test_an_empty_held_out_split_is_told_before_the_first_step(
    meganeura: Command, tmp_path: Path
) -> None:
    program = written(tmp_path)
    x = np.ones((10, 3), np.float32)
    split = {"train.x": x, "train.y": x[:, :1], "test.x": x[:0], "test.y": x[:0, :1]}
    save_file(split, tmp_path / "programs" / "points.safetensors")
    shown = meganeura("train", program, "--device", "cpu")
    assert shown.code == 1
    assert "error[E0556]" in shown.err
    assert not (tmp_path / "runs").exists()


HEAVY = (
    "egglog",
    "hypothesis",
    "rich",
    "meganeura_dsl.transforms.egraph.saturate.saturate_graph",
    "meganeura_runtime.profiling",
    "meganeura_runtime.backends.webgpu.schedule.compile",
)


def test_a_program_that_is_known_loads_no_compiler(tmp_path: Path) -> None:
    command = (
        "import sys, meganeura.cli.app as command; command.run(sys.argv[1:]);"
        f"print('loaded', [name for name in {HEAVY!r} if name in sys.modules])"
    )
    program = written(tmp_path)
    environment = {**os.environ, "MEGANEURA_CACHE": str(tmp_path / "cache")}
    loaded = [
        subprocess.run(
            [sys.executable, "-c", command, "train", program, "--device", "cpu"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()[-1]
        for _ in range(2)
    ]
    assert "meganeura_dsl.transforms.egraph.saturate.saturate_graph" in loaded[0]
    assert loaded[1] == "loaded []"


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The devices that a process begins to open; the one of the test stays as it is."""
    opened: list[str] = []
    monkeypatch.setattr(registry, "begin_to_open", opened.append)
    monkeypatch.setattr(gc, "set_threshold", lambda *_: None)
    monkeypatch.setattr(gc, "freeze", lambda: None)
    return opened


@pytest.mark.parametrize(
    ("options", "device"),
    [
        ((), "auto"),
        (("--device", "wgpu:7"), "wgpu:7"),
        (("--device=wgpu:7",), "wgpu:7"),
        (("--set", "device=wgpu:8"), "wgpu:8"),
        (("--set=device=wgpu:8", "--set", "seed=3"), "wgpu:8"),
        (("--set", "device=wgpu:8", "--device", "wgpu:9"), "wgpu:9"),
        (("--device", "wgpu:9", "--set", "device=wgpu:8"), "wgpu:9"),
    ],
)
def test_the_device_is_opened_while_the_program_is_read(
    options: tuple[str, ...], device: str, begun: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["meganeura", "train", "nothing.mgn", *options])
    with pytest.raises(SystemExit, match="2"):
        main.main()
    assert begun == [device]


@pytest.mark.parametrize("arguments", [("train", "--help"), ("check", "digits_cnn"), ()])
def test_no_device_is_opened_for_what_needs_none(
    arguments: tuple[str, ...], begun: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["meganeura", *arguments])
    with pytest.raises(SystemExit):
        main.main()
    assert begun == []
