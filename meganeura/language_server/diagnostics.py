"""Diagnostics: every problem of a document at its place, with the places it speaks of."""

from collections.abc import Iterator

from lsprotocol.types import (
    CodeDescription,
    Diagnostic,
    DiagnosticRelatedInformation,
    DiagnosticSeverity,
    DiagnosticTag,
    Location,
)
from pygls.uris import from_fs_path

from meganeura.language_server.analysis import Analysis
from meganeura_dsl.diagnostics.report import Applicability, Help, Remark, Report, Severity
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.layer_problems import UnappliedLayer
from meganeura_dsl.elaborate.problems.name_problems import UnusedValue
from meganeura_dsl.resources import reference_pages
from meganeura_dsl.syntax import ast

SEVERITIES = {
    Severity.ERROR: DiagnosticSeverity.Error,
    Severity.WARNING: DiagnosticSeverity.Warning,
    Severity.NOTE: DiagnosticSeverity.Information,
}
UNUSED = {UnusedValue.code, UnappliedLayer.code}
"""The codes of what an editor shows faded."""


def diagnostics(analysis: Analysis) -> list[Diagnostic]:
    """All problems of a document, in the order of the command line."""
    return [diagnostic(report, analysis) for report in analysis.reports]


def diagnostic(report: Report, analysis: Analysis) -> Diagnostic:
    """A problem at its place."""
    span = span_of(report, analysis)
    return Diagnostic(
        range=analysis.range(span),
        severity=SEVERITIES[report.severity],
        code=report.code,
        code_description=_page(report.code),
        source="meganeura",
        message=message(report, analysis),
        tags=[DiagnosticTag.Unnecessary] if report.code in UNUSED else None,
        related_information=list(_related(report, analysis)) or None,
    )


def span_of(report: Report, analysis: Analysis) -> Span:
    """The place of a report in the document: of one in an imported file, that of the import."""
    if report.label is None:
        return _first_line(analysis)
    span = report.label.span
    if span.source is analysis.source:
        return span
    for declaration in analysis.imports:
        names = (name for name in declaration.names if name.text in analysis.module.imported)
        if any(_leads_to(name, span, analysis) for name in names):
            return declaration.span
    return _first_line(analysis)


def _first_line(analysis: Analysis) -> Span:
    return Span(analysis.source, 0, len(analysis.source.line(1)))


def _leads_to(name: ast.Name, span: Span, analysis: Analysis) -> bool:
    """True if a name is imported from the file of a span, or from one that imports from there."""
    sources = (source for source, _ in analysis.module.imported[name.text].sources())
    return any(source is span.source for source in sources)


def message(report: Report, analysis: Analysis) -> str:
    """Returns the text that the command line prints, without the program's lines."""
    lines = [report.headline]
    if report.label is not None and report.label.span.source is not analysis.source:
        lines[0] += f" (in {_place(report.label.span)})"
    if report.label is not None and report.label.text:
        lines.append(report.label.text)
    lines += [_told(remark) for remark in report.remarks if remark.span is None]
    if report.path:
        lines.append(f"in {report.path}")
    if report.help is not None:
        lines.append(_advice(report.help))
    return "\n".join(lines)


def _told(remark: Remark) -> str:
    return f"{remark.title}  {remark.text}" if remark.title else remark.text


def _advice(advice: Help) -> str:
    kind = "suggestion" if advice.applicability is Applicability.SUGGESTED else "help"
    code = f": {advice.code}" if advice.code and "\n" not in advice.code else ""
    block = f"\n{advice.code}" if advice.code and not code else ""
    return f"{kind}: {advice.text}{code}{block}"


def _place(span: Span) -> str:
    return f"{span.source.name.rpartition('/')[2]}:{span.line}"


def _related(report: Report, analysis: Analysis) -> Iterator[DiagnosticRelatedInformation]:
    """The other places of a report: the other side, a declaration, what a layer is inside of."""
    label = report.label
    if label is not None and label.span.source is not analysis.source:
        location = Location(analysis.uri_of(label.span.source), analysis.range(label.span))
        yield DiagnosticRelatedInformation(location, label.text or report.headline)
    for remark in report.remarks:
        if remark.span is not None:
            location = Location(analysis.uri_of(remark.span.source), analysis.range(remark.span))
            yield DiagnosticRelatedInformation(location, _told(remark))


def _page(code: str) -> CodeDescription | None:
    """The page of a code, as it ships with the package."""
    path = reference_pages() / "errors" / f"{code}.md"
    uri = from_fs_path(str(path)) if path.is_file() else None
    return None if uri is None else CodeDescription(uri)
