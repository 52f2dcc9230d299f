"""Problems of compiled training steps."""

from dataclasses import dataclass

from meganeura_dsl.diagnostics.problem import Help, Problem, Remark, Report


@dataclass(frozen=True)
class NotCompiled(Problem, code="E0630", topic="compiled models"):
    """A setting asks for what a compiled training step does not do.

    A page trains on one device, in single precision, by one plan for batches of one size. Settings
    that ask for more are refused when it is built, so that a page never trains otherwise than
    `meganeura train` does.
    """

    setting: str
    reason: str

    def report(self) -> Report:
        return self.message(
            f"a compiled training step cannot do `{self.setting}`",
            Remark("because", self.reason),
            cure=Help("choose another value with", f"--set {self.setting.partition('=')[0]}=..."),
        )
