"""Every standard model to ONNX and back, and the networks that the package `onnx` brings.

    python scripts/onnx_models.py [PART_OF_A_NAME]

A standard model is written, which compares it with ONNX Runtime at two sizes where sizes are open,
and read again: proved, compared, and with all of its parameters. Large ones are narrower than
published. The nine networks of `onnx.backend.test` get random weights in place of their constant
ones, and are read. The exit code says whether all of it came out as it should.
"""

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import onnx
from onnx import ModelProto, numpy_helper

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.elaborate.values import Static
from meganeura_dsl.ir.graph import Array
from meganeura_runtime.export.onnx.export import export_onnx
from meganeura_runtime.export.onnx.options import OnnxOptions
from meganeura_runtime.importing.onnx.importing import import_onnx
from meganeura_runtime.io.weights import initial_values

CLOSE, CLOSE_DRAWN = 1e-5, 1e-4
"""The largest differences of an output, in units of its largest element or of 1."""
BERT: Mapping[str, Static] = {"vocabulary": 999, "d": 96, "layers": 3, "heads": 4, "ffn": 128}
MODELS: Mapping[str, Mapping[str, Static]] = {
    "resnet18": {},
    "resnet50": {"width": 16},
    "resnet18_biased": {"width": 16},
    "densenet121": {"growth": 8, "width": 16},
    "mobilenet_v2": {},
    "mobilenet_v3_small": {},
    "mobilenet_v3_large": {},
    "convnext_tiny": {"stages": [[24, 3], [48, 3], [96, 9], [192, 3]]},
    "efficientnet_b0": {},
    "repvgg_a0": {},
    "repvgg_b1g4": {"a": 0.125, "b": 0.125},
    "vit_tiny_patch16_224": {"image": 64},
    "whisper_tiny": {},
    "whisper_words": {},
    "whisper_frames": {},
    "lm_tiny": {},
    "gpt2_tiny": {},
    "gpt2_tiny_lora": {},
    "mamba_tiny": {},
    "bert_tiny": {},
    "bert_base": BERT,
    "minilm_l6": BERT,
    "t5_tiny": {},
    "clip_vit_b32": {
        "vocabulary": 999, "d": 64, "layers": 3, "heads": 4, "image": 64, "width": 96, "depth": 3,
        "image_heads": 4, "projection": 32,
    },
    "lstm_lm": {},
    "tagger": {},
    "unet_tiny": {},
    "gan:generator": {},
    "gan:critic": {},
    "gan:drawn": {},
    "vae:encoder": {},
    "vae:decoder": {},
    "vae:drawn": {},
    "ddpm:denoiser": {},
    "ddpm:drawn": {"rounds": 3},
    "distil": {},
    "digits_cnn": {},
    "digits_mlp": {},
}  # fmt: skip
"""Each kind of standard model, and how it is configured; none stands for as published."""


def main() -> int:
    """Try all models, or some."""
    parser = argparse.ArgumentParser()
    parser.add_argument("part", nargs="?", default="")
    part = parser.parse_args().part
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, attempt in (*_standard(Path(folder)), *_light(Path(folder))):
            if part not in name:
                continue
            started = time.perf_counter()
            try:
                said = attempt()
            except ProblemError as error:
                said = f"WRONG {error} {error.problem.report().remarks}"
            wrong += "WRONG" in said
            print(f"{name}: {said} ({time.perf_counter() - started:.1f} s)", flush=True)
    print(f"{wrong} wrong")
    return int(wrong > 0)


# --- standard models -----------------------------------------------------------------------------


def _standard(folder: Path) -> "Iterator[tuple[str, Attempt]]":
    for name in MODELS:
        yield name, lambda name=name: _there_and_back(name, folder)


def _there_and_back(name: str, folder: Path) -> str:
    program, config = pipeline.load(name), MODELS[name]

    def elaborate(sizes: Mapping[str, int]) -> Elaboration:
        return pipeline.elaborate_model(program, config=config, sizes=sizes)

    symbolic = elaborate({})
    path = folder / f"{name.replace(':', '_')}.onnx"
    made = export_onnx(name, elaborate, _weights(symbolic), path, OnnxOptions())
    is_open = any(not isinstance(size, int) for of in symbolic.inputs.values() for size in of.shape)
    allowed = CLOSE_DRAWN if name == "ddpm:drawn" else CLOSE  # its first round divides by 0.003
    far = made.difference > allowed or len(made.sizes) < 1 + is_open
    said = f"written within {made.difference:.2g}{' WRONG' if far else ''}"
    back = import_onnx(path, path.with_suffix(".mgn"))
    parameters = pipeline.elaborate_model(pipeline.load(str(back.program))).parameters
    found = {each.name: each.type for each in parameters if not CONSTANT.match(each.name)}
    wanted = {each.name: each.type for each in symbolic.parameters}
    for each in NUMBERS & {*wanted} - {*found}:
        del wanted[each]
    lines = len(back.program.read_text().splitlines())
    said += f", read within {back.difference:.2g} as {lines} lines"
    if back.difference > allowed:
        said += " WRONG"
    for name_ in sorted({*wanted.items()} ^ {*found.items()}, key=str)[:3]:
        said += f", WRONG parameter {name_}"
    return said


NUMBERS = {"logit_scale"}
"""Parameters of one number, which are that number in what is read."""
CONSTANT = re.compile(r"constant\d+$")


def _weights(model: Elaboration) -> dict[str, Array]:
    """Weights as they start, with statistics as if something had been learned."""
    generator = np.random.default_rng(0)
    values = dict(initial_values(model.parameters, seed=0))
    for name, array in values.items():
        if array.ndim == 1 and array.dtype == np.float32:
            drawn = generator.normal(scale=0.2, size=array.shape)
            values[name] = (array + np.abs(drawn)).astype(np.float32)
    return values


# --- networks of the package `onnx` --------------------------------------------------------------


def _light(folder: Path) -> "Iterator[tuple[str, Attempt]]":
    for path in sorted(LIGHT.glob("light_*.onnx")):
        yield path.stem, lambda path=path: _read(path, folder)


LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


def _read(path: Path, folder: Path) -> str:
    model = ModelProto()
    model.ParseFromString(path.read_bytes())
    _draw(model)
    given = folder / path.name
    given.write_bytes(model.SerializeToString())
    made = import_onnx(given, given.with_suffix(".mgn"))
    lines = len(made.program.read_text().splitlines())
    said = f"{made.nodes} nodes read within {made.difference:.2g} as {lines} lines"
    return said if made.difference <= CLOSE else f"{said} WRONG"


def _draw(model: ModelProto) -> None:
    """Weights that are one number everywhere become random initializers of the same name."""
    generator = np.random.default_rng(0)
    shapes = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    kept = [each for each in model.graph.node if each.op_type != "ConstantOfShape"]
    for node in model.graph.node:
        if node.op_type == "ConstantOfShape":
            shape = tuple(int(each) for each in shapes[node.input[0]])
            scale = np.sqrt(2 / np.prod(shape[1:])) if len(shape) > 1 else 0.2
            drawn = generator.normal(scale=scale, size=shape)
            values = (np.abs(drawn) + 0.5 if len(shape) == 1 else drawn).astype(np.float32)
            model.graph.initializer.append(numpy_helper.from_array(values, node.output[0]))
    del model.graph.node[:]
    model.graph.node.extend(kept)


Attempt = Callable[[], str]
"""Tries one model, and says how it went; WRONG where it went wrong."""

if __name__ == "__main__":
    sys.exit(main())
