"""Programs formatted for pages of several widths.

The programs are the standard files and those of some pages of the specification, in the canonical
form and in those that narrow pages would have, in which nearly all lines have to be broken.
`formatted.snap` has some of them, and checksums of all. Whatever changes where a line is broken, a
space or a bracket is seen there, whether or not it was meant.

`python -m tests.dsl.syntax.formatted` writes the file anew; read the difference before you keep it.
"""

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.formatter import line_breaking
from meganeura_dsl.syntax.formatter.formatter import find_comments, format_module
from meganeura_dsl.syntax.parser.parser import parse
from tests.literate import SPEC, read
from tests.snapshots import Snapshot, Text

STANDARD = Path(__file__).parents[3] / "stdlib_models"
WIDTHS = (100, 60, 30)


PAGES = ("blocks.md", "caches.md", "kinds.md", "scans.md", "train.md", "where.md")
SHOWN = (
    *(
        f"pages: blocks.md program {number}, {width} columns"
        for number in (1,)
        for width in (60, 30)
    ),
    *(f"pages: {page} program 1, 30 columns" for page in PAGES[1:]),
)


def texts() -> Iterator[Text]:
    """The forms of the standard files, and of the programs of some pages."""
    for path in sorted(STANDARD.glob("*.mgn")):
        source = Source(path.name, path.read_text(encoding="utf-8"))
        yield from _forms("standard files", path.name, source)
    for name in PAGES:
        for number, program in enumerate(read(SPEC / name).programs, 1):
            yield from _forms("pages", f"{name} program {number}", program.source)


def _forms(group: str, name: str, source: Source) -> Iterator[Text]:
    module = _tree(source)
    if module is not None:
        for width in WIDTHS:
            yield Text(group, f"{name}, {width} columns", _formatted(module, width))


def _tree(source: Source) -> ast.Module | None:
    """The tree of a program that can be read."""
    sink = Sink()
    module = parse(source, sink)
    return None if sink.reports else module


def _formatted(module: ast.Module, width: int) -> str:
    with patch.object(line_breaking, "WIDTH", width):
        return format_module(module, find_comments(module.source))


SNAPSHOT = Snapshot("tests.dsl.syntax.formatted", texts, SHOWN)

if __name__ == "__main__":
    SNAPSHOT.main()
