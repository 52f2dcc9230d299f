"""How the programs of the specification are formatted in pages of several widths.

`formatted.sums` has of each program, which it knows by a checksum, that of its canonical form and
of those that narrow pages would have, in which nearly all lines have to be broken. Whatever changes
where a line is broken, a space or a bracket is seen there, whether or not it was meant.

`python -m tests.dsl.syntax.formatted` writes the file anew; read the difference before you keep it.
"""

from pathlib import Path
from unittest.mock import patch
from zlib import crc32

from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.formatter import line_breaking
from meganeura_dsl.syntax.formatter.formatter import find_comments, format_module
from meganeura_dsl.syntax.parser.parser import parse
from tests.literate import pages, read

FILE = Path(__file__).with_suffix(".sums")
WIDTHS = (100, 60, 30)


def described() -> dict[str, str]:
    """The checksum of each program, and those of its forms."""
    found: dict[str, str] = {}
    for path in pages():
        for program in read(path).programs:
            module = _tree(program.source)
            if module is not None:
                forms = "".join(_formatted(module, width) for width in WIDTHS)
                found[_sum(program.source.text)] = _sum(forms)
    return found


def _sum(text: str) -> str:
    return f"{crc32(text.encode()):08x}"


def _tree(source: Source) -> ast.Module | None:
    """The tree of a program that can be read."""
    sink = Sink()
    module = parse(source, sink)
    return None if sink.reports else module


def _formatted(module: ast.Module, width: int) -> str:
    with patch.object(line_breaking, "WIDTH", width):
        return format_module(module, find_comments(module.source))


if __name__ == "__main__":
    FILE.write_text("".join(f"{of} {forms}\n" for of, forms in sorted(described().items())))
