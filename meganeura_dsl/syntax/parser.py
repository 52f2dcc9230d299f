"""Text to syntax tree, one declaration at a time.

A file is split at the keywords of its left margin and every declaration is parsed alone: a broken
one costs one report and none of its neighbours, and of a library only what is used is parsed.
"""

import re
from dataclasses import dataclass
from typing import cast

from meganeura_dsl.diagnostics import Problem, ProblemError, Sink
from meganeura_dsl.source import Source, Span
from meganeura_dsl.syntax import ast, machine, problems
from meganeura_dsl.syntax.tokens import scan

LARGEST = 1 << 20
"""Characters of the longest text that is parsed."""

_HEAD = re.compile(
    r"^(?P<kind>from|def|block|model|train|expect)\b[ \t]*(?P<name>[A-Za-z_][A-Za-z0-9_]*)?", re.M
)
_SOMETHING = re.compile(r"^[ \t]*[^\s#]", re.M)


@dataclass(frozen=True)
class Outline:
    """A declaration that was found but not parsed: its keyword, the name after it, its text."""

    kind: str
    name: str
    span: Span


def outline(source: Source) -> tuple[Outline, ...]:
    """Everything that a text declares, found by the keywords of its left margin.

    Text before the first keyword is an outline of no kind, if there is more to it than comments.
    """
    heads = list(_HEAD.finditer(source.text))
    starts = [head.start() for head in heads]
    found: list[Outline] = []
    first = starts[0] if starts else len(source.text)
    if _SOMETHING.search(source.text, 0, first):
        found.append(Outline("", "", Span(source, 0, first)))
    for head, end in zip(heads, [*starts[1:], len(source.text)], strict=True):
        found.append(Outline(head["kind"], head["name"] or "", Span(source, head.start(), end)))
    return tuple(found)


def parse(source: Source, sink: Sink) -> ast.Module:
    """The declarations of a text that are well formed; what is wrong with the others goes to `sink`."""
    if len(source.text) > LARGEST:
        sink.add(problems.FileTooLarge(Span(source, 0, 0)))
        return ast.Module(source, ())
    found = outline(source)
    if not found:
        sink.add(problems.EmptyFile(Span(source, 0, 0)))
    declarations: list[ast.Declaration] = []
    for each in found:
        declaration, problem = parse_declaration(each)
        if declaration is not None:
            declarations.append(declaration)
        if problem is not None:
            sink.add(problem)
    return ast.Module(source, tuple(declarations))


def parse_declaration(found: Outline) -> tuple[ast.Declaration | None, Problem | None]:
    """One declaration, and what is wrong with it or with the text that follows it."""
    span = found.span
    try:
        tokens = scan(span.source, span.start, span.end)
        value, understood = machine.run(span.source, tokens)
    except ProblemError as error:
        return None, error.problem
    problem = None
    if understood < len(tokens):
        token = tokens[understood]
        problem = problems.UnexpectedToken(Span(span.source, token.start, token.end))
    return cast("ast.Declaration | None", value), problem


