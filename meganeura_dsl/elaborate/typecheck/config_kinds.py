"""Kinds of configuration: what a parameter takes, as `causal: bool` or `widths: list[3]` says.

A parameter without a kind takes what its uses need. One with a kind is given a value of that kind
or is refused where it is given; in a proof it stands for all of them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product as every
from math import prod

from meganeura_dsl.diagnostics.problem import Help, ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.location import Location
from meganeura_dsl.elaborate.problems.name_problems import KindMismatch, UnknownName, WrongKind
from meganeura_dsl.elaborate.problems.proof_failures import deciding_fact
from meganeura_dsl.elaborate.scope.linker import nearest
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.undecided import UndecidableError
from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.elaborate.values import (
    ElabValue,
    LayerWeights,
    Opaque,
    OpenText,
    StaticValue,
    TensorList,
    describe,
    is_condition,
    is_initializer,
    is_number,
    is_size,
)
from meganeura_dsl.limits.language_limits import LONGEST_LIST, MOST_PATHS
from meganeura_dsl.symbolic.assumptions import Compare, Flag, Proved, Refuted, show_condition
from meganeura_dsl.symbolic.size import Dim, dim, show
from meganeura_dsl.syntax import ast

WORDS = {
    "size": "a whole number from 1",
    "int": "a whole number",
    "real": "a number",
    "bool": "true or false",
    "text": "a text",
    "list": "a list",
}
"""The values that each kind takes, in words, by its name."""

_WORD = re.compile(r"\w+'*")
"""The name in a variable of a proof: `depth`, `widths[0]`, `(-shift)`."""


@dataclass(frozen=True)
class Alternative:
    """Values for the parameters that a proof takes case by case, and what distinguishes them."""

    values: dict[str, StaticValue]
    words: tuple[str, ...]
    """Conditions such as `pool == "mean"` and `axis < 0`."""


# --- a value that is given -----------------------------------------------------------------------


def fitted(
    inner: Frame,
    callee: str,
    parameter: ast.Parameter,
    value: ElabValue,
    location: Location,
) -> ElabValue:
    """The value that a parameter is given, as its kind has it; blocks are fitted elsewhere.

    Raises `ProblemError` for a value of another kind, and `UndecidableError` in a proof that cannot
    tell. Without a kind, any value will do.
    """
    kind = parameter.kind
    if isinstance(value, TensorList) and isinstance(inner.declaration, ast.Block):
        cure = "a list of tensors stays in its block: give it the tensors one by one"
        raise ProblemError(WrongKind(location, "configuration", describe(value), cure))
    if isinstance(value, LayerWeights) and isinstance(inner.declaration, ast.Block):
        cure = f"weights stay in their block: apply the layer here, `x |> {value.layer}(weights=w)`"
        raise ProblemError(WrongKind(location, "configuration", describe(value), cure))
    is_switch = (
        isinstance(parameter.default, ast.Boolean) if kind is None else is_named(kind, "bool")
    )
    if isinstance(value, Dim) and is_switch:
        value = as_flag(inner, value, location.span) or value
    if kind is None or isinstance(kind, ast.BlockKind):
        return value
    fault = _fault(inner, kind, value)
    if fault is None:
        return float(value) if is_named(kind, "real") and type(value) is int else value
    words, fact = fault
    headline = f"`{parameter.name}` of `{callee}` takes {words}"
    declared = Location(parameter.span)
    advice = _of_kind(parameter.name, kind, words, value)
    raise ProblemError(
        KindMismatch(location, headline, describe(value), declared, fact, "", advice)
    )


def _of_kind(name: str, kind: ast.NamedKind | ast.TextKind, words: str, value: ElabValue) -> Help:
    """Advice for a value of another kind: the nearest text, or what is to be given or declared."""
    if isinstance(kind, ast.TextKind):
        options = [option.value for option in kind.options]
        close = nearest(value, options) if isinstance(value, str) else ()
        return Help(
            "did you mean this one?" if close else "give one of them",
            f'{name}="{(close or options)[0]}"',
        )
    return Help(f"give {words}; if this is meant, declare another kind for `{name}`")


def _fault(
    inner: Frame, kind: ast.NamedKind | ast.TextKind, value: ElabValue
) -> tuple[str, str] | None:
    """Returns the values that the kind takes, and a helpful fact; None if the value fits."""
    if isinstance(kind, ast.TextKind):
        options = tuple(option.value for option in kind.options)
        fits = value in options
        return None if fits else (" or ".join(f'"{each}"' for each in options), "")
    words = WORDS[_checked_name(inner, kind)]
    match kind.name:
        case "size":
            return (words, fact) if (fact := _lack_of_size(inner, value)) is not None else None
        case "int":
            fits = is_size(value)
        case "real":
            fits = is_number(value)
        case "bool":
            fits = is_condition(value) or is_initializer(value)
        case "text":
            fits = isinstance(value, str | OpenText)
        case _:
            return _fault_of_list(inner, kind, value)
    return None if fits else (words, "")


def _fault_of_list(inner: Frame, kind: ast.NamedKind, value: ElabValue) -> tuple[str, str] | None:
    if kind.length is None:
        return None if isinstance(value, list) else (WORDS["list"], "")
    length = _length(inner, kind.length)
    words = f"a list of {show(length)} sizes"
    if not isinstance(value, list):
        return words, ""
    if isinstance(length, Dim):
        raise UndecidableError(f"the length of a list is {length}")
    lacks = [_lack_of_size(inner, item) for item in value]
    lack = next((each for each in lacks if each is not None), None)
    return (words, lack or "") if len(value) != length or lack is not None else None


def with_open_numbers(inner: Frame, block: ast.Block) -> Frame:
    """Returns the frame of a block's `where` in a proof, with reals that have symbols left open.

    A parameter without a kind is taken for a size there, and each model may give it a number that
    is none: `block Drop(p)(x: [n, d]) = x |> dropout(p)`. What is computed from such a parameter,
    or is the size of an axis too, stays a size.
    """
    if inner.state.proof is None or not block.where:
        return inner
    *_, outermost = inner.enclosing() if inner.parent is not None else (inner,)
    without_kind = _without_kind(outermost.declaration)
    given = {
        each.name: Opaque.NUMBER
        for each in block.parameters
        if is_real(each) and inner.names[each.name] in without_kind
    }
    return replace(inner, names={**inner.names, **given})


def _without_kind(declaration: ast.Node | None) -> list[ElabValue]:
    """Returns the values that a proof assumes for parameters without a kind that are no axis."""
    if not isinstance(declaration, ast.Block):
        return []
    types = (*(item.type for item in declaration.inputs), *(declaration.results or ()))
    parts = (part for type_ in types for part in walk(type_))
    axes = {part.text for part in parts if isinstance(part, ast.Name)}
    return [
        dim(each.name)
        for each in declaration.parameters
        if each.kind is None and each.default is None and each.name not in axes
    ]


def is_about_open_real(clause: ast.Expression, frame: Frame, block: ast.Block) -> bool:
    """True if, in a proof, a clause of a block's `where` speaks of a real that stands for all."""
    read = {each.text for each in walk(clause) if isinstance(each, ast.Name)}
    return frame.state.proof is not None and any(
        is_real(each) and each.name in read and frame.names[each.name] is Opaque.NUMBER
        for each in block.parameters
    )


def is_real(parameter: ast.Parameter) -> bool:
    """True if a parameter takes a number that need not be whole."""
    return is_named(parameter.kind, "real") or isinstance(parameter.default, ast.Real)


def _lack_of_size(inner: Frame, value: ElabValue) -> str | None:
    """None for a whole number from 1; else the fact that would make it one, or nothing."""
    if not is_size(value):
        return ""
    condition = Compare(">=", value, 1)
    verdict = inner.facts.decide(condition)
    if isinstance(verdict, Proved):
        return None
    if not isinstance(verdict, Refuted) and inner.state.proof is not None:
        raise UndecidableError(f"whether {show_condition(condition)} depends on its configuration")
    return "" if isinstance(value, int) else deciding_fact(inner.facts, condition)


def is_named(kind: ast.ConfigKind | None, name: str) -> bool:
    """True if a kind is the one that this word names."""
    return isinstance(kind, ast.NamedKind) and kind.name == name


def _checked_name(frame: Frame, kind: ast.NamedKind) -> str:
    """The word of a kind. Raises `ProblemError` if it names none, or one that has no length."""
    if kind.name not in WORDS:
        location, close = frame.location(kind.span), nearest(kind.name, WORDS)
        if close:
            raise ProblemError(UnknownName(location, kind.name, "kind", close))
        raise ProblemError(
            KindMismatch(
                location, f"`{kind.name}` is no kind of configuration", cure=", ".join(WORDS)
            )
        )
    if kind.length is not None and kind.name != "list":
        location = frame.location(kind.length.span)
        advice = Help("several sizes are a list", f"list[{kind.length.span.text}]")
        headline = f"`{kind.name}` has no length"
        raise ProblemError(KindMismatch(location, headline, "a length", advice=advice))
    return kind.name


def _length(frame: Frame, node: ast.Expression) -> int | Dim:
    length = frame.evaluate(node)
    if not is_size(length) or (isinstance(length, int) and not 0 < length <= LONGEST_LIST):
        wanted = f"the length of a list is a whole number from 1 to {LONGEST_LIST:,}"
        advice = Help("a list of any length has none", "list")
        location = frame.location(node.span)
        raise ProblemError(KindMismatch(location, wanted, describe(length), advice=advice))
    return length


# --- a symbol for all values ---------------------------------------------------------------------


def alternatives(block: ast.Block) -> list[Alternative]:
    """The cases that a proof takes one by one: each of some texts, and a number's sign.

    Raises `UndecidableError` if there are too many.
    """
    choices = [_choices(parameter) for parameter in block.parameters]
    taken = [each for each in choices if each]
    if prod(map(len, taken)) > MOST_PATHS:
        raise UndecidableError("it has too many paths to prove at once")
    return [
        Alternative({name: value for name, value, _ in case}, tuple(word for _, _, word in case))
        for case in every(*taken)
    ]


def _choices(parameter: ast.Parameter) -> list[tuple[str, StaticValue, str]]:
    name = parameter.name
    match parameter.kind:
        case ast.TextKind(options=options):
            texts = dict.fromkeys(option.value for option in options)
            return [(name, text, f'{name} == "{text}"') for text in texts]
        case ast.NamedKind(name="int"):
            negative = dim(opposite(name))
            return [(name, dim(name), f"{name} >= 0"), (name, 0 - negative, f"{name} < 0")]
        case _:
            return []


def opposite(name: str) -> str:
    """The variable that a negative `int` is the opposite of, as one would write it."""
    return f"(-{name})"


def any_of_kind(parameter: ast.Parameter, frame: Frame) -> ElabValue:
    """Returns a symbol for all values of a parameter whose kind is a word or texts.

    Those of `alternatives` have a value in the frame already. Raises `UndecidableError` for lists.
    """
    name, kind = parameter.name, parameter.kind
    assert isinstance(kind, ast.NamedKind | ast.TextKind)
    if isinstance(kind, ast.TextKind):
        return frame.names[name]
    match _checked_name(frame, kind):
        case "size":
            return dim(name)
        case "int":
            assert frame.state.proof is not None
            frame.state.proof.whole_numbers.update((name, opposite(name)))
            frame.build.facts = frame.facts.with_lower_bound(name, 0)
            return frame.names[name]
        case "real":
            return Opaque.NUMBER
        case "bool":
            return Flag(name)
        case "text":
            return OpenText(name)
        case _:
            length = None if kind.length is None else _length(frame, kind.length)
            if isinstance(length, int):
                return [dim(f"{name}[{index}]") for index in range(length)]
            raise UndecidableError(f"`{name}` is a list the configuration gives")


# --- kinds that are inferred ---------------------------------------------------------------------


def as_flag(frame: Frame, value: Dim, span: Span) -> Flag | None:
    """Returns the flag of a parameter without kind and default that a proof uses as a condition."""
    parameter = _root_parameter(frame, value)
    if frame.state.proof is None or parameter is None:
        return None
    if parameter.kind is not None or parameter.default is not None:
        return None
    frame.state.proof.inferred_flags.setdefault(parameter.name, span)
    return Flag(parameter.name)


def size_as_condition(frame: Frame, span: Span, value: ElabValue) -> ProblemError | None:
    """The refusal of a parameter that is a size where a condition is needed, if it is one."""
    parameter = _root_parameter(frame, value) if isinstance(value, Dim) else None
    if parameter is None or frame.state.proof is None:
        return None
    kind = "" if parameter.kind is None else parameter.kind.span.text
    words = f"a number, as its kind is `{kind}`" if kind else "a size"
    headline = f"`{parameter.name}` is {words}, and this needs a condition"
    cure = "" if kind or parameter.default is not None else f"{parameter.name}: bool"
    declared, location = Location(parameter.span), frame.location(span)
    advice = Help("compare it, or if it is a switch, declare it so", f"{parameter.name}: bool")
    return ProblemError(KindMismatch(location, headline, "", declared, "", cure, advice))


def is_configured(frame: Frame, value: Dim) -> bool:
    """True if, in a proof, a number is made of configuration and of the indices of loops alone."""
    if frame.state.proof is None:
        return False
    known = {parameter.name for parameter in _root_parameters(frame)} | frame.state.loops.indices
    words = (_WORD.search(name) for name in value.variables())
    return all(word is not None and word[0] in known for word in words)


def _root_parameters(frame: Frame) -> tuple[ast.Parameter, ...]:
    while frame.parent is not None:
        frame = frame.parent
    return frame.declaration.parameters if isinstance(frame.declaration, ast.Block) else ()


def _root_parameter(frame: Frame, value: Dim) -> ast.Parameter | None:
    """The parameter of the block being proved that a size is."""
    return next((each for each in _root_parameters(frame) if value == dim(each.name)), None)


def require_one_use(block: ast.Block, frame: Frame) -> None:
    """Refuse a parameter without a kind that is a condition here and a size there."""
    assert frame.state.proof is not None
    for name, asked in frame.state.proof.inferred_flags.items():
        span = next(size_uses(block, name), None)
        if span is not None:
            declared = next(each.span for each in block.parameters if each.name == name)
            headline = f"`{name}` is used as a condition, and this needs a size"
            label = f"a condition in line {asked.line}" if asked.source is span.source else ""
            raise ProblemError(
                KindMismatch(
                    frame.location(span), headline, label, Location(declared), "", f"{name}: size"
                )
            )


def require_known_texts(block: ast.Block, frame: Frame) -> None:
    """Refuse a comparison of a parameter with a text that it never is."""
    known = {
        each.name: [option.value for option in each.kind.options]
        for each in block.parameters
        if isinstance(each.kind, ast.TextKind)
    }
    for node in walk(block) if known else ():
        match node:
            case (
                ast.Binary(
                    operator="==" | "!=", left=ast.Name(text=name), right=ast.Text(value=text)
                )
                | ast.Binary(
                    operator="==" | "!=", left=ast.Text(value=text), right=ast.Name(text=name)
                )
            ) if text not in known.get(name, [text]):
                declared = next(each.span for each in block.parameters if each.name == name)
                headline = f'`{name}` is never "{text}"'
                location = frame.location(node.span)
                close = nearest(text, known[name]) or tuple(known[name])
                advice = Help("compare it with one that it may be", f'"{close[0]}"')
                place = Location(declared)
                raise ProblemError(KindMismatch(location, headline, "", place, advice=advice))
            case _:
                pass


def size_uses(block: ast.Block, name: str) -> Iterator[Span]:
    """Yields the places where a block uses a name as a number, as far as its text tells."""
    parts = (part for node in walk(block) for part in _numbers(node))
    yield from (part.span for part in parts if isinstance(part, ast.Name) and part.text == name)


def _numbers(node: ast.Node) -> tuple[ast.Node, ...]:
    """The parts of a node that have to be numbers."""
    match node:
        case ast.Pattern(entries=entries):
            return entries
        case ast.For(start=start, stop=stop) | ast.Scan(start=start, stop=stop):
            return (start, stop)
        case ast.Binary(operator=operator, left=left, right=right):
            return () if operator in ("and", "or", "==", "!=") else (left, right)
        case ast.Unary(operator="-", operand=operand):
            return (operand,)
        case _:
            return ()
