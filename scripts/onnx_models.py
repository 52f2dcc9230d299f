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
from meganeura_dsl.ir.graph import Array, Graph
from meganeura_runtime.export.onnx.differences import distance
from meganeura_runtime.export.onnx.export import Elaborate, export_onnx
from meganeura_runtime.export.onnx.options import OnnxOptions
from meganeura_runtime.export.reference_run import exact_run, random_inputs, reference_run
from meganeura_runtime.importing.onnx.importing import import_onnx
from meganeura_runtime.io.tensors.quantized_tensors import read_weights
from meganeura_runtime.io.tensors.stored_tensor import read
from meganeura_runtime.io.weights import initial_values
from tests.kinds import KINDS
from tests.same_computation import same_computation
from tests.same_graph import first_difference

CLOSE = 1e-5
"""The largest difference of an output, in units of its largest element or of 1."""
LEAST = 1e-3
"""The least difference of the outputs for two inputs, below which little is compared."""


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
    for name in KINDS:
        yield name, lambda name=name: _there_and_back(name, folder)


def _there_and_back(name: str, folder: Path) -> str:
    program, config = pipeline.load(name), KINDS[name]

    def elaborate(sizes: Mapping[str, int], *, training: bool = False) -> Elaboration:
        return pipeline.elaborate_model(program, config=config, sizes=sizes, training=training)

    symbolic = elaborate({})
    path = folder / f"{name.replace(':', '_')}.onnx"
    values = _weights(symbolic)
    made = export_onnx(name, elaborate, values, path, OnnxOptions())
    is_open = any(not isinstance(size, int) for of in symbolic.inputs.values() for size in of.shape)
    said = f"written within {made.difference:.2g}"
    allowed = CLOSE
    if made.difference > CLOSE:
        rounding = max(_rounding(elaborate, values, sizes) for sizes in made.sizes)
        said += f", where rounding makes {rounding:.2g}"
        allowed = max(CLOSE, 2 * rounding)
    if made.difference > allowed or len(made.sizes) < 1 + is_open:
        said += " WRONG"
    if _variation(elaborate(made.sizes[0]).graph, values) < LEAST:
        said += ", WRONG its outputs hardly depend on its inputs"
    back = import_onnx(path, path.with_suffix(".mgn"))
    parameters = pipeline.elaborate_model(pipeline.load(str(back.program))).parameters
    found = {each.name: each.type for each in parameters if not CONSTANT.match(each.name)}
    wanted = {each.name: each.type for each in symbolic.parameters}
    lines = len(back.program.read_text().splitlines())
    said += f", read within {back.difference:.2g} as {lines} lines"
    if back.difference > allowed:
        said += " WRONG"
    sizes = made.sizes[0]
    again = pipeline.elaborate_model(pipeline.load(str(back.program)), sizes=sizes)
    difference = first_difference(elaborate(sizes).graph, again.graph)
    if difference is None:
        said += ", the same graph"
    else:
        held = read_weights(back.weights)
        constants = {
            each.name: read(held[each.name], each.type.dtype)
            for each in again.parameters
            if each.name in back.constants
        }
        is_same = same_computation(elaborate(sizes).graph, again.graph, constants)
        said += ", the same up to moves and constants" if is_same else f", another: {difference}"
    for name_ in sorted({*wanted.items()} ^ {*found.items()}, key=str)[:3]:
        said += f", WRONG parameter {name_}"
    return said


def _variation(graph: Graph, values: Mapping[str, Array]) -> float:
    """Returns the outputs' difference for two random inputs, relative to the largest element."""
    one, other = (
        {name: each.astype(np.float64) for name, each in run.items()}
        for run in (reference_run(graph, values, random_inputs(graph, seed)) for seed in (0, 1))
    )
    return min(
        float(np.abs(one[name] - other[name]).max() / np.abs(one[name]).max()) for name in one
    )


def _rounding(elaborate: Elaborate, values: Mapping[str, Array], sizes: Mapping[str, int]) -> float:
    """Returns the reference's distance from double precision, on the inputs of an export."""
    graph = elaborate(sizes).graph
    inputs = random_inputs(graph, len(sizes))
    exact = exact_run(graph, values, inputs)
    single = reference_run(graph, values, inputs)
    return max(distance(each, exact[name]) for name, each in single.items())


CONSTANT = re.compile(r"constant\d+$")


GAIN = 1.8
"""Variance of a kernel's elements, times how many make one output: 2 where all ends in a relu."""


def _weights(model: Elaboration) -> dict[str, Array]:
    """Statistics as of a trained model, and kernels by which signals neither fade nor grow much."""
    generator = np.random.default_rng(0)
    values = dict(initial_values(model.parameters, seed=0))
    for name, array in values.items():
        if array.ndim == 1 and array.dtype == np.float32:
            drawn = generator.normal(scale=0.2, size=array.shape)
            values[name] = (array + np.abs(drawn)).astype(np.float32)
        if array.ndim > 2 and array.dtype == np.float32:
            scale = np.sqrt(GAIN / np.prod(array.shape[1:]))
            drawn = generator.normal(scale=scale, size=array.shape)
            values[name] = drawn.astype(np.float32)
        if array.ndim == 2 and array.dtype == np.float32 and not array.any():
            drawn = generator.normal(scale=array.shape[1] ** -0.5, size=array.shape)
            values[name] = drawn.astype(np.float32)
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
    _end_with_logits(model)
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


def _end_with_logits(model: ModelProto) -> None:
    """Leave a last softmax out: of logits as large as random weights give it is a one and zeros."""
    (output,) = model.graph.output
    (last,) = (each for each in model.graph.node if output.name in each.output)
    if last.op_type == "Softmax":
        output.name = last.input[0]
        model.graph.node.remove(last)


Attempt = Callable[[], str]
"""Tries one model, and says how it went; WRONG where it went wrong."""

if __name__ == "__main__":
    sys.exit(main())
