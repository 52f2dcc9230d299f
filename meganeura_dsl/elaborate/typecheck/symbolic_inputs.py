"""Tensors of every size: what a signature asks for, with symbols for all it leaves open."""

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.problems.name_problems import WrongKind
from meganeura_dsl.elaborate.problems.shape_problems import UnsolvedSize
from meganeura_dsl.elaborate.scope.new_symbols import marked
from meganeura_dsl.elaborate.scope.scope import MODES, Frame
from meganeura_dsl.elaborate.scope.undecided import UndecidableError
from meganeura_dsl.elaborate.typecheck.config_kinds import any_of_kind, fitted
from meganeura_dsl.elaborate.typecheck.contracts import contract_of
from meganeura_dsl.elaborate.typecheck.result_facts import stated_facts
from meganeura_dsl.elaborate.typecheck.shape_patterns import size_names
from meganeura_dsl.elaborate.typecheck.stated_positions import names_in, positions_in, symbol_of
from meganeura_dsl.elaborate.typecheck.written_types import dtype_of, shape_of
from meganeura_dsl.elaborate.values import Axes, BlockValue, ElabValue, Opaque
from meganeura_dsl.ir import ops
from meganeura_dsl.symbolic.assumptions import Flag
from meganeura_dsl.symbolic.polynomial import variables_of
from meganeura_dsl.symbolic.size import Dim, dim
from meganeura_dsl.syntax import ast

Clauses = tuple[ast.Expression, ...]
REST_RANKS = (1, 2)
"""Ranks of a rest in a proof. Ops only keep or reduce the axes of a rest."""


def rest_names(block: ast.Block) -> list[str]:
    """The names of the rests in the inputs of a block, each once."""
    entries = [entry for item in block.inputs for entry in item.type.shape.entries]
    return list(dict.fromkeys(entry.name for entry in entries if isinstance(entry, ast.Rest)))


def rest_axes(block: ast.Block, name: str, rank: int) -> Axes:
    """Symbols for the axes of a rest, none of which is another one of the signature."""
    entries = [entry for item in block.inputs for entry in item.type.shape.entries]
    named = {
        name for each in entries if not isinstance(each, ast.Rest) for name in size_names(each)
    }
    named.update(parameter.name for parameter in block.parameters)
    named.update(symbol_of(block, each) for each in positions_in(block))
    mark = ""
    while any(f"{name}{index}{mark}" in named for index in range(rank)):
        mark += "'"
    return Axes(dim(f"{name}{index}{mark}") for index in range(rank))


def any_config(parameter: ast.Parameter, frame: Frame) -> ElabValue:
    """A symbol for all that a configuration value can be, or the value where a proof takes one.

    Raises `UndecidableError` for a list, and for a block of which no header says what it does.
    """
    name = parameter.name
    if isinstance(parameter.kind, ast.BlockKind):
        return _any_block(parameter, frame)
    if parameter.kind is not None:
        symbol = any_of_kind(parameter, frame)
        if parameter.default is not None:
            default = frame.evaluate(parameter.default)
            location, home = frame.location(parameter.default.span), frame.name
            fitted(frame, home, parameter, default, location)
        return symbol
    if parameter.default is None:
        return dim(name)
    default = frame.evaluate(parameter.default)
    match default:
        case bool():
            return Flag(name)
        case int():
            if default < 0:
                return default
            frame.build.facts = frame.facts.with_lower_bound(name, min(default, 1))
            return dim(name)
        case float():
            return Opaque.NUMBER
        case Dim():
            return dim(name)
        case list():
            raise UndecidableError(f"`{name}` is a list the configuration gives")
        case BlockValue():
            return _any_block(parameter, frame)
        case _:
            return default


def _any_block(parameter: ast.Parameter, frame: Frame) -> ElabValue:
    contract = contract_of(parameter, frame)
    if not isinstance(contract, BlockValue):
        raise UndecidableError(
            f"`{parameter.name}` is a block of which no header says what it does"
        )
    return contract


Solved = list[tuple[ast.Expression, str]]
"""The composite sizes that a call solves, each with the name it gives a value."""


def any_sizes(inputs: tuple[ast.Input, ...], frame: Frame) -> Solved:
    """Make a size of each name in the types of inputs that is no configuration."""
    solved = _solved_sizes(inputs, frame)
    for item in inputs:
        for entry in item.type.shape.entries:
            if not isinstance(entry, ast.Rest):
                for name in size_names(entry):
                    frame.names.setdefault(name, dim(marked(name, MODES)))
    return solved


def split_where(block: ast.Block, *, of_positions: bool) -> tuple[Clauses, Clauses]:
    """The clauses of a `where` that types of inputs may rely on, and those from the first behind.

    That is one that reads an input, unless it is an input of whole numbers `of_positions` that are
    sizes there. A caller proves all of them of tensors that it has.
    """
    read = {item.name for item in block.inputs}
    if of_positions:
        read.difference_update(positions_in(block))
    clauses = stated_facts(block)
    reads = (at for at, each in enumerate(clauses) if not read.isdisjoint(names_in(each)))
    first = next(reads, len(clauses))
    return clauses[:first], clauses[first:]


def any_inputs(inputs: tuple[ast.Input, ...], solved: Solved, frame: Frame) -> None:
    """Make a tensor of every size for each input, whose sizes have names."""
    for entry, name in solved:
        _require_linear(entry, name, frame)
    for item in inputs:
        shape = shape_of(item.type.shape, frame)
        leaf = ops.Input(item.name, dtype_of(item.type, frame), shape)
        frame.names[item.name] = frame.add(item.span, leaf)


def _solved_sizes(inputs: tuple[ast.Input, ...], frame: Frame) -> Solved:
    """The composite sizes that a call solves, each with the name it gives a value.

    Refuses a size such as `a * b`, whose factors do not follow from a call.
    """
    entries = [entry for item in inputs for entry in item.type.shape.entries]
    known = {*frame.names, *(entry.text for entry in entries if isinstance(entry, ast.Name))}
    solved: Solved = []
    for entry in entries:
        if isinstance(entry, ast.Rest):
            continue
        new = [name for name in dict.fromkeys(size_names(entry)) if name not in known]
        if len(new) > 1:
            wanted = "a size with at most one new name"
            raise ProblemError(WrongKind(frame.location(entry.span), wanted, entry.span.text))
        solved += [(entry, name) for name in new]
        known.update(new)
    return solved


def _require_linear(entry: ast.Expression, name: str, frame: Frame) -> None:
    """Refuse a size such as `h * h` or `h // 2`, from which `h` does not follow."""
    size = frame.evaluate(entry)
    if not isinstance(size, Dim):
        return
    share, rest = size.split(name)
    if name in variables_of(share) | variables_of(rest):
        raise ProblemError(UnsolvedSize(frame.location(entry.span), name))
