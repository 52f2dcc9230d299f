"""Reports as SARIF 2.1.0, the OASIS standard for results of static analysis.

What is written follows "Static Analysis Results Interchange Format (SARIF) Version 2.1.0",
https://docs.oasis-open.org/sarif/sarif/v2.1.0/. Columns count code points from 1.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from meganeura_dsl.diagnostics.characters import safe
from meganeura_dsl.diagnostics.message_pages import message_page, message_title
from meganeura_dsl.diagnostics.plain_text import plain_text
from meganeura_dsl.diagnostics.problem import Edit, Help, Problem, Report, Severity
from meganeura_dsl.diagnostics.source import Span

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}

Json = dict[str, Any]


def as_sarif(reports: Sequence[Report], problems: Iterable[type[Problem]], version: str) -> Json:
    """A log of one run, ready for `json.dumps`; the rules are the pages of the codes in it."""
    pages = {problem.code: problem for problem in problems}
    codes = sorted({report.code for report in reports})
    numbers = {code: number for number, code in enumerate(codes)}
    driver = {
        "name": "meganeura",
        "semanticVersion": version,
        "rules": [_rule(pages[code]) for code in codes],
    }
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "columnKind": "unicodeCodePoints",
                "results": [_result(report, numbers) for report in reports],
            }
        ],
    }


def _rule(problem: type[Problem]) -> Json:
    page = message_page(problem.code)
    assert page is not None, f"{problem.code} has no page"
    return {
        "id": problem.code,
        "name": problem.__name__,
        "shortDescription": {"text": message_title(problem.code)},
        "help": {"text": page, "markdown": page},
        "defaultConfiguration": {"level": LEVELS[problem.severity]},
        "properties": {"tags": [problem.topic]},
    }


def _result(report: Report, numbers: Mapping[str, int]) -> Json:
    result: Json = {
        "ruleId": report.code,
        "ruleIndex": numbers[report.code],
        "level": LEVELS[report.severity],
        "message": {"text": plain_text(report)},
    }
    if report.label is not None:
        result["locations"] = [{"physicalLocation": _location(report.label.span)}]
    related = [remark for remark in report.remarks if remark.span is not None]
    if related:
        result["relatedLocations"] = [
            {
                "id": number,
                "message": {"text": safe(": ".join(filter(None, (each.title, each.text))))},
                "physicalLocation": _location(each.span),
            }
            for number, each in enumerate(related, 1)
            if each.span is not None
        ]
    if report.help is not None and report.help.edits:
        result["fixes"] = [_fix(report.help)]
    return result


def _fix(advice: Help) -> Json:
    change = {
        "artifactLocation": _file(advice.edits[0].span),
        "replacements": [_replacement(edit) for edit in advice.edits],
    }
    return {
        "description": {"text": safe(advice.text)},
        "artifactChanges": [change],
        "properties": {"applicability": advice.applicability.value},
    }


def _replacement(edit: Edit) -> Json:
    return {"deletedRegion": _region(edit.span), "insertedContent": {"text": edit.text}}


def _location(span: Span) -> Json:
    return {"artifactLocation": _file(span), "region": _region(span)}


def _file(span: Span) -> Json:
    path = Path(span.source.name)
    return {"uri": path.as_uri() if path.is_absolute() else quote(path.as_posix())}


def _region(span: Span) -> Json:
    """Lines and columns from 1; the end is exclusive, so that an empty region is an insertion."""
    end_line, end_column = span.source.position(span.end)
    return {
        "startLine": span.line,
        "startColumn": span.column,
        "endLine": end_line,
        "endColumn": end_column,
    }
