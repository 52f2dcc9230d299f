"""The models whose first answers in a browser `benchmarks/browser/measure.py` times, as files.

    python -m benchmarks.browser.prepare FOLDER [MODEL ...]

writes a folder for each model: what our npm package opens, its ONNX export, and an answer to check
others by; beside them the npm package and a step of `digits_mlp` that trains. Needs `npm run build`
in runtime/web. Two contenders are added by hand:

    npm install --prefix FOLDER onnxruntime-web
    python benchmarks/browser/tinygrad_export.py TINYGRAD FOLDER/MODEL
"""

import json
import sys
from pathlib import Path
from shutil import copytree
from typing import cast

import numpy as np

import meganeura
from meganeura.cli.app import run as command
from meganeura_dsl import pipeline
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.io.data.data_files import embedded_data
from meganeura_runtime.train.feeder import Feeder
from meganeura_runtime.train.job import prepare

RUNTIME = Path(__file__).parents[2] / "runtime" / "web" / "dist"
VIT = {"d": 64, "layers": 4, "heads": 4, "image": 32, "patch": 4, "classes": 10}
MODELS: dict[str, tuple[dict[str, int], dict[str, int]]] = {
    "digits_cnn": ({}, {"n": 1, "h": 8, "w": 8}),
    "vit_tiny_patch16_224": (VIT, {"n": 1}),
}
"""Arguments and sizes: a software adapter has time for little."""
STEPS = 44


def build(*words: str | Path) -> None:
    """Run `meganeura build`."""
    if command(["build", *map(str, words)]):
        raise SystemExit(1)


def write_model(folder: Path, name: str) -> None:
    """A model with random weights, compiled and as ONNX, and its answer to one input."""
    config, sizes = MODELS[name]
    model = meganeura.load(name).model(seed=0, config=config)
    ((feed, of),) = model.inputs.items()
    shape = [cast("int", sizes.get(str(size), size)) for size in of.shape]
    image = (np.arange(np.prod(shape)) % 17 / 17).astype(np.float32).reshape(shape)
    wanted = model.run({feed: image}, device="cpu")["output"]
    folder.mkdir(parents=True, exist_ok=True)
    weights = folder / "model.safetensors"
    model.save(weights)
    model.export(folder / "model.onnx")
    given = [word for size in sizes.items() for word in ("--size", "{}={}".format(*size))]
    given += [word for each in config.items() for word in ("--set", "{}={}".format(*each))]
    build(name, "--weights", weights, *given, "-o", folder / "model.mgb")
    case = {"name": name, "shape": shape, "sizes": sizes, "wanted": wanted.ravel().tolist()}
    (folder / "case.json").write_text(json.dumps(case))


def write_training(folder: Path) -> None:
    """A step of `digits_mlp` with its data, as a file and as a page, and the reference's losses."""
    folder.mkdir(parents=True, exist_ok=True)
    words = ("digits_mlp", "--mode", "train", "--set", "epochs=1")
    build(*words, "-o", folder / "train.mgb")
    build(*words, "--with-data", "-o", folder / "train.html")
    (folder / "data.safetensors").write_bytes(embedded_data()["digits"].read_bytes())
    program = pipeline.load("digits_mlp")
    path = pipeline.find("digits_mlp").path.parent
    job = prepare(program, program.train(), path, ["epochs=1", "device=cpu"])
    feeder = Feeder(job)
    with ReferenceSession(job.compiled) as session:
        session.load(job.initial_values())
        losses = [float(session.step(feeder.feeds(step))["loss"]) for step in range(STEPS)]
    (folder / "losses.json").write_text(json.dumps(losses))


def main() -> None:
    """Write all of it."""
    folder = Path(sys.argv[1])
    copytree(RUNTIME, folder / "runtime", dirs_exist_ok=True)
    for name in sys.argv[2:] or MODELS:
        write_model(folder / name, name)
    write_training(folder / "training")


if __name__ == "__main__":
    main()
