"""The problem of a program that an importer made, in two lines."""

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import Severity

LONGEST = 200
"""The most characters of remarks and of the line in a message."""


def refused(result: pipeline.CheckResult) -> tuple[str, str]:
    """Returns the first error of a program that is not proved, and its line or nothing."""
    error = next(each for each in result.reports if each.severity is Severity.ERROR)
    details = " / ".join(remark.text for remark in error.remarks)
    line = ""
    if error.label is not None:
        place = error.label.span
        line = place.source.line(place.line).strip()
    said = f"[{error.code}] {error.headline}" + (f" ({details[:LONGEST]})" if details else "")
    return said, line[:LONGEST]
