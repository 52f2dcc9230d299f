"""Sizes that have a name in a pattern alone, such as `hd` in `[n, heads, s, hd]`."""

from collections.abc import Iterator

from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.walk import walk


def size_in_pattern(name: ast.Name, declaration: ast.Node | None) -> tuple[Span, str] | None:
    """A pattern above a name that has an axis of this name, and the axis's size in code.

    The code is `size(q, 3)` where the pattern gives the value that is bound to `q`, and else empty.
    The last such pattern is given, and None where there is none.
    """
    if not isinstance(declaration, ast.Block | ast.Train):
        return None
    found = list(_axes_called(name, declaration))
    bound = [each for each in found if each[1]]
    return (bound or found or [None])[-1]


def _axes_called(name: ast.Name, declaration: ast.Block | ast.Train) -> Iterator[tuple[Span, str]]:
    statements = [each for statement in declaration.body for each in walk(statement)]
    for statement in statements:
        if not isinstance(statement, ast.Bind | ast.Return):
            continue
        for pattern in walk(statement):
            if not isinstance(pattern, ast.Rearrangement) or pattern.span.end > name.span.start:
                continue
            axes = [entry.span.text for entry in pattern.target.entries]
            if name.text not in axes:
                continue
            is_bound = isinstance(statement, ast.Bind) and _gives(statement, pattern)
            value = statement.targets[0].text if isinstance(statement, ast.Bind) else ""
            code = f"size({value}, {axes.index(name.text)})" if is_bound else ""
            yield pattern.span, code


def _gives(bind: ast.Bind, pattern: ast.Rearrangement) -> bool:
    """True if a pattern gives the one value that a statement binds: nothing comes behind it."""
    return len(bind.targets) == 1 and pattern.span.end >= bind.span.end - 1
