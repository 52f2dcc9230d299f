"""Problems of the weights that a block declares: their shapes and what they start as."""

import re

from meganeura_dsl.diagnostics.problem import Help, Report
from meganeura_dsl.diagnostics.wording import quoted
from meganeura_dsl.elaborate.problems import habits
from meganeura_dsl.elaborate.problems.layout_cures import NO_CHANNELS
from meganeura_dsl.elaborate.problems.location import LocatedProblem
from meganeura_dsl.syntax.problems.block_text import block_rest

CHANNELS_FIRST = (
    *("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d"),
    *("batch_norm", "group_norm", "instance_norm"),
)
"""The layers of the library that take their number of channels from axis 1."""
_CHANNELS = {
    **dict.fromkeys(("linear", "layer_norm", "rms_norm"), "the last axis"),
    **dict.fromkeys(CHANNELS_FIRST, "axis 1"),
}
"""The axis that a layer of the library takes its number of channels from."""


class InputSizedParameter(LocatedProblem, code="E0206", topic="parameters"):
    """The shape of a weight depends on a size of the data."""

    name: str
    shape: str
    dims: tuple[str, ...]
    cure: Help | None = None
    """The cure that moves channels to the axis that the layer reads, if that is known."""

    def report(self) -> Report:
        fixed = "fix the size in the configuration or in the input type"
        called = re.match(r"(?:[\w.\[\]{}]+:\s*)?(\w+)", self.location.span.text)
        layer = called[1] if called else ""
        if layer in _CHANNELS:
            fixed = (
                f"`{layer}` takes its channels from {_CHANNELS[layer]}: if they are on another,"
                f" move them there;\nif not, {fixed}"
            )
        return self.words(
            f"the shape of `{self.name}` depends on the data",
            f"{self.shape}: {quoted(self.dims, 'and')} would have to be known before any input is",
            cure=self.cure
            or habits.table_of_configuration(self.location.span, self.dims)
            or (self._flattened() if layer == "linear" else None)
            or self._named()
            or Help(fixed),
        )

    def _named(self) -> Help | None:
        """The size as a parameter of the block, or as a number in its input.

        None for a size that is not an axis of an input of the block around the layer, and for a
        block that no model of the file is made of.
        """
        text = self.location.span.source.text
        start = text.rfind("\nblock ", 0, self.location.span.start) + 1
        block = block_rest(text[start:])
        header = re.match(r"block (\w+)\(([^()]*)\)\(([^()]*)\)", block)
        if header is None or len(self.dims) != 1:
            return None
        name, parameters, inputs = header.groups()
        (dim,) = self.dims
        if not dim.isidentifier() or dim in NO_CHANNELS:
            return None
        sized = re.search(rf"\w+: *(?:\w+)?\[[^\]]*\b{dim}\b[^\]]*\]", inputs)
        made = re.search(rf"^model \w+ *= *(?:\w+: *)?{name}\b", text, re.MULTILINE)
        if sized is None or made is None:
            return None
        listed = ", ".join(each for each in (dim, parameters.strip()) if each)
        return Help(
            f"make `{dim}` a parameter, which each model sets, such as `{dim}=64`,\n"
            f"or write its number in the input, `{re.sub(rf'{dim}', '64', sized[0])}`",
            f"block {name}({listed})",
        )

    def _flattened(self) -> Help | None:
        """Numbers for sizes in the input, where axes were joined for `linear`."""
        axes = self.shape.partition("[")[2].removesuffix("]").rpartition(", ")[2]
        joined = len(self.dims) > 1 and "*" in axes
        text = self.location.span.source.text
        block = text[text.rfind("\nblock ", 0, self.location.span.start) + 1 :].partition("\n ")[0]
        inputs = re.findall(r"\w+: (?:\w+)?\[[^\]]*\]", block)
        sized = [each for each in inputs if all(re.search(rf"\b{d}\b", each) for d in self.dims)]
        if not joined or not sized:
            return None
        names, _, inside = sized[0].partition("[")
        numbered = re.sub(rf"\b(?:{'|'.join(self.dims)})\b", "28", inside)
        return Help(
            f"axes that are joined have one size: write numbers for {quoted(self.dims, 'and')} in "
            "the input,\nthose of the data, or reduce the axes before",
            f"{names}[{numbered}",
        )


class IterationsOfInput(LocatedProblem, code="E0233", topic="parameters"):
    """Each iteration of a `for` over a size of the data has its own weights."""

    name: str
    loop: str
    """The header of the loop."""
    dims: tuple[str, ...]
    """The sizes of the data that say how many iterations there are."""

    def report(self) -> Report:
        return self.words(
            "the number of weights depends on the data",
            f"`{self.name}` is there once for each iteration of `{self.loop}`:\n"
            f"{quoted(self.dims, 'and')} would have to be known before any input is",
            cure=Help(
                "the iterations of a `scan` share one set of weights, under a label without an\n"
                "index; for weights of each iteration, give "
                f"{quoted(self.dims, 'and')} a number in\nthe input",
                scanned(self.loop),
            ),
        )


def scanned(loop: str) -> str:
    """The header of a scan over the iterations of a `for`."""
    return f"scan{loop.removeprefix('for')}:"


class MissingInitial(LocatedProblem, code="E0209", topic="parameters"):
    """A trainable parameter does not say what it starts as."""

    name: str
    found: str

    def report(self) -> Report:
        headline = (
            f"`{self.found}` is not an initial value"
            if self.found
            else f"`{self.name}` has no initial value"
        )
        return self.words(
            headline,
            cure=Help("say what it starts as", f"param {self.name}: ... = kaiming_uniform()"),
        )


class UnfitInitial(LocatedProblem, code="E0231", topic="parameters"):
    """A parameter cannot begin as it is said to, because of its shape or of its elements."""

    name: str
    type: str
    initial: str
    wanted: str

    def report(self) -> Report:
        return self.words(
            f"`{self.name}` cannot begin as `{self.initial}`",
            f"this is {self.type}: {self.wanted}",
            cure=Help("let it begin as its shape admits", "normal(0.02)"),
        )
