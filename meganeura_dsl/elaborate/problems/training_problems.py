"""Problems of expectations and of training, and their words."""

from meganeura_dsl.diagnostics.problem import (
    Edit,
    Help,
    Remark,
    Report,
    Severity,
    suggested_fix,
)
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.diagnostics.spelling import corrected
from meganeura_dsl.elaborate.problems.location import LocatedProblem
from meganeura_dsl.elaborate.problems.name_problems import proved_at_once


class ExpectationFailed(LocatedProblem, code="E0401", topic="expectation"):
    """An `expect` line does not hold."""

    what: str
    expected: str
    found: str
    cure: Help = Help("mend the program, or if it is meant so, the expectation")

    def report(self) -> Report:
        return self.words(
            f"{self.what} is not as expected",
            f"expected {self.expected}\nfound    {self.found}",
            cure=self.cure,
        )


UNITS = ("params", "weights", "states")


class UnknownUnit(LocatedProblem, code="E0402", topic="expectation"):
    """`expect ... has` counts something it does not know: params, weights or states."""

    unit: str

    def report(self) -> Report:
        cure = corrected(self.location.span, self.unit, UNITS, "count params, weights or states")
        return self.words(f"cannot count `{self.unit}`", cure=cure)


class NotHeld(LocatedProblem, code="E0403", topic="expectation"):
    """A parameter or state that an `expect ... holds` names is not there as it says."""

    subject: str
    tensor: str
    found: str = ""
    after: str = ""
    likely: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    """Tensors of this shape, or all if there are none."""

    def report(self) -> Report:
        if self.after:
            return self.words(
                f"{self.subject} has no `{self.tensor}` behind `{self.after}`",
                "it stands before that",
                cure=Help("write the tensors in the order in which the program declares them"),
            )
        cure = (
            Help("mend the program, or if it is meant so, the expectation") if self.found else None
        )
        if self.likely:
            advice = f"did you mean {' or '.join(self.likely)}?"
            cure = corrected(self.location.span, self.tensor.partition(":")[0], self.known, advice)
        return self.words(f"{self.subject} has no `{self.tensor}`", self.found, cure=cure)


class NothingChecks(LocatedProblem, code="E0404", topic="proof"):
    """A block is not proved for all configurations, and nothing in its file gives it one."""

    block: str
    reason: str
    example: str
    form: str = ""
    """A form of it that is proved at once."""

    def report(self) -> Report:
        return self.words(
            f"nothing checks `{self.block}`",
            f"{self.reason}, and no model uses it",
            remarks=proved_at_once(self.form),
            cure=Help("say what it maps for one configuration", self.example),
        )


class LossNotScalar(LocatedProblem, code="E0501", topic="training"):
    """The value that is minimized has axes."""

    found: str

    def report(self) -> Report:
        return self.words(
            "the loss is not a scalar", f"this is {self.found}", cure=Help("reduce it", "mean(...)")
        )


class MetricNotScalar(LocatedProblem, code="E0504", topic="training"):
    """A metric has axes."""

    name: str
    found: str

    def report(self) -> Report:
        return self.words(
            f"the metric `{self.name}` is not a scalar",
            f"this is {self.found}",
            cure=Help("reduce it", "mean(...)"),
        )


class NoPicture(LocatedProblem, code="E0623", topic="training"):
    """A value that is to be shown is neither pictures nor a matrix."""

    name: str
    found: str

    def report(self) -> Report:
        return self.words(
            f"`{self.name}` is no picture and no matrix",
            f"this is {self.found}",
            cure=Help("pictures are [n, h, w], [n, 1, h, w] or [n, 3, h, w]; a matrix", "[k, k]"),
        )


class NoLoss(LocatedProblem, code="E0502", topic="training"):
    """A `train` block minimizes nothing."""

    train: str
    loss: str = "cross_entropy(logits, label)"
    """The number that it computes last, or an example."""

    def report(self) -> Report:
        return self.words(
            f"`{self.train}` minimizes nothing",
            cure=Help("write one line", f"minimize {self.loss}"),
        )


class LabelsMismatch(LocatedProblem, code="E0503", topic="training"):
    """Labels do not fit the predictions they are compared with."""

    labels: str
    logits: str
    axis: str
    cure: Help
    names: tuple[str, str] = ("labels", "logits")
    is_stretched: bool = True
    """True if other systems would stretch an axis here; otherwise there are too many rows."""

    def report(self) -> Report:
        target, prediction = self.names
        why = (
            ". Meganeura never stretches an axis of size 1:\n"
            "the loss would be finite and meaningless."
        )
        return self.words(
            f"{target} {self.labels} cannot meet {prediction} {self.logits}",
            self.axis + why * self.is_stretched,
            cure=self.cure,
        )


class NoModelHolds(LocatedProblem, code="N0004", topic="training", severity=Severity.NOTE):
    """A `train` block has its own weights, which no model of the file holds."""

    train: str
    names: tuple[str, ...]

    def report(self) -> Report:
        shown = (*self.names[:3], "...") if len(self.names) > 3 else self.names
        return self.words(
            f"`{self.train}` trains weights that no model of this file holds",
            ", ".join(shown),
            cure=Help(
                "to run what was trained, move these layers into a block, and apply a model of it",
                f"model net = Net()     and in `{self.train}`     x |> net",
            ),
        )


class ProbabilitiesAsLogits(LocatedProblem, code="N0006", topic="training", severity=Severity.NOTE):
    """A loss that takes logits is given probabilities, and takes them for logits once more."""

    loss: str
    function: str
    given: str
    """The function that made probabilities of the logits already."""

    def report(self) -> Report:
        return self.words(
            f"`{self.loss}` takes logits, and these are probabilities",
            f"`{self.loss}` takes the {self.function} itself",
            cure=Help(
                f"give it what stands before the {self.given}, and take the {self.function} "
                "where probabilities are shown"
            ),
        )


class ChoiceOfOne(LocatedProblem, code="N0008", topic="constant", severity=Severity.NOTE):
    """A function chooses along an axis of size 1, so that it is the same for every input."""

    function: str
    axis: int
    rank: int

    def report(self) -> Report:
        value = "1" if self.function == "softmax" else "0"
        shares = ", and its elements share 1" if "softmax" in self.function else ""
        return self.words(
            f"this `{self.function}` is {value} for every input",
            f"axis {self.axis} has size 1{shares}",
            cure=self._cure(),
        )

    def _cure(self) -> Help | None:
        match self.function:
            case "argmax" | "argmin":
                return Help(
                    "one output tells two classes by a threshold, 0.5 of a probability, "
                    "0 of a logit",
                    "... > 0.5",
                )
            case "cross_entropy" | "masked_cross_entropy":
                return Help("one output tells two classes by its sigmoid", "bce(logits, label)")
            case _ if self.axis > 1:
                return Help("over the axis before", f"{self.function}({self.axis - 1})")
            case "softmax" if self.rank == 2:
                return Help("the probability of one class is its sigmoid", "sigmoid")
            case _:
                return None


class UnclearExamples(LocatedProblem, code="E0536", topic="training"):
    """The inputs of a `train` block do not say which size counts examples."""

    readings: tuple[tuple[str, str], ...]
    """Each input, and what its first axis would count."""
    cure: str
    type: Span | None = None
    """The type to mark, if one input alone differs from several."""

    def report(self) -> Report:
        remarks = tuple(Remark(f"`{name}`", f"counts {size}") for name, size in self.readings)
        cure = Help("mark what is the same at every step", self.cure)
        if self.type is not None:
            start = Span(self.type.source, self.type.start, self.type.start)
            cure = suggested_fix(cure.text, Edit(start, "whole "))
        return self.words("which size counts the examples?", remarks=remarks, cure=cure)
