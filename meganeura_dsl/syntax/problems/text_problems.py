"""Problems of a text as such, and their words: its file, characters, brackets and lines.

Every class docstring is the page that `meganeura explain CODE` prints.
"""

import re
import unicodedata
from abc import ABC

from meganeura_dsl.diagnostics.problem import (
    Applicability,
    Edit,
    Help,
    Problem,
    Remark,
    Report,
    safe_fix,
    suggested_fix,
)
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.syntax.problems import certainty

BYTE_ORDER_MARK = 0xFEFF

_SAME = {
    "\N{RIGHTWARDS ARROW}": "->",
    "\N{MINUS SIGN}": "-",
    "\N{EN DASH}": "-",
    "\N{LESS-THAN OR EQUAL TO}": "<=",
    "\N{GREATER-THAN OR EQUAL TO}": ">=",
    "\N{NOT EQUAL TO}": "!=",
    "\N{HORIZONTAL ELLIPSIS}": "...",
    "\N{NO-BREAK SPACE}": " ",
}
"""Characters that stand for the same as these."""

TIMES = "\N{MULTIPLICATION SIGN}"
"""Of elements in one text, of matrices in another."""

_LOOKALIKES = {
    "'": 'a text stands in double quotes, `"like this"`',
    ";": "one statement stands on each line",
    "&": "write `and`",
    "|": "write `or` to join conditions, `|>` to pass a value on",
    "!": "write `not`, or `!=`",
    "^": "a power is written `2 ** i`",
    "{": "bodies are indented, lists stand in `[ ]`",
    "}": "bodies are indented, lists stand in `[ ]`",
    "?": "a choice is written `a if condition else b`",
    "\\": "a line goes on where the next one begins with an operator",
    "`": 'a text stands in double quotes, `"like this"`',
    "\N{LEFT DOUBLE QUOTATION MARK}": 'write straight quotes, `"`',
    "\N{RIGHT DOUBLE QUOTATION MARK}": 'write straight quotes, `"`',
}


def rewritten(span: Span, replacement: str) -> str:
    """The first line of a span, with the span replaced, and without indentation and comment."""
    line = span.source.line(span.line)
    before, after = line[: span.column - 1], line[span.column - 1 + len(span.text) :]
    return re.sub(r'\s+#[^"]*$', "", before + replacement + after).strip()


def replacing(text: str, span: Span, new: str, kind: Applicability = Applicability.SAFE) -> Help:
    """Advice to write `new` in place of a span: a fix of this kind, or a line of code if none."""
    if kind is Applicability.NONE:
        return Help(text, rewritten(span, new))
    return Help(text, edits=(Edit(span, new),), applicability=kind)


def kind_if(*, certain: bool) -> Applicability:
    """A safe fix if its text can mean one thing only, else words."""
    return Applicability.SAFE if certain else Applicability.NONE


class SyntaxProblem(Problem, ABC, topic="syntax"):
    """A problem at one place of the text."""

    span: Span

    def say(self, headline: str, label: str, cure: Help | None = None, *remarks: Remark) -> Report:
        """The report of these words at the place of this problem."""
        return self.message(headline, *remarks, span=self.span, label=label, cure=cure)


class UnreadableFile(Problem, code="E0119", topic="file"):
    """A file cannot be read: it does not exist, is a folder, or is not yours to read."""

    path: str
    reason: str

    def report(self) -> Report:
        cure = Help("a path is counted from the folder of the command: check where the file lies")
        return self.message(f"cannot read `{self.path}`: {self.reason}", cure=cure)


class NotUtf8(SyntaxProblem, code="E0118", topic="file"):
    """A file holds bytes that are not UTF-8, the one encoding of `.mgn` files."""

    byte: int
    offset: int

    def report(self) -> Report:
        return self.say(
            "this file is not UTF-8 text",
            f"byte 0x{self.byte:02x} at offset {self.offset}",
            Help("save it as UTF-8"),
        )


class FileTooLarge(SyntaxProblem, code="E0117", topic="file"):
    """A file is larger than any program: the limit is one mebibyte."""

    limit: int

    def report(self) -> Report:
        cure = Help(
            "declare blocks in files of their own, and import them", "from blocks import Net"
        )
        return self.say("this file is too large", f"more than {self.limit:,} characters", cure)


class UnknownLanguageVersion(SyntaxProblem, code="E0142", topic="file"):
    """The first line of a file names a version of the language that is not this one."""

    known: int

    def report(self) -> Report:
        cure = Help("install the Meganeura of that version, or state the one that is meant")
        here = f"this Meganeura reads version {self.known}"
        return self.say("the program is of another version of the language", here, cure)


class EmptyFile(SyntaxProblem, code="E0115", topic="file"):
    """A file declares nothing: it is empty, or holds comments only."""

    def report(self) -> Report:
        cure = Help("declare a block and a model", "model net = Net()")
        return self.say("this file declares nothing", "nothing but comments here", cure)


class TabInIndentation(SyntaxProblem, code="E0106"):
    """A line is indented with a tab."""

    def report(self) -> Report:
        tabs = certainty.indenting_tabs(self.span)
        edits = tuple(Edit(tab, "  " * len(tab.text)) for tab in tabs)
        cure = safe_fix("indent with two spaces for each level", *edits)
        return self.say("a tab cannot indent a line", "this is a tab", cure)


class ForbiddenCharacter(SyntaxProblem, code="E0107"):
    """A character is in the text that cannot be seen: a control character or a direction mark."""

    def report(self) -> Report:
        point = ord(self.span.text)
        name = unicodedata.name(self.span.text, "")
        what = "a NUL byte" if point == 0 else f"U+{point:04X} {name}".rstrip()
        edits = (Edit(self.span, ""),) if point == BYTE_ORDER_MARK else ()
        cure = safe_fix("delete it", *edits)
        return self.say("this character cannot be seen", f"{what} stands here", cure)


class UnknownCharacter(SyntaxProblem, code="E0108"):
    """A character has no meaning in the language, at least not here."""

    def report(self) -> Report:
        character = self.span.text
        if character.isalnum():
            headline = f"`{character}` cannot be part of a name or number"
            cure = "names are made of a-z, A-Z, 0-9 and _"
        else:
            headline = f"`{character}` means nothing here"
            cure = _LOOKALIKES.get(character, "")
            if character in "&|^" and _is_beside_number(self.span):
                cure = "whole numbers have no bits: `x % 4` are the last two, `x // 4` the others"
        line = self.span.source.line(self.span.line)
        if character == "{" and re.search(r"\w +\{[^{}]*\}", line):
            cure = "a number in a label follows its word: `layer{i}:`"
        return self.say(
            headline, _described(character), self._fix() or (Help(cure) if cure else None)
        )

    def _fix(self) -> Help | None:
        """The sign that surely was meant."""
        character = self.span.text
        if character in _SAME:
            text = f"write `{_SAME[character].strip() or 'a space'}`"
            return replacing(text, self.span, _SAME[character])
        if character == TIMES:
            text = "write `*` for a product of elements, `@` for one of matrices"
            return replacing(text, self.span, "*", Applicability.SUGGESTED)
        if character == ";" and certainty.ends_line(self.span):
            return safe_fix("delete it: a line ends by itself", Edit(self.span, ""))
        if quotes := certainty.quotes(self.span):
            text = "a text stands in double quotes"
            return safe_fix(text, *(Edit(quote, '"') for quote in quotes))
        return None


def _is_beside_number(span: Span) -> bool:
    """True if the operand on either side is a whole number."""
    text = span.source.text
    before, after = text[: span.start].rstrip(), text[span.start + 1 :].lstrip()
    return bool(re.search(r"(?<![\w.])\d+$", before) or re.match(r"\d+(?![\w.])", after))


def _described(character: str) -> str:
    if character.isascii():
        return "this character"
    return f"U+{ord(character):04X} {unicodedata.name(character, '')}".rstrip()


class UnterminatedString(SyntaxProblem, code="E0113"):
    """A text begins with a quote and has none at its end."""

    def report(self) -> Report:
        text = self.span.text.split(" #")[0].rstrip()
        cure = Help("close it", f'{text}"')
        if certainty.is_whole_text(self.span, text):
            end = self.span.start + len(text)
            cure = safe_fix("close it", Edit(Span(self.span.source, end, end), '"'))
        return self.say("this text has no closing quote", "it begins here", cure)


_MEMORY = re.compile(r"\n +memory *= *\Z")
"""Pattern of what stands before the value of the setting `memory`, which takes a text."""


class MalformedNumber(SyntaxProblem, code="E0114"):
    """A number is written in a way that no number is written, or is too large for any use."""

    fault: str = ""

    def report(self) -> Report:
        cure = Help("numbers look like", "1_500    0.5    1e-5")
        if _MEMORY.search(self.span.source.text[: self.span.start]):
            cure = Help("a text stands in quotes", f'memory = "{self.span.text}"')
        if not self.fault and (number := certainty.number(self.span.text)):
            cure = replacing(f"write `{number}`", self.span, number)
        fault = self.fault or "digits, single underscores, and a point between digits"
        return self.say("this is not a number", fault, cure)


class UnclosedBracket(SyntaxProblem, code="E0104"):
    """A bracket is opened and never closed before the next declaration begins."""

    def report(self) -> Report:
        closing = certainty.CLOSING[self.span.text]
        headline = f"this `{self.span.text}` is never closed"
        end = certainty.end_of_brackets(self.span)
        edits = () if end is None else (Edit(end, closing),)
        cure = suggested_fix(f"close it with `{closing}`", *edits)
        return self.say(headline, f"no `{closing}` follows it", cure)


class UnexpectedClosingBracket(SyntaxProblem, code="E0105"):
    """A closing bracket has no opening one, or closes one of the other kind."""

    opening: Span | None = None

    def report(self) -> Report:
        closing = self.span.text
        if self.opening is None:
            headline = f"this `{closing}` closes nothing"
            edits = (Edit(self.span, ""),) if certainty.is_superfluous(self.span) else ()
            return self.say(headline, "no bracket is open here", safe_fix("delete it", *edits))
        opened = Remark("opened here", "", self.opening)
        headline = f"this `{closing}` cannot close a `{self.opening.text}`"
        wanted = certainty.CLOSING[self.opening.text]
        is_only = certainty.is_only_bracket(self.opening, self.span)
        kind = Applicability.SUGGESTED if is_only else Applicability.NONE
        cure = replacing(f"close it with `{wanted}`", self.span, wanted, kind)
        return self.say(headline, f"`{wanted}` is missing before it", cure, opened)


class InconsistentIndentation(SyntaxProblem, code="E0109"):
    """A line is indented less than the line above, and no line above it is indented as much."""

    outer: int
    inner: int

    def report(self) -> Report:
        found = len(self.span.text)
        return self.say(
            "this indentation belongs to no body above",
            f"{found} spaces; the bodies above have {self.outer} or {self.inner}",
            Help("align it with the body that it belongs to"),
        )


class TooDeep(SyntaxProblem, code="E0116"):
    """Phrases are nested too deeply: brackets in brackets, or one chain of very many parts."""

    limit: int

    def report(self) -> Report:
        cure = Help("give a part of it a name, and use the name")
        return self.say("this is nested too deeply", f"more than {self.limit} levels", cure)
