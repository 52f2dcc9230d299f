"""Problems of `grad` and `weights`: what has none, and what it is not taken with respect to."""

from meganeura_dsl.diagnostics.problem import Help, Remark, Report
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.location import LocatedProblem


class GradientOfNoScalar(LocatedProblem, code="E0588", topic="gradient"):
    """`grad` is given a tensor with axes, or whole numbers or bools, in place of a scalar."""

    found: str
    has_axes: bool
    swapped: str
    """The scalar that stands second, in place of the name; empty if none does."""

    def report(self) -> Report:
        cure = Help("add up its elements, or average them", "sum(...) or mean(...)")
        if self.swapped:
            cure = Help("the scalar comes first, and the name second", f"grad({self.swapped}, ...)")
        elif not self.has_axes:
            cure = Help("whole numbers and bools have no slope: compute with floats")
        return self.words(
            "`grad` differentiates a scalar f32[]", f"this is {self.found}", cure=cure
        )


class GradientOfUnread(LocatedProblem, code="E0589", topic="gradient"):
    """The scalar does not depend on what `grad` is taken with respect to."""

    name: str
    bound: Span | None
    is_read: bool
    """True if the scalar reads the name, but only where no gradient flows."""
    layer: str = ""
    """The layer whose weights the name is bound to, if it is bound to weights."""

    def report(self) -> Report:
        if self.is_read:
            return self.words(
                f"no gradient flows to `{self.name}`",
                "it is read only where none does",
                cure=Help(
                    "comparisons, `floor`, `round`, `sign`, whole numbers, `stop_gradient` and"
                    "\nweights read under `frozen=true` are constants"
                ),
            )
        remarks = ()
        cure = Help("compute the scalar from it, or leave it out: its gradient is 0")
        if self.bound is not None:
            text = " ".join(self.bound.text.split())
            remarks = (Remark(f"`{self.name}` was bound here", text, self.bound),)
            cure = Help(
                f"compute the scalar after this line: a value that was computed before it read the"
                f"\nearlier `{self.name}`"
            )
        if self.layer:
            cure = Help(
                f"give it to the layer, `x |> {self.layer}(weights={self.name})`, or take those"
                "\nthat it has",
                f"grad(..., weights({self.layer}))",
            )
        return self.words(
            f"the scalar does not read `{self.name}`",
            f"it is not computed from `{self.name}`",
            remarks=remarks,
            cure=cure,
        )


class GradientAcrossIterations(LocatedProblem, code="E0591", topic="gradient"):
    """A gradient inside a scan would go through earlier iterations."""

    name: str
    carried: str
    """The carried name that the scalar reads; empty if it reads a slice of what is named."""
    index: str

    def report(self) -> Report:
        if self.carried:
            found = f"it reads `{self.carried}`, which earlier iterations may have computed from it"
        else:
            found = f"it reads slices of `{self.name}`"
        return self.words(
            f"`{self.name}` is bound outside of the scan",
            found,
            cure=Help(
                "inside a scan `grad` sees one iteration: bind a name inside, and compute the"
                "\nscalar from that name",
                f"y = {self.name}" if self.carried else f"y = {self.name}[...]",
            ),
        )


class NoWeights(LocatedProblem, code="E0593", topic="gradient"):
    """The weights of a layer are asked for, and it has none: nothing applied it, or none trains."""

    layer: str
    is_applied: bool

    def report(self) -> Report:
        if self.is_applied:
            return self.words(
                f"`{self.layer}` has no weights that are trained",
                "`frozen param` and states are none of them",
                cure=Help("compute without it, or declare `param` in its block"),
            )
        return self.words(
            f"`{self.layer}` has no weights yet",
            "they are made where it is applied first",
            cure=Help("apply it above", f"y = x |> {self.layer}"),
        )
