"""Applies the fixes of a program to its file, again and again until none is left.

Only the file that is named is changed, never one that it imports nor one that ships with the
package. Each round writes the whole file at once.
"""

from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path

from meganeura.cli.driver.checked_target import check_target
from meganeura_dsl.diagnostics.fixes import apply, compatible_fixes
from meganeura_dsl.diagnostics.problem import Report
from meganeura_dsl.diagnostics.source import Source

MOST_ROUNDS = 200
"""Checks of one file: a mistake may hide others behind it, in each declaration."""


def fix_file(target: str) -> Iterator[str]:
    """Fix what is certain, and name each fix once its round is written."""
    from meganeura_dsl import pipeline

    for _ in range(MOST_ROUNDS):
        result = check_target(target)
        if result.program is None or (found := pipeline.find(target)).is_standard:
            return
        source = result.program.source
        fixed = compatible_fixes(result.reports, source)
        if not fixed:
            return
        edits = [edit for report in fixed if report.help for edit in report.help.edits]
        if _write(found.path.resolve(), source, apply(source.text, edits)):
            yield from map(_line, fixed)


def _line(report: Report) -> str:
    """`fixed net.mgn:3: E0102: write a colon to make it a label`."""
    assert report.label is not None
    assert report.help is not None
    span = report.label.span
    return f"fixed {span.source.name}:{span.line}: {report.code}: {report.help.text}"


def _write(path: Path, source: Source, text: str) -> bool:
    """Put the text into a file, unless it no longer holds the source; its byte order mark stays."""
    from meganeura_runtime.io.files.atomic_write import replacing

    before = path.read_bytes()
    mark = BOM_UTF8 if before.startswith(BOM_UTF8) else b""
    if before != mark + source.text.encode():
        return False
    with replacing(path) as partial:
        partial.write_bytes(mark + text.encode())
    return True
