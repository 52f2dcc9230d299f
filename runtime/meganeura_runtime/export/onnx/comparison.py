"""Comparison of ONNX Runtime's results for a file with those of the model."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.export.onnx.differences import allowed, distance, first_line
from meganeura_runtime.export.onnx.examples import Example
from meganeura_runtime.export.onnx.onnx_problems import OnnxDiffers

NOTHING_BUT_FATAL = 4
"""The severity from which ONNX Runtime prints."""
EXACT_SUMS = "session.x64quantprecision"
"""Without it, sums of two products of 8 bits end at 2^15 on processors of x86 that lack VNNI."""


class Levels(StrEnum):
    """The use that a model makes of numbers of a few bits."""

    NONE = "none"
    PAIRS = "pairs"
    """They become floats again at once, and are not to be computed with as whole numbers."""
    SUMS = "sums"
    """Sums of their products, which are to be exact."""


def compare(path: Path, examples: Sequence[Example]) -> float:
    """The largest difference of an output, in units of its largest element or of 1.

    Raises `ProblemError` if it is too large, or if the file is refused.
    """
    try:
        check: Callable[..., None] = onnx.checker.check_model  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - PathLike is left open
        check(str(path), full_check=True)
        session = session_of(str(path))
    except Exception as error:  # noqa: BLE001  each has its own classes, of no common base
        raise ProblemError(OnnxDiffers(first_line(error), ())) from None
    return max(_difference(session, example) for example in examples)


def session_of(path: str, levels: Levels = Levels.NONE) -> onnxruntime.InferenceSession:
    """A session on one thread of the CPU, whose errors are exceptions and are not printed too."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = NOTHING_BUT_FATAL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    if levels is Levels.PAIRS:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    if levels is Levels.SUMS:
        options.add_session_config_entry(EXACT_SUMS, "1")
    return onnxruntime.InferenceSession(
        path, options, providers=["CPUExecutionProvider"], enable_fallback=0
    )


def _difference(session: onnxruntime.InferenceSession, example: Example) -> float:
    sizes = tuple(example.sizes.items())
    try:
        found = session.run(None, dict(example.inputs))
    except Exception as error:  # noqa: BLE001  see above
        raise ProblemError(OnnxDiffers(first_line(error), sizes)) from None
    largest = 0.0
    for (name, expected), given in zip(example.outputs.items(), found, strict=True):
        array = np.asarray(given)
        if array.shape != expected.shape:
            reason = f"`{name}` has the shape {list(array.shape)}, not {list(expected.shape)}"
            raise ProblemError(OnnxDiffers(reason, sizes))
        difference = distance(array, expected)
        most = allowed(difference, name, example.outputs, example.exact)
        if not difference <= most:
            reason = f"`{name}` differs by {difference:.3g}, and {most:.3g} is allowed"
            raise ProblemError(OnnxDiffers(reason, sizes))
        largest = max(largest, difference)
    return largest
