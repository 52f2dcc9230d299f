"""Problems of deploying a model."""

from meganeura_dsl.diagnostics.problem import Help, Problem, Remark, Report


class DeployedDiffers(Problem, code="E0580", topic="deploy"):
    """The inference form of a model does not give what the model gives.

    Both are run on random inputs before anything is written. A difference beyond rounding means
    that the weights cannot be folded as they are: running variances near zero, weights that are
    huge, or a mistake of the optimizer. `--disable-rule` finds out which rule is to blame.
    """

    output: str
    difference: float
    allowed: float

    def report(self) -> Report:
        found = f"{self.difference:.3g}, and {self.allowed:g} is allowed"
        return self.message(
            f"`{self.output}` of the inference form differs from that of the model",
            Remark("largest difference", found),
            cure=Help("nothing was written"),
        )
