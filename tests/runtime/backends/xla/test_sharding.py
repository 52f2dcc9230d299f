"""One run on several devices and hosts gives the losses that one device gives."""

import json
import shutil
import signal
import socket
from pathlib import Path
from time import monotonic, sleep

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import meganeura
from tests.effort import effort
from tests.optimizers import ALL_OPTIMIZERS, write_points
from tests.runtime.backends.xla.command_lines import HEARTBEAT, SHOWN, process

CLOSE = 1e-5
"""The largest difference of a loss, of about 1, that is due to the order of sums."""
STEPS = effort(4, 50)
PATIENCE = effort(600, 3600)
"""Seconds that a process may take."""
SMALL = """\
block Small()(x: [n, 6]) -> [n, 3]:
  return x |> fc1: linear(16) |> gelu |> norm: batch_norm |> dropout(0.25) |> fc2: linear(3)

model small = Small()

train fit(x: [batch, 6], y: i32[batch]):
  logits = x |> small
  minimize masked_cross_entropy(logits, y)
  metric first = sum(f32(argmax(logits) == 0 and y == 0)) / (sum(f32(argmax(logits) == 0)) + 1e-9)
  run:
    data      = "points.safetensors"
    batch     = 8
    epochs    = 4
    optimizer = adam(lr=0.01)
    schedule  = cosine(warmup=3, steps=20)
    clip_norm = 1.0
    log_every = 1
"""
"""Statistics over the batch, dropout, one norm of all gradients, moments; a loss that is a mean of
the examples with a label, which are more on some devices than on others, and a precision."""
NARROW_LM = """\
from lm import Decoder

model narrow = Decoder(vocabulary=256, d=16, layers=1, heads=2, kv_heads=1, ffn=32)

train text(ids: i32[batch, 65]):
  minimize cross_entropy(ids[:, :64] |> narrow, ids[:, 1:])
  run:
    data      = "text.safetensors"
    batch     = 16
    epochs    = 1
    optimizer = adam(lr=3e-3)
"""
"""A table that is read and written, rotary positions, keys that heads share."""
NARROW_UNET = """\
from unet import LevelEmbedding, ResBlock, noisy, normal_noise

block Narrow()(x: [n, 1, h, w], level: [n]) -> [n, 1, h, w] where h % 2 == 0, w % 2 == 0:
  time = level |> LevelEmbedding(8)
  x0 = x |> conv_in: conv2d(8, 3, pad=1)
  y = x0 |> down: conv2d(8, 3, 2, pad=1) |> middle: ResBlock(8, 4)(time) |> upsample(2)
  return concat(y, x0, axis=1) |> conv_out: conv2d(1, 3, pad=1)

model narrow = Narrow()

train denoise(image: [batch, 1, 8, 8]):
  clean = image / 8 - 1
  noise = clean |> normal_noise
  level = random_uniform([batch])
  minimize mse(noisy(clean, noise, level) |> narrow(level), noise)
  run:
    data      = "images.safetensors"
    batch     = 16
    epochs    = 1
    optimizer = adam(lr=2e-3)
"""
"""Noise, a group norm, a step down and one up."""
PROGRAMS = {
    "narrow_lm.mgn": ("text", ("fsdp", "data")),
    "narrow_unet.mgn": ("images", ("fsdp", "data")),
}
"""A language model and a network with noise; their data, and how they are shared out.

The language model is tried in its first sharding; `make nightly` tries both in both, as each is
compiled for many seconds, and three whole standard models. Other tests share out a program with
batch norm.
"""
AT_NIGHT = {
    "digits_cnn": ("images", ("data", "fsdp")),
    "unet": PROGRAMS["narrow_unet.mgn"],
    "lm": PROGRAMS["narrow_lm.mgn"],
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with programs and data."""
    folder = tmp_path_factory.mktemp("sharded")
    generator = np.random.default_rng(0)
    examples = 16 * STEPS
    save_file(
        {
            "image": generator.integers(0, 17, (examples, 1, 8, 8)).astype(np.float32),
            "label": generator.integers(0, 10, examples).astype(np.int32),
        },
        folder / "images.safetensors",
    )
    text = generator.integers(0, 256, (examples, 65)).astype(np.int32)
    save_file({"ids": text}, folder / "text.safetensors")
    points = generator.normal(size=(60, 6)).astype(np.float32)
    labels = generator.integers(0, 3, 60).astype(np.int32)
    labels[::3] = -100
    save_file(
        {
            "train.x": points[:40],
            "train.y": labels[:40],
            "test.x": points[40:],
            "test.y": labels[40:],
        },
        folder / "points.safetensors",
    )
    (folder / "small.mgn").write_text(SMALL)
    (folder / "narrow_lm.mgn").write_text(NARROW_LM)
    (folder / "narrow_unet.mgn").write_text(NARROW_UNET)
    (folder / "optimizers").mkdir()
    write_points(folder / "optimizers")
    (folder / "optimizers/all.mgn").write_text(ALL_OPTIMIZERS)
    return folder


def train(program: str, out: str, devices: int, *options: str) -> list[str]:
    """A command line that trains on so many simulated devices."""
    sets = [f"devices={devices}", *options]
    changes = [word for each in sets for word in ("--set", each)]
    return ["train", program, "--device", "xla:cpu", "--out", out, *changes]


def resume(out: str, *options: str) -> list[str]:
    """A command line that goes on with a run."""
    return ["train", "small.mgn", "--resume", out, *options]


def free_port() -> int:
    """A port that nothing listens to."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def hosts_at(port: int) -> list[str]:
    """The options of one of two processes, but for its number."""
    return ["--coordinator", f"127.0.0.1:{port}", "--hosts", "2", "--host"]


def finish(devices: int, commands: list[list[str]], folder: Path) -> str:
    """Run command lines to their end, all of which succeed."""
    with process(devices, commands, folder) as running:
        told, _ = running.communicate(timeout=PATIENCE)
    assert running.returncode == 0, told
    return told


def losses(folder: Path, kind: str = "step", name: str = "loss") -> list[float]:
    """The losses of a run, step by step, or what else its records hold under a name."""
    records = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [each[name] for each in records if each["kind"] == kind and name in each]


def assert_the_same(found: Path, wanted: Path) -> None:
    """Asserts that two runs have the same losses and weights, but for the order of sums."""
    for kind in ("step", "epoch", "held_out"):
        np.testing.assert_allclose(losses(found, kind), losses(wanted, kind), atol=CLOSE, rtol=0)
    precisions = (losses(each, "held_out", "first") for each in (found, wanted))
    np.testing.assert_allclose(*precisions, atol=CLOSE, rtol=0)
    weights, others = (load_file(each / "weights.safetensors") for each in (found, wanted))
    assert weights.keys() == others.keys()
    for name, each in weights.items():
        np.testing.assert_allclose(each, others[name], atol=10 * CLOSE, err_msg=name)


TRIED = effort(["narrow_lm.mgn"], [*PROGRAMS, *AT_NIGHT])
OPTIMIZERS = "optimizers/all.mgn"


def spread_runs(program: str) -> tuple[list[str], dict[str, list[str]]]:
    """Command lines of a run on one device, and of those on eight by their sharding."""
    data, shardings = {**PROGRAMS, **AT_NIGHT}[program]
    sets = (f"data={data}.safetensors", "batch=16", "epochs=1", "log_every=1")
    name = Path(program).stem
    return train(program, f"{name}-one", 1, *sets), {
        each: train(program, f"{name}-{each}", 8, f"sharding={each}", *sets)
        for each in shardings[: effort(1, 2)]
    }


@pytest.fixture(scope="module")
def alone(place: Path) -> Path:
    """The whole small run on one device, of the reference."""
    out = place / "alone"
    run = meganeura.load(str(place / "small.mgn")).train(device="cpu", out=out)
    assert (run.steps, len(losses(out))) == (20, 20)
    assert max(losses(out, "held_out", "first")) > 0.1
    return out


def test_several_devices_give_the_losses_of_one(place: Path, alone: Path) -> None:
    """Of all runs that need no process of their own: one begins in more than a second."""
    commands = [
        train("small.mgn", "moved", 8, "epochs=2"),
        resume("moved", "--set", "epochs=4", "--set", "devices=2", "--set", "sharding=fsdp"),
        ["train", OPTIMIZERS, "--device", "cpu", "--out", "every-one", "--set", "epochs=1"],
        train(OPTIMIZERS, "every-spread", 4, "epochs=1", "sharding=fsdp"),
    ]
    for program in TRIED:
        one, spread = spread_runs(program)
        commands += [one, *spread.values()]
    _, begun, moved, *said = finish(8, commands, place).split(f"{SHOWN} ")
    assert "8 devices" in begun
    assert "2 devices, fsdp" in moved
    assert_the_same(place / "moved", alone)
    told = {
        words[words.index("--out") + 1]: each
        for words, each in zip(commands[2:], said, strict=True)
    }
    for program in TRIED:
        assert_program_is_the_same(place, program, told)
    assert "4 devices, fsdp" in told["every-spread"]
    assert_every_optimizer_is_the_same(place)


def assert_program_is_the_same(place: Path, program: str, told: dict[str, str]) -> None:
    """Asserts that eight devices give the losses of one, in each sharding."""
    name, (_, spread) = Path(program).stem, spread_runs(program)
    one = losses(place / f"{name}-one")
    assert len(one) == STEPS
    for each in spread:
        assert f"8 devices, {each}" in told[f"{name}-{each}"]
        found = losses(place / f"{name}-{each}")
        np.testing.assert_allclose(found, one, atol=CLOSE, rtol=0)


def assert_every_optimizer_is_the_same(place: Path) -> None:
    """Rows and columns of Adafactor and matrices that Muon multiplies are spread like any other."""
    assert_the_same(place / "every-spread", place / "every-one")
    spread, one = (
        load_file(place / f"every-{each}" / "checkpoint.safetensors") for each in ("spread", "one")
    )
    assert spread.keys() == one.keys()
    far = 10 * CLOSE  # also of what is above 1, as the moments of `rmsprop` are
    for name, each in one.items():
        np.testing.assert_allclose(spread[name], each, rtol=far, atol=far, err_msg=name)


def test_two_processes_of_two_devices_give_the_losses_of_one(place: Path, alone: Path) -> None:
    hosts = hosts_at(free_port())
    command = train("small.mgn", "two", 4, "sharding=fsdp")
    with (
        process(2, [[*command, *hosts, "0"]], place) as first,
        process(2, [[*command, *hosts, "1"]], place) as second,
    ):
        told, silent = (each.communicate(timeout=PATIENCE)[0] for each in (first, second))
    assert (first.returncode, second.returncode) == (0, 0), told + silent
    assert f"waiting for 2 hosts at {hosts[1]}" in told
    assert "4 devices of 2 hosts, fsdp" in told
    assert "epoch 4: mean loss" in told
    assert "loss" not in silent
    assert "waiting" not in silent
    assert_the_same(place / "two", alone)


NUMBERS: dict[str, tuple[str, ...]] = {
    "two": ("--set", "devices=2", "--set", "sharding=fsdp"),
    "eight": (),
    **effort({}, {"four": ("--set", "devices=4")}),
}
"""The numbers of devices that resume a run of eight, and the options for them."""


def test_a_killed_run_goes_on_on_other_numbers_of_devices(place: Path, alone: Path) -> None:
    with process(8, [train("small.mgn", "killed", 8)], place) as running:
        limit = monotonic() + PATIENCE
        while not (place / "killed/best.safetensors").is_file() and monotonic() < limit:
            assert running.poll() is None
            sleep(0.05)
        running.send_signal(signal.SIGKILL)
    for name in NUMBERS:
        shutil.copytree(place / "killed", place / f"on-{name}", ignore=lambda *_: [".lock"])
    told = finish(8, [resume(f"on-{name}", *sets) for name, sets in NUMBERS.items()], place)
    assert "2 devices, fsdp" in told
    for name in NUMBERS:
        assert_the_same(place / f"on-{name}", alone)


@pytest.mark.adapter
def test_a_run_begins_on_wgpu_goes_on_on_eight_devices_and_ends_on_the_cpu(place: Path) -> None:
    unscheduled = ("schedule=constant", "epochs=1")
    begun = [word for each in unscheduled for word in ("--set", each)]
    spread = ("--set", "devices=8", "--set", "sharding=fsdp", "--set", "epochs=2")
    commands = [
        ["train", "small.mgn", "--device", "wgpu", "--out", "moved", *begun],
        resume("moved", "--device", "xla:cpu", *spread),
        resume("moved", "--device", "cpu", "--set", "devices=1", "--set", "epochs=3"),
        ["train", "small.mgn", "--device", "cpu", "--out", "stayed", *begun, "--set", "epochs=3"],
    ]
    told = finish(8, commands, place)
    assert told.count("device: wgpu") == 1
    assert told.count("8 devices, fsdp") == 1
    assert told.count("device: cpu") == 2
    assert len(losses(place / "moved")) == 15
    assert_the_same(place / "moved", place / "stayed")


def test_a_host_that_dies_ends_the_run_of_the_others(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HEARTBEAT, "5")
    command = train("small.mgn", "dying", 2, "epochs=100000", "log_every=0")
    with (
        process(1, [[*command, *hosts_at(port := free_port()), "0"]], place) as first,
        process(1, [[*command, *hosts_at(port), "1"]], place) as second,
    ):
        limit = monotonic() + PATIENCE
        while not (place / "dying/best.safetensors").is_file() and monotonic() < limit:
            assert (first.poll(), second.poll()) == (None, None)
            sleep(0.05)
        second.kill()
        told, _ = first.communicate(timeout=PATIENCE)
    assert first.returncode != 0
    assert "another task died" in told or "XLA: " in told
