"""Reports as plain data, ready for `json.dumps`."""

from typing import TypedDict

from meganeura_dsl.diagnostics.fixes import hunks
from meganeura_dsl.diagnostics.problem import Applicability, Help, Report
from meganeura_dsl.diagnostics.source import Span


class JsonLocation(TypedDict):
    """A range of text: lines and columns count characters from 1, the end is exclusive.

    All are null where a message has no place.
    """

    file: str | None
    line: int | None
    column: int | None
    end_line: int | None
    end_column: int | None


class JsonRemark(JsonLocation):
    """A remark: `title` may be empty."""

    title: str
    text: str


class JsonHelp(TypedDict):
    """A cure: `code` is what to write, and `line` where, if that is known.

    `applicability` is `safe`, `suggested` or `none`, as in `Applicability`.
    """

    text: str
    code: str | None
    line: int | None
    applicability: str


class JsonEdit(JsonLocation):
    """A replacement: `text` takes the place of what stands there."""

    text: str


class JsonFix(TypedDict):
    """A cure to apply: all its edits together, each by the places of the text before.

    `check --fix` applies those whose `applicability` is `safe`.
    """

    description: str
    applicability: str
    edits: list[JsonEdit]


class JsonReport(JsonLocation):
    """A report as `--json` prints it. Keys are only ever added, never renamed or removed."""

    code: str
    severity: str
    headline: str
    topic: str
    label: str
    path: str
    remarks: list[JsonRemark]
    help: JsonHelp | None
    fixes: list[JsonFix]


def as_json(report: Report) -> JsonReport:
    """The report as plain data, ready for `json.dumps`."""
    label = report.label
    advice = report.help
    return {
        "code": report.code,
        "severity": report.severity.value,
        "headline": report.headline,
        "topic": report.topic,
        **_json_location(None if label is None else label.span),
        "label": "" if label is None else label.text,
        "path": report.path,
        "remarks": [
            {"title": each.title, "text": each.text, **_json_location(each.span)}
            for each in report.remarks
        ],
        "help": advice and _json_help(advice),
        "fixes": [_json_fix(advice)] if advice is not None and advice.edits else [],
    }


def _json_help(advice: Help) -> JsonHelp:
    """The advice; of a fix, its first changed line, and what is to stand there."""
    changes = hunks(advice.edits)
    if not changes:
        none = Applicability.NONE.value
        return {"text": advice.text, "code": advice.code, "line": None, "applicability": none}
    code = "\n".join(line for change in changes for line in change.after)
    kind = advice.applicability.value
    return {"text": advice.text, "code": code, "line": changes[0].line, "applicability": kind}


def _json_fix(advice: Help) -> JsonFix:
    edits: list[JsonEdit] = [
        {"text": edit.text, **_json_location(edit.span)} for edit in advice.edits
    ]
    return {
        "description": advice.text,
        "applicability": advice.applicability.value,
        "edits": edits,
    }


def _json_location(span: Span | None) -> JsonLocation:
    if span is None:
        return {"file": None, "line": None, "column": None, "end_line": None, "end_column": None}
    end_line, end_column = span.source.position(span.end)
    return {
        "file": span.source.name,
        "line": span.line,
        "column": span.column,
        "end_line": end_line,
        "end_column": end_column,
    }
