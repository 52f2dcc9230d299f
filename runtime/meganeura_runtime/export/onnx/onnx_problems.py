"""Problems of writing a model as an ONNX file."""

from meganeura_dsl.diagnostics.problem import Help, Problem, Remark, Report
from meganeura_dsl.diagnostics.source import Span


class NoOnnxForm(Problem, code="E0582", topic="export"):
    """An op of a model has no counterpart in ONNX, or not for these operands."""

    op: str
    reason: str
    span: Span | None
    path: str = ""
    cure: str = ""

    def report(self) -> Report:
        return self.message(
            f"ONNX cannot say `{self.op}`",
            *(() if self.span else (Remark("reason", self.reason),)),
            span=self.span,
            label=self.reason,
            cure=Help(self.cure or "nothing was written"),
            path=self.path,
        )


class OnnxDiffers(Problem, code="E0583", topic="export"):
    """The ONNX file does not give what the model gives."""

    reason: str
    sizes: tuple[tuple[str, int], ...]

    def report(self) -> Report:
        sizes = ", ".join(f"{name}={size}" for name, size in self.sizes)
        return self.message(
            "ONNX Runtime does not give what the model gives",
            Remark("found", self.reason),
            *([Remark("sizes", sizes)] if sizes else []),
            cure=Help("nothing was written"),
        )
