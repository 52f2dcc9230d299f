"""Problems of reading an ONNX file as a program."""

from pathlib import Path

from meganeura_dsl.diagnostics.problem import Help, Problem, Remark, Report

NOTHING = Help("nothing was written")


class UnreadableOnnx(Problem, code="E0640", topic="import"):
    """A file is no ONNX model that can be read.

    An ONNX file is not trusted. It is a protobuf of a bounded size, its graph has a bounded number
    of nodes and of nested functions, every name is defined before it is used, and a tensor holds as
    many bytes as its shape says.
    """

    file: Path
    reason: str

    def report(self) -> Report:
        return self.message(
            f"cannot read `{self.file}` as ONNX", Remark("because", self.reason), cure=NOTHING
        )


class UnsafeExternalData(Problem, code="E0641", topic="import"):
    """An ONNX file asks for the bytes of a tensor from outside of its own folder.

    Large weights may lie beside a model, in files that it names. A name that is absolute, that
    leads out of the folder, or that is a link to somewhere else, could make any file of the machine
    part of the weights, and is refused before anything is opened.
    """

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
    """A node of an ONNX model has no form in the language, or not with these operands.

    Sizes, axes and the like are known before any data is, so what they come from has to be a
    constant or a size of an input. Control flow that depends on data, quantized numbers, sequences
    and strings are not read. `docs/onnx.md` lists the ops that are.
    """

    op: str
    node: str
    reason: str

    def report(self) -> Report:
        return self.message(
            f"the language cannot say this `{self.op}`",
            Remark("node", self.node),
            Remark("because", self.reason),
            cure=NOTHING,
        )


class NotProved(Problem, code="E0643", topic="import"):
    """The program that an ONNX model became cannot be proved.

    The model does not fit its own shapes for all sizes that it leaves open, or fits them for a
    reason that is not found. Sizes that are given as numbers are easier: `--set s=128`.
    """

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
    """The program made of an ONNX model does not give what ONNX Runtime gives.

    Both run on random inputs before anything is written. What differs by more than rounding is not
    written.
    """

    file: Path
    reason: str

    def report(self) -> Report:
        return self.message(
            f"the program made of `{self.file}` does not give what ONNX Runtime gives",
            Remark("found", self.reason),
            cure=NOTHING,
        )
