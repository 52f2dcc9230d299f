"""A model written as an ONNX file, after it was compared with the model itself."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.types import example_sizes
from meganeura_runtime.export.cache_problems import require_no_caches
from meganeura_runtime.export.onnx.examples import Example
from meganeura_runtime.export.onnx.options import OnnxOptions
from meganeura_runtime.export.reference_run import random_inputs, reference_run
from meganeura_runtime.support.optional_imports import load

Elaborate = Callable[[Mapping[str, int]], Elaboration]
"""The graph of a model for some sizes; the others stay symbols."""


@dataclass(frozen=True)
class Exported:
    """What was written, and how it was compared."""

    nodes: int
    difference: float
    """The largest difference of an output, in units of its largest element or of 1."""
    sizes: tuple[Mapping[str, int], ...]
    """The open sizes that were compared."""


def export_onnx(
    name: str,
    elaborate: Elaborate,
    values: Mapping[str, Array],
    path: Path,
    options: OnnxOptions,
) -> Exported:
    """Write a model with these parameters and states as ONNX.

    Raises `ProblemError` for what ONNX cannot say, and if ONNX Runtime does not give what the model
    gives on random inputs; nothing is written then. Also where the extra `onnx` is not installed.
    """
    for module in ("onnx", "onnxruntime"):
        load(module, "onnx", "write ONNX files")
    from meganeura_runtime.export.onnx.model import onnx_model
    from meganeura_runtime.export.onnx.write import write

    symbolic = elaborate({})
    require_no_caches(symbolic.graph, "ONNX")
    model = onnx_model(name, symbolic.graph, values, options)
    first = example_sizes(symbolic.inputs.values())
    examples = [_example(elaborate, values, first)]
    if first:
        with suppress(ProblemError):  # the model may not have all of these sizes
            doubled = {size: 2 * number for size, number in first.items()}
            examples.append(_example(elaborate, values, doubled))
    difference = write(model, path, examples)
    return Exported(len(model.graph.node), difference, tuple(each.sizes for each in examples))


def _example(
    elaborate: Elaborate, values: Mapping[str, Array], sizes: Mapping[str, int]
) -> Example:
    graph = elaborate(sizes).graph
    inputs = random_inputs(graph, len(sizes))
    return Example(sizes, inputs, reference_run(graph, values, inputs))
