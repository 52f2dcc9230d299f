"""A report as a few lines without code or carets, for readers that show the code themselves."""

from meganeura_dsl.diagnostics.characters import safe
from meganeura_dsl.diagnostics.problem import Remark, Report


def plain_text(report: Report) -> str:
    """The headline, what stands at the place, the remarks with their places, and the help."""
    lines = [report.headline]
    if report.label is not None and report.label.text:
        lines.append(report.label.text)
    if report.path:
        lines.append(f"in layer: {report.path}")
    lines.extend(map(_remark, report.remarks))
    if report.help is not None:
        lines.append(f"help: {report.help.text}")
        lines.extend([] if report.help.code is None else [report.help.code])
    return safe("\n".join(lines))


def _remark(remark: Remark) -> str:
    location = "" if remark.span is None else f"{remark.span.source.name}:{remark.span.line}"
    return ": ".join(part for part in (remark.title, location, remark.text) if part)
