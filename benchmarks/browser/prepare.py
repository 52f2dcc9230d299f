"""The models whose first answers in a browser `benchmarks/browser/measure.py` times, as files.

    python -m benchmarks.browser.prepare FOLDER [MODEL ...]
    python -m benchmarks.browser.prepare FOLDER --generate smollm2_135m [--device wgpu]

The first writes a folder for each model: what our npm package opens, a page of one file, its ONNX
export, and an answer to check others by; beside them the npm package and a step of `digits_mlp`
that trains. The second writes a model that generates, with random weights, its page beside it, and
the tokens that the Python runtime draws on a device. Needs `npm run build` in runtime/web. Two
contenders are added by hand:

    npm install --prefix FOLDER onnxruntime-web
    python benchmarks/browser/tinygrad_export.py TINYGRAD FOLDER/MODEL
"""

import argparse
import json
from pathlib import Path
from shutil import copytree
from typing import cast

import numpy as np

import meganeura
from meganeura.cli.app import run as command
from meganeura_dsl import pipeline
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.io.data.data_files import embedded_data
from meganeura_runtime.train.loop.feeder import Feeder
from meganeura_runtime.train.spec.train_job import prepare

RUNTIME = Path(__file__).parents[2] / "runtime" / "web" / "dist"
VIT = {"d": 64, "layers": 4, "heads": 4, "image": 32, "patch": 4, "classes": 10}
MODELS: dict[str, tuple[dict[str, int], dict[str, int]]] = {
    "digits_cnn": ({}, {"n": 1, "h": 8, "w": 8}),
    "vit_tiny_patch16_224": (VIT, {"n": 1}),
}
"""Arguments and sizes: a software adapter has time for little."""
STEPS = 44
PROMPT, WRITTEN = 37, 64
"""Tokens that are read and written."""
SPREAD = 0.06
"""Of random weights of a model that generates."""


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
    image = (np.arange(np.prod(shape)) % 17).astype(np.float32).reshape(shape)
    wanted = model.run({feed: image}, device="cpu")["output"]
    folder.mkdir(parents=True, exist_ok=True)
    weights = folder / "model.safetensors"
    model.save(weights)
    model.export(folder / "model.onnx")
    given = [word for size in sizes.items() for word in ("--size", "{}={}".format(*size))]
    given += [word for each in config.items() for word in ("--set", "{}={}".format(*each))]
    for file in ("model.mgb", "page.html"):
        build(name, "--weights", weights, *given, "-o", folder / file)
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
    with ReferenceSession(job.spec.compiled) as session:
        session.load(job.spec.initial_values())
        losses = [float(session.step(feeder.feeds(step))["loss"]) for step in range(STEPS)]
    (folder / "losses.json").write_text(json.dumps(losses))


def write_generation(folder: Path, name: str, device: str) -> None:
    """A model that generates, with weights so large that its tokens vary, and those tokens."""
    folder.mkdir(parents=True, exist_ok=True)
    model = meganeura.load(name).model(seed=0)
    random = np.random.default_rng(0)
    model.values = {
        each: np.float32(value.std() == 0)
        + np.float32(SPREAD) * random.standard_normal(value.shape, np.float32)
        for each, value in model.values.items()
    }
    weights = folder / "model.safetensors"
    model.save(weights)
    page = folder / "page.html"
    build(name, "--mode", "generate", "--weights", weights, "--split", "-o", page)
    prompt = [(7 * place + 3) % 97 for place in range(PROMPT)]
    with model.generator(512, device=device) as generator:
        tokens = [int(token[0]) for token in generator.tokens(prompt, WRITTEN)]
    case = {"name": name, "prompt": prompt, "tokens": tokens}
    (folder / "case.json").write_text(json.dumps(case))
    kinds = len(set(tokens))
    print(f"{name}: {WRITTEN} tokens of {kinds} kinds")


def main() -> None:
    """Write all of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("models", nargs="*", default=list(MODELS), metavar="MODEL")
    parser.add_argument("--generate", metavar="MODEL")
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    copytree(RUNTIME, given.folder / "runtime", dirs_exist_ok=True)
    if given.generate:
        write_generation(given.folder / "generation" / given.generate, given.generate, given.device)
        return
    for name in given.models:
        write_model(given.folder / name, name)
    write_training(given.folder / "training")


if __name__ == "__main__":
    main()
