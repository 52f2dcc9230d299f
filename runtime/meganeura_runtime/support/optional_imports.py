"""Libraries that only some users need: imported when a file asks for them, named when missing."""

from importlib import import_module
from types import ModuleType

from meganeura_dsl.diagnostics.problem import Help, Problem, ProblemError, Report
from meganeura_dsl.support.installation import install_command


class MissingExtra(Problem, code="E0564", topic="installation"):
    """A file needs a library that is not installed."""

    module: str
    purpose: str
    command: str
    """The command that installs the extra."""

    def report(self) -> Report:
        """The words for this problem."""
        return self.message(
            f"`{self.module}` is not installed, and is needed to {self.purpose}",
            cure=Help("install it with", self.command),
        )


def load(module: str, extra: str, purpose: str) -> ModuleType:
    """A module of an optional extra; raises `ProblemError` where it is not installed."""
    try:
        return import_module(module)
    except (ImportError, OSError):
        raise ProblemError(MissingExtra(module, purpose, install_command(extra))) from None
