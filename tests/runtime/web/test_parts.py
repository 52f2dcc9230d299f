"""The parts of the runtime in TypeScript that have their like in Python, held against it."""

from dataclasses import asdict
from itertools import product
from pathlib import Path

import numpy as np
from PIL import Image

from meganeura_dsl.ir.types import DType, TensorType
from meganeura_runtime.export.page.forms import PictureForm, input_forms
from meganeura_runtime.io.data.batches import order_of_epoch
from meganeura_runtime.io.preprocess.images import Filter, read_image
from meganeura_runtime.io.preprocess.input_transforms import Choices
from meganeura_runtime.io.preprocess.mel import log_mel
from meganeura_runtime.io.tensors.safetensors_file import open_tensors, write_tensors
from tests.runtime.export.mgb.test_artefact import (
    FORGED,
    FORGED_RUNS,
    compiled,
    forged,
    forged_run,
)
from tests.runtime.export.mgb.test_generation_form import FORGED as FORGED_GENERATIONS
from tests.runtime.export.mgb.test_generation_form import forged_generation
from tests.runtime.web.conftest import Ask

RANDOM = np.random.default_rng(0)


def test_the_order_of_an_epoch(ask: Ask) -> None:
    cases = [(0, 0, 1437, True), (7, 3, 4), (2**32 - 1, 2**31, 1001), (5, 0, 9, False), (1, 1, 0)]
    whole = [(*case, True)[:4] for case in cases]
    keys = ("seed", "epoch", "examples", "shuffle")
    answers = ask([{"ask": "order", **dict(zip(keys, case, strict=True))} for case in whole])
    for (seed, epoch, examples, shuffle), found in zip(whole, answers, strict=True):
        wanted = order_of_epoch(seed, epoch, examples, shuffle=shuffle)
        assert found["answer"] == wanted.tolist()


ARRAYS = {
    "weights é": RANDOM.normal(size=(3, 5)).astype(np.float32),
    "half": np.array([1.5, -0.0, 6e-8, 65504], np.float16),
    "wide": RANDOM.normal(size=(2,)),
    "counts": np.array([[-5, 2**40]], np.int64),
    "bytes": np.arange(7, dtype=np.uint8),
    "scalar": np.array(3, np.int32),
    "none": np.zeros((0, 4), np.float32),
    "flags": np.array([True, False]),
    "odd": (np.arange(1003) * 37 % 251).astype(np.uint8),
    "long": np.arange(400_000, dtype=np.float32),
}


def test_files_of_one_runtime_are_those_of_the_other(ask: Ask, tmp_path: Path) -> None:
    """Also their checksums, of tensors in one piece and in several."""
    write_tensors(tmp_path / "x.safetensors", ARRAYS, {"b": "é\U0001f40d", "a": "1"})
    np.savez_compressed(tmp_path / "x.npz", **ARRAYS)
    np.savez(tmp_path / "y.npz", **ARRAYS)
    np.save(tmp_path / "counts.npy", ARRAYS["counts"])
    files = [tmp_path / name for name in ("x.safetensors", "x.npz", "y.npz")]
    out = tmp_path / "y.safetensors"
    *answers, single, _ = ask([
        *({"ask": "tensors", "file": str(file)} for file in files),
        {"ask": "tensors", "file": str(tmp_path / "counts.npy")},
        {"ask": "rewrite", "file": str(files[0]), "out": str(out)},
    ])  # fmt: skip
    for found in answers:
        assert found["answer"].keys() == ARRAYS.keys()
        for name, array in ARRAYS.items():
            tensor = found["answer"][name]
            assert tensor["shape"] == list(array.shape)
            assert tensor["values"] == array.ravel().astype(np.float64).tolist()
    assert single["answer"]["counts"]["values"] == [-5, 2**40]
    tensors, metadata = open_tensors(out)
    assert metadata == {"b": "é\U0001f40d", "a": "1"}
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(tensors[name].bits.view(array.dtype), array)


def test_a_damaged_file_is_refused(ask: Ask, tmp_path: Path) -> None:
    file = tmp_path / "x.safetensors"
    write_tensors(file, ARRAYS, {"a": "1"})
    whole = file.read_bytes()
    at = whole.index(b'"a":"1"')
    damaged = {
        "a bit of a tensor": whole[:-5] + bytes([whole[-5] ^ 1]) + whole[-4:],
        "a letter of the metadata": whole[: at + 5] + b"2" + whole[at + 6 :],
        "cut short": whole[:-1],
        "too short": whole[:5],
        "a header beyond": b"\xff" * 7 + b"\0" + whole[8:],
        "no header": whole[:8] + b"[" + whole[9:],
        "an archive": b"PK\x05\x06" + bytes(30),
    }
    questions: list[dict[str, str]] = []
    for number, content in enumerate(damaged.values()):
        path = tmp_path / f"{number}.{'npz' if content[:2] == b'PK' else 'safetensors'}"
        path.write_bytes(content)
        questions.append({"ask": "tensors", "file": str(path)})
    codes = [found.get("code") for found in ask(questions)]
    assert codes == ["E0542", "E0542", *["E0530"] * 4, None]
    bad = tmp_path / "bad.npz"
    np.savez_compressed(bad, **ARRAYS)
    content = bytearray(bad.read_bytes())
    content[120] ^= 0xFF
    bad.write_bytes(content)
    assert ask([{"ask": "tensors", "file": str(bad)}])[0].get("code") == "E0530"


def test_an_artefact_is_read_and_a_forged_one_refused(ask: Ask, tmp_path: Path) -> None:
    """Faults of a plan are found by both runtimes."""
    whole = compiled()[0]
    questions: list[dict[str, str]] = []
    for number, change in enumerate([lambda _: None, *FORGED.values()]):
        file = tmp_path / f"{number}.mgb"
        whole.write(file)
        questions.append({"ask": "artefact", "file": str(forged(file, change))})
    first, *rest = ask(questions)
    assert first["answer"] == {
        "model": "digits_cnn", "order": list(whole.plan.order), "trains": False,
        "writes": False,
    }  # fmt: skip
    # It needs the graph to know these.
    beyond = {"an output of another name", "an input of the same size"}
    accepted = {name for name, found in zip(FORGED, rest, strict=True) if "code" not in found}
    assert accepted == beyond
    assert {found["code"] for found in rest if "code" in found} == {"E0581"}


def test_a_training_step_is_read_and_a_forged_one_refused(ask: Ask, tmp_path: Path) -> None:
    files = [
        forged_run(tmp_path / f"{number}.mgb", change)
        for number, change in enumerate([lambda _: None, *FORGED_RUNS.values()])
    ]
    first, *rest = ask([{"ask": "artefact", "file": str(file)} for file in files])
    assert first["answer"]["trains"]
    assert [found.get("code") for found in rest] == ["E0581"] * len(FORGED_RUNS)


def test_a_model_that_writes_is_read_and_a_forged_one_refused(ask: Ask, tmp_path: Path) -> None:
    files = [
        forged_generation(tmp_path / f"{number}.mgb", change)
        for number, change in enumerate([lambda _: None, *FORGED_GENERATIONS.values()])
    ]
    first, *rest = ask([{"ask": "artefact", "file": str(file)} for file in files])
    assert first["answer"]["writes"]
    assert [found.get("code") for found in rest] == ["E0581"] * len(FORGED_GENERATIONS)


def test_types_of_devices_and_of_files(ask: Ask) -> None:
    numbers = [0.0, -1.5, 1 / 3, 65503.9, 65520.0, 6e-8, 3e-8, 2.0**-14, 1e-5, -2049.0, 2051.0]
    with np.errstate(over="ignore"):
        half = np.array(numbers, np.float32).astype(np.float16)
    brain = np.array(numbers, np.float32).view(np.uint32).astype(np.uint64)
    brain = ((brain + 0x7FFF + ((brain >> 16) & 1)) >> 16).astype(np.uint32) << 16
    f16, bf16, i64, flags = ask([
        {"ask": "device", "dtype": "f16", "stored": "f32", "values": numbers},
        {"ask": "device", "dtype": "f32", "stored": "bf16", "values": numbers},
        {"ask": "device", "dtype": "i32", "stored": "i64", "values": [-(2**31), 5]},
        {"ask": "device", "dtype": "bool", "stored": "bool", "values": [1, 0, 1]},
    ])  # fmt: skip
    finite = [None if np.isinf(each) else float(each) for each in half]
    assert f16["answer"] == finite
    assert bf16["answer"] == brain.astype(np.uint32).view(np.float32).astype(float).tolist()
    assert i64["answer"] == [-(2**31), 5]
    assert flags["answer"] == [1, 0, 1]


SIZES = [(31, 40, 8, 8), (5, 7, 12, 9), (64, 50, 32, 32)]


def test_a_picture_is_what_it_is_for_the_command_line(ask: Ask, tmp_path: Path) -> None:
    questions: list[dict[str, object]] = []
    wanted: list[np.ndarray] = []
    for number, (filter_, (height, width, h, w)) in enumerate(product(Filter, SIZES)):
        colors = 1 + 2 * (number % 2)
        pixels = RANDOM.integers(0, 256, (height, width, colors), dtype=np.uint8)
        file = tmp_path / f"{number}.png"
        Image.fromarray(pixels.squeeze() if colors == 1 else pixels).save(file)
        of = TensorType(DType.F32, (1, colors, h, w))
        choices = Choices(filter=filter_, std=(0.25,), mean=(0.5,))
        form = input_forms({"x": of}, {}, choices)["x"]
        assert isinstance(form, PictureForm)
        steps = choices.image_steps(of)
        assert steps is not None
        wanted.append(read_image(file, colors, steps.steps).values)
        given = {"height": height, "width": width, "colors": colors}
        questions.append(
            {"ask": "picture", **given, "bytes": pixels.ravel().tolist(), "form": asdict(form)}
        )
    for values, found in zip(wanted, ask(questions), strict=True):
        given = np.array(found["answer"]).reshape(values.shape)
        np.testing.assert_allclose(given, values, atol=1e-6)


def test_a_sound_is_what_it_is_for_the_command_line(ask: Ask) -> None:
    samples = (RANDOM.normal(size=5000) * np.hanning(5000)).astype(np.float32)
    padded = np.pad(samples, (0, 160 * 50 - len(samples)))
    found = ask([{"ask": "sound", "samples": samples.tolist(), "mels": 80, "frames": 50}])[0]
    given = np.array(found["answer"]).reshape(80, 50)
    np.testing.assert_allclose(given, log_mel(padded, 80), atol=2e-6)


def test_indices_are_checked(ask: Ask) -> None:
    bound = {"count": 10, "exempt": [-100]}
    check = {"dtype": "i32", "count": 4, "location": "net.mgn:3  gather(x, i)"}
    questions = [
        {"ask": "indices", "values": [0, 9, -100], "bound": bound},
        {"ask": "indices", "values": [0, 10], "bound": bound},
        {"ask": "indices", "values": [-1], "bound": bound},
        {"ask": "checks", "check": check, "largest": 3},
        {"ask": "checks", "check": check, "largest": 4},
        {"ask": "checks", "check": check, "largest": 2**32 - 1},
    ]
    found = ask(questions)
    assert [each.get("code") for each in found] == [None, "E0535", "E0535", None, *["E0537"] * 2]
    assert "must be below 10" in found[1]["message"]
    assert "a computed index is -1, and must be at least 0: net.mgn:3" in found[5]["message"]
    assert found[3]["answer"] == ["y"]
