"""Problems of layers that are declared, and of blocks that are given as arguments."""

from meganeura_dsl.diagnostics.problem import Help, Remark, Report
from meganeura_dsl.elaborate.problems.location import LocatedProblem, Location
from meganeura_dsl.elaborate.problems.shape_problems import Example, example_remarks


class BlockDoesNotFit(LocatedProblem, code="E0221", topic="block argument"):
    """A block argument lacks the shapes or the facts that the block which takes it relies on."""

    given: str
    parameter: str
    reason: str
    contract: Location
    header: str
    example: Example | None = None
    cure: Help | None = None

    def report(self) -> Report:
        written = self.contract.span.text
        text = "give a block that does so for every size of the contract"
        other = Help(text)
        if not self.header:
            text += f",\nor let `{self.parameter}` be any block, which is checked where it is given"
            other = Help(text, f"{self.parameter}: block")
        contract = f"{written}   that is  {self.header}" if self.header else written
        return self.words(
            f"`{self.given}` cannot stand for `{self.parameter}`",
            self.reason,
            remarks=(
                Remark("the contract", contract, self.contract.span),
                *example_remarks(self.example),
            ),
            cure=self.cure or other,
        )


class UnappliedLayer(LocatedProblem, code="E0222", topic="unused"):
    """A layer is declared and nothing applies it, so its weights have no shapes."""

    layer: str

    def report(self) -> Report:
        cure = Help("apply it, or delete the line", f"x |> {self.layer}")
        return self.words(f"nothing applies the layer `{self.layer}`", cure=cure)


class NotYetApplied(UnappliedLayer):
    """A layer of a layer is applied by its path, and what it belongs to was not applied before."""

    is_inside: bool = False
    """True if the layer that the path names is declared, and its block never applied it."""

    def report(self) -> Report:
        if self.is_inside:
            cure = Help("apply it in its block, or declare a layer of your own here")
            return self.words(f"nothing applied `{self.layer}` in the layer around it", cure=cure)
        return self.words(
            f"`{self.layer}` has no layers yet",
            "they are made where it is applied first",
            cure=Help("apply it above", f"y = x |> {self.layer}"),
        )


class UnlikeLayers(LocatedProblem, code="E0229", topic="naming"):
    """A layer is a copy or an average of another, and their weights have other names or shapes."""

    layer: str
    other: str
    name: str
    found: str
    wanted: str

    def report(self) -> Report:
        found, wanted = self.found or "none", self.wanted or "none"
        of = f"of `{self.layer}` it is {found}, of `{self.other}` {wanted}"
        cure = Help(f"a copy has the same layers: declare both with the block of `{self.other}`")
        return self.words(
            f"`{self.layer}` and `{self.other}` differ in `{self.name}`", of, cure=cure
        )


class NoSuchLabel(LocatedProblem, code="E0228", topic="naming"):
    """A layer is applied by a label with a number, and no layer has that label."""

    label: str

    def report(self) -> Report:
        cure = Help("write the layer after a colon", f"{self.location.span.text}: layer(...)")
        return self.words(f"no layer here is labelled `{self.label}`", cure=cure)


class HasWeights(LocatedProblem, code="E0223", topic="naming"):
    """A label that has weights already is given a block again."""

    layer: str
    first: Location

    def report(self) -> Report:
        first = self.first.span.text.split("\n")[0]
        return self.words(
            f"`{self.layer}` has its weights already",
            "declared as a layer" if first.startswith("layer") else "declared again",
            remarks=(Remark("declared here", first, self.first.span),),
            cure=Help("apply it as it is", f"x |> {self.layer}"),
        )


class AlwaysTraining(LocatedProblem, code="E0225", topic="mode"):
    """A part is set to training mode, which only a training step has."""

    def report(self) -> Report:
        return self.words(
            "`training` can be switched off here, not on",
            "the mode is that of the caller",
            cure=Help("leave it out"),
        )


class ReservedParameter(LocatedProblem, code="E0227", topic="configuration"):
    """A parameter has the name of an argument that every application takes."""

    name: str
    block: str

    def report(self) -> Report:
        example = "true" if self.name == "frozen" else "false"
        return self.words(
            f"every application takes `{self.name}`",
            "a parameter cannot have this name",
            cure=Help(
                "leave it out, and where the block is applied write",
                f"{self.block}({self.name}={example})",
            ),
        )
