"""Problems of scans, and their words."""

from meganeura_dsl.diagnostics.problem import Help, Report
from meganeura_dsl.elaborate.problems.location import LocatedProblem
from meganeura_dsl.elaborate.problems.shape_problems import Example, example_remarks
from meganeura_dsl.syntax import ast

_ONE_BODY = "a scan has one body for all iterations"


class UnstableCarry(LocatedProblem, code="E0309", topic="scan"):
    """A name that a scan carries from iteration to iteration does not keep its type."""

    name: str
    before: str
    after: str
    example: Example | None
    cure: Help

    def report(self) -> Report:
        return self.words(
            f"`{self.name}` does not keep its shape from iteration to iteration",
            f"before an iteration {self.before}, after it {self.after}",
            remarks=example_remarks(self.example),
            cure=self.cure,
        )


class NoIteration(LocatedProblem, code="E0335", topic="scan"):
    """A scan has no iteration, whatever the sizes are."""

    name: str
    start: str
    stop: str

    def report(self) -> Report:
        return self.words(
            "a scan counts up, and this one never has an iteration",
            f"`{self.name}` is {self.start} or more, and less than {self.stop}",
            cure=Help(
                "write the smaller end first; for the other way round, read from the end:\n"
                f"`x[s - 1 - {self.name}]`, of an axis of s"
            ),
        )


class WronglyCollected(LocatedProblem, code="E0310", topic="scan"):
    """An iteration of a scan does not write its slice of a collected value."""

    fault: str
    found: str
    cure: Help | None = None

    def report(self) -> Report:
        return self.words(self.fault, self.found, cure=self.cure)


class DiffersByIteration(LocatedProblem, code="E0317", topic="scan"):
    """A size or a choice differs from iteration to iteration of a scan."""

    what: str
    cure: str = ""

    def report(self) -> Report:
        cure = Help(
            self.cure
            or "let all iterations have one size: take a part of fixed size, and mask the rest"
        )
        return self.words(_ONE_BODY, f"{self.what} differs from iteration to iteration", cure=cure)


class LabelOfIteration(LocatedProblem, code="E0224", topic="naming"):
    """A label of a layer inside of a scan speaks of the iteration."""

    def report(self) -> Report:
        return self.words(
            "a scan has one set of weights for all iterations",
            "the label differs from iteration to iteration",
            cure=Help(
                "leave the index out, or write `for` if each iteration is a layer of its own"
            ),
        )


def misplaced(node: ast.Node, around: ast.Scan) -> Help | None:
    """The cure for a statement of a `train` block that does not stand in this scan."""
    index = around.variable.text
    text = " ".join(around.span.text.splitlines()[0].split())
    match node:
        case ast.Minimize() | ast.Project():
            code = text.replace("scan", "repeat", 1)
            return Help("iterations that move weights are a `repeat`", code)
        case ast.Metric(name=name, value=value):
            collected = f"{name.text}_of[{index}] = {' '.join(value.span.text.split())}"
            words = "collect what each iteration measures, and measure it behind"
            return Help(words, f"{collected}\nmetric {name.text} = mean({name.text}_of)")
        case ast.Repeat() if isinstance(around, ast.Repeat):
            return Help("let one `repeat` count the iterations of both, and compute both indices")
        case _:
            return None
