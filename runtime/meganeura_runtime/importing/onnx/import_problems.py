"""Problems of reading an ONNX file as a program."""

from pathlib import Path

from meganeura_dsl.diagnostics.problem import Help, Problem, Remark, Report

NOTHING = Help("nothing was written")


class UnsupportedNodeError(Exception):
    """A node has no form in the language; the text is the reason."""


class UnreadableOnnx(Problem, code="E0640", topic="import"):
    """A file is no ONNX model that can be read."""

    file: Path
    reason: str

    def report(self) -> Report:
        return self.message(
            f"cannot read `{self.file}` as ONNX", Remark("because", self.reason), cure=NOTHING
        )


class UnsafeExternalData(Problem, code="E0641", topic="import"):
    """An ONNX file asks for the bytes of a tensor from outside of its own folder."""

    file: Path
    tensor: str
    location: str
    reason: str

    def report(self) -> Report:
        return self.message(
            f"`{self.file}` keeps `{self.tensor}` in a file that is not read",
            Remark("location", self.location),
            Remark("because", self.reason),
            cure=NOTHING,
        )


class NoForm(Problem, code="E0642", topic="import"):
    """A node of an ONNX model has no form in the language, or not with these operands."""

    op: str
    node: str
    reason: str
    sizes: tuple[str, ...] = ()
    """Sizes and inputs of one number with which the node can be said, if they are given."""

    def report(self) -> Report:
        given = " ".join(f"--set {name}=NUMBER" for name in self.sizes)
        return self.message(
            f"the language cannot say this `{self.op}`",
            Remark("node", self.node),
            Remark("because", self.reason),
            cure=Help("nothing was written; it can be said for sizes that are given", given)
            if given
            else NOTHING,
        )


class NotProved(Problem, code="E0643", topic="import"):
    """The program that an ONNX model became cannot be proved."""

    file: Path
    found: str
    line: str

    def report(self) -> Report:
        return self.message(
            f"the program made of `{self.file}` is not proved",
            Remark("found", self.found),
            *([Remark("line", self.line)] if self.line else []),
            cure=Help("nothing was written; sizes may be given as numbers", "--set NAME=NUMBER"),
        )


class ImportDiffers(Problem, code="E0644", topic="import"):
    """The program made of an ONNX model does not give what ONNX Runtime gives."""

    file: Path
    reason: str

    def report(self) -> Report:
        return self.message(
            f"the program made of `{self.file}` does not give what ONNX Runtime gives",
            Remark("found", self.reason),
            cure=NOTHING,
        )


class UnmetSizes(Problem, code="E0649", topic="import"):
    """A program was exported for sizes of which the language cannot say so, or not for these."""

    file: Path
    condition: str
    reason: str
    sizes: tuple[str, ...] = ()
    """The sizes that are open."""

    def report(self) -> Report:
        given = " ".join(f"--set {name}=NUMBER" for name in self.sizes)
        return self.message(
            f"`{self.file}` was exported for sizes where `{self.condition}`",
            Remark("because", self.reason),
            cure=Help("nothing was written; sizes may be given as numbers", given)
            if given
            else NOTHING,
        )
