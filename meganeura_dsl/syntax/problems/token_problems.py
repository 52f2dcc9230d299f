"""Problems of words and signs, and their words: what cannot stand where it stands.

Every class docstring is the page that `meganeura explain CODE` prints.
"""

import re

from meganeura_dsl.diagnostics.problem import Applicability, Help, Remark, Report, safe_fix
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.diagnostics.spelling import meant
from meganeura_dsl.syntax.problems import certainty
from meganeura_dsl.syntax.problems.text_problems import (
    SyntaxProblem,
    kind_if,
    replacing,
    rewritten,
)


class UnexpectedToken(SyntaxProblem, code="E0101"):
    """Something stands where the grammar has no place for it."""

    expected: tuple[str, ...]
    advice: str = ""
    """The text to write in its place, if the intention is recognised."""
    written: str = ""
    """The code of the advice, if it is a separate line."""

    def report(self) -> Report:
        found = self.span.text
        headline = f"`{found}` cannot stand here" if found else "this line ends too early"
        return self.say(headline, f"expected {_choice(self.expected)}", self._cure())

    def _cure(self) -> Help | None:
        if self.advice:
            return Help(self.advice, self.written or None)
        if "a type" in self.expected:
            text = "a type is a shape, after an element type unless that is f32"
            return Help(text, "[n, d]   i32[n]")
        if self.expected in (("`=`",), ("`=`", "`[`")) and self.span.text in (":", "->"):
            before = self.span.source.text[: self.span.start]
            return replacing("write `=`", self.span, "=" if before.endswith(" ") else " =")
        return None


def _choice(options: tuple[str, ...]) -> str:
    return options[0] if len(options) == 1 else f"{', '.join(options[:-1])} or {options[-1]}"


class LabelLostColon(SyntaxProblem, code="E0102"):
    """A label and its layer stand side by side, without the colon between them."""

    label: str

    def report(self) -> Report:
        """A guess: a pipe, or a layer behind the label, may be what is missing."""
        is_label = certainty.is_label(self.span.source, self.label)
        kind = Applicability.SUGGESTED if is_label else Applicability.NONE
        return self.say(
            "this label has lost its colon",
            f"I read `{self.label}` as a layer, then found another name",
            replacing("write a colon to make it a label", self.span, ": ", kind),
        )


class AssignmentInExpression(SyntaxProblem, code="E0103"):
    """A single `=` stands inside an expression."""

    def report(self) -> Report:
        return self.say(
            "`=` does not compare",
            "`=` gives a name to a value",
            replacing(
                "write `==` to compare",
                self.span,
                "==",
                kind_if(certain=certainty.is_in_condition(self.span)),
            ),
        )


class KeywordAsName(SyntaxProblem, code="E0120"):
    """A reserved word stands where a name is needed."""

    def report(self) -> Report:
        word = self.span.text
        cure = Help("choose another name", rewritten(self.span, f"{word}_"))
        return self.say(f"`{word}` cannot be a name", "this word is reserved", cure)


class ForeignSpelling(SyntaxProblem, code="E0121"):
    """A word or sign of another language stands here, one that this language spells differently."""

    advice: str
    line: str = ""
    """The line that the one with the word becomes, where there is such a line."""

    def report(self) -> Report:
        headline = f"there is no `{self.span.text}` in this language"
        fixes = certainty.translated(self.span)
        cure = safe_fix(self.advice, *fixes, code=self.line or None)
        return self.say(headline, "from another language", cure)


class MethodCall(SyntaxProblem, code="E0138"):
    """A function is called behind a dot, as a method or of a module; here its name is enough."""

    cure: Help

    def report(self) -> Report:
        return self.say(
            f"`{self.span.text}` is no function", "nothing is called behind a dot", self.cure
        )


class DuplicateName(SyntaxProblem, code="E0122"):
    """A name is given twice: to arguments, parameters, results, or an input and a size."""

    first: Span
    name: str
    is_size: bool = False
    """True if the first is a size of an input."""
    is_argument: bool = False
    result_and: str = ""
    """The kind of the first, such as `an input`, if the second is a result."""

    def report(self) -> Report:
        first, cure = Remark("first", "", self.first), Help("give one of them another name")
        if self.is_size:
            return self.say(f"`{self.name}` is a size and an input", "the input", cure, first)
        if self.result_and == "a result":
            return self.say(f"two results are called `{self.name}`", "the second", cure, first)
        if self.result_and:
            headline = f"`{self.name}` is {self.result_and} and a result"
            cure = Help("give the result another name")
            return self.say(headline, "the result", cure, first)
        if self.is_argument:
            given = [self.first.text, self.span.text]
            one = f"`{given[0]}`" if given[0] == given[1] else f"`{given[0]}` or `{given[1]}`"
            cure = Help(f"give it once: {one}")
        return self.say(f"`{self.name}` is given twice", "the second time", cure, first)


class PositionalAfterNamed(SyntaxProblem, code="E0123"):
    """An argument without a name follows one with a name, so its place in the order is unclear."""

    def report(self) -> Report:
        return self.say(
            "an argument without a name follows one with a name",
            "which parameter is this?",
            Help("name it, or move it before the named ones"),
        )


class ResultWithoutName(SyntaxProblem, code="E0141"):
    """A result has no name, and another one of the same signature has."""

    results: tuple[str, ...]
    """All results, as they are written."""

    def report(self) -> Report:
        parts = [
            text if text.split("[")[0].rstrip().endswith(":") else f"result{at}: {text}"
            for at, text in enumerate(self.results)
        ]
        cure = Help("name all of them, or none", f"-> {', '.join(parts)}")
        return self.say("of these results some have names", "this one has none", cure)


SHORTEST_KEYWORD = 4
"""Letters from which a slip in a keyword is sure: it stands where nothing else could."""


class MisspeltKeyword(SyntaxProblem, code="E0137"):
    """A word that nothing explains here is almost a keyword that would fit."""

    keyword: str

    def report(self) -> Report:
        is_meant = meant(self.span.text, (self.keyword,), SHORTEST_KEYWORD) is not None
        text = f"did you mean `{self.keyword}`?"
        cure = replacing(text, self.span, self.keyword, kind_if(certain=is_meant))
        return self.say(f"`{self.span.text}` means nothing here", "this is no keyword", cure)


_SAME_TYPES = {
    "float": "f32",
    "float32": "f32",
    "float16": "f16",
    "half": "f16",
    "int": "i32",
    "int32": "i32",
    "uint32": "u32",
    "boolean": "bool",
}
"""Element types as other languages name them, of those that a tensor of a program can have."""


def is_foreign_type(word: str) -> bool:
    """True if other systems have an element type of this name, and the language another name."""
    return word.lower() in _SAME_TYPES


class UnknownElementType(SyntaxProblem, code="E0126"):
    """The word before a shape is none of the element types."""

    def report(self) -> Report:
        headline = f"`{self.span.text}` is no element type"
        cure = Help("the element types are", "f32 f16 bf16 f64 i32 i64 u32 u8 bool")
        if same := _SAME_TYPES.get(self.span.text.lower()):
            cure = replacing(f"write `{same}`", self.span, same)
        return self.say(headline, "unknown", cure)


class RestOutsideShape(SyntaxProblem, code="E0127"):
    """`...name` stands in a list."""

    def report(self) -> Report:
        return self.say("a list cannot hold `...`", "this is no shape", Help("write out its items"))


class LabelWithoutLayer(SyntaxProblem, code="E0128"):
    """A path with an index is used as a block."""

    def report(self) -> Report:
        path = self.span.text
        cure = Help("write the layer after a colon", rewritten(self.span, f"{path}: layer(...)"))
        return self.say("this label has no layer", f"`{path}` can only be a label", cure)


class ChainedComparison(SyntaxProblem, code="E0130"):
    """Two comparisons share an operand."""

    middle: str

    def report(self) -> Report:
        written = f"and {self.middle} {self.span.text}"
        kind = kind_if(certain=certainty.is_plain_chain(self.span, self.middle))
        cure = replacing("join two comparisons", self.span, written, kind)
        return self.say("comparisons cannot be chained", "the second comparison", cure)


class MissingComma(SyntaxProblem, code="E0134"):
    """Two things stand side by side in brackets, without a comma or an operator between them."""

    def report(self) -> Report:
        kind = certainty.of_missing_comma(self.span)
        cure = replacing("separate them", self.span, ", ", kind)
        return self.say("a comma or an operator is missing", "missing here", cure)


class AmbiguousPipe(SyntaxProblem, code="E0139"):
    """The operand of a pipe could be all to its left, or the last operand alone."""

    whole: Span
    """All that stands left of the first pipe."""
    part: Span
    """The last operand, and all steps of the pipe."""

    def report(self) -> Report:
        text = self.span.source.text
        last = text[self.whole.end : self.part.end]
        before = text[self.whole.start : self.part.start]
        readings = (f"({self.whole.text}){last}", f"{before}({self.part.text})")
        all_of_it, its_last = (" ".join(_without_comments(each).split()) for each in readings)
        return self.say(
            f"`{self.span.text}` left of a pipe needs brackets",
            "what is piped can be read in two ways",
            Help("write the brackets of the one that is meant"),
            Remark("the last operand", its_last),
            Remark("all of it", all_of_it),
        )


class OperatorBehindPipe(SyntaxProblem, code="E0140"):
    """An operator follows a layer."""

    chain: Span
    """The operand and all steps of the pipe."""

    def report(self) -> Report:
        piped = " ".join(_without_comments(self.chain.text).split())
        end = self.span.source.text.find("\n", self.span.end)
        rest = self.span.source.text[self.span.start : None if end < 0 else end]
        whole = f"({piped}) {_without_comments(rest).rstrip()}"
        return self.say(
            f"`{self.span.text}` cannot follow a layer",
            "a pipe goes on with `|>`",
            Help("put what is piped into brackets, with its layers", whole),
        )


def _without_comments(text: str) -> str:
    return re.sub(r'("[^"\n]*")|#[^\n]*', lambda match: match[1] or "", text)
