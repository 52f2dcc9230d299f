"""Problems of the inputs of inference."""

import re
from difflib import get_close_matches
from typing import Literal

from meganeura_dsl.diagnostics.plain_table import count
from meganeura_dsl.diagnostics.problem import Help, Problem, Remark, Report

Kind = Literal["image", "sound"]
"""The kind of a file that holds no tensors."""


class WrongInputs(Problem, code="E0560", topic="inputs"):
    """The inputs given are not those the model takes."""

    missing: tuple[str, ...]
    unknown: tuple[str, ...]
    declared: tuple[tuple[str, str], ...]
    """The inputs the model takes, each with its type."""

    def report(self) -> Report:
        parts = [f"there is no input `{name}`" for name in self.unknown]
        parts += [f"`{name}` is not given" for name in self.missing]
        takes = "\n".join(f"{name}: {type_}" for name, type_ in self.declared)
        return self.message(", ".join(parts), Remark("the model takes", takes), cure=self._cure())

    def _cure(self) -> Help | None:
        near = get_close_matches(self.unknown[0], self.missing, n=1) if self.unknown else []
        if near:
            return Help(f"did you mean `{near[0]}`?")
        return Help("give it with", f"--input {self.missing[0]}=FILE") if self.missing else None


class InputShape(Problem, code="E0561", topic="inputs"):
    """An input has another shape than the model takes."""

    name: str
    given: str
    wanted: str
    sizes: tuple[tuple[str, int, str], ...]
    """The known sizes: a name, a number, and its source."""
    hint: str = ""

    def report(self) -> Report:
        known = tuple(
            Remark(f"{name} = {size}", f"from {origin}") for name, size, origin in self.sizes
        )
        is_empty = re.search(r"\[([^]]*, )?0[],]", self.given) is not None
        hint = "a size is at least 1: leave the call out where there are no examples"
        hint = self.hint or (hint if is_empty else self._of_known_sizes())
        what = "is empty" if is_empty else "has another shape than the model takes"
        return self.message(
            f"`{self.name}` {what}",
            Remark("given", self.given),
            Remark("the input is", self.wanted),
            *known,
            cure=Help(hint) if hint else None,
        )

    def _of_known_sizes(self) -> str:
        """Returns the shape that the input has with the sizes of the other inputs."""
        wanted = self.wanted
        for name, size, _ in self.sizes:
            wanted = re.sub(rf"(?<![\w.]){re.escape(name)}(?!\w)", str(size), wanted)
        others = " and ".join(dict.fromkeys(origin for _, _, origin in self.sizes))
        return f"with {others} it is {wanted}: change one of them" if self.sizes else ""


class OpenSize(Problem, code="E0562", topic="inputs"):
    """A size of the model does not follow from its inputs."""

    size: str

    def report(self) -> Report:
        return self.message(
            f"the size `{self.size}` does not follow from the inputs",
            cure=Help("choose it with", f"--set {self.size}=NUMBER"),
        )


class UnusedChoice(Problem, code="E0565", topic="inputs"):
    """An option says how images or sounds are read, and none is read."""

    option: str
    kind: Kind

    def report(self) -> Report:
        one = f"{'an' if self.kind == 'image' else 'a'} {self.kind}"
        return self.message(
            f"`{self.option}` is for {self.kind}s, and no input is {one}",
            cure=Help(f"leave it out, or feed {one}; tensors are taken as they are"),
        )


class NoRows(Problem, code="E0568", topic="inputs"):
    """Predictions are asked of a model that has no row of outputs for each file."""

    model: str
    inputs: tuple[tuple[str, str], ...]
    """The inputs the model takes, each with its type."""
    output: tuple[str, str] | None = None
    """The output that has no such row, with its type; `None` where the inputs are not one."""

    def report(self) -> Report:
        cure = Help("`meganeura run` takes such a model, in Python `model.run`")
        takes = Remark(
            "it takes", "\n".join(f"{name}: {of}" for name, of in self.inputs) or "nothing"
        )
        if self.output is None:
            headline = f"`{self.model}` has {len(self.inputs)} inputs; predictions are of one"
            return self.message(headline, takes, cure=cure)
        name, type_ = self.output
        headline = f"`{name}` of `{self.model}` has no row for each example"
        return self.message(headline, takes, Remark("and gives", f"{name}: {type_}"), cure=cure)


class UnfitNames(Problem, code="E0569", topic="inputs"):
    """The names of classes are more or fewer than the classes."""

    given_by: str
    names: int
    classes: int
    """0 where the model is no classifier."""

    def report(self) -> Report:
        gives = f"{self.classes:,} classes" if self.classes else "no classes"
        return self.message(
            f"`{self.given_by}` has {count(self.names, 'name')}, and the model gives {gives}",
            cure=Help("leave the names out, or give one for each class"),
        )
