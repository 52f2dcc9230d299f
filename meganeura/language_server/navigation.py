"""Navigation: definitions, references, the outline of a document, folding ranges."""

from collections.abc import Iterator

from lsprotocol.types import (
    DocumentSymbol,
    FoldingRange,
    FoldingRangeKind,
    Location,
    Position,
    Range,
    SymbolKind,
)

from meganeura.language_server.analysis import Analysis
from meganeura.language_server.mentions import Role, declared, mention_at, mentions, same
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.parser.parser import Outline, outline
from meganeura_dsl.syntax.walk import walk

KINDS = {
    "def": SymbolKind.Function,
    "block": SymbolKind.Class,
    "optimizer": SymbolKind.Class,
    "model": SymbolKind.Constant,
    "train": SymbolKind.Event,
}


def definition(analysis: Analysis, position: Position) -> Location | None:
    """Returns the declaration of the name at a position, in any file; None for a built-in."""
    mention = mention_at(analysis, analysis.offset(position))
    if mention is None:
        return None
    found = declared(analysis, mention)
    if found is None:
        here = sorted(same(analysis, mention), key=lambda each: each.span.start)
        defining = [each for each in here if each.defines] or here
        is_local = mention.role not in (Role.GLOBAL, Role.ARGUMENT, Role.SETTING)
        return Location(analysis.uri, analysis.range(defining[0].span)) if is_local else None
    _, declaration = found
    span = declaration.name.span
    if mention.role is Role.ARGUMENT:
        inside = mentions(declaration)
        names = (each.span for each in inside if each.defines and each.name == mention.name)
        span = next(names, span)
    return Location(analysis.uri_of(span.source), analysis.range(span))


def references(analysis: Analysis, position: Position) -> list[Location]:
    """All mentions in the document of what the name at a position means."""
    mention = mention_at(analysis, analysis.offset(position))
    found = [] if mention is None else same(analysis, mention)
    spans = sorted((each.span for each in found), key=lambda span: span.start)
    return [Location(analysis.uri, analysis.range(span)) for span in spans]


def document_symbols(analysis: Analysis) -> list[DocumentSymbol]:
    """All named declarations, those included that cannot be read."""
    return [
        DocumentSymbol(
            each.name, KINDS[each.kind], analysis.range(_text(each)), _name(each, analysis)
        )
        for each in outline(analysis.source)
        if each.name and each.kind in KINDS
    ]


def _name(of: Outline, analysis: Analysis) -> Range:
    source = of.span.source
    at = source.text.index(of.name, _head(of) + len(of.kind))
    return analysis.range(Span(source, at, at + len(of.name)))


def _head(of: Outline) -> int:
    """Returns the offset of the keyword: comments may precede that of the first declaration."""
    at = of.span.start
    for line in of.span.text.splitlines(keepends=True):
        if line.startswith(of.kind):
            return at
        at += len(line)
    return of.span.start


def _text(of: Outline) -> Span:
    """A declaration without the comments and empty lines around it."""
    start = _head(of)
    end = start
    at = start
    for line in of.span.source.text[start : of.span.end].splitlines(keepends=True):
        if line.strip() and not line.startswith("#"):
            end = at + len(line.rstrip())
        at += len(line)
    return Span(of.span.source, start, end)


def folding_ranges(analysis: Analysis) -> list[FoldingRange]:
    """Declarations, statements with a body, and comments of several lines."""
    spans = [_text(each) for each in outline(analysis.source)]
    for declaration in analysis.declarations:
        spans += [
            Span(node.span.source, node.span.start, _end(node.span))
            for node in walk(declaration)
            if isinstance(node, ast.If | ast.For | ast.Scan | ast.Run)
        ]
    ranges = {(each.start.line, each.end.line) for each in map(analysis.range, spans)}
    folds = [FoldingRange(start, end) for start, end in sorted(ranges) if end > start]
    return [*folds, *_comments(analysis.source.text)]


def _end(span: Span) -> int:
    return span.start + len(span.text.rstrip())


def _comments(text: str) -> Iterator[FoldingRange]:
    lines = [*text.split("\n"), ""]
    start: int | None = None
    for number, line in enumerate(lines):
        if line.lstrip().startswith("#"):
            start = number if start is None else start
        elif start is not None:
            if number - start > 1:
                yield FoldingRange(start, number - 1, kind=FoldingRangeKind.Comment)
            start = None
