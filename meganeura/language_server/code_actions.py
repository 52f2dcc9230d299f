"""Fixes and formatting: safe fixes are preferred, those that change a meaning say so."""

from collections.abc import Iterable

from lsprotocol.types import CodeAction, CodeActionKind, Range, TextEdit, WorkspaceEdit

from meganeura.language_server.analysis import Analysis
from meganeura.language_server.diagnostics import diagnostic, span_of
from meganeura_dsl.diagnostics.fixes import compatible_fixes
from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.diagnostics.report import Applicability, Edit, Report
from meganeura_dsl.syntax.formatter.formatter import find_comments, format_module
from meganeura_dsl.syntax.parser.parser import parse

CHANGES = "changes what the program means"


def code_actions(analysis: Analysis, shown: Range) -> list[CodeAction]:
    """The fixes of the problems in a range, and all safe fixes of the document as one action."""
    first, last = analysis.offset(shown.start), analysis.offset(shown.end)
    actions: list[CodeAction] = []
    for report in analysis.reports:
        span = span_of(report, analysis)
        if span.start <= last and first <= span.end and _is_here(report, analysis):
            actions.append(_fix(report, analysis))
    safe = compatible_fixes(analysis.reports, analysis.source)
    if safe:
        edits = [edit for report in safe if report.help for edit in report.help.edits]
        actions.append(
            CodeAction(
                f"Apply all safe fixes ({len(safe)})",
                kind=CodeActionKind.SourceFixAll,
                edit=_changes(analysis, edits),
            )
        )
    return actions


def _is_here(report: Report, analysis: Analysis) -> bool:
    edits = report.help.edits if report.help else ()
    return bool(edits) and all(edit.span.source is analysis.source for edit in edits)


def _fix(report: Report, analysis: Analysis) -> CodeAction:
    assert report.help is not None
    is_safe = report.help.applicability is Applicability.SAFE
    title = report.help.text
    if not is_safe:
        new = " ".join(edit.text.strip() for edit in report.help.edits if edit.text.strip())
        title = f"{title}: `{new}` ({CHANGES})" if new else f"{title} ({CHANGES})"
    return CodeAction(
        title,
        kind=CodeActionKind.QuickFix,
        is_preferred=is_safe,
        diagnostics=[diagnostic(report, analysis)],
        edit=_changes(analysis, report.help.edits),
    )


def _changes(analysis: Analysis, edits: Iterable[Edit]) -> WorkspaceEdit:
    changes = [TextEdit(analysis.range(edit.span), edit.text) for edit in edits]
    return WorkspaceEdit({analysis.uri: changes})


def formatting(analysis: Analysis) -> list[TextEdit]:
    """The edit that lays a document out as `meganeura fmt` does; none where it cannot be read."""
    sink = Sink()
    module = parse(analysis.source, sink)
    if sink.has_errors:
        return []
    text = format_module(module, find_comments(analysis.source))
    return [] if text == analysis.source.text else [TextEdit(analysis.positions.whole(), text)]
