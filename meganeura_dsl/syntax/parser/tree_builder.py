"""Builds the syntax tree: `ACTIONS` maps each rule of the grammar to what makes its node.

That is the node's class, where the rule's parts are its fields, or a function of the rule's span
and parts. A part that the rule leaves out is None. What the grammar cannot refuse and only a whole
phrase shows (a name given twice, say) is refused here.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import isfinite

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.parser.scanner import Token
from meganeura_dsl.syntax.parser.setting_errors import is_setting
from meganeura_dsl.syntax.problems import line_problems, text_problems, token_problems
from meganeura_dsl.syntax.problems.new_axes import new_axis

Action = Callable[..., object]
"""A function that makes a value of the span of a phrase and the values of its parts."""

LONGEST_INTEGER = 30
"""Digits of the longest integer: enough for any count, short enough for any arithmetic."""

_FOREIGN_VALUES = {
    "True": "write `true`",
    "False": "write `false`",
    "None": "leave out what is not there",
}


_OF_TRAININGS = (ast.Repeat, ast.Minimize, ast.Project, ast.Metric, ast.Show, ast.Run)
"""The statements of `train` blocks alone."""


def _span_of(span: Span, token: Token) -> Span:
    return Span(span.source, token.start, token.end)


# --- declarations --------------------------------------------------------------------------------


def _block(
    span: Span,
    name: ast.Name,
    parameters: tuple[ast.Parameter, ...],
    inputs: tuple[ast.Input, ...],
    results: tuple[ast.Result, ...] | None,
    where: tuple[ast.Expression, ...] | None,
    body: tuple[ast.Statement, ...],
) -> ast.Block:
    _refuse_repetition([*parameters, *inputs])
    _refuse_result_names((*parameters, *inputs, *_declared_in(body)), results or ())
    _refuse_outsiders(body, _OF_TRAININGS, "block")
    return ast.Block(span, name, parameters, inputs, results, where or (), body)


def _optimizer(
    span: Span,
    name: ast.Name,
    parameters: tuple[ast.Parameter, ...],
    inputs: tuple[ast.Input, ...],
    results: tuple[ast.Result, ...] | None,
    where: tuple[ast.Expression, ...] | None,
    body: tuple[ast.Statement, ...],
) -> ast.Optimizer:
    _refuse_repetition([*parameters, *inputs])
    _refuse_result_names((*parameters, *inputs, *_declared_in(body)), results or ())
    _refuse_outsiders(body, _OF_TRAININGS, "optimizer")
    return ast.Optimizer(span, name, parameters, inputs, results, where or (), body)


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


def _expect_maps(
    span: Span,
    call: ast.Call,
    inputs: tuple[ast.Type, ...],
    results: tuple[ast.Result, ...],
    where: tuple[ast.Expression, ...] | None,
) -> ast.ExpectMaps:
    _refuse_result_names((), results)
    return ast.ExpectMaps(span, _named(call), inputs, results, where or ())


def _expect_has(span: Span, call: ast.Call, *counts: ast.Count) -> ast.ExpectHas:
    return ast.ExpectHas(span, _named(call), counts)


def _expect_holds(span: Span, call: ast.Call, *tensors: ast.Held) -> ast.ExpectHolds:
    return ast.ExpectHolds(span, _named(call), tensors)


def _model(span: Span, name: ast.Name, call: ast.Call) -> ast.Model:
    return ast.Model(span, name, _named(call))


def _count(span: Span, number: Token, unit: Token) -> ast.Count:
    return ast.Count(span, _integer_of(span, number), unit.text)


def _parameter(
    span: Span, name: Token, kind: ast.ConfigKind | None, default: ast.Expression | None
) -> ast.Parameter:
    if isinstance(kind, ast.BlockKind) and kind.header is not None:
        named = ast.Name(_span_of(span, name), name.text)
        kind = ast.BlockKind(kind.span, replace(kind.header, name=named))
    return ast.Parameter(span, name.text, kind, default)


def _header(
    span: Span,
    parameters: tuple[ast.Parameter, ...],
    inputs: tuple[ast.Input, ...],
    results: ast.Result | tuple[ast.Result, ...],
) -> ast.Block:
    """The header of a block of no name, which has no body."""
    given = (results,) if isinstance(results, ast.Result) else results
    _refuse_repetition([*parameters, *inputs])
    _refuse_result_names((*parameters, *inputs), given)
    return ast.Block(span, ast.Name(span, ""), parameters, inputs, given, (), ())


def _named_kind(
    span: Span, name: Token, length: ast.Expression | None
) -> ast.NamedKind | ast.BlockKind:
    if name.text == "block" and length is None:
        return ast.BlockKind(span, None)  # before a comma, the word was read as a name
    return ast.NamedKind(span, name.text, length)


def _text_kind(span: Span, *parts: ast.Text | Token) -> ast.TextKind:
    return ast.TextKind(span, tuple(part for part in parts if isinstance(part, ast.Text)))


def _input(span: Span, name: Token, type_: ast.Type, default: ast.Expression | None) -> ast.Input:
    return ast.Input(span, name.text, type_, default=default)


def _feed(span: Span, name: Token, whole: str | None, type_: ast.Type) -> ast.Input:
    return ast.Input(span, name.text, type_, whole is not None)


def _ragged(
    span: Span, name: Token, dtype: str | None, each: tuple[ast.Pattern, ast.Name]
) -> ast.Input:
    pattern, of = each
    start = pattern.span.start if dtype is None else span.source.text.index(dtype, name.end)
    type_ = ast.Type(Span(span.source, start, span.end), dtype, pattern)
    return ast.Input(span, name.text, type_, of=of)


def _each(
    span: Span, size: ast.Name, of: ast.Name, *axes: ast.Expression | ast.Rest
) -> tuple[ast.Pattern, ast.Name]:
    """A shape whose first size is ragged."""
    return ast.Pattern(span, (size, *axes)), of


def _result(span: Span, name: Token | None, of: ast.Type) -> ast.Result:
    return ast.Result(span, of.dtype, of.shape, None if name is None else name.text)


def _returned(_: Span, value: ast.Expression) -> tuple[ast.Return]:
    return (ast.Return(value.span, (value,)),)


# --- types and paths -----------------------------------------------------------------------------


def _rest(span: Span, name: Token) -> ast.Rest:
    return ast.Rest(span, name.text)


def _path(span: Span, *parts: Token | ast.Expression | ast.Splice) -> ast.Path:
    return ast.Path(span, tuple(part.text if isinstance(part, Token) else part for part in parts))


# --- statements ----------------------------------------------------------------------------------


def _if(
    span: Span,
    condition: ast.Expression,
    then: tuple[ast.Statement, ...],
    otherwise: tuple[ast.Statement, ...] | None,
) -> ast.If:
    return ast.If(span, condition, then, otherwise or ())


def _part(span: Span, target: Token, *parts: ast.Entry) -> ast.Part:
    *entries, value = parts
    assert not isinstance(value, ast.Range | ast.EllipsisEntry)
    return ast.Part(span, ast.Name(_span_of(span, target), target.text), tuple(entries), value)


def _update_part(
    span: Span, name: Token, entries: tuple[ast.Entry, ...], value: ast.Expression
) -> ast.Update:
    return ast.Update(span, ast.Path(_span_of(span, name), (name.text,)), value, entries)


def _repeat(
    span: Span,
    variable: ast.Name,
    start: ast.Expression,
    stop: ast.Expression,
    body: tuple[ast.Statement, ...],
) -> ast.Repeat:
    return ast.Repeat(span, variable, start, stop, None, body)


def _minimize(span: Span, value: ast.Expression, over: tuple[ast.Path, ...] | None) -> ast.Minimize:
    return ast.Minimize(span, value, over or ())


def _layer_declared(
    span: Span, path: ast.Path, call: ast.Call, source: ast.Path | None
) -> ast.Layer:
    return ast.Layer(span, _labelled(span, path, call), source)


def _glob(_: Span, text: Token) -> str:
    return text.text[1:-1]


# --- expressions ---------------------------------------------------------------------------------


def _name(span: Span, word: Token) -> ast.Name:
    if word.text in _FOREIGN_VALUES:
        cure = new_axis(span) if word.text == "None" else None
        advice, code = (cure.text, cure.code or "") if cure else (_FOREIGN_VALUES[word.text], "")
        if word.text == "None" and is_setting(span):
            advice = "a setting that has no value is left out, with its line"
        raise ProblemError(token_problems.ForeignSpelling(span, advice, code))
    return ast.Name(span, word.text)


def _integer(span: Span, number: Token) -> ast.Integer:
    return ast.Integer(span, _integer_of(span, number))


def _integer_of(span: Span, number: Token) -> int:
    if len(number.text) > LONGEST_INTEGER:
        raise ProblemError(text_problems.MalformedNumber(_span_of(span, number), "too many digits"))
    return int(number.text)


def _real(span: Span, number: Token) -> ast.Real:
    value = float(number.text)
    if not isfinite(value):
        raise ProblemError(text_problems.MalformedNumber(span, "too large for 64 bits"))
    return ast.Real(span, value)


def _text(span: Span, text: Token) -> ast.Text:
    return ast.Text(span, text.text[1:-1])


def _list_of(span: Span, pattern: ast.Pattern) -> ast.ListOf:
    items: list[ast.Expression] = []
    for entry in pattern.entries:
        if isinstance(entry, ast.Rest):
            raise ProblemError(token_problems.RestOutsideShape(entry.span))
        items.append(entry)
    return ast.ListOf(span, tuple(items))


def _unary(span: Span, operator: Token, operand: ast.Expression) -> ast.Unary:
    return ast.Unary(span, operator.text, operand)


def _binary(span: Span, left: ast.Expression, operator: Token, right: ast.Expression) -> ast.Binary:
    return ast.Binary(span, operator.text, left, right, _span_of(span, operator))


def _conditional(
    span: Span, then: ast.Expression, condition: ast.Expression, otherwise: ast.Expression
) -> ast.Conditional:
    return ast.Conditional(span, condition, then, otherwise)


def _spliced(span: Span, base: ast.Expression, splice: ast.Splice) -> ast.Spliced:
    return ast.Spliced(span, base, splice.value)


def _attribute(span: Span, base: ast.Expression, name: Token) -> ast.Attribute:
    return ast.Attribute(span, base, name.text)


# --- calls ---------------------------------------------------------------------------------------


def _call(
    span: Span,
    callee: Token,
    arguments: tuple[ast.Argument, ...],
    tensors: tuple[ast.Argument, ...] | None,
) -> ast.Call:
    return ast.Call(span, None, callee.text, _span_of(span, callee), arguments, tensors or ())


def _applied(
    span: Span,
    path: ast.Path,
    arguments: tuple[ast.Argument, ...] | None,
    tensors: tuple[ast.Argument, ...] | None,
) -> ast.Call:
    words = [part for part in path.parts if isinstance(part, str)]
    computed = None if len(words) == len(path.parts) else path
    return ast.Call(
        span, None, ".".join(words), path.span, arguments or (), tensors or (), computed
    )


def _named(call: ast.Call) -> ast.Call:
    """A call of what has a name; an item of a path is applied behind a pipe alone."""
    if call.path is not None:
        raise ProblemError(token_problems.LabelWithoutLayer(call.path.span))
    return call


def _labelled(span: Span, label: ast.Path, call: ast.Call) -> ast.Call:
    _named(call)
    return ast.Call(span, label, call.callee, call.callee_span, call.arguments, call.inputs)


def _arguments(_: Span, *arguments: ast.Argument) -> tuple[ast.Argument, ...]:
    named: dict[str, ast.Argument] = {}
    for argument in arguments:
        if argument.name is None:
            if named:
                raise ProblemError(token_problems.PositionalAfterNamed(argument.span))
        elif argument.name in named:
            first, name = named[argument.name].span, argument.name
            problem = token_problems.DuplicateName(argument.span, first, name, is_argument=True)
            raise ProblemError(problem)
        else:
            named[argument.name] = argument
    return arguments


def _argument(
    span: Span, name: Token | None, value: ast.Expression | ast.Rearrangement
) -> ast.Argument:
    return ast.Argument(span, None if name is None else name.text, value)


# --- parts that are no nodes, and what they may not hold -----------------------------------------


def _with_list(node: Callable[..., ast.Node], fixed: int) -> Action:
    """Makes a node whose last field is a tuple: the parts after the first `fixed`."""

    def build(span: Span, *parts: object) -> ast.Node:
        return node(span, *parts[:fixed], parts[fixed:])

    return build


def _sequence(_: Span, *items: object) -> tuple[object, ...]:
    return items


def _words(_: Span, *words: Token) -> tuple[str, ...]:
    return tuple(word.text for word in words)


def _phrase(_: Span, *words: Token) -> str:
    return " ".join(word.text for word in words)


def _refuse_repetition(binders: Iterable[ast.Parameter | ast.Input]) -> None:
    """Refuse two binders of one name, and a size that has the name of its input or a later one."""
    seen: dict[str, ast.Node] = {}
    sizes: dict[str, ast.Node] = {}
    for binder in binders:
        name = binder.name
        if isinstance(binder, ast.Input):
            for entry in binder.type.shape.entries:
                sizes |= {each: size for each, size in _sizes_in(entry) if each not in seen}
        if name in seen:
            raise ProblemError(token_problems.DuplicateName(binder.span, seen[name].span, name))
        if name in sizes:
            size = sizes[name].span
            raise ProblemError(token_problems.DuplicateName(binder.span, size, name, is_size=True))
        seen[name] = binder


def _refuse_result_names(
    binders: Sequence[ast.Parameter | ast.Input | ast.Declare], results: Sequence[ast.Result]
) -> None:
    """Refuse names that some results lack, and those of other results, inputs, weights or sizes."""
    named = [each for each in results if each.name is not None]
    if named and len(named) < len(results):
        bare = next(each for each in results if each.name is None)
        written = tuple(" ".join(each.span.text.split()) for each in results)
        raise ProblemError(token_problems.ResultWithoutName(bare.span, written))
    known: dict[str, tuple[str, Span]] = {}
    for binder in binders:
        match binder:
            case ast.Input(name=name):
                known[name] = "an input", binder.span
            case ast.Parameter(name=name):
                known[name] = "configuration", binder.span
            case ast.Declare(path=path):
                kind = binder.kind.split()[-1].replace("param", "parameter")
                known[path.span.text] = f"a {kind}", binder.span
    for each in (*(each.type for each in binders if isinstance(each, ast.Input)), *results):
        for entry in each.shape.entries:
            for name, size in _sizes_in(entry):
                known.setdefault(name, ("a size", size.span))
    for each in named:
        assert each.name is not None
        if each.name in known:
            what, span = known[each.name]
            problem = token_problems.DuplicateName(each.span, span, each.name, result_and=what)
            raise ProblemError(problem)
        known[each.name] = "a result", each.span


def _sizes_in(entry: ast.Expression | ast.Rest) -> Iterator[tuple[str, ast.Node]]:
    """The sizes and rests that an entry of a shape names."""
    match entry:
        case ast.Name(text=name) | ast.Rest(name=name):
            yield name, entry
        case ast.Unary(operand=operand):
            yield from _sizes_in(operand)
        case ast.Binary(left=left, right=right):
            yield from _sizes_in(left)
            yield from _sizes_in(right)
        case _:
            return


def _declared_in(body: Iterable[ast.Statement]) -> Iterator[ast.Declare]:
    """The parameters and states that a body declares."""
    for statement in body:
        if isinstance(statement, ast.Declare):
            yield statement
        elif isinstance(statement, ast.If):
            yield from _declared_in((*statement.then, *statement.otherwise))


def _refuse_outsiders(
    body: tuple[ast.Statement, ...], outsiders: tuple[type[ast.Statement], ...], home: str
) -> None:
    for statement in body:
        if isinstance(statement, outsiders):
            raise ProblemError(line_problems.MisplacedStatement(statement.span, home))
        if isinstance(statement, ast.If):
            _refuse_outsiders((*statement.then, *statement.otherwise), outsiders, home)
        elif isinstance(statement, ast.For | ast.Scan):
            _refuse_outsiders(statement.body, outsiders, home)


ACTIONS: dict[str, Action] = {
    "import": ast.Import,
    "dotted": _words,
    "names": _sequence,
    "name": _name,
    "definition": ast.Def,
    "block": _block,
    "optimizer": _optimizer,
    "returned": _returned,
    "model": _model,
    "train": _train,
    "expect_has": _expect_has,
    "expect_holds": _expect_holds,
    "expect_maps": _expect_maps,
    "held": ast.Held,
    "count": _count,
    "parameters": _sequence,
    "parameter": _parameter,
    "named_kind": _named_kind,
    "text_kind": _text_kind,
    "block_kind": ast.BlockKind,
    "header": _header,
    "inputs": _sequence,
    "input": _input,
    "results": _sequence,
    "result": _result,
    "feeds": _sequence,
    "feed": _feed,
    "ragged": _ragged,
    "each": _each,
    "whole": _phrase,
    "where": _sequence,
    "types": _sequence,
    "type": ast.Type,
    "dtype": _phrase,
    "pattern": _with_list(ast.Pattern, 0),
    "rest": _rest,
    "suite": _sequence,
    "bind": ast.Bind,
    "if": _if,
    "else_if": _sequence,
    "for": ast.For,
    "part": _part,
    "scan": ast.Scan,
    "repeat": _repeat,
    "return": _with_list(ast.Return, 0),
    "declare": ast.Declare,
    "kind": _phrase,
    "layer_declared": _layer_declared,
    "update": ast.Update,
    "update_part": _update_part,
    "entries": _sequence,
    "minimize": _minimize,
    "over": _sequence,
    "project": ast.Project,
    "metric": ast.Metric,
    "show": ast.Show,
    "run": _with_list(ast.Run, 0),
    "setting": ast.Setting,
    "glob": _glob,
    "conditional": _conditional,
    "pipe": ast.Pipe,
    "binary": _binary,
    "unary": _unary,
    "integer": _integer,
    "real": _real,
    "text": _text,
    "true": partial(ast.Boolean, value=True),
    "false": partial(ast.Boolean, value=False),
    "list_of": _list_of,
    "call": _call,
    "attribute": _attribute,
    "spliced": _spliced,
    "splice": ast.Splice,
    "subscript": _with_list(ast.Subscript, 1),
    "range": ast.Range,
    "ellipsis": ast.EllipsisEntry,
    "labelled": _labelled,
    "applied": _applied,
    "here": _path,
    "path": _path,
    "arguments": _arguments,
    "argument": _argument,
    "rearrangement": ast.Rearrangement,
    "tensors": _arguments,
}
"""The function that makes the value of a phrase, by its rule or the alternative (`-> name`)."""
