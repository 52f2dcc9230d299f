"""Reports: problems as a reader sees them, before they are drawn: a place, remarks, and a help."""

from dataclasses import dataclass
from enum import Enum

from meganeura_dsl.diagnostics.source import Span


class Severity(Enum):
    """The severity of a report: only errors fail a check."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class Label:
    """A place and the short text that stands at it; lines after the first align below."""

    span: Span
    text: str = ""


@dataclass(frozen=True)
class Remark:
    """A line such as `for example  h=7`, with the place it speaks of, if it has one."""

    title: str
    text: str
    span: Span | None = None


@dataclass(frozen=True)
class Edit:
    """A replacement in a source: `text` takes the place of the characters of `span`."""

    span: Span
    text: str


class Applicability(Enum):
    """The effect of a fix on the meaning of a program, which decides who may apply it."""

    SAFE = "safe"
    """Syntax that can mean one thing only, and now says it. No program that was valid changes."""
    SUGGESTED = "suggested"
    """The program means something else afterwards: a fact is stated, a name respelled."""
    NONE = "none"
    """Words only."""


@dataclass(frozen=True)
class Help:
    """A cure for the problem: a sentence, and the code one would write.

    `safe_fix` and `suggested_fix` make those with edits.
    """

    text: str
    code: str | None = None
    edits: tuple[Edit, ...] = ()
    """The cure as a fix, all of one source and none overlapping another."""
    applicability: Applicability = Applicability.NONE

    def __post_init__(self) -> None:
        """An edit without a kind, or a kind without an edit, is a mistake of the program."""
        if bool(self.edits) != (self.applicability is not Applicability.NONE):
            raise ValueError(f"{len(self.edits)} edits are {self.applicability.value}")


def safe_fix(text: str, *edits: Edit, code: str | None = None) -> Help:
    """A cure whose edits change the meaning of no valid program; words alone without edits."""
    return Help(text, code, edits, Applicability.SAFE if edits else Applicability.NONE)


def suggested_fix(text: str, *edits: Edit, code: str | None = None) -> Help:
    """A cure whose edits change what the program means; words alone without edits."""
    return Help(text, code, edits, Applicability.SUGGESTED if edits else Applicability.NONE)


@dataclass(frozen=True)
class Report:
    """Everything a reader of a problem is shown, before it is drawn."""

    code: str
    severity: Severity
    headline: str
    topic: str
    label: Label | None
    remarks: tuple[Remark, ...] = ()
    help: Help | None = None
    path: str = ""
    """Parameter path of the layer concerned, such as `layer2.0.conv1`, or empty."""
