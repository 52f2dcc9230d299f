"""Syntax problems and their words: what can be wrong with a text before anything is known of it.

Every class docstring is the page that `meganeura explain CODE` prints.
"""

from abc import ABC
from dataclasses import dataclass
from typing import ClassVar

from meganeura_dsl.diagnostics import Help, Label, Problem, Remark, Report
from meganeura_dsl.source import Span


@dataclass(frozen=True)
class SyntaxProblem(Problem, ABC):
    """A problem at one place of the text."""

    topic: ClassVar[str] = "syntax"

    span: Span

    def _say(self, headline: str, label: str, *remarks: Remark, help: Help | None = None) -> Report:
        place = Label(self.span, label)
        return Report(self.code, self.severity, headline, self.topic, place, remarks, help)


@dataclass(frozen=True)
class _Plain(SyntaxProblem):
    code: ClassVar[str] = "E0199"
    more: object = None
    rest: object = None

    def report(self) -> Report:
        return self._say(type(self).__name__, "here")


class UnexpectedToken(_Plain):
    pass


class InconsistentIndentation(_Plain):
    pass


class UnclosedBracket(_Plain):
    pass


class UnexpectedClosingBracket(_Plain):
    pass


class TabInIndentation(_Plain):
    pass


class ForbiddenCharacter(_Plain):
    pass


class MalformedNumber(_Plain):
    pass


class UnterminatedString(_Plain):
    pass


class UnknownCharacter(_Plain):
    pass


class NumberTooLarge(_Plain):
    pass


class RestOutsideShape(_Plain):
    pass


class LabelWithoutLayer(_Plain):
    pass


class PositionalAfterNamed(_Plain):
    pass


class DuplicateName(_Plain):
    pass


class MisplacedStatement(_Plain):
    pass


class TooDeep(_Plain):
    pass


class EmptyFile(_Plain):
    pass


class FileTooLarge(_Plain):
    pass

