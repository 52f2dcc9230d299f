"""Problems of a program and its data."""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from meganeura_dsl.diagnostics.problem import Help, Problem, Remark, Report
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.diagnostics.wording import quoted


class DataProblem(Problem, topic="data"):
    """A problem of the data, at the place of the setting that names it."""

    span: Span | None
    file: Path

    def words(
        self, headline: str, remarks: Sequence[Remark] = (), advice: Help | None = None
    ) -> Report:
        """The report with this problem's code and place."""
        return self.message(headline, *remarks, span=self.span, cure=advice)


class NoData(DataProblem, code="E0520"):
    """The setting `data` names neither a file nor an embedded data set."""

    embedded: tuple[str, ...]
    beside: tuple[str, ...] = ()
    """The files and folders where it was looked for."""

    def report(self) -> Report:
        advice = None
        if near := get_close_matches(self.file.name, self.embedded, n=1):
            advice = Help(f"did you mean the embedded data set `{near[0]}`?")
        elif near := get_close_matches(self.file.name, self.beside, n=1):
            advice = Help(f"did you mean `{self.file.with_name(near[0])}`?")
        known = Remark("embedded", ", ".join(self.embedded))
        return self.words(f"there is no data `{self.file}`", (known,), advice)


class OutsideFolder(DataProblem, code="E0529"):
    """A program names data that is not below its own folder."""

    def report(self) -> Report:
        return self.words(
            f"`{self.file}` is not below the program's folder",
            advice=Help("name it on the command line", f"--set data={self.file}"),
        )


class ForeignData(DataProblem, code="E0538"):
    """A run that goes on names data outside of its own folder and of the program's."""

    def report(self) -> Report:
        return self.words(
            "the run names data that is neither in its folder nor in the program's",
            (Remark("its data", str(self.file)),),
            Help("if that is to be read, name it", f"--set data={self.file}"),
        )


class UnknownFormat(DataProblem, code="E0521"):
    """The file has a suffix that no reader here knows."""

    def report(self) -> Report:
        return self.words(
            f"cannot tell the format of `{self.file}`",
            advice=Help("use .safetensors, .npz, .npy, IDX or a folder of .npy or IDX files"),
        )


class MissingTensor(DataProblem, code="E0522"):
    """An input of the `train` block has no tensor of its name in the data."""

    name: str
    present: tuple[str, ...]
    input: str = ""
    """The input of a `train` block that it would feed, which a setting may name."""
    feeds: tuple[tuple[str, str], ...] = ()
    """All inputs, each with the tensor of its name or the only one that fits it."""

    def report(self) -> Report:
        near = self._near()
        advice = self._named(near) if self.input and self.present and self.span else None
        if near and advice is None:
            advice = Help(f"did you mean `{near}`?")
        there = Remark("it holds", ", ".join(self.present) if self.present else "no tensor")
        return self.words(f"`{self.file}` has no tensor `{self.name}`", (there,), advice)

    @property
    def _split(self) -> str:
        return next((each for each in ("train.", "test.") if self.name.startswith(each)), "")

    def _near(self) -> str:
        """Returns the tensor with much the same name, or nothing; `train.` is no part of it."""
        names = {each.removeprefix(self._split): each for each in self.present}
        found = get_close_matches(self.name.removeprefix(self._split), names, n=1)
        return names[found[0]] if found else ""

    def _named(self, near: str) -> Help | None:
        """Returns the setting with the tensors of all inputs that have none of their names."""
        tensor = re.sub(r"^(train|test)\.", "", near)
        feeds = dict(self.feeds) or {self.input: tensor or "..."}
        text = "" if self.span is None else self.span.text
        said = re.search(r'"([^"]+)"', text) or re.search(r"=\s*([^\s()]+)$", text)
        is_file = said is not None and Path(said[1]).stem == self.file.stem
        written = said[1] if said is not None and is_file else self.file.name
        others = {name: tensor for name, tensor in feeds.items() if name != tensor}
        if not others:
            there = f"`{self.input}` is there by its own name: name no other"
            return Help(there, f'data = "{written}"') if self.feeds else None
        named = "".join(f', {name}="{tensor}"' for name, tensor in others.items())
        advice = "name the tensor"
        if near and feeds[self.input] == tensor:
            advice = f"did you mean `{tensor}`? {advice}"
        if len(others) > 1:
            inputs = quoted(tuple(others.values()), "and")
            advice = f"call the inputs {inputs} as the tensors are, or name the tensors"
        return Help(advice, f'data = file("{written}"{named})')


class TwoTensors(DataProblem, code="E0614"):
    """The data has two tensors that an input could be trained on, such as `x` and `train.x`."""

    name: str
    input: str

    def report(self) -> Report:
        return self.words(
            f"`{self.file}` has both `{self.name}` and `train.{self.name}`",
            (Remark("either feeds", self.input),),
            Help("leave one of them out, or give it another name"),
        )


class DataShape(DataProblem, code="E0523"):
    """A tensor of the data does not have the shape of the input it feeds."""

    name: str
    given: str
    wanted: str
    cure: Help | None

    def report(self) -> Report:
        return self.words(
            f"`{self.name}` has another shape than the input it feeds",
            (Remark("the file has", self.given), Remark("the input is", self.wanted)),
            self.cure,
        )


class DataType(DataProblem, code="E0524"):
    """A tensor of the data holds another kind of numbers than the input it feeds."""

    name: str
    given: str
    wanted: str
    cure: Help | None = None

    def report(self) -> Report:
        stored = f"store {self.wanted} in the file"
        has_floats = self.given.lstrip("b").startswith("f")
        other = Help(f"{stored}, or declare the input as f32" if has_floats else stored)
        return self.words(
            f"`{self.name}` holds {self.given}, and the input it feeds is {self.wanted}",
            advice=self.cure or other,
        )


class UnequalExamples(DataProblem, code="E0525"):
    """The tensors of one split do not hold the same number of examples."""

    counts: tuple[tuple[str, int], ...]

    def report(self) -> Report:
        remarks = [Remark(name, f"{count:,} examples") for name, count in self.counts]
        advice = Help("an example has a row of each: store the same examples in all of them")
        return self.words("the tensors hold different numbers of examples", remarks, advice)


class TooFewExamples(DataProblem, code="E0526"):
    """The data has fewer examples than one batch takes, so not one step could be made."""

    examples: int
    batch: int

    def report(self) -> Report:
        return self.words(
            f"{self.examples:,} examples do not fill one batch of {self.batch:,}",
            advice=Help("ask for a smaller batch, for example", f"batch = {max(1, self.examples)}"),
        )


class NothingHeldOut(DataProblem, code="E0556"):
    """The data has a held-out split, and not one example is in it."""

    def report(self) -> Report:
        return self.words(
            f"the held-out split of `{self.file}` has no examples",
            advice=Help("put examples into its `test.` tensors, or leave these tensors out"),
        )


class ExamplesNotFirst(DataProblem, code="E0527"):
    """The size that counts examples stands somewhere else than alone on the first axis."""

    name: str
    wanted: str
    size: str

    def report(self) -> Report:
        return self.words(
            f"`{self.name}: {self.wanted}` cannot be cut into examples",
            (Remark("because", f"`{self.size}` counts them, and is not its first axis"),),
            Help("declare that axis first, store the data so, and rearrange where it is used"),
        )
