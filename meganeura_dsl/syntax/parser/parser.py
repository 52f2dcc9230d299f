"""Text to syntax tree, one declaration at a time.

A file is split at the keywords of its left margin and every declaration is parsed alone: a broken
one costs one report and none of its neighbours, and of a library only what is used is parsed.
"""

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

from meganeura_dsl.diagnostics.problem import Problem, ProblemError, Sink
from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.parser.lark_parser import run
from meganeura_dsl.syntax.parser.scanner import scan
from meganeura_dsl.syntax.parser.syntax_errors import diagnose
from meganeura_dsl.syntax.parser.unexpected_token import Failure
from meganeura_dsl.syntax.pipe_readings import ambiguous_pipes
from meganeura_dsl.syntax.problems import text_problems

LARGEST = 1 << 20
"""Characters of the longest text that is parsed."""
LANGUAGE = 1
"""The version of the language; docs/stability.md says what it promises."""

_VERSION = re.compile(r"#[ \t]*mgn[ \t]+([0-9]+)[ \t]*(?:\r?\n|\Z|#)")
_HEAD = re.compile(
    r"^(?:(?P<kind>def|block|model|train|optimizer(?=[ \t]+[A-Za-z_]))\b"
    r"[ \t]*(?P<name>[A-Za-z_][A-Za-z0-9_]*)?"
    r"|(?P<nameless>from|expect)\b)",
    re.MULTILINE,
)
_SOMETHING = re.compile(r"^[ \t]*[^\s#]", re.MULTILINE)


@dataclass(frozen=True)
class Outline:
    """A declaration that was found but not parsed: its keyword, what it names, its text."""

    kind: str
    name: str
    span: Span


def outline(source: Source) -> tuple[Outline, ...]:
    """Everything that a text declares, found by the keywords of its left margin.

    An outline's text ends where the next begins. Text before the first keyword belongs to the first
    outline if it is but comments; else it is an outline of no kind.
    """
    heads = list(_HEAD.finditer(source.text))
    starts = [*(head.start() for head in heads), len(source.text)]
    found: list[Outline] = []
    if _SOMETHING.search(source.text, 0, starts[0]):
        found.append(Outline("", "", Span(source, 0, starts[0])))
    else:
        starts[0] = 0
    for head, (start, end) in zip(heads, pairwise(starts), strict=True):
        kind, name = head["kind"] or head["nameless"], head["name"] or ""
        found.append(Outline(kind, name, Span(source, start, end)))
    return tuple(found)


def parse(source: Source, sink: Sink) -> ast.Module:
    """The well-formed declarations of a text; what is wrong with the others goes to `sink`.

    A text of another version of the language is not read.
    """
    if len(source.text) > LARGEST:
        sink.add(text_problems.FileTooLarge(Span(source, 0, 0), LARGEST))
        return ast.Module(source, ())
    stated = _VERSION.match(source.text)
    if stated and stated[1].lstrip("0") != str(LANGUAGE):
        sink.add(text_problems.UnknownLanguageVersion(Span(source, *stated.span(1)), LANGUAGE))
        return ast.Module(source, ())
    found = outline(source)
    if not found:
        sink.add(text_problems.EmptyFile(Span(source, 0, 0)))
    declarations: list[ast.Declaration] = []
    unread: set[str] = set()
    for each in found:
        declaration, problems = parse_declaration(each)
        if declaration is not None:
            declarations.append(declaration)
        elif each.name:
            unread.add(each.name)
        for problem in problems:
            sink.add(problem)
    return ast.Module(source, tuple(declarations), frozenset(unread))


def parse_declaration(found: Outline) -> tuple[ast.Declaration | None, tuple[Problem, ...]]:
    """One declaration, and what is wrong with it or with the text that follows it."""
    source, start, end = found.span.source, found.span.start, found.span.end
    try:
        tokens = scan(source, start, end)
        outcome = run(source, tokens)
    except ProblemError as error:
        return None, (error.problem,)
    declaration = cast("ast.Declaration | None", outcome.value)
    problems: tuple[Problem, ...] = ()
    if declaration is not None and any(token.kind == "PIPE" for token in tokens):
        problems = ambiguous_pipes(declaration)
    read = None if problems else declaration
    if outcome.understood < len(tokens):
        failure = Failure(source, tokens, outcome.understood, outcome.accepts)
        problems = (*problems, diagnose(failure))
    return read, problems
