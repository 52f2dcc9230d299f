"""Problems of deploying a model."""

from meganeura_dsl.diagnostics.problem import Help, Problem, Remark, Report


class DeployedDiffers(Problem, code="E0580", topic="deploy"):
    """The inference form of a model does not give what the model gives."""

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
