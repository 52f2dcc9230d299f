"""Semantic tokens: what each word is, beside keywords, numbers, texts and comments."""

import re

from lsprotocol.types import SemanticTokens, SemanticTokensLegend, SemanticTokenTypes

from meganeura.language_server.analysis import Analysis
from meganeura.language_server.mentions import Mention, Role, all_mentions, declared
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.parser.compiled_grammar import KEYWORDS

LEGEND = SemanticTokensLegend(
    [
        SemanticTokenTypes.Comment,
        SemanticTokenTypes.String,
        SemanticTokenTypes.Number,
        SemanticTokenTypes.Keyword,
        SemanticTokenTypes.Function,
        SemanticTokenTypes.Class,
        SemanticTokenTypes.Parameter,
        SemanticTokenTypes.Variable,
        SemanticTokenTypes.Property,
        SemanticTokenTypes.Namespace,
    ],
    [],
)
_LEXICAL = re.compile(
    r'(?P<comment>#[^\r\n]*)|(?P<string>"[^"\r\n]*")|(?P<number>\b\d[\d_]*(?:\.\d+)?(?:e[-+]?\d+)?\b)'
    r"|(?P<word>[A-Za-z_]\w*)"
)
_ROLES = {
    Role.PARAMETER: SemanticTokenTypes.Parameter,
    Role.LOCAL: SemanticTokenTypes.Variable,
    Role.LABEL: SemanticTokenTypes.Namespace,
    Role.ARGUMENT: SemanticTokenTypes.Parameter,
    Role.SETTING: SemanticTokenTypes.Property,
    Role.OUTPUT: SemanticTokenTypes.Property,
}


def semantic_tokens(analysis: Analysis) -> SemanticTokens:
    """The tokens of a document as the protocol packs them: five numbers each, relative."""
    named = {each.span.start: (each.span, _type(analysis, each)) for each in all_mentions(analysis)}
    text, source = analysis.source.text, analysis.source
    found: list[tuple[Span, SemanticTokenTypes]] = []
    for match in _LEXICAL.finditer(text):
        kind, start = str(match.lastgroup), match.start()
        if kind != "word":
            found.append((Span(source, start, match.end()), SemanticTokenTypes(kind)))
        elif start in named:
            found.append(named[start])
        elif match[0] in KEYWORDS:
            found.append((Span(source, start, match.end()), SemanticTokenTypes.Keyword))
    return SemanticTokens(_packed(analysis, found))


def _type(analysis: Analysis, mention: Mention) -> SemanticTokenTypes:
    if mention.role is not Role.GLOBAL:
        return _ROLES[mention.role]
    found = declared(analysis, mention)
    is_block = found is not None and isinstance(found[1], ast.Block | ast.Optimizer | ast.Model)
    return SemanticTokenTypes.Class if is_block else SemanticTokenTypes.Function


def _packed(analysis: Analysis, found: list[tuple[Span, SemanticTokenTypes]]) -> list[int]:
    types = list(LEGEND.token_types)
    data: list[int] = []
    line = column = 0
    for span, type_ in found:
        start, end = analysis.range(span).start, analysis.range(span).end
        offset = start.character - (column if start.line == line else 0)
        length = end.character - start.character
        data += [start.line - line, offset, length, types.index(type_), 0]
        line, column = start.line, start.character
    return data
