"""Problems of names, values and layers, and their words. Shape problems are in `shape_problems`."""

import re

from meganeura_dsl.diagnostics.other_names import Answer
from meganeura_dsl.diagnostics.problem import Help, Remark, Report, Severity
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.diagnostics.spelling import corrected
from meganeura_dsl.diagnostics.wording import quoted
from meganeura_dsl.elaborate.problems import habits
from meganeura_dsl.elaborate.problems.graph_cures import other_ids
from meganeura_dsl.elaborate.problems.location import LocatedProblem, Location, did_you_mean
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.syntax.problems.block_text import split_top
from meganeura_dsl.syntax.problems.foreign_calls import function_cure
from meganeura_dsl.syntax.problems.foreign_layers import layer_cure


class UnknownName(LocatedProblem, code="E0201", topic="naming"):
    """A name is used that nothing in scope defines."""

    name: str
    kind: str
    nearest: tuple[str, ...]
    foreign: Answer | None = None
    """The answer to a name that other systems have."""

    def report(self) -> Report:
        if self.foreign is not None:
            cure: Help | None = function_cure(self.location.span) or self.foreign.help()
        else:
            cure = did_you_mean(self.location, self.name, self.nearest)
        return self.words(
            f"nothing here is called `{self.name}`", f"no {self.kind} of this name", cure=cure
        )


class UnreadName(UnknownName):
    """A name is used whose declaration was refused; that says enough."""


class BoundOnOtherSide(UnknownName):
    """A name is used behind a choice of which the side that is taken does not bind it."""

    kind: str = ""
    nearest: tuple[str, ...] = ()
    choice: Span | None = None
    begins: str = ""
    """The name that the other side computes it from, if it is one."""
    has_else: bool = False

    def report(self) -> Report:
        side = "its other side" if self.has_else else "an `else`"
        code = f"{self.name} = {self.begins or '...'}"
        return self.words(
            f"`{self.name}` has no value on this path",
            "one side of a choice binds it alone",
            remarks=() if self.choice is None else (_choice_remark(self.choice),),
            cure=Help(f"bind it before the choice, or in {side}", code),
        )


def _choice_remark(span: Span) -> Remark:
    return Remark("the choice", span.text.split("\n")[0], span)


class UnknownAxis(UnknownName):
    """`expand` adds an axis of a size that nothing defines."""

    kind: str = "size"
    nearest: tuple[str, ...] = ()

    def report(self) -> Report:
        return self.words(
            f"nothing here is called `{self.name}`",
            "an axis that `expand` adds has a size that is known",
            cure=Help(
                "write a number, a size of the signature, or a parameter of the configuration;\n"
                "1 adds an axis of size 1"
            ),
        )


class EndedWithScan(UnknownName):
    """A name is used behind a scan that belonged to each of its iterations."""

    kind: str = ""
    nearest: tuple[str, ...] = ()
    types: str = ""
    """The types of a name before the scan and in its iterations, if they differ."""

    def report(self) -> Report:
        cure = Help("collect it, or bind it before the scan, so that iterations carry it")
        if self.types:
            cure = Help(
                "a name that iterations carry keeps its type: collect it under another name, or\n"
                "take another name in the iterations"
            )
        return self.words(
            f"`{self.name}` belonged to the iterations of a scan",
            self.types or "there is no such value behind it",
            cure=cure,
        )


class NotBegun(UnknownName):
    """An iteration reads a name of which it only writes parts."""

    kind: str = ""
    nearest: tuple[str, ...] = ()

    def report(self) -> Report:
        code = f"{self.name} = zeros([...])"
        return self.words(
            f"nothing here is called `{self.name}`",
            "no iteration finds what the one before it wrote",
            cure=Help("bind it before the scan, so that iterations carry it", code),
        )


class NoFirstValue(UnknownName):
    """An iteration reads a name that it binds later, and no value precedes the first iteration."""

    kind: str = ""
    nearest: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    """The axes of the value, if they are known."""

    def report(self) -> Report:
        return self.words(
            f"`{self.name}` has no value before the first iteration",
            "an iteration reads what the one before it left",
            cure=Help(
                "begin it before the scan",
                f"{self.name} = zeros([{', '.join(self.first) or '...'}])",
            ),
        )


class WrongArguments(LocatedProblem, code="E0202", topic="arguments"):
    """A call does not fit what it calls: an argument is missing, unknown or one too many."""

    callee: str
    fault: str
    signature: str
    unknown: str = ""
    """The name of an argument that there is none of, if that is what is wrong."""
    known: tuple[str, ...] = ()
    """The arguments that are not given."""
    is_repeated: bool = False
    """True if one argument is given by its place and by its name."""

    def report(self) -> Report:
        advice = f"its form is     {self.signature}"
        fix = corrected(self.location.span, self.unknown, self.known, advice)
        span = self.location.span
        habit = habits.of_arguments(self.callee, self.unknown, span)
        if habit is None and self.is_repeated:
            habit = habits.of_incoming(self.callee, span.text)
        if habit is None and self.unknown:
            habit = habits.of_other_name(self.unknown, self.known, span.text)
        cure = fix if fix.edits else habit or Help("its form is", self.signature)
        return self.words(f"`{self.callee}` {self.fault}", cure=cure)


class WrongKind(LocatedProblem, code="E0203", topic="kind of value"):
    """A value of one kind stands where another is needed, such as a tensor where a size is."""

    wanted: str
    found: str
    cure: str | Help = ""

    def report(self) -> Report:
        cure = Help(self.cure) if isinstance(self.cure, str) and self.cure else self.cure or None
        return self.words(f"this needs {self.wanted}", f"this is {self.found}", cure=cure)


class UnknownConfiguration(WrongKind):
    """A model depends on numbers that are known in a run alone; `found` says which do."""

    def report(self) -> Report:
        cure = Help(self.cure) if isinstance(self.cure, str) and self.cure else None
        return self.words(f"this needs {self.wanted}", self.found, cure=cure)


class NoWholeNumber(WrongKind):
    """A layer of the library is given a fraction, a text or a list for a whole number.

    `wanted` is the name of the parameter.
    """

    callee: str = ""

    def report(self) -> Report:
        return self.words(
            f"`{self.wanted}` of `{self.callee}` is a whole number",
            f"this is {self.found}",
            cure=self.cure if isinstance(self.cure, Help) else None,
        )


class MissingLabel(LocatedProblem, code="E0204", topic="naming"):
    """A layer that owns weights has no label, so its weights would have no name."""

    layer: str
    parameters: tuple[str, ...]

    def report(self) -> Report:
        listed, span = ", ".join(self.parameters), self.location.span
        called = re.fullmatch(r"linear\(([^()]*)\)\(([^()]*)\)", span.text)
        before = span.source.text[: span.start]
        if called is not None:
            dense = layer_cure("Dense", split_top(called[1]), split_top(called[2]), before)
            if dense is not None:
                return self.words(
                    f"`{self.layer}` owns weights but has no name",
                    f"would create {listed}",
                    cure=Help("a layer is piped into, and its label is its name", dense.code),
                )
        index = habits.loop_around(self.location.span)
        label = f"name{{{index}}}" if index else "name"
        text = "label it; the label becomes the checkpoint key"
        return self.words(
            f"`{self.layer}` owns weights but has no name",
            f"would create {listed}",
            cure=Help(text, f"x |> {label}: {self.layer}"),
        )


class UnusedValue(LocatedProblem, code="E0207", topic="unused"):
    """A value is computed or declared and never used."""

    name: str
    types: tuple[tuple[str, TensorType], ...] = ()
    """The names that the declaration binds, with their types, in the order of the text."""

    def report(self) -> Report:
        span = self.location.span
        cure = (
            other_ids(span, self.name)
            or habits.used_in_place(span)
            or habits.added_to_result(span, dict(self.types))
            or habits.of_states(span)
            or habits.table_of_configuration(span, (), self.name)
        )
        return self.words(
            f"`{self.name}` is never used",
            cure=cure or Help(f"use it, delete it, or call it `_{self.name}` to keep it"),
        )


class RecursiveBlock(LocatedProblem, code="E0208", topic="recursion"):
    """A block applies itself, directly or through others, and would never end."""

    chain: tuple[str, ...]

    def report(self) -> Report:
        return self.words(
            f"`{self.chain[-1]}` applies itself",
            " applies ".join(f"`{n}`" for n in self.chain),
            cure=Help("repeat a layer by a loop", "for i in 0..depth:"),
        )


class ImportCycle(LocatedProblem, code="E0210", topic="imports"):
    """Files import each other in a circle, so none of them can come first."""

    chain: tuple[str, ...]

    def report(self) -> Report:
        return self.words(
            "these imports form a circle",
            " imports ".join(f"`{n}`" for n in self.chain),
            cure=Help("move what both need to a file that imports neither"),
        )


class UnknownModule(LocatedProblem, code="E0211", topic="imports"):
    """An import names a file that does not exist beside this one or in the standard models."""

    module: str
    nearest: tuple[str, ...]

    def report(self) -> Report:
        cure = did_you_mean(self.location, self.module, self.nearest)
        return self.words(
            f"there is no module `{self.module}`", f"looked for {self.module}.mgn", cure=cure
        )


class NotExported(LocatedProblem, code="E0212", topic="imports"):
    """An import asks a file for a name it does not declare."""

    module: str
    name: str
    nearest: tuple[str, ...]

    def report(self) -> Report:
        cure = did_you_mean(self.location, self.name, self.nearest)
        return self.words(f"`{self.module}` declares no `{self.name}`", cure=cure)


class DuplicateDeclaration(LocatedProblem, code="E0213", topic="naming"):
    """Two declarations of one file have the same name."""

    name: str
    first: Location

    def report(self) -> Report:
        first = Remark("the first", self.first.span.text.split("\n")[0], self.first.span)
        return self.words(
            f"`{self.name}` is declared twice",
            "the second one",
            remarks=(first,),
            cure=Help("give one of them another name, here and where it is applied"),
        )


class DuplicateImport(LocatedProblem, code="E0232", topic="imports"):
    """A name is imported from two files, and each of them declares it."""

    name: str
    first: Location

    def report(self) -> Report:
        span = self.first.span
        return self.words(
            f"`{self.name}` is imported from two files",
            "the second one",
            remarks=(Remark("the first", span.source.line(span.line), span),),
            cure=Help("import one of them, or give one another name in its file"),
        )


class NoResult(LocatedProblem, code="E0214", topic="results"):
    """A block ends without `return` on some path, or returns more or fewer results than it says."""

    block: str
    fault: str
    last: str = ""
    """The name that the last statement gives, where it stands unread."""
    cure: Help | None = None

    def report(self) -> Report:
        cure = Help("give back what was computed last", f"return {self.last}")
        other = Help("end each path with what the signature has behind `->`", "return ...")
        cure = self.cure or (cure if self.last else other)
        return self.words(f"`{self.block}` {self.fault}", cure=cure)


class UndecidedChoice(LocatedProblem, code="E0215", topic="structure"):
    """A choice depends on the sizes of the data."""

    condition: str

    def report(self) -> Report:
        return self.words(
            "this choice depends on the sizes of the data",
            f"`{self.condition}` holds for some sizes and not for others",
            cure=Help("let a config parameter decide, or state the fact in `where`"),
        )


class NotAllowedHere(LocatedProblem, code="E0216", topic="structure"):
    """A statement stands where it has no meaning, such as `minimize` in a block."""

    what: str
    where: str
    cure: Help | None = None
    first: Span | None = None
    """The statement of which this one is a repetition."""

    def report(self) -> Report:
        first = self.first
        remarks = () if first is None else (Remark("the first", "", first),)
        return self.words(f"{self.what} {self.where}", remarks=remarks, cure=self.cure)


class UnknownDType(LocatedProblem, code="E0217", topic="element type"):
    """An element type is not one tensors of a program can have."""

    dtype: str

    def report(self) -> Report:
        return self.words(
            f"tensors cannot be `{self.dtype}` here", cure=Help("use f32, f16, i32, u32 or bool")
        )


class UnknownParameter(LocatedProblem, code="E0230", topic="arguments"):
    """An argument says how a parameter begins that the block does not declare itself."""

    block: str
    name: str
    known: tuple[str, ...]

    def report(self) -> Report:
        if self.name in self.known:
            return self.words(
                f"`{self.block}` has no parameter `{self.name}` in this configuration"
            )
        advice = (
            f"its parameters are {quoted(self.known, 'and')}"
            if self.known
            else ("it declares no parameters itself: give the value to the layer inside that does")
        )
        cure = corrected(self.location.span, self.name, self.known, advice)
        return self.words(f"`{self.block}` has no parameter `{self.name}`", cure=cure)


class CheckedPerModel(LocatedProblem, code="N0001", topic="proof", severity=Severity.NOTE):
    """A block could not be proved for all sizes at once, so each model that uses it is checked."""

    block: str
    reason: str
    form: str = ""
    """A form of it that is proved at once."""

    def report(self) -> Report:
        return self.words(
            f"`{self.block}` is checked in each model that uses it",
            self.reason,
            remarks=proved_at_once(self.form),
        )


def proved_at_once(form: str) -> tuple[Remark, ...]:
    """The remark on a form that is proved at once, if there is one."""
    return (Remark("proved at once", form),) if form else ()


class KindMismatch(LocatedProblem, code="E0220", topic="kind"):
    """A configuration value is of another kind than the one that is declared, or that is needed."""

    headline: str
    found: str = ""
    declared: Location | None = None
    fact: str = ""
    """A fact that would make the value one of the kind."""
    cure: str = ""
    """The parameter with the kind that it is used as."""
    advice: Help | None = None
    """Advice if neither a fact nor a kind helps."""

    def report(self) -> Report:
        remarks = ()
        if self.declared is not None:
            span = self.declared.span
            remarks = (Remark("declared here", span.text.split("\n")[0], span),)
        cure = Help("say what it is", self.cure) if self.cure else self.stated(self.fact)
        cure = cure or self.advice
        label = f"this is {self.found}" if self.found else ""
        return self.words(self.headline, label, remarks=remarks, cure=cure)


class UnfitLabel(LocatedProblem, code="E0226", topic="naming"):
    """A value in the braces of a label or a parameter's name cannot be part of a name."""

    found: str
    of_data: bool = False
    """True if it is a size of the data, so that a layer would be there as often as that is."""

    def report(self) -> Report:
        cure = Help(
            "a layer of each iteration has the index of its `for`, as `fc[i]:`; where only the\n"
            "data tells how many iterations there are, one layer serves all, as `fc:`"
        )
        other = Help(
            "give it the index of a `for`, or a text of the configuration", "fc[i]: linear(8)"
        )
        return self.words(
            "a label needs a whole number from 0, or a text of letters, digits and _",
            f"this is {self.found}",
            cure=cure if self.of_data else other,
        )
