"""Problems of writing a model as an ONNX file."""

from dataclasses import dataclass
from typing import ClassVar

from meganeura_dsl.diagnostics.problem import Help, Label, Problem, Remark, Report
from meganeura_dsl.diagnostics.source import Span


@dataclass(frozen=True)
class NoOnnxForm(Problem):
    """An op of a model has no counterpart in ONNX, or not for these operands.

    ONNX files are for inference. ONNX has no random numbers that are the same everywhere, no
    gradients of convolutions in their weights, and no padding between elements.
    """

    code = "E0582"
    topic: ClassVar[str] = "export"

    op: str
    reason: str
    span: Span | None
    path: str = ""

    def report(self) -> Report:
        return Report(
            self.code,
            self.severity,
            f"ONNX cannot say `{self.op}`",
            self.topic,
            Label(self.span, self.reason) if self.span else None,
            () if self.span else (Remark("reason", self.reason),),
            Help("nothing was written"),
            self.path,
        )


@dataclass(frozen=True)
class OnnxDiffers(Problem):
    """The ONNX file does not give what the model gives.

    Both run on random inputs before anything is written, the file by ONNX Runtime. What differs
    by more than rounding, or what ONNX Runtime refuses, is not written.
    """

    code = "E0583"
    topic: ClassVar[str] = "export"

    reason: str
    sizes: tuple[tuple[str, int], ...]

    def report(self) -> Report:
        sizes = ", ".join(f"{name}={size}" for name, size in self.sizes)
        return Report(
            self.code,
            self.severity,
            "ONNX Runtime does not give what the model gives",
            self.topic,
            None,
            (Remark("found", self.reason), *([Remark("sizes", sizes)] if sizes else [])),
            Help("nothing was written"),
        )


PROBLEMS: tuple[type[Problem], ...] = (NoOnnxForm, OnnxDiffers)
"""Every kind of problem of a model that is written as ONNX."""
