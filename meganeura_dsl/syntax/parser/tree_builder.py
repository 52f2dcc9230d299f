"""Builds the syntax tree: one function per rule of the grammar, given the rule's span and parts.

`ACTIONS` names them all; a part that the rule leaves out is None. What the grammar cannot refuse
and only a whole phrase shows (a name given twice, say) is refused here.
"""

from collections.abc import Callable, Iterable
from math import isfinite

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.parser.scanner import Token
from meganeura_dsl.syntax.problems import line_problems, text_problems
from meganeura_dsl.syntax.problems import token_problems as problems

LONGEST_INTEGER = 30
"""Digits of the longest integer: enough for any count, short enough for any arithmetic."""

_FOREIGN_VALUES = {
    "True": "write `true`",
    "False": "write `false`",
    "None": "leave out what is not there",
}


def _place(span: Span, token: Token) -> Span:
    return Span(span.source, token.start, token.end)


# --- declarations --------------------------------------------------------------------------------


def _import(span: Span, module: tuple[str, ...], names: tuple[ast.Name, ...]) -> ast.Import:
    return ast.Import(span, module, names)


def _definition(
    span: Span, name: ast.Name, parameters: tuple[ast.Parameter, ...], body: ast.Expression
) -> ast.Def:
    return ast.Def(span, name, parameters, body)


def _block(
    span: Span,
    name: ast.Name,
    parameters: tuple[ast.Parameter, ...],
    inputs: tuple[ast.Input, ...],
    results: tuple[ast.Type, ...] | None,
    where: tuple[ast.Expression, ...] | None,
    body: tuple[ast.Statement, ...],
) -> ast.Block:
    _refuse_repetition([*parameters, *inputs])
    _refuse_outsiders(body, (ast.Minimize, ast.Metric, ast.Run), "block")
    return ast.Block(span, name, parameters, inputs, results, where or (), body)


def _model(span: Span, name: ast.Name, call: ast.Call) -> ast.Model:
    return ast.Model(span, name, call)


def _train(
    span: Span,
    name: ast.Name,
    inputs: tuple[ast.Input, ...],
    where: tuple[ast.Expression, ...] | None,
    body: tuple[ast.Statement, ...],
) -> ast.Train:
    _refuse_repetition(inputs)
    _refuse_outsiders(body, (ast.Return,), "train")
    return ast.Train(span, name, inputs, where or (), body)


def _expect_has(span: Span, call: ast.Call, *counts: ast.Count) -> ast.ExpectHas:
    return ast.ExpectHas(span, call, counts)


def _expect_holds(span: Span, call: ast.Call, *tensors: ast.Held) -> ast.ExpectHolds:
    return ast.ExpectHolds(span, call, tensors)


def _expect_maps(
    span: Span,
    call: ast.Call,
    inputs: tuple[ast.Type, ...],
    results: tuple[ast.Type, ...],
    where: tuple[ast.Expression, ...] | None,
) -> ast.ExpectMaps:
    return ast.ExpectMaps(span, call, inputs, results, where or ())


def _held(span: Span, path: ast.Path, type_: ast.Type) -> ast.Held:
    return ast.Held(span, path, type_)


def _count(span: Span, number: Token, unit: Token) -> ast.Count:
    return ast.Count(span, _integer_of(span, number), unit.text)


def _parameter(span: Span, name: Token, default: ast.Expression | None) -> ast.Parameter:
    return ast.Parameter(span, name.text, default)


def _input(span: Span, name: Token, type_: ast.Type) -> ast.Input:
    return ast.Input(span, name.text, type_)


def _feed(span: Span, name: Token, whole: str | None, type_: ast.Type) -> ast.Input:
    return ast.Input(span, name.text, type_, whole is not None)


def _returned(_: Span, value: ast.Expression) -> tuple[ast.Return]:
    return (ast.Return(value.span, (value,)),)


# --- types and paths -----------------------------------------------------------------------------


def _type(span: Span, dtype: str | None, shape: ast.Pattern) -> ast.Type:
    return ast.Type(span, dtype, shape)


def _pattern(span: Span, *entries: ast.Expression | ast.Rest) -> ast.Pattern:
    return ast.Pattern(span, entries)


def _rest(span: Span, name: Token) -> ast.Rest:
    return ast.Rest(span, name.text)


def _path(span: Span, *parts: Token | ast.Expression) -> ast.Path:
    return ast.Path(span, tuple(part.text if isinstance(part, Token) else part for part in parts))


# --- statements ----------------------------------------------------------------------------------


def _bind(span: Span, targets: tuple[ast.Name, ...], value: ast.Expression) -> ast.Bind:
    return ast.Bind(span, targets, value)


def _if(
    span: Span,
    condition: ast.Expression,
    then: tuple[ast.Statement, ...],
    otherwise: tuple[ast.Statement, ...] | None,
) -> ast.If:
    return ast.If(span, condition, then, otherwise or ())


def _for(
    span: Span,
    variable: ast.Name,
    start: ast.Expression,
    stop: ast.Expression,
    body: tuple[ast.Statement, ...],
) -> ast.For:
    return ast.For(span, variable, start, stop, body)


def _return(span: Span, *values: ast.Expression) -> ast.Return:
    return ast.Return(span, values)


def _declare(
    span: Span, kind: str, path: ast.Path, type_: ast.Type, initial: ast.Expression | None
) -> ast.Declare:
    return ast.Declare(span, kind, path, type_, initial)


def _update(span: Span, path: ast.Path, value: ast.Expression) -> ast.Update:
    return ast.Update(span, path, value)


def _minimize(span: Span, value: ast.Expression) -> ast.Minimize:
    return ast.Minimize(span, value)


def _metric(span: Span, name: ast.Name, value: ast.Expression) -> ast.Metric:
    return ast.Metric(span, name, value)


def _run(span: Span, *settings: ast.Setting) -> ast.Run:
    return ast.Run(span, settings)


def _setting(span: Span, name: ast.Name, value: ast.Expression) -> ast.Setting:
    return ast.Setting(span, name, value)


# --- expressions ---------------------------------------------------------------------------------


def _name(span: Span, word: Token) -> ast.Name:
    if word.text in _FOREIGN_VALUES:
        raise ProblemError(problems.ForeignSpelling(span, _FOREIGN_VALUES[word.text]))
    return ast.Name(span, word.text)


def _integer(span: Span, number: Token) -> ast.Integer:
    return ast.Integer(span, _integer_of(span, number))


def _integer_of(span: Span, number: Token) -> int:
    if len(number.text) > LONGEST_INTEGER:
        raise ProblemError(text_problems.MalformedNumber(_place(span, number), "too many digits"))
    return int(number.text)


def _real(span: Span, number: Token) -> ast.Real:
    value = float(number.text)
    if not isfinite(value):
        raise ProblemError(text_problems.MalformedNumber(span, "too large for 64 bits"))
    return ast.Real(span, value)


def _text(span: Span, text: Token) -> ast.Text:
    return ast.Text(span, text.text[1:-1])


def _true(span: Span) -> ast.Boolean:
    return ast.Boolean(span, value=True)


def _false(span: Span) -> ast.Boolean:
    return ast.Boolean(span, value=False)


def _list_of(span: Span, pattern: ast.Pattern) -> ast.ListOf:
    items: list[ast.Expression] = []
    for entry in pattern.entries:
        if isinstance(entry, ast.Rest):
            raise ProblemError(problems.RestOutsideShape(entry.span))
        items.append(entry)
    return ast.ListOf(span, tuple(items))


def _unary(span: Span, operator: Token, operand: ast.Expression) -> ast.Unary:
    return ast.Unary(span, operator.text, operand)


def _binary(span: Span, left: ast.Expression, operator: Token, right: ast.Expression) -> ast.Binary:
    return ast.Binary(span, operator.text, left, right, _place(span, operator))


def _conditional(
    span: Span, then: ast.Expression, condition: ast.Expression, otherwise: ast.Expression
) -> ast.Conditional:
    return ast.Conditional(span, condition, then, otherwise)


def _attribute(span: Span, base: ast.Expression, name: Token) -> ast.Attribute:
    return ast.Attribute(span, base, name.text)


def _subscript(
    span: Span, base: ast.Expression, *entries: ast.Expression | ast.Range
) -> ast.Subscript:
    return ast.Subscript(span, base, entries)


def _range(span: Span, start: ast.Expression | None, stop: ast.Expression | None) -> ast.Range:
    return ast.Range(span, start, stop)


def _pipe(span: Span, source: ast.Expression, layer: ast.Call) -> ast.Pipe:
    return ast.Pipe(span, source, layer)


# --- calls ---------------------------------------------------------------------------------------


def _call(
    span: Span,
    callee: Token,
    arguments: tuple[ast.Argument, ...],
    tensors: tuple[ast.Expression, ...] | None,
) -> ast.Call:
    return ast.Call(span, None, callee.text, _place(span, callee), arguments, tensors or ())


def _applied(
    span: Span,
    path: ast.Path,
    arguments: tuple[ast.Argument, ...] | None,
    tensors: tuple[ast.Expression, ...] | None,
) -> ast.Call:
    words = [part for part in path.parts if isinstance(part, str)]
    if len(words) < len(path.parts):
        raise ProblemError(problems.LabelWithoutLayer(path.span))
    return ast.Call(span, None, ".".join(words), path.span, arguments or (), tensors or ())


def _labelled(span: Span, label: ast.Path, call: ast.Call) -> ast.Call:
    return ast.Call(span, label, call.callee, call.callee_span, call.arguments, call.inputs)


def _arguments(_: Span, *arguments: ast.Argument) -> tuple[ast.Argument, ...]:
    named: dict[str, ast.Argument] = {}
    for argument in arguments:
        if argument.name is None:
            if named:
                raise ProblemError(problems.PositionalAfterNamed(argument.span))
        elif argument.name in named:
            first = named[argument.name].span
            raise ProblemError(problems.DuplicateName(argument.span, first, argument.name))
        else:
            named[argument.name] = argument
    return arguments


def _argument(
    span: Span, name: Token | None, value: ast.Expression | ast.Rearrangement
) -> ast.Argument:
    return ast.Argument(span, None if name is None else name.text, value)


def _rearrangement(span: Span, source: ast.Pattern, target: ast.Pattern) -> ast.Rearrangement:
    return ast.Rearrangement(span, source, target)


# --- parts that are no nodes, and what they may not hold -----------------------------------------


def _sequence(_: Span, *items: object) -> tuple[object, ...]:
    return items


def _words(_: Span, *words: Token) -> tuple[str, ...]:
    return tuple(word.text for word in words)


def _phrase(_: Span, *words: Token) -> str:
    return " ".join(word.text for word in words)


def _refuse_repetition(binders: Iterable[ast.Parameter | ast.Input]) -> None:
    seen: dict[str, ast.Parameter | ast.Input] = {}
    for binder in binders:
        if binder.name in seen:
            first = seen[binder.name].span
            raise ProblemError(problems.DuplicateName(binder.span, first, binder.name))
        seen[binder.name] = binder


def _refuse_outsiders(
    body: tuple[ast.Statement, ...], outsiders: tuple[type[ast.Statement], ...], home: str
) -> None:
    for statement in body:
        if isinstance(statement, outsiders):
            raise ProblemError(line_problems.MisplacedStatement(statement.span, home))
        if isinstance(statement, ast.If):
            _refuse_outsiders((*statement.then, *statement.otherwise), outsiders, home)
        elif isinstance(statement, ast.For):
            _refuse_outsiders(statement.body, outsiders, home)


ACTIONS: dict[str, Callable[..., object]] = {
    "import": _import,
    "dotted": _words,
    "names": _sequence,
    "name": _name,
    "definition": _definition,
    "block": _block,
    "returned": _returned,
    "model": _model,
    "train": _train,
    "expect_has": _expect_has,
    "expect_holds": _expect_holds,
    "expect_maps": _expect_maps,
    "held": _held,
    "count": _count,
    "parameters": _sequence,
    "parameter": _parameter,
    "inputs": _sequence,
    "input": _input,
    "feeds": _sequence,
    "feed": _feed,
    "whole": _phrase,
    "where": _sequence,
    "types": _sequence,
    "type": _type,
    "dtype": _phrase,
    "pattern": _pattern,
    "rest": _rest,
    "suite": _sequence,
    "bind": _bind,
    "if": _if,
    "else_if": _sequence,
    "for": _for,
    "return": _return,
    "declare": _declare,
    "kind": _phrase,
    "update": _update,
    "minimize": _minimize,
    "metric": _metric,
    "run": _run,
    "setting": _setting,
    "conditional": _conditional,
    "pipe": _pipe,
    "binary": _binary,
    "unary": _unary,
    "integer": _integer,
    "real": _real,
    "text": _text,
    "true": _true,
    "false": _false,
    "list_of": _list_of,
    "call": _call,
    "attribute": _attribute,
    "subscript": _subscript,
    "range": _range,
    "labelled": _labelled,
    "applied": _applied,
    "here": _path,
    "path": _path,
    "arguments": _arguments,
    "argument": _argument,
    "rearrangement": _rearrangement,
    "tensors": _sequence,
}
"""Every rule of the grammar that has a value of its own, and what builds that value."""
