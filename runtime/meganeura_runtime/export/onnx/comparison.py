"""What ONNX Runtime makes of a file, beside what the model gives."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Array
from meganeura_runtime.export.onnx.examples import Example
from meganeura_runtime.export.onnx.onnx_problems import OnnxDiffers

ALLOWED = 1e-4
"""The largest difference of an output, in units of its largest element or of 1."""


def compare(path: Path, examples: Sequence[Example]) -> float:
    """The largest difference of an output, in units of its largest element or of 1.

    Raises `ProblemError` if it is too large, or if the file is refused.
    """
    try:
        check: Callable[..., None] = onnx.checker.check_model  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - PathLike is left open
        check(str(path), full_check=True)
        session = onnxruntime.InferenceSession(
            str(path), quiet(), providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # noqa: BLE001  each has classes of its own, of no common base
        raise ProblemError(OnnxDiffers(first_line(error), ())) from None
    return max(_difference(session, example) for example in examples)


def quiet() -> onnxruntime.SessionOptions:
    """Options of a session that says errors alone."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return options


def _difference(session: onnxruntime.InferenceSession, example: Example) -> float:
    sizes = tuple(example.sizes.items())
    try:
        found = session.run(list(example.outputs), dict(example.inputs))
    except Exception as error:  # noqa: BLE001  see above
        raise ProblemError(OnnxDiffers(first_line(error), sizes)) from None
    largest = 0.0
    for (name, expected), given in zip(example.outputs.items(), found, strict=True):
        array = np.asarray(given)
        if array.shape != expected.shape:
            reason = f"`{name}` has the shape {list(array.shape)}, not {list(expected.shape)}"
            raise ProblemError(OnnxDiffers(reason, sizes))
        difference = distance(array.astype(np.float64), expected.astype(np.float64))
        if not difference <= ALLOWED:
            reason = f"`{name}` differs by {difference:.3g}, and {ALLOWED:g} is allowed"
            raise ProblemError(OnnxDiffers(reason, sizes))
        largest = max(largest, difference)
    return largest


def distance(given: Array, wanted: Array) -> float:
    """The largest difference, in units of the largest number; NaN where only one has NaN or inf."""
    known = np.isfinite(wanted)
    if not np.array_equal(given[~known], wanted[~known], equal_nan=True):
        return float("nan")
    scale = max(1.0, float(np.abs(wanted[known]).max(initial=0)))
    return float(np.abs(given[known] - wanted[known]).max(initial=0)) / scale


def first_line(error: Exception) -> str:
    """The beginning of what an error says."""
    return str(error).strip().splitlines()[0][:300] if str(error).strip() else type(error).__name__
