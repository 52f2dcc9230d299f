"""Spells the line with which each declaration and statement begins."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import assert_never

from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.formatter.expressions import Part, Phrase
from meganeura_dsl.syntax.formatter.line_breaking import HEADER_INDENT, Mark, fits

_BEFORE_RESULTS, _BEFORE_BODY = -2, -1
"""Ranks of the breaks of a header, which come before all others."""


def is_formula(node: ast.Block | ast.Optimizer) -> bool:
    """True if the body of a block is written as `= expression`."""
    match node.body:
        case (ast.Return(values=(value,)) as only,):
            return only.span.start == value.span.start
        case _:
            return False


def declaration(node: ast.Declaration, width: int) -> Phrase:
    """The first line of a declaration; the name of a model is filled up to a width."""
    phrase = Phrase()
    match node:
        case ast.Import():
            phrase.write(f"from {'.'.join(node.module)} import ")
            phrase.listed(node.names, phrase.expression)
        case ast.Def():
            start = phrase.mark()
            phrase.write(f"def {node.name.text}")
            phrase.bracketed("()", node.parameters, phrase.parameter)
            last = (node.name, *node.parameters)[-1].span
            _formula(phrase, start, last, node.body)
        case ast.Block() | ast.Optimizer():
            _block(phrase, node)
        case ast.Model():
            phrase.write(f"model {node.name.text:<{width}} = ")
            _labelled(phrase, node.call)
        case ast.Train():
            start = phrase.mark()
            phrase.write(f"train {node.name.text}")
            is_stacked = _entries(phrase, node.inputs, Phrase.input)
            last = (node.name, *node.inputs)[-1].span
            _where(phrase, start, last, node.where, is_stacked=is_stacked)
            phrase.write(":")
        case ast.ExpectHas() | ast.ExpectHolds() | ast.ExpectMaps():
            _expect(phrase, node)
        case _:
            assert_never(node)
    return phrase


def _expect(phrase: Phrase, node: ast.Expect) -> None:
    start = phrase.mark()
    phrase.write("expect ")
    phrase.layer(node.call)
    match node:
        case ast.ExpectHas():
            phrase.write(" has ")
            phrase.listed(node.counts, phrase.count)
        case ast.ExpectHolds():
            phrase.write(" holds ")
            phrase.listed(node.tensors, phrase.held)
        case ast.ExpectMaps():
            phrase.write(" maps ")
            phrase.listed(node.inputs, phrase.type)
            phrase.write(" -> ")
            phrase.listed(node.results, phrase.result)
            _where(phrase, start, node.results[-1].span, node.where)
        case _:
            assert_never(node)


def _block(phrase: Phrase, node: ast.Block | ast.Optimizer) -> None:
    start = phrase.mark()
    word = "block" if isinstance(node, ast.Block) else "optimizer"
    phrase.write(f"{word} {node.name.text}")
    is_stacked = _entries(phrase, node.parameters, Phrase.parameter, behind=len("("))
    if node.inputs:
        is_stacked = _entries(phrase, node.inputs, Phrase.input)
    else:
        phrase.write("()")
    last = (node.name, *node.parameters, *node.inputs)[-1].span
    if node.results:
        _pause(phrase, start, last, node.results[0].span, is_stacked=is_stacked)
        phrase.write("-> ")
        phrase.listed(node.results, phrase.result)
        last, is_stacked = node.results[-1].span, False
    if node.where:
        _where(phrase, start, last, node.where, is_stacked=is_stacked)
        last, is_stacked = node.where[-1].span, False
    match node.body:
        case (ast.Return(values=(value,)),) if is_formula(node):
            _formula(phrase, start, last, value, is_stacked=is_stacked)
        case _:
            phrase.write(":")


def _entries(
    phrase: Phrase, parts: Sequence[Part], spell: Callable[[Phrase, Part], None], behind: int = 0
) -> bool:
    """The entries of a header in brackets, behind which so many columns are needed.

    Returns whether each has its own line: they do where they do not fit on one or have comments
    between them, and not because they were written on several.
    """
    flat = Phrase()
    flat.bracketed("()", parts, lambda part: spell(flat, part), is_one_line=True)
    gaps = [a.span.source.text[a.span.end : b.span.start] for a, b in pairwise(parts)]
    has_comments = any("#" in gap for gap in gaps)
    is_long = not fits(phrase.width + flat.width + behind)
    if parts and (has_comments or flat.is_broken or is_long):
        phrase.stacked("()", parts, lambda part: spell(phrase, part))
        return True
    phrase.items += flat.items
    return False


def _pause(
    phrase: Phrase,
    start: Mark,
    last: Span,
    following: Span,
    rank: int = _BEFORE_RESULTS,
    *,
    is_stacked: bool,
) -> None:
    """Allow a break between two parts of a header, but not behind the bracket of a stack."""
    if is_stacked:
        phrase.write(" ")
    else:
        phrase.pause(start, last, following, rank, shift=HEADER_INDENT)


def _where(
    phrase: Phrase,
    start: Mark,
    last: Span,
    facts: tuple[ast.Expression, ...],
    *,
    is_stacked: bool = False,
) -> None:
    if facts:
        _pause(phrase, start, last, facts[0].span, is_stacked=is_stacked)
        phrase.write("where ")
        phrase.listed(facts, phrase.condition)


def _formula(
    phrase: Phrase, start: Mark, last: Span, value: ast.Expression, *, is_stacked: bool = False
) -> None:
    _pause(phrase, start, last, value.span, _BEFORE_BODY, is_stacked=is_stacked)
    phrase.write("= ")
    phrase.expression(value)


def _labelled(phrase: Phrase, call: ast.Call) -> None:
    if call.label is not None:
        phrase.path(call.label)
        phrase.write(": ")
    phrase.call(call)


def statement(node: ast.Statement | ast.Setting, width: int = 0) -> Phrase:
    """The first line of a statement; the name of a setting is filled up to a width."""
    phrase = Phrase()
    match node:
        case ast.Bind():
            phrase.write(", ".join(target.text for target in node.targets))
            _equals(phrase, node.value)
        case ast.If():
            phrase.write("if ")
            phrase.condition(node.condition)
            phrase.write(":")
        case ast.Part():
            _part(phrase, node)
        case ast.For() | ast.Scan():
            _iterations(phrase, node)
        case ast.Return():
            phrase.write("return ")
            phrase.listed(node.values, phrase.expression)
        case ast.Declare():
            _declare(phrase, node)
        case ast.Layer():
            _layer(phrase, node)
        case ast.Update() | ast.Project():
            _update(phrase, node)
        case ast.Minimize():
            _minimize(phrase, node)
        case ast.Metric():
            phrase.write(f"metric {node.name.text}")
            _equals(phrase, node.value)
        case ast.Show():
            phrase.write(f"show {node.name.text}")
            _equals(phrase, node.value)
        case ast.Run():
            phrase.write("run:")
        case ast.Setting():
            phrase.write(f"{setting_name(node):<{width}}")
            _equals(phrase, node.value)
        case _:
            assert_never(node)
    return phrase


def _part(phrase: Phrase, node: ast.Part) -> None:
    phrase.write(node.target.text)
    phrase.bracketed("[]", node.entries, phrase.entry)
    _equals(phrase, node.value)


def _update(phrase: Phrase, node: ast.Update | ast.Project) -> None:
    phrase.write("update " if isinstance(node, ast.Update) else "project ")
    phrase.path(node.path)
    if isinstance(node, ast.Update) and node.entries:
        phrase.bracketed("[]", node.entries, phrase.entry)
    _equals(phrase, node.value)


def setting_name(node: ast.Setting) -> str:
    """Returns the text before the `=`: the name, and the paths of a setting for some."""
    return node.name.text if node.glob is None else f'{node.name.text}["{node.glob}"]'


def _layer(phrase: Phrase, node: ast.Layer) -> None:
    phrase.write("layer ")
    _labelled(phrase, node.call)
    if node.source is not None:
        phrase.write(" = ")
        phrase.path(node.source)


def _declare(phrase: Phrase, node: ast.Declare) -> None:
    phrase.write(f"{node.kind} ")
    phrase.path(node.path)
    phrase.write(": ")
    phrase.type(node.type)
    _equals(phrase, node.initial)


def _iterations(phrase: Phrase, node: ast.For | ast.Scan) -> None:
    word = {ast.For: "for", ast.Scan: "scan", ast.Repeat: "repeat"}[type(node)]
    phrase.write(f"{word} {node.variable.text} in ")
    phrase.condition(node.start)
    phrase.write("..")
    phrase.condition(node.stop)
    if isinstance(node, ast.Scan) and node.condition is not None:
        phrase.write(" while ")
        phrase.condition(node.condition)
    phrase.write(":")


def _minimize(phrase: Phrase, node: ast.Minimize) -> None:
    phrase.write("minimize ")
    phrase.expression(node.value)
    if node.over:
        phrase.write(" over ")
        phrase.listed(node.over, phrase.path)


def _equals(phrase: Phrase, value: ast.Expression | None) -> None:
    if value is not None:
        phrase.write(" = ")
        phrase.expression(value)
