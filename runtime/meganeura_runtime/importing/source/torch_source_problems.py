"""Problems of importing PyTorch source."""

from meganeura_dsl.diagnostics.problem import Help, Problem, Remark, Report


class UnusableSource(Problem, code="E0646", topic="import"):
    """No module that can be exported is in a Python file under the given name."""

    source: str
    """The file and the name, as they were given."""
    reason: str
    cure: str = "nothing was written"
    place: str = ""

    def report(self) -> Report:
        places = [Remark("at", self.place)] if self.place else []
        return self.message(
            f"cannot import `{self.source}`",
            Remark("because", self.reason),
            *places,
            cure=Help(self.cure),
        )


class FailedSource(Problem, code="E0647", topic="import"):
    """Python source raised an error, ended its process, or took too long."""

    source: str
    action: str
    """`while it was loaded` and the like."""
    error: str
    place: str = ""

    def report(self) -> Report:
        places = [Remark("at", self.place)] if self.place else []
        return self.message(
            f"`{self.source}` failed {self.action}",
            Remark("found", self.error),
            *places,
            cure=Help("nothing was written; the failure is that of the file, not of the import"),
        )


class FixedSize(Problem, code="E0648", topic="import"):
    """A size that an example leaves open is a number, or another size, in the exported program."""

    source: str
    name: str
    value: str
    place: str = ""

    def report(self) -> Report:
        is_number = self.value.isdecimal()
        places = [Remark("because of", self.place)] if self.place else []
        cure = f"write {self.value} in place of `{self.name}`"
        shown = self.value if is_number else f"`{self.value}`"
        others = ", or compute the sizes in `forward` from shapes" if is_number else ""
        return self.message(
            f"`{self.name}` is {shown} in the program of `{self.source}`",
            *places,
            cure=Help(f"{cure}{others}"),
        )
