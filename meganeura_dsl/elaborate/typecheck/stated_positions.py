"""Inputs of whole numbers that the facts of a header speak of, and the symbols that stand for them.

`where 0 <= p, p + k <= s` states facts about an input `p: i32[]`. Of one that is stated to be no
less than a number below 0, `-1 <= p`, the symbol is how far it is above that: `p` is `(p + 1) - 1`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from meganeura_dsl.elaborate.scope.new_symbols import marked, symbols_in
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.elaborate.typecheck.positions import bounds_in
from meganeura_dsl.elaborate.values import (
    ElabValue,
    is_size,
    is_tensor,
)
from meganeura_dsl.symbolic.assumptions import Compare, Facts
from meganeura_dsl.symbolic.size import Dim, Size, dim, show, substitute
from meganeura_dsl.syntax import ast


def is_position(item: ast.Input) -> bool:
    """True if an input holds whole numbers that facts can be about."""
    return item.type.dtype == "i32"


@lru_cache(maxsize=1024)
def positions_in(block: ast.Block | ast.Train) -> Sequence[str]:
    """The inputs of whole numbers that the facts of a block speak of."""
    known = {item.name for item in block.inputs if is_position(item)}
    if not known:
        return ()
    spoken = [name for clause in block.where for name in names_in(clause) if name in known]
    return tuple(dict.fromkeys(spoken))


def names_in(clause: ast.Expression) -> Iterator[str]:
    """The names that occur in an expression, again and again."""
    yield from (node.text for node in walk(clause) if isinstance(node, ast.Name))


def symbol_of(
    block: ast.Block | ast.Train, name: str, names: Mapping[str, ElabValue] | None = None
) -> str:
    """The symbol of an input, which no size of the block has as its name.

    Nor is it one in the values of `names`, which have sizes of others where those say the types.
    """
    taken = {
        each
        for item in block.inputs
        for entry in item.type.shape.entries
        if not isinstance(entry, ast.Rest)
        for each in names_in(entry)
    }
    return marked(name, taken.union(*map(symbols_in, (names or {}).values())))


@lru_cache(maxsize=1024)
def negative_bound(block: ast.Block | ast.Train, name: str) -> Size | None:
    """Returns the stated lower bound of an input if it is below 0, preferably a number.

    None where the facts state no such bound, and the input is 0 at least. It is read from clauses
    without functions and choices, in which all other names are sizes.
    """
    sizes = {
        each
        for item in block.inputs
        for entry in item.type.shape.entries
        if not isinstance(entry, ast.Rest)
        for each in names_in(entry)
    }
    if isinstance(block, ast.Block):
        kinds = {each.name: each.kind for each in block.parameters}
        sizes = {each for each in sizes if each not in kinds}
        sizes |= {
            each
            for each, kind in kinds.items()
            if kind is None or (isinstance(kind, ast.NamedKind) and kind.name == "size")
        }
    known = {each: dim(each) for each in sizes - {name}} | {name: dim(f"{name}'")}
    bounds = [
        bound
        for clause in block.where
        for part in parts_of(clause)
        if (fact := _compared(part, known)) is not None
        for operator, bound in bounds_in(fact, known[name])
        if operator == ">="
    ]
    if not all(Facts().proves(Compare("<", each, 0)) for each in bounds):
        return None
    numbers = [each for each in bounds if isinstance(each, int)]
    return max(numbers) if numbers else next(iter(bounds), None)


def parts_of(clause: ast.Expression) -> Iterator[ast.Expression]:
    """The clauses around `and`."""
    if isinstance(clause, ast.Binary) and clause.operator == "and":
        yield from parts_of(clause.left)
        yield from parts_of(clause.right)
    else:
        yield clause


def _compared(part: ast.Expression, known: Mapping[str, Dim]) -> Compare | None:
    """A comparison of sizes, if a clause is one of such names."""
    match part:
        case ast.Binary(operator="<" | "<=" | ">" | ">=" as operator, left=left, right=right):
            first, second = _size_of(left, known), _size_of(right, known)
            if first is not None and second is not None:
                return Compare(operator, first, second)
        case _:
            pass
    return None


def _size_of(node: ast.Expression, known: Mapping[str, Dim]) -> Size | None:
    """The size that a sum or product of known names and of numbers is."""
    match node:
        case ast.Integer(value=value):
            return value
        case ast.Name(text=text):
            return known.get(text)
        case ast.Unary(operator="-", operand=operand):
            size = _size_of(operand, known)
            return None if size is None else 0 - size
        case ast.Binary(operator="+" | "-" | "*" as operator, left=left, right=right):
            first, second = _size_of(left, known), _size_of(right, known)
            if first is None or second is None:
                return None
            match operator:
                case "+":
                    return first + second
                case "-":
                    return first - second
                case _:
                    return first * second
        case _:
            return None


def with_symbols(frame: Frame, block: ast.Block | ast.Train) -> Frame:
    """The frame in which facts are stated: whole numbers are symbols, 0 or more, from here on."""
    names = dict(frame.names)
    facts = frame.facts
    for name in positions_in(block):
        symbol, size = _stated_symbol(frame, block, name)
        frame.state.values.lasting_symbols.add(symbol)
        facts = facts.with_lower_bound(symbol, 0)
        value = names.get(name)
        if value is not None and is_tensor(value):
            frame.state.values.symbolic_ints[value.id] = size
        names[name] = size
    frame.build.facts = facts
    return replace(frame, names=names)


def _stated_symbol(frame: Frame, block: ast.Block | ast.Train, name: str) -> tuple[str, Dim]:
    """The symbol of an input of whole numbers, and the input as a size of it."""
    symbol = symbol_of(block, name, frame.names)
    bound = negative_bound(block, name)
    if isinstance(bound, Dim):
        needed = bound.variables()
        given = {
            each: size for each, size in frame.names.items() if each in needed and is_size(size)
        }
        bound = substitute(bound, given) if len(given) == len(needed) else None
    if bound is None:
        return symbol, dim(symbol)
    above = f"({show(dim(symbol) - bound)})"
    size = dim(above) + bound
    assert isinstance(size, Dim)
    return above, size
