"""ONNX files, large weights beside them."""

from collections.abc import Callable, Sequence
from pathlib import Path

import onnx
from onnx import ModelProto

from meganeura_runtime.export.onnx.comparison import compare
from meganeura_runtime.export.onnx.examples import Example
from meganeura_runtime.io.files.atomic_write import replacing

INLINE_BYTES = 1 << 30
"""Weights beyond this are in a file beside the model, as a protobuf holds 2 GiB at most."""


def write(model: ModelProto, path: Path, examples: Sequence[Example]) -> float:
    """Write a model that gives what the examples say; the largest difference of an output.

    Differences are in units of the largest element of an output, or of 1. Large weights are in
    `path` + `.data`. Raises `ProblemError`; nothing is written then.
    """
    with replacing(path) as partial:
        _save(model, partial, path)
        return compare(partial, examples)


def _save(model: ModelProto, partial: Path, path: Path) -> None:
    if sum(len(each.raw_data) for each in model.graph.initializer) <= INLINE_BYTES:
        partial.write_bytes(model.SerializeToString(deterministic=True))
        return
    beside = path.name + ".data"
    path.with_name(beside).unlink(missing_ok=True)
    save: Callable[..., None] = onnx.save_model  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - PathLike is left open
    save(model, str(partial), save_as_external_data=True, location=beside)
