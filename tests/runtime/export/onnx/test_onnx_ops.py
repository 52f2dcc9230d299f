"""Every op that has a form in ONNX gives there what the reference gives; the others are refused."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Array, Builder, Graph
from meganeura_dsl.ir.ops import OPS, Abs, Input, MaxPool, Neg, Pad, ReduceMax
from meganeura_dsl.ir.types import DType
from meganeura_runtime.export.onnx.examples import Example
from meganeura_runtime.export.onnx.model import onnx_model
from meganeura_runtime.export.onnx.onnx_problems import NoOnnxForm
from meganeura_runtime.export.onnx.ops.table import TABLE
from meganeura_runtime.export.onnx.options import NEWEST_OPSET, OLDEST_OPSET, OnnxOptions
from meganeura_runtime.export.onnx.write import write
from meganeura_runtime.export.reference_run import exact_run, reference_run
from tests.samples import SAMPLES, Sample

LEAVES = {"Input", "Parameter"}
NO_FORM = {
    "ConvWeightGradient",
    "MaxPoolGradient",
    "MaxPoolSelect",
}
"""Ops that are only in gradients."""


def graph_of(sample: Sample) -> tuple[Graph, dict[str, Array]]:
    """The op alone, on inputs."""
    build = Builder()
    inputs = {f"x{number}": array for number, array in enumerate(sample.operands)}
    leaves = [
        build.add(Input(name, each.dtype, each.shape))
        for name, each in zip(inputs, sample.types, strict=True)
    ]
    results = build.add_all(sample.op, *leaves)
    read = results[:1] if isinstance(sample.op, MaxPool) else results
    return build.graph({f"out{number}": each for number, each in enumerate(read)}), inputs


def is_refused(sample: Sample) -> bool:
    """True if an op pads between elements."""
    return isinstance(sample.op, Pad) and any(sample.op.interior)


def test_every_op_is_lowered_or_refused() -> None:
    assert {op.__name__ for op in OPS} == {op.__name__ for op in TABLE} | NO_FORM | LEAVES


@pytest.mark.parametrize(
    "sample",
    [each for each in SAMPLES if type(each.op) in TABLE and not is_refused(each)],
    ids=lambda sample: sample.name,
)
def test_an_op_gives_what_the_reference_gives(sample: Sample, tmp_path: Path) -> None:
    # Only reductions are written in another way in older opsets.
    opset = OLDEST_OPSET if isinstance(sample.op, ReduceMax) else NEWEST_OPSET
    graph, inputs = graph_of(sample)
    model = onnx_model("op", graph, {}, OnnxOptions(opset))
    with np.errstate(all="ignore"):
        outputs = reference_run(graph, {}, inputs)
    example = Example({}, inputs, outputs, partial(exact_run, graph, {}, inputs))
    assert write(model, tmp_path / "op.onnx", [example]) <= 1e-5


@pytest.mark.parametrize(
    "sample",
    [each for each in SAMPLES if type(each.op).__name__ in NO_FORM or is_refused(each)],
    ids=lambda sample: sample.name,
)
def test_an_op_without_a_form_is_refused(sample: Sample) -> None:
    with pytest.raises(ProblemError) as caught:
        onnx_model("op", graph_of(sample)[0], {}, OnnxOptions())
    assert isinstance(caught.value.problem, NoOnnxForm)


@pytest.mark.parametrize("off", [(5e-5, 0), (0, 5e-5), (2e-5, 5e-5)])
def test_the_largest_difference_is_that_of_all_outputs(
    off: tuple[float, float], tmp_path: Path
) -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, (3,)))
    graph = build.graph({"a": build.add(Neg(), x), "b": build.add(Abs(), x)})
    inputs = {"x": np.array([1, -0.5, 0], np.float32)}
    outputs = reference_run(graph, {}, inputs)
    shown = {
        name: each + np.float32(by) for (name, each), by in zip(outputs.items(), off, strict=True)
    }
    examples = [Example({}, inputs, each, lambda: outputs) for each in (outputs, shown, outputs)]
    found = write(onnx_model("two", graph, {}, OnnxOptions()), tmp_path / "a.onnx", examples)
    assert found == pytest.approx(5e-5, rel=0.02)
