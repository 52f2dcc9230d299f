"""What a program gives, beside what ONNX Runtime makes of the file."""

from collections.abc import Mapping

import numpy as np
import onnxruntime

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.types import DType, example_sizes
from meganeura_dsl.symbolic.conditions import Compare
from meganeura_dsl.symbolic.size import dim, evaluate
from meganeura_runtime.export.onnx.comparison import ALLOWED, distance, first_line, quiet
from meganeura_runtime.export.reference_run import random_inputs, reference_run
from meganeura_runtime.importing.onnx.import_problems import ImportDiffers
from meganeura_runtime.importing.onnx.onnx_file import NUMBERS, OnnxFile
from meganeura_runtime.importing.onnx.proved import Proved
from meganeura_runtime.importing.onnx.translation import Translation

ALLOWED_HALF = 2e-2
"""The largest difference of an output of f16, in units of its largest element or of 1."""


def compared(
    file: OnnxFile, translation: Translation, proved: Proved
) -> tuple[float, Mapping[str, int]]:
    """The largest difference of an output on random inputs, and the sizes they had.

    Raises `ProblemError` if it is too large.
    """
    sizes = _sizes(translation)
    graph = pipeline.elaborate_model(proved.program, sizes=sizes).graph
    inputs = random_inputs(graph, len(sizes))
    fed = {own: inputs[own if own in inputs else f"_{own}"] for _, own, _ in translation.inputs}
    stored = {name: each.values for name, each in translation.build.stored.items()}
    found = list(reference_run(graph, stored, inputs).values())
    wanted = _by_runtime(file, translation, fed)
    largest = 0.0
    for (name, value), given, expected in zip(translation.outputs, found, wanted, strict=True):
        if given.shape != expected.shape:
            shapes = f"{list(given.shape)}, not {list(expected.shape)}"
            raise ProblemError(ImportDiffers(file.path, f"`{name}` has the shape {shapes}"))
        difference = distance(given.astype(np.float64), expected.astype(np.float64))
        allowed = ALLOWED_HALF if value.dtype is DType.F16 else ALLOWED
        if not difference <= allowed:
            reason = f"`{name}` differs by {difference:.3g}, and {allowed:g} is allowed"
            raise ProblemError(ImportDiffers(file.path, reason))
        largest = max(largest, difference)
    return largest, sizes


def _sizes(translation: Translation) -> dict[str, int]:
    """Sizes that satisfy all that the program states of them."""
    facts = translation.build.facts
    sizes = example_sizes(value.type for _, _, value in translation.inputs)
    if all(_holds(each, sizes) for each in translation.build.stated):
        return sizes
    for name in sizes:
        found = facts.example(Compare(">=", dim(name), 1)) or {}
        sizes |= {each: int(found[each]) for each in found if each in sizes}
    return sizes


def _holds(condition: Compare, sizes: Mapping[str, int]) -> bool:
    left, right = evaluate(condition.left, sizes), evaluate(condition.right, sizes)
    return left == right if condition.operator == "==" else left >= right


def _by_runtime(file: OnnxFile, translation: Translation, fed: Mapping[str, Array]) -> list[Array]:
    types = {each.name: NUMBERS[each.type.tensor_type.elem_type] for each in file.model.graph.input}
    feeds = {name: fed[own].astype(types[name]) for name, own, _ in translation.inputs}
    feeds |= {name: value.array.astype(types[name]) for name, value in translation.given.items()}
    try:
        session = onnxruntime.InferenceSession(
            str(file.path), quiet(), providers=["CPUExecutionProvider"]
        )
        names = [name for name, _ in translation.outputs]
        return [np.asarray(each) for each in session.run(names, feeds)]
    except Exception as error:  # noqa: BLE001  its errors have no common base
        reason = f"ONNX Runtime refuses it: {first_line(error)}"
        raise ProblemError(ImportDiffers(file.path, reason)) from None
