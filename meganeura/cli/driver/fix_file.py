"""Applies the fixes of a program to its file, again and again until none is left.

Unasked, only safe fixes are applied. Only the file that is named is changed, never one that it
imports nor one that ships with the package. Each iteration writes the whole file at once.
"""

from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path

from meganeura.cli.driver.checked_target import check_target
from meganeura_dsl.diagnostics.fixes import apply, next_fixes
from meganeura_dsl.diagnostics.problem import Applicability, Report
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.diagnostics.terminal import diff

MOST_ITERATIONS = 200
"""Checks of one file: a mistake may hide others behind it, in each declaration."""


def fix_file(target: str, *, unsafe: bool = False) -> Iterator[str]:
    """Apply the safe fixes, and name each once its iteration is written.

    If `unsafe`, suggested ones too: one an iteration, once no safe one is left, each with its diff.
    """
    from meganeura_dsl import pipeline

    seen: set[str] = set()
    for _ in range(MOST_ITERATIONS):
        result = check_target(target)
        if result.program is None or (found := pipeline.find(target)).is_standard:
            return
        source = result.program.source
        chosen = next_fixes(result.reports, source, unsafe=unsafe)
        edits = [edit for report in chosen if report.help for edit in report.help.edits]
        text = apply(source.text, edits)
        if text == source.text or text in seen:
            return
        seen.add(source.text)
        if _write(found.path.resolve(), source, text):
            for report in chosen:
                yield from _lines(report)


def _lines(report: Report) -> Iterator[str]:
    """`fixed net.mgn:3: E0102: write a colon`; with its diff if the meaning changed."""
    assert report.label is not None
    assert report.help is not None
    span = report.label.span
    is_safe = report.help.applicability is Applicability.SAFE
    verb = "fixed" if is_safe else "changed"
    yield f"{verb} {span.source.name}:{span.line}: {report.code}: {report.help.text}"
    if not is_safe:
        yield from (f"    {line}" for line in diff(report.help.edits))


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
