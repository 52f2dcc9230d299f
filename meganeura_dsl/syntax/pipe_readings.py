"""Pipes that a reader may take in two ways, because what stands left of them has no brackets.

The grammar lets a pipe bind weaker than any operator. Products are read so by everybody; of a sum,
a sign, a comparison or a condition, others would pipe the last operand alone. The tree keeps no
brackets, but the span of what holds them does.
"""

import re
from collections.abc import Iterator

from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.problems.token_problems import AmbiguousPipe
from meganeura_dsl.syntax.walk import walk

_PRODUCTS = ("*", "/", "//", "%", "@")
_SPACE = re.compile(r"(?:\s|#[^\n]*)*")


def needs_brackets(source: ast.Expression) -> bool:
    """True if what is piped has to stand in brackets: no name, call or product, or a sign first."""
    if isinstance(source, ast.Binary) and source.operator not in (*_PRODUCTS, "**"):
        return True
    while isinstance(source, ast.Binary) and source.operator in _PRODUCTS:
        source = source.left
    return isinstance(source, ast.Unary)


def ambiguous_pipes(tree: ast.Node) -> tuple[AmbiguousPipe, ...]:
    """Returns the pipes that lack brackets on their left, in the order of the text."""
    pipes = [node for node in walk(tree) if isinstance(node, ast.Pipe)]
    continued = {id(pipe.source) for pipe in pipes if _begin_together(pipe, pipe.source)}
    found = [
        problem
        for pipe in pipes
        if id(pipe) not in continued and (problem := _problem(pipe)) is not None
    ]
    return tuple(sorted(found, key=lambda each: each.span.start))


def _problem(chain: ast.Pipe) -> AmbiguousPipe | None:
    source = chain.source
    while isinstance(source, ast.Pipe) and _begin_together(chain, source):
        source = source.source
    operators = list(_operators(source)) if _begin_together(chain, source) else []
    if not operators:
        return None
    last = operators[-1]
    text, end = source.span.source.text, chain.span.end
    space = _SPACE.match(text, last.end)
    start = last.end if space is None else space.end()
    whole, part = source.span, Span(source.span.source, start, end)
    return AmbiguousPipe(last, whole, part)


def _operators(source: ast.Expression) -> Iterator[Span]:
    """The operators without brackets from which on all to the right could be piped alone."""
    whole = source.span
    while whole.end == source.span.end:
        first = source
        while isinstance(source, ast.Binary) and source.operator in _PRODUCTS:
            if source.left.span.start != first.span.start:
                return
            source = source.left
        if isinstance(source, ast.Unary):
            sign = Span(whole.source, source.span.start, source.span.start + len(source.operator))
            yield sign
            if source is not first:
                return
            source = source.operand
        elif isinstance(source, ast.Binary) and source.operator != "**":
            yield source.operator_span
            source = source.right
        else:
            return


def _begin_together(one: ast.Node, other: ast.Node) -> bool:
    """True if a node begins with another: there is no bracket before it."""
    return one.span.start == other.span.start
