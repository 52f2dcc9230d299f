"""Problems of a `run:` block or a `--set`, and their messages."""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache

from meganeura_dsl.diagnostics.foreign_names import foreign_names
from meganeura_dsl.diagnostics.problem import Help, Problem, Remark, Report
from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.diagnostics.spelling import corrected
from meganeura_dsl.resources import standard_models
from meganeura_dsl.settings.other_settings import (
    BATCH,
    LEAST_RATES,
    OTHER_ARGUMENTS,
    OTHER_SETTINGS,
    in_a_run,
    of_moments,
    with_the_command,
)
from meganeura_dsl.syntax.parser.parser import outline


class SettingProblem(Problem, topic="run settings"):
    """A problem of one setting, at the place it was written."""

    span: Span

    def words(
        self,
        headline: str,
        label: str = "",
        remarks: Sequence[Remark] = (),
        advice: Help | None = None,
    ) -> Report:
        """The report with this problem's code and place."""
        return self.message(headline, *remarks, span=self.span, label=label, cure=advice)


SHOWN = 4
"""Parameters that are named where there are many."""
OVERRIDE = "--set"
"""The name under which the text of an override is shown in messages."""


def _did_you_mean(
    span: Span, word: str, known: Sequence[str], possible: Sequence[str]
) -> Help | None:
    """The known word that is nearest, if one is near; a suggested fix if it is possible.

    None for a name that other systems have, such as the optimizer `nadam`.
    """
    if word.lower() in known:
        free = () if span.source.name == OVERRIDE else (word.lower(),)
        return corrected(span, word, free, f"it is written `{word.lower()}` here")
    near = get_close_matches(word, known, n=1)
    if not near or word in foreign_names():
        return None
    free = () if span.source.name == OVERRIDE else possible
    return corrected(span, word, free, f"did you mean `{near[0]}`?")


_FEW = 12
"""Choices that are listed beside advice; more of them are listed where there is none."""
WEIGHTS = "weights"
"""A name that is no setting: weights are given with the command."""


class UnknownSetting(SettingProblem, code="E0510"):
    """A `run:` block or a `--set` names a setting that does not exist."""

    name: str
    within: str
    """The choice the name is an argument of, or empty."""
    known: tuple[str, ...]
    given: tuple[str, ...] = ()
    """The names that the block gives itself, which are therefore not meant."""

    def report(self) -> Report:
        what = f"`{self.within}` has no argument" if self.within else "there is no setting"
        free = [each for each in self.known if each not in self.given]
        advice = _did_you_mean(self.span, self.name, self.known, free)
        if self.name == WEIGHTS and not self.within:
            advice = Help("files are given with the command", "--weights FILE --prefix teacher.")
        other = OTHER_SETTINGS.get("batch_size" if self.name == "batch" else self.name)
        if other is not None and not self.within:
            advice = self._of_others(other)
        if self.name in OTHER_SETTINGS and self.within and self._is_called():
            advice = Help(f"it is called `{self._is_called()}` here")
        if advice is None and self.within:
            advice = self._argument()
        advice = of_moments(self.name, self.known, self.span.text) or advice
        choices = Remark("there are" if self.known else "it takes none", ", ".join(self.known))
        remarks = () if advice is not None and len(self.known) > _FEW else (choices,)
        return self.words(f"{what} `{self.name}`", remarks=remarks, advice=advice)

    def _argument(self) -> Help | None:
        """Returns the argument of this choice for one that other systems have, with its value."""
        found = re.search(rf"\b{re.escape(self.name)}\s*=\s*([^,()]+)", self.span.text)
        given = found[1].strip() if found else "..."
        argument = OTHER_ARGUMENTS.get(self.name, "")
        if argument in self.known:
            return Help("it is called", f"{argument}={given}")
        if self.name not in LEAST_RATES or "final" not in self.known:
            return None
        rate = re.search(r"\blr\s*=\s*([\d.]+(?:e-?\d+)?)", self._block())
        text = "`final` is a factor of the learning rate"
        try:
            return Help(text, f"final={float(given) / float(rate[1] if rate else ''):.4g}")
        except (ValueError, ZeroDivisionError):
            return Help(text, f"final={given} / lr")

    def _block(self) -> str:
        """Returns the lines that stand beside this setting."""
        if self.span.source.name == OVERRIDE:
            return ""
        lines = self.span.source.text.split("\n")
        depth = self._depth(lines[self.span.line - 1])
        first = last = self.span.line - 1
        while first and self._depth(lines[first - 1]) >= depth:
            first -= 1
        while last + 1 < len(lines) and self._depth(lines[last + 1]) >= depth:
            last += 1
        return "\n".join(lines[first : last + 1])

    @staticmethod
    def _depth(line: str) -> int:
        return len(line) - len(line.lstrip()) if line.strip() else 0

    def _is_called(self) -> str:
        """Returns the argument of this choice that other systems name so; empty if it has none."""
        setting = (OTHER_SETTINGS[self.name].code or "").partition("=")[0].strip()
        argument = setting.removeprefix("optimizer.")
        return argument if argument in self.known and argument != self.name else ""

    def _of_others(self, advice: Help) -> Help:
        """Returns our name of this setting, in the form in which it was given."""
        if advice.code == BATCH and "batch" not in self.known:
            sizes = self.known[: self.known.index("data")] if "data" in self.known else ()
            if not sizes:
                return Help("how large a batch is stands in the types of the inputs")
            advice = Help(advice.text, BATCH.replace("batch", sizes[0]))
        _, _, given = self.span.text.partition("=")
        is_number = re.fullmatch(r"\s*[\d.]+(e-?\d+)?\s*", given, re.IGNORECASE)
        number = given.strip() if is_number else ""
        if self.span.source.name != OVERRIDE:
            beside = re.search(r"^\s*optimizer\s*=\s*(\w+(?:\(.*\))?)", self._block(), re.MULTILINE)
            advice = in_a_run(self.name, advice, number, beside[1] if beside else "")
        else:
            advice = with_the_command(advice, number)
        return self._for_paths(advice)

    def _for_paths(self, advice: Help) -> Help:
        """Returns an advice on the optimizer for the paths that were given, if there are some."""
        paths = re.match(r'\s*\w+(\["[^"\n]*"\])', self.span.text)
        option, found, rest = (advice.code or "").partition("optimizer")
        if paths is None or not found:
            return advice
        code = f"optimizer{paths[1]}{rest}"
        return Help(advice.text, f"{option}'{code}'" if option else code)


class MissingSetting(Problem, code="E0511", topic="run settings"):
    """A `train` block cannot run before this setting is given."""

    name: str
    meaning: str
    example: str
    span: Span | None

    def report(self) -> Report:
        return self.message(
            f"the setting `{self.name}` is missing",
            Remark("it is", self.meaning),
            span=self.span,
            cure=Help(f"write it under `run:`, or give --set {self.name}=...", self.example),
        )


class WrongSettingType(SettingProblem, code="E0512"):
    """A setting was given a value of another kind, such as a text where a number is due."""

    name: str
    expected: str
    given: str
    advice: Help | None = None

    def report(self) -> Report:
        headline = f"`{self.name}` must be {self.expected}, not {self.given}"
        return self.words(headline, advice=self.advice)


class ImpossibleSetting(SettingProblem, code="E0513"):
    """A setting has the right kind of value, but no run could use it."""

    name: str
    rule: str
    given: str
    advice: Help | None = None

    def report(self) -> Report:
        headline = f"`{self.name}` {self.rule}"
        return self.words(headline, f"this is {self.given}", advice=self.advice)


class TwoLengths(Problem, code="E0547", topic="training"):
    """Both `steps` and `epochs` say how long a run is."""

    span: Span

    def report(self) -> Report:
        return self.message(
            "`steps` and `epochs` both say how long the run is",
            span=self.span,
            label="in place of `epochs`, not beside it",
            cure=Help("leave one of them out"),
        )


OPTIMIZER, LIBRARY = "optimizer", "optimizers"
"""The setting that names an optimizer, and the file of the library that has more of them."""


@cache
def library_optimizers() -> frozenset[str]:
    """The names of the optimizers that the library declares."""
    file = standard_models() / f"{LIBRARY}.mgn"
    found = outline(Source(file.name, file.read_text(encoding="utf-8")))
    return frozenset(each.name for each in found if each.kind == OPTIMIZER)


class UnknownChoice(SettingProblem, code="E0514"):
    """A setting names an optimizer or a schedule that does not exist."""

    name: str
    given: str
    known: tuple[str, ...]

    def report(self) -> Report:
        advice = _did_you_mean(self.span, self.given, self.known, self.known)
        if self.name == OPTIMIZER and self.given in library_optimizers():
            line = f"from {LIBRARY} import {self.given}"
            advice = Help("it is a rule of the library: above the `train` block, write", line)
        choices = Remark("there are", ", ".join(self.known))
        return self.words(f"`{self.given}` is no {self.name}", remarks=(choices,), advice=advice)


class MissingArgument(SettingProblem, code="E0599"):
    """A choice is not given an argument that has no default."""

    word: str
    name: str

    def report(self) -> Report:
        return self.words(
            f"`{self.word}` needs `{self.name}`",
            "it has no default",
            advice=Help("give it a value", f"{self.word}({self.name}=...)"),
        )


class NotASettingValue(SettingProblem, code="E0515"):
    """The value of a setting is computed, or is not a value at all."""

    def report(self) -> Report:
        return self.words(
            "this is not a value that a setting can have",
            advice=Help("write a number, a text in quotes, true, false, or", "adam(lr=1e-3)"),
        )


class UnnamedArgument(SettingProblem, code="E0516"):
    """An argument of a choice was given without its name."""

    def report(self) -> Report:
        return self.words(
            "this argument has no name", advice=Help("name it, as in", "adam(lr=1e-3)")
        )


class MalformedOverride(SettingProblem, code="E0517"):
    """A `--set` is not of the form `NAME=VALUE` or `NAME.ARGUMENT=VALUE`."""

    def report(self) -> Report:
        return self.words(
            "this is not a setting and its value",
            advice=Help("write the name, `=` and the value", "--set optimizer.lr=0.1"),
        )


class NoArguments(SettingProblem, code="E0518"):
    """A `--set NAME.ARGUMENT=VALUE` names a setting whose value takes no arguments."""

    name: str
    argument: str = ""
    holder: str = ""
    """The setting that has such an argument; empty if none has."""

    def report(self) -> Report:
        _, _, value = self.span.text.partition("=")
        advice = Help("give its value alone", f"--set {self.name}=...")
        if self.holder:
            text = f"`{self.argument}` is an argument of `{self.holder}`"
            advice = Help(text, f"--set {self.holder}.{self.argument}={value.strip()}")
        headline = f"`{self.name}` has no arguments: it is a plain value"
        return self.words(headline, advice=advice)


class ReservedSize(SettingProblem, code="E0519"):
    """A free size of a `train` block has the name of a setting."""

    name: str

    def report(self) -> Report:
        return self.words(
            f"the size `{self.name}` has the name of a setting",
            advice=Help(f"rename the size, for example to `{self.name}_size`"),
        )


class NoPaths(SettingProblem, code="E0507"):
    """A setting that applies to the whole run is given for some paths only."""

    name: str

    def report(self) -> Report:
        """Say which settings may have paths."""
        _, _, value = self.span.text.partition("]")
        line = f"{self.name}{value}"
        return self.words(
            f"`{self.name}` is the same for all paths",
            "only `optimizer`, `schedule` and `every` may name paths",
            advice=Help(
                "give it for all paths",
                f"--set {line}" if self.span.source.name == OVERRIDE else line,
            ),
        )


class UnmatchedPaths(SettingProblem, code="E0509"):
    """The paths of a setting match no parameter, so it would do nothing."""

    glob: str
    known: tuple[str, ...]

    def report(self) -> Report:
        """Show the nearest paths."""
        near = get_close_matches(self.glob, self.known, n=3, cutoff=0.0)
        there = Remark("there are", ", ".join(near))
        return self.words(
            f"no parameter matches `{self.glob}`", remarks=(there,), advice=self._meant()
        )

    def _meant(self) -> Help | None:
        """Returns the glob whose first label is one of the parameters', if one is near."""
        label, dot, rest = self.glob.partition(".")
        labels = dict.fromkeys(each.partition(".")[0] for each in self.known)
        near = get_close_matches(label, labels, n=2)
        if not dot or len(near) != 1 or near[0] == label:
            return None
        meant = f"{near[0]}.{rest}"
        matched = any(fnmatchcase(each, meant) for each in self.known)
        return Help(f"did you mean `{meant}`?") if matched else None


class UnfitParameters(SettingProblem, code="E0543"):
    """An optimizer was given parameters that its rule is not made for."""

    word: str
    demand: str
    """The requirement on a parameter."""
    parameters: tuple[tuple[str, str], ...]
    """Names and types of those that lack it."""

    def report(self) -> Report:
        """Name a few of them, and paths that match the first."""
        listed = [f"`{name}` {of}" for name, of in self.parameters[:SHOWN]]
        rest = len(self.parameters) - SHOWN
        more = [f"and {rest} more"] if rest > 0 else []
        last = {name.rpartition(".")[2] for name, _ in self.parameters}
        glob = f"*.{last.pop()}" if len(last) == 1 else self.parameters[0][0]
        return self.refused(
            ", ".join([*listed, *more]),
            Help("give them another", f'optimizer["{glob}"] = adamw(lr=1e-3)'),
        )

    def refused(self, parameters: str, advice: Help) -> Report:
        """The message about these parameters."""
        return self.words(
            f"`{self.word}` moves only parameters of {self.demand}",
            remarks=(Remark("these have fewer", parameters),),
            advice=advice,
        )


class RefusedRule(UnfitParameters):
    """A rule of the program does not allow its arguments, or some parameters."""

    reason: Report
    """The message of the rule."""
    moves_some: bool

    def refused(self, parameters: str, advice: Help) -> Report:
        label = self.reason.label
        text = self.reason.headline
        if label is not None and label.text:
            text = f"{text}: {label.text}"
        return self.words(
            f"the header of `{self.word}` does not allow this",
            remarks=(
                Remark("it says", text, None if label is None else label.span),
                Remark("parameters", parameters),
            ),
            advice=advice if self.moves_some else None,
        )


class MetricTaken(SettingProblem, code="E0544"):
    """A setting adds a metric under a name that the program measures something else by."""

    name: str

    def report(self) -> Report:
        """Say which name is taken."""
        return self.words(
            f"the program has a metric `{self.name}` of its own",
            advice=Help("rename it, or leave the setting out"),
        )


class MovedInRepeat(SettingProblem, code="E0670"):
    """A setting asks for fewer moves of weights that a `repeat` moves several times in a step."""

    setting: str
    parameter: str

    def report(self) -> Report:
        """Say which weights move several times."""
        return self.words(
            f"`{self.setting}` does not fit the `repeat` that moves `{self.parameter}`",
            advice=Help(
                "leave the setting out, and let `batch` and the `repeat` say what is moved"
            ),
        )


class NothingToFollow(SettingProblem, code="E0545"):
    """A schedule follows what nothing measures."""

    word: str
    metric: str
    known: tuple[str, ...]
    """The metrics of held-out examples; empty where there are none."""

    def report(self) -> Report:
        """Say what is missing, and what there is."""
        if not self.known:
            return self.words(
                f"`{self.word}` follows held-out examples, and there are none",
                advice=Help("give the data a `test` split, or choose another schedule"),
            )
        return self.words(
            f"`{self.word}` follows the metric `{self.metric}`, which is not measured",
            remarks=(Remark("there are", ", ".join(self.known)),),
            advice=_metric_meant(self.metric, self.known),
        )


class NoSuchMetric(SettingProblem, code="E0549"):
    """The best weights are to be chosen by a metric that the `train` block does not have."""

    name: str
    metrics: tuple[str, ...]

    def report(self) -> Report:
        """Say what there is."""
        return self.words(
            f"`best` names `{self.name}`, which no evaluation measures",
            remarks=(Remark("there are", ", ".join(self.metrics)),),
            advice=_metric_meant(self.name, self.metrics),
        )


def _metric_meant(name: str, known: Sequence[str]) -> Help:
    """The metric that is meant by a name of none, or how one is measured."""
    plain = re.sub(r"^(val|valid|validation|test|eval)[_/]", "", name)
    near = get_close_matches(plain, known, n=1)
    begun = [each for each in known if each.startswith(plain)]
    if plain != name and plain in known:
        return Help(f"all metrics are of held-out examples: it is `{plain}` here")
    if near or len(begun) == 1:
        return Help(f"did you mean `{(near or begun)[0]}`?")
    return Help(
        "name one of these, or measure it by a line of the `train` block",
        f"metric {plain if plain.isidentifier() else 'name'} = ...",
    )
