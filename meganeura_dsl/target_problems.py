"""Problems with the name of a program."""

from meganeura_dsl.diagnostics.problem import Help, Problem, Report

_NAMED = Help(
    "give the network that it trains a name, with its arguments, and apply it by this name:\n"
    "the names of its weights stay as they are",
    "model net = Net()\nlogits = x |> net",
)


class UnknownTarget(Problem, code="E0218", topic="program"):
    """A program, model or `train` block was asked for by a name that does not exist."""

    file: str
    kind: str
    name: str
    known: tuple[str, ...]
    model: str = ""
    """The model that no `train` applies, if that is the problem."""

    def report(self) -> Report:
        listed = ", ".join(f"`{name}`" for name in self.known)
        if not self.file:
            headline = f"there is no file or standard model called `{self.name}`"
            cure = Help(f"did you mean {listed}?") if listed else None
        elif self.model:
            headline = f"no `train` of {self.file} applies `{self.model}`"
            cure = Help(f"name one of {listed}", self.known[0])
        elif self.name:
            headline = f"{self.file} declares no {self.kind} called `{self.name}`"
            cure = Help(f"it declares {listed}") if listed else None
        elif self.known:
            headline = f"{self.file} declares several: which {self.kind} is meant?"
            cure = Help(f"name one of {listed}", self.known[0])
        else:
            headline = f"{self.file} declares no {self.kind}"
            cure = _NAMED if self.kind == "model" else None
        return self.message(headline, cure=cure)


class AmbiguousTarget(Problem, code="E0405", topic="program"):
    """A model or `train` block was asked for by its name alone, and several files declare it."""

    name: str
    known: tuple[str, ...]

    def report(self) -> Report:
        headline = f"several standard files declare `{self.name}`: which is meant?"
        cure = Help(f"name one of {', '.join(f'`{each}`' for each in self.known)}", self.known[0])
        return self.message(headline, cure=cure)
