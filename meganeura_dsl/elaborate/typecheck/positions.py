"""Whole numbers of the graph, as sizes the prover knows.

`where 0 <= p, p + k <= s` states facts about an input `p: i32[]`. In a proof it is a symbol that is
0 or more; a caller proves the facts of what it gives. Where data is fed, they are assumed, and the
indices that they are about are checked.

`where 0 <= ids, ids < words` states facts about every element of an input `ids: i32[n, s]`. Its
symbol is any element. What is read from such a tensor is another element, so it is a symbol of its
own, of which the same is known.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product

from meganeura_dsl.elaborate.scope.new_symbols import marked, new_symbol, symbols_in
from meganeura_dsl.elaborate.scope.scope import ElaborationState, Frame
from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.elaborate.values import Evaluated, Tensor, is_tensor
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.traits import Trait
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.assumptions import Compare, Condition, Facts
from meganeura_dsl.symbolic.conditions import sizes_in, with_sizes
from meganeura_dsl.symbolic.size import Dim, Size, dim
from meganeura_dsl.syntax import ast

POSITION = TensorType(DType.I32, ())
Bounds = tuple[Size, ...]


def is_position(item: ast.Input) -> bool:
    """Whether an input holds whole numbers that facts can be about."""
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
    block: ast.Block | ast.Train, name: str, names: Mapping[str, Evaluated] | None = None
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


def with_symbols(frame: Frame, block: ast.Block | ast.Train) -> Frame:
    """The frame in which facts are stated: whole numbers are symbols, 0 or more, from here on."""
    names = dict(frame.names)
    facts = frame.facts
    for name in positions_in(block):
        symbol = symbol_of(block, name, frame.names)
        frame.state.symbols.add(symbol)
        facts = facts.with_lower_bound(symbol, 0)
        value = names.get(name)
        if value is not None and is_tensor(value):
            frame.state.positions[value.id] = dim(symbol)
        names[name] = dim(symbol)
    frame.build.facts = facts
    return replace(frame, names=names)


def position_of(frame: Frame, value: Tensor) -> Size | None:
    """The size that a whole number of the graph is, or that any element of several is.

    None where the prover knows nothing of it.
    """
    if value.type.dtype is not DType.I32:
        return None
    known = frame.state.positions.get(value.id)
    if known is not None:
        return known if value.type == POSITION else _another(frame, str(known))
    if _is_moved(value):
        found = position_of(frame, value.operands[0])
        if found is not None and value.type == POSITION:
            frame.state.positions[value.id] = found
        return found
    sizes = [position_of(frame, each) for each in value.operands]
    match value.op, sizes:
        case ops.Constant(value=int() | Dim() as number), []:
            return number
        case ops.Add(), [int() | Dim() as left, int() | Dim() as right]:
            return left + right
        case ops.Sub(), [int() | Dim() as left, int() | Dim() as right]:
            return left - right
        case ops.Mul(), [int() | Dim() as left, int() | Dim() as right]:
            return left * right
        case ops.Neg(), [int() | Dim() as size]:
            return -size
        case ops.FloorDivide(divisor=divisor), [int() | Dim() as size]:
            return size // divisor
        case ops.Remainder(divisor=divisor), [int() | Dim() as size]:
            return size % divisor
        case _:
            return _of_range(frame, value)


def whole_number(state: ElaborationState, value: Tensor) -> Size | None:
    """The size that a whole number is, if nothing is known of it but what is stated of the size."""
    size = state.positions.get(value.id)
    if value.type != POSITION:
        return None
    if (
        isinstance(value.op, ops.Constant)
        and size is None
        and isinstance(value.op.value, int | Dim)
    ):
        return value.op.value
    if isinstance(size, Dim) and not size.variables().isdisjoint(state.ranges):
        return None
    return size


def handed_on(frame: Frame, value: Tensor) -> Dim | None:
    """A symbol for any element of an input as it came, of which `where` states nothing.

    What a block needs of it is not proved but assumed: whoever feeds it has it checked.
    """
    if not _is_free(frame, value):
        return None
    symbol = frame.state.positions.get(value.id)
    if symbol is None:
        symbol = frame.state.positions[value.id] = _new_element(frame)
    frame.state.ranges.setdefault(str(symbol), ())
    frame.state.handed_on.add(value.id)
    frame.build.facts = frame.facts.with_lower_bound(str(symbol), 0)
    assert isinstance(symbol, Dim)
    return symbol


def _is_free(frame: Frame, value: Tensor) -> bool:
    """Whether several whole numbers are an input as it came, of which nothing is stated."""
    several = value.type != POSITION
    while True:
        if value.id in frame.state.positions and value.id not in frame.state.handed_on:
            return False
        if not _is_moved(value):
            break
        value = value.operands[0]
    is_input = isinstance(value.op, ops.Input) and not value.op.name.startswith("#")
    return several and is_input and value.type.dtype is DType.I32


def facts_about(frame: Frame, condition: Condition) -> Facts:
    """What is known of the sizes here, and of the whole numbers of the graph in a condition."""
    facts = frame.facts
    waiting = sorted(sizes_in(condition))
    seen = set(waiting)
    while waiting:
        name = waiting.pop()
        if name not in frame.state.ranges:
            continue
        facts = facts.with_lower_bound(name, 0)
        for known in frame.state.ranges[name]:
            facts = facts.assume(known)
            waiting += sorted(sizes_in(known) - seen)
            seen |= sizes_in(known)
    return facts


def symbols(frame: Frame) -> frozenset[str]:
    """The symbols that stand for whole numbers of the graph."""
    known = (size.variables() for size in frame.state.positions.values() if isinstance(size, Dim))
    return frozenset[str]().union(*known)


def speaks_of(frame: Frame, condition: Condition) -> bool:
    """Whether a condition is about a whole number of the graph."""
    return not sizes_in(condition).isdisjoint(symbols(frame))


def _of_range(frame: Frame, value: Tensor) -> Size | None:
    """A new symbol for a number that is 0 at least, and within what its range says."""
    low, high = _range(frame, value)
    if not _is_whole(frame, low):
        return None
    symbol = _new_element(frame)
    conditions = [Compare(">=", symbol, each) for each in low]
    conditions += [Compare("<=", symbol, each) for each in high]
    frame.state.ranges[str(symbol)] = tuple(conditions)
    if value.type == POSITION:
        frame.state.positions[value.id] = symbol
    return symbol


def _new_element(frame: Frame) -> Dim:
    """A symbol for an element, or for a number that is computed."""
    name = new_symbol(f"at{len(frame.state.ranges)}", frame)
    frame.state.symbols.add(name)
    return dim(name)


def _another(frame: Frame, symbol: str) -> Dim:
    """A symbol for an element of which the same is known as of another."""
    known = (*frame.facts.stated, *frame.state.ranges.get(symbol, ()))
    about = [fact for fact in known if symbol in sizes_in(fact)]
    name = new_symbol(f"{symbol}'", frame)
    frame.state.symbols.add(name)
    other = dim(name)
    frame.state.ranges[name] = tuple(with_sizes(fact, {symbol: other}) for fact in about)
    return other


def _is_moved(value: Tensor) -> bool:
    """Whether every element is one of those of the first operand."""
    return Trait.VIEW in value.op.traits or isinstance(value.op, ops.Gather | ops.DynamicSlice)


def _range(frame: Frame, value: Tensor) -> tuple[Bounds, Bounds]:
    """What no element of whole numbers is known to be below, and what none is above."""
    known = frame.state.positions.get(value.id)
    if known is not None:
        element = known if value.type == POSITION else _another(frame, str(known))
        return (element,), (element,)
    match value.op:
        case ops.Constant(value=int() | Dim() as number):
            return (number,), (number,)
        case ops.Iota(size=size) | ops.Remainder(divisor=size):
            return (0,), (size - 1,)
        case ops.ArgMax(axis=axis):
            return (0,), (value.operands[0].type.shape[axis] - 1,)
        case ops.Sort(axis=axis) if value.index:
            return (0,), (value.type.shape[axis] - 1,)
        case ops.Minimum():
            (low, high), (floor, ceiling) = (_range(frame, each) for each in value.operands)
            least = (0,) if _is_whole(frame, low) and _is_whole(frame, floor) else ()
            return least, (*high, *ceiling)
        case ops.Maximum():
            (low, high), (floor, ceiling) = (_range(frame, each) for each in value.operands)
            return (*low, *floor), _of_both(frame, high, ceiling)
        case _ if _is_moved(value):
            return _range(frame, value.operands[0])
        case _:
            return (), ()


def _of_both(frame: Frame, high: Bounds, ceiling: Bounds) -> Bounds:
    """What neither of two numbers is above: a bound of one that is no less than another's."""
    pairs = [*product(high, ceiling), *product(ceiling, high)]
    facts = ((each, Compare("<=", other, each)) for each, other in pairs)
    found = [each for each, fact in facts if facts_about(frame, fact).proves(fact)]
    return tuple(dict.fromkeys(found))


def _is_whole(frame: Frame, bounds: Bounds) -> bool:
    """Whether some lower bound is known to be 0 or more."""
    conditions = [Compare(">=", size, 0) for size in bounds]
    return any(facts_about(frame, each).proves(each) for each in conditions)
