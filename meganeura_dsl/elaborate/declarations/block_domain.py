"""The domain of a block: its configuration and sizes as symbols, and the facts between them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.body.blocks.block_application import Application, model_application
from meganeura_dsl.elaborate.body.elaborator import ELABORATOR
from meganeura_dsl.elaborate.scope.arguments import Arguments
from meganeura_dsl.elaborate.scope.linker import LinkedModule
from meganeura_dsl.elaborate.scope.proof import Proof, ProofPath
from meganeura_dsl.elaborate.scope.scope import ElaborationState, Frame
from meganeura_dsl.elaborate.scope.state import Context
from meganeura_dsl.elaborate.scope.undecided import UndecidableError
from meganeura_dsl.elaborate.typecheck.argument_binding import bind_config
from meganeura_dsl.elaborate.typecheck.conditions import clause_condition
from meganeura_dsl.elaborate.typecheck.result_facts import stated_facts
from meganeura_dsl.elaborate.typecheck.shape_patterns import size_names
from meganeura_dsl.elaborate.typecheck.stated_positions import names_in, with_symbols
from meganeura_dsl.elaborate.typecheck.symbolic_inputs import any_config, rest_axes, rest_names
from meganeura_dsl.elaborate.typecheck.written_types import dtype_of, shape_of
from meganeura_dsl.elaborate.values import BlockValue, ElabValue, StaticValue, is_static
from meganeura_dsl.ir.graph import Builder
from meganeura_dsl.ir.types import DType, Shape
from meganeura_dsl.symbolic.assumptions import Facts, Flag
from meganeura_dsl.symbolic.size import Dim, dim
from meganeura_dsl.syntax import ast

ANY = "any"
"""The element type written where several will do."""


@dataclass(frozen=True)
class DomainInput:
    """One tensor a block takes; `dtype` is None where several will do."""

    name: str
    dtype: DType | None
    shape: Shape


@dataclass(frozen=True)
class BlockDomain:
    """All that a block may be given, for some numbers of axes of its rests."""

    sizes: tuple[str, ...]
    """Configuration that is a size, then the sizes of the inputs."""
    config: Mapping[str, StaticValue]
    """Every argument: a symbolic size or flag of its own name, or a fixed value."""
    inputs: tuple[DomainInput, ...]
    facts: Facts
    has_paths: bool = False
    """True if this is one of several paths through the choices of the signature."""

    @property
    def flags(self) -> tuple[str, ...]:
        """Configuration that is true or false."""
        return tuple(value.name for value in self.config.values() if isinstance(value, Flag))


def block_domain(
    module: LinkedModule,
    block: ast.Block,
    ranks: Mapping[str, int],
    given: Mapping[str, StaticValue] | None = None,
    *,
    case: Mapping[str, StaticValue] | None = None,
    decided: Sequence[bool] = (),
    defaults: bool = False,
) -> BlockDomain:
    """Returns the domain of a block, without what is `given`.

    Other configuration stays open, or with `defaults` has its default; `case` has the values of one
    of the `alternatives` of a proof. Of the choices in types and defaults the first ones go as
    `decided`, and the others as if their conditions held. Raises `ProblemError`, or
    `UndecidableError` where a list has to be given.
    """
    path = ProofPath(list(decided))
    state = ElaborationState(ELABORATOR, Builder(), Context(Flag("training")), proof=Proof())
    frame = Frame(
        state, module, block.name.text, dict(case or {}), declaration=block, choices=path,
    )  # fmt: skip
    given = {} if given is None else given
    if defaults:
        arguments = Arguments((), dict(given))
        span = block.name.span
        bind_config(frame, block.name.text, block.parameters, arguments, span)
    else:
        for parameter in block.parameters:
            known = given.get(parameter.name)
            frame.names[parameter.name] = _open_config(parameter, frame) if known is None else known
    config = dict(frame.names)
    for name, rank in ranks.items():
        frame.names[name] = rest_axes(block, name, rank)
    for name in _input_sizes(block):
        frame.names.setdefault(name, dim(name))
    stated = with_symbols(frame, block)
    for clause in stated_facts(block):
        frame.build.facts = frame.facts.assume(clause_condition(clause, stated, block))
    inputs = tuple(_input(item, frame) for item in block.inputs)
    open_config = (name for value in config.values() for name in _variables(value))
    sizes = (name for item in inputs for size in item.shape for name in _variables(size))
    static = {name: value for name, value in config.items() if is_static(value)}
    names = tuple(dict.fromkeys((*open_config, *sizes)))
    return BlockDomain(names, static, inputs, frame.facts, has_paths=path.next > 0)


def facts_hold(module: LinkedModule, block: ast.Block, names: Mapping[str, StaticValue]) -> bool:
    """Returns False if a clause of a `where` about nothing but these numbers is not true of them.

    Clauses that are no facts about such numbers are left to the elaboration.
    """
    state = ElaborationState(ELABORATOR, Builder())
    frame = Frame(state, module, block.name.text, dict(names), declaration=block)
    for clause in block.where:
        if names.keys() >= {*names_in(clause)}:
            with suppress(ProblemError, UndecidableError):
                if clause_condition(clause, frame, block) is False:
                    return False
    return True


def _open_config(parameter: ast.Parameter, frame: Frame) -> ElabValue:
    """All that a configuration value can be; of blocks the default, as there are no others here."""
    value = any_config(parameter, frame)
    if not isinstance(value, BlockValue):
        return value
    if parameter.default is None:
        raise UndecidableError(f"`{parameter.name}` is a block that has to be given")
    return frame.evaluate(parameter.default)


def model_configuration(
    module: LinkedModule, model: ast.Model
) -> tuple[LinkedModule, ast.Block, dict[str, StaticValue]]:
    """The block that a chain of models ends in, and its arguments. Raises `ProblemError`."""
    root = Frame(ElaborationState(ELABORATOR, Builder()), module, model.name.text, {})
    application = model_application(module, model, Arguments((), {}), "", model.call.span, root)
    return application.module, application.block, _by_name(application)


def _by_name(application: Application) -> dict[str, StaticValue]:
    arguments = application.arguments
    names = (parameter.name for parameter in application.block.parameters)
    values = {**dict(zip(names, arguments.positional, strict=False)), **arguments.named}
    return {name: value for name, value in values.items() if is_static(value)}


def _input(item: ast.Input, frame: Frame) -> DomainInput:
    dtype = None if item.type.dtype == ANY else dtype_of(item.type, frame)
    return DomainInput(item.name, dtype, shape_of(item.type.shape, frame))


def _input_sizes(block: ast.Block) -> Iterator[str]:
    rests = rest_names(block)
    for item in block.inputs:
        for entry in item.type.shape.entries:
            if not isinstance(entry, ast.Rest):
                yield from (name for name in size_names(entry) if name not in rests)


def _variables(value: ElabValue) -> list[str]:
    if isinstance(value, list):
        return [name for item in value for name in _variables(item)]
    return sorted(value.variables()) if isinstance(value, Dim) else []
