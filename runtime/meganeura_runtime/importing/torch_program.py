"""A program of `torch.export` read as a program, by way of ONNX, which PyTorch writes itself."""

import logging
import tempfile
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.importing.onnx.import_problems import UnreadableOnnx
from meganeura_runtime.importing.onnx.importing import Imported, import_onnx
from meganeura_runtime.support.optional_imports import load

OPSET = 20
EXPORTER = "torch.onnx._internal.exporter"
"""The logger that says which converters of other packages are missing."""


def import_torch(
    exported: Any,  # noqa: ANN401 - a class of an extra
    program: Path,
    sizes: Mapping[str, int] | None = None,
) -> Imported:
    """Write what `torch.export.export` gave as a program, with its weights beside it.

    It is written as ONNX unoptimized, so that layers and names are those of the module, and read as
    `import_onnx` reads it. Raises what that raises, `ProblemError` also for an op that PyTorch has
    no ONNX for or where the extra `torch` is missing, and `TypeError` for anything but an exported
    program.
    """
    torch = load("torch", "torch", "read programs of torch.export")
    load("onnxscript", "torch", "read programs of torch.export")
    if not isinstance(exported, torch.export.ExportedProgram):
        raise TypeError(f"a program of torch.export is read, not {type(exported).__name__}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{program.stem}.onnx"
        with _quiet():
            _write(torch, exported, path)
        return import_onnx(path, program, sizes)


def _write(torch: ModuleType, exported: object, path: Path) -> None:
    try:
        torch.onnx.export(
            exported, (), str(path), dynamo=True, opset_version=OPSET, optimize=False,
            verbose=False, external_data=False,
        )  # fmt: skip
    except torch.onnx.errors.OnnxExporterError as error:
        lines = [each.strip() for each in str(error.__cause__ or error).splitlines()]
        said = next((each for each in lines if each), type(error).__name__)
        reason = f"PyTorch does not write it: {said[:300]}"
        raise ProblemError(UnreadableOnnx(Path(path.name), reason)) from None


@contextmanager
def _quiet() -> Generator[None]:
    """Without the warnings that are about PyTorch itself."""
    logger = logging.getLogger(EXPORTER)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
