"""One document as the checker sees it: the data from which every answer to an editor is made."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lsprotocol.types import Position, PositionEncodingKind, Range
from pygls.uris import from_fs_path, to_fs_path

from meganeura.language_server.positions import Positions, positions_of
from meganeura.settings_reports import settings_reports
from meganeura_dsl.check_result import CheckResult
from meganeura_dsl.checker import check
from meganeura_dsl.diagnostics.report import Report
from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.elaborate.scope.linker import LinkedModule, Loader
from meganeura_dsl.program import loader_beside
from meganeura_dsl.resources import standard_models
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.parser.parser import outline, parse_declaration


@dataclass(frozen=True)
class Analysis:
    """A text that was checked, and what was found."""

    uri: str
    source: Source
    result: CheckResult
    reports: tuple[Report, ...]
    """All problems, those of settings included."""
    loader: Loader
    """Finds what is imported: among the open documents, beside this one, or in the library."""
    encoding: str = PositionEncodingKind.Utf16
    version: int | None = None

    @property
    def module(self) -> LinkedModule:
        """The document with its imports."""
        return self.result.program.module

    @property
    def declarations(self) -> tuple[ast.Declaration, ...]:
        """The declarations that could be parsed, in the order of the text; imports are left out."""
        module = self.module
        found = (*module.own.values(), *module.trains.values(), *module.expectations)
        return tuple(sorted(found, key=lambda each: each.span.start))

    @property
    def imports(self) -> tuple[ast.Import, ...]:
        """The imports of the document, as far as they could be read."""
        parsed = (
            parse_declaration(each)[0] for each in outline(self.source) if each.kind == "from"
        )
        return tuple(each for each in parsed if isinstance(each, ast.Import))

    @property
    def positions(self) -> Positions:
        """The positions of the document."""
        return positions_of(self.source, self.encoding)

    def offset(self, position: Position) -> int:
        """The offset of a position of the document."""
        return self.positions.offset(position)

    def range(self, span: Span) -> Range:
        """The range of a span, of whatever source."""
        return positions_of(span.source, self.encoding).range(span)

    def uri_of(self, source: Source) -> str:
        """The address of a source: the document itself, an imported file, or a standard one."""
        return self.uri if source is self.source else source_uri(source)

    def declaration_at(self, offset: int) -> ast.Declaration | None:
        """The declaration that an offset is in; behind its text, the one above."""
        before = [each for each in self.declarations if each.span.start <= offset]
        return before[-1] if before else None


def source_uri(source: Source) -> str:
    """The address of a file that was imported; one of the standard library has a relative name."""
    path = Path(source.name)
    path = path if path.is_absolute() else standard_models() / path
    return from_fs_path(str(path)) or ""


def path_of(uri: str) -> Path:
    """The path of a document; one that was never saved is `untitled.mgn` of no folder."""
    found = to_fs_path(uri) if uri.startswith("file:") else None
    return Path(found) if found else Path("/untitled/untitled.mgn")


def analyse(
    uri: str,
    text: str,
    texts: Mapping[Path, str],
    before_each: Callable[[], None] = lambda: None,
    encoding: str = PositionEncodingKind.Utf16,
    version: int | None = None,
) -> Analysis:
    """Check a document; `texts` are the open ones, which imports find before those on disk.

    `before_each` is called before each declaration; what it raises ends the check.
    """
    path = path_of(uri)
    source = Source(str(path), text)
    loader = loader_beside(path, texts)
    result = check(source, loader, before_each)
    reports = (*result.reports, *settings_reports(result))
    return Analysis(uri, source, result, reports, loader, encoding, version)
