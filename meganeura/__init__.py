"""Neural networks whose shapes are proved, from Python: load a program, run its models, train it.

    import meganeura

    program = meganeura.load("digits_cnn")
    run = program.train(device="cpu", settings={"epochs": 3})
    network = program.model(weights=run.weights)
    logits = network.run({"image": images})["output"]

Importing this package loads neither NumPy nor a GPU library; each call loads what it needs.
"""

from __future__ import annotations

from importlib import import_module
from os import fspath
from typing import TYPE_CHECKING

from meganeura_dsl import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike
    from pathlib import Path

    from meganeura.model import Model, WritingOptions
    from meganeura.notebook.magic import Shell
    from meganeura.program import Program, Run, Weights
    from meganeura.trainer import Trainer
    from meganeura.trainer_results import StepResult
    from meganeura_dsl.diagnostics.problem import ProblemError, ProblemsError
    from meganeura_dsl.ir.interpreter import FeedError
    from meganeura_dsl.pipeline import CheckResult
    from meganeura_dsl.summary import Summary
    from meganeura_runtime.backends.base import Session, SessionError
    from meganeura_runtime.backends.errors import DeviceError, OutOfMemoryError
    from meganeura_runtime.importing.onnx.importing import Imported
    from meganeura_runtime.infer.prediction import Prediction
    from meganeura_runtime.train.events import StopTraining
    from meganeura_runtime.train.spec.memory_fit import Fit

__all__ = [
    "DeviceError",
    "FeedError",
    "Fit",
    "Imported",
    "Model",
    "OutOfMemoryError",
    "Prediction",
    "ProblemError",
    "ProblemsError",
    "Program",
    "Run",
    "Session",
    "SessionError",
    "StepResult",
    "StopTraining",
    "Summary",
    "Trainer",
    "Weights",
    "WritingOptions",
    "__version__",
    "check",
    "import_onnx",
    "import_torch",
    "load",
    "loads",
]

_LOADED_WHEN_USED = {
    "DeviceError": "meganeura_runtime.backends.errors",
    "FeedError": "meganeura_dsl.ir.interpreter",
    "Fit": "meganeura_runtime.train.spec.memory_fit",
    "Imported": "meganeura_runtime.importing.onnx.importing",
    "Model": "meganeura.model",
    "OutOfMemoryError": "meganeura_runtime.backends.errors",
    "ProblemError": "meganeura_dsl.diagnostics.problem",
    "ProblemsError": "meganeura_dsl.diagnostics.problem",
    "Prediction": "meganeura_runtime.infer.prediction",
    "Program": "meganeura.program",
    "Run": "meganeura.program",
    "Session": "meganeura_runtime.backends.base",
    "SessionError": "meganeura_runtime.backends.base",
    "StepResult": "meganeura.trainer_results",
    "StopTraining": "meganeura_runtime.train.events",
    "Summary": "meganeura_dsl.summary",
    "Trainer": "meganeura.trainer",
    "Weights": "meganeura.program",
    "WritingOptions": "meganeura.model",
}
"""Public names, and the modules that they are loaded from when they are asked for."""


def __getattr__(name: str) -> object:
    if name not in _LOADED_WHEN_USED:
        raise AttributeError(f"module `meganeura` has no attribute `{name}`")
    return getattr(import_module(_LOADED_WHEN_USED[name]), name)


def load(target: str | PathLike[str]) -> Program:
    """A program: a path such as `net.mgn`, or the name of a standard model such as `resnet18`.

    All of it is proved, as `check` does; what was proved before is not proved again. Raises
    `ProblemError` if it cannot be found or read, and `ProblemsError` with all that is wrong in it.
    """
    from meganeura.program import Program

    return Program.load(fspath(target))


def loads(text: str, name: str = "<text>") -> Program:
    """A program from its text, which messages call `name`: `meganeura.loads("block ...")`.

    Imports and data are found in the folder of `name` as a path, by default the working folder.
    Raises `ProblemError` and `ProblemsError` as `load` does.
    """
    from meganeura.program import Program

    return Program.from_text(text, name)


def load_ipython_extension(shell: Shell) -> None:
    """`%load_ext meganeura` in a notebook: `%%mgn` makes a cell a program."""
    from meganeura.notebook.magic import register

    register(shell)


def check(target: str | PathLike[str]) -> CheckResult:
    """Prove everything a program declares; `.fine` says whether it holds, `.reports` what does not.

    Raises `ProblemError` if the program cannot be read or found.
    """
    from meganeura_dsl import pipeline

    return pipeline.check_file(fspath(target))


def import_onnx(
    model: Path | str, program: Path | str, *, sizes: Mapping[str, int] | None = None
) -> Imported:
    """Read an ONNX model and write it as the program `net.mgn`, with `net.safetensors` beside it.

    `sizes` gives numbers for sizes that the model leaves open, by their names in the file; the
    others stay open. The program is proved, and compared with ONNX Runtime, before anything is
    written. Raises `ProblemError` for what cannot be read, said, proved or reproduced;
    `ValueError` for a program whose name does not end in `.mgn`.
    """
    from pathlib import Path

    from meganeura_runtime.importing.onnx.importing import import_onnx

    return import_onnx(Path(model), Path(program), sizes)


def import_torch(
    exported: object, program: Path | str, *, sizes: Mapping[str, int] | None = None
) -> Imported:
    """Read what `torch.export.export` gave and write it as the program `net.mgn`, with its weights.

    PyTorch writes it as ONNX, which is read as `import_onnx` reads it, with the extra `torch`.
    Raises what that raises; `TypeError` for what is not an exported program.
    """
    from pathlib import Path

    from meganeura_runtime.importing.torch_program import import_torch

    return import_torch(exported, Path(program), sizes)
