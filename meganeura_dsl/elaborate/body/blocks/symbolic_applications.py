"""An application whose sizes are symbols, so that what is found holds for other sizes too.

Models of one family apply the same layers to 64, 128 or 256 channels, and to images of `h` rows or
of `h//2`. Where a layer is applied a second time to other sizes, each size becomes a symbol, equal
ones the same symbol; small numbers stay what they are. Nothing is known of a symbol but that it is
1 at least, and of one that stands for a number that it is not small and differs from the others.
What is proved of that application holds for all such sizes, and its types are sizes in the symbols.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache, lru_cache

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.body.blocks.layer_templates import with_types
from meganeura_dsl.elaborate.body.expressions import deferred_numbers
from meganeura_dsl.elaborate.problems.proof_failures import is_countable
from meganeura_dsl.elaborate.scope.binding import Binding
from meganeura_dsl.elaborate.scope.deferred import DeferredNumber
from meganeura_dsl.elaborate.scope.proof import Abstraction, ProofPath
from meganeura_dsl.elaborate.scope.scope import ElaborationState, Frame
from meganeura_dsl.elaborate.scope.state import Context
from meganeura_dsl.elaborate.scope.summary import Summaries, SummarizedValue, Summary
from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.elaborate.typecheck.stated_positions import names_in
from meganeura_dsl.elaborate.typecheck.tensor_values import scalar
from meganeura_dsl.elaborate.values import BlockValue, ElabValue, Tensor, describe, is_initializer
from meganeura_dsl.ir.graph import Builder
from meganeura_dsl.ir.initializers import Initializer
from meganeura_dsl.ir.ops import Input
from meganeura_dsl.ir.types import DType, Shape, TensorType
from meganeura_dsl.symbolic.assumptions import Compare, Facts
from meganeura_dsl.symbolic.conditions import with_sizes as condition_with_sizes
from meganeura_dsl.symbolic.size import Dim, Size, dim, substitute
from meganeura_dsl.syntax import ast

LEAST = 8
"""Numbers below choose kernels, strides and groups, which decide what a layer does."""


class Kind(Enum):
    """The kind of number that a symbol stands for."""

    NUMBER = "a number that is not small"
    ANY_SIZE = "any size, or one in symbols that stand for numbers"
    SIZE = "a size that the data decides"


@dataclass(frozen=True)
class SymbolicApplication:
    """The arguments of a block, with symbols for sizes."""

    config: Mapping[str, ElabValue]
    types: tuple[TensorType, ...]
    numbers: tuple[float | None, ...]
    """The number that each input is everywhere, if it is a default."""
    sizes: Mapping[str, Size]
    """The sizes of this application, by the symbols that stand for them."""
    kinds: tuple[Kind, ...]

    def key(self, inner: Frame, block: ast.Block) -> Hashable:
        """Returns a key that is equal for applications that differ in nothing but their sizes."""
        mode = (inner.state.context.training, inner.state.context.frozen)
        config = tuple(map(with_types, self.config.values()))
        numbers = tuple(map(with_types, self.numbers))
        initials = frozenset(inner.initials.items())
        return block, config, self.types, numbers, self.kinds, initials, mode

    def frame(
        self, inner: Frame, block: ast.Block, summaries: Summaries
    ) -> tuple[Frame, list[Tensor]]:
        """The frame of the block in its own elaboration, and its inputs."""
        symbols = list(zip(self.sizes, self.kinds, strict=True))
        state = ElaborationState(
            inner.state.elaborator,
            Builder(_facts(symbols, summaries.facts)),
            Context(
                inner.state.context.training,
                frozen=inner.state.context.frozen,
                summaries=summaries,
            ),
            abstract=Abstraction(
                frozenset(name for name, kind in symbols if kind is not Kind.SIZE),
                frozenset(name for name, kind in symbols if kind is Kind.NUMBER),
            ),
        )
        frame = replace(
            inner, state=state, names=dict(self.config), layers={}, own=set[str](),
            parent=None, call_span=None, choices=ProofPath(),
        )  # fmt: skip
        inputs: list[Tensor] = []
        for item, type_, number in zip(block.inputs, self.types, self.numbers, strict=True):
            if number is None:
                value = frame.add(item.span, Input(item.name, type_.dtype, type_.shape))
            else:
                value = scalar(frame, item.span, number, type_.dtype, type_.shape)
                state.values.fill_values[value.id] = number
            frame.names[item.name] = value
            inputs.append(value)
        return frame, inputs


def _facts(symbols: Sequence[tuple[str, Kind]], facts: Facts) -> Facts:
    """Returns facts about the symbols: numbers are not small."""
    for name, kind in symbols:
        if kind is Kind.NUMBER:
            facts = facts.with_lower_bound(name, LEAST)
    return facts


@cache
def _symbol(number: int) -> Dim:
    return dim(_name(number))


@cache
def _name(number: int) -> str:
    return f"#{number}"


class _Symbols:
    """Gives each size that is not a small number a symbol, equal ones the same.

    With `is_any` sizes may be any, of which nothing is known: small ones of tensors too.
    """

    def __init__(self, state: ElaborationState, *, is_any: bool) -> None:
        self.state = state
        self.is_any = is_any
        self.known: dict[Size, Dim] = {}
        self.sizes: list[Size] = []
        self.kinds: list[Kind] = []

    def of(self, size: Size) -> Size:
        """The symbol of a size, or the small number itself."""
        if isinstance(size, int) and size < LEAST:
            return size
        return self._shared(size)

    def of_shape(self, shape: Shape, *, is_alone: bool) -> Shape:
        """A shape in symbols; of a tensor that is alone, any two sizes may differ."""
        if not self.is_any:
            return tuple([self.of(size) for size in shape])
        return tuple([self._new(size) if is_alone else self._shared(size) for size in shape])

    def _shared(self, size: Size) -> Dim:
        symbol = self.known.get(size)
        if symbol is None:
            symbol = self.known[size] = self._new(size)
        return symbol

    def _new(self, size: Size) -> Dim:
        self.sizes.append(size)
        self.kinds.append(Kind.ANY_SIZE if self.is_any else self._kind(size))
        return _symbol(len(self.sizes) - 1)

    def of_config(self, value: ElabValue) -> ElabValue:
        """A configuration in symbols; `KeyError` where it may speak of sizes otherwise."""
        match value:
            case bool() | float() | str():
                return value
            case int() | Dim():
                return self.of(value)
            case BlockValue(config=config) if all(
                isinstance(each, bool | int | float | str) for _, each in config
            ):
                return value
            case _ if is_initializer(value):
                return value
            case _:
                raise KeyError(describe(value))

    def _kind(self, size: Size) -> Kind:
        if isinstance(size, int):
            return Kind.NUMBER
        return Kind.ANY_SIZE if size.variables() <= self.state.abstract.symbols else Kind.SIZE


def symbolic_application(
    inner: Frame, block: ast.Block, inputs: Sequence[Tensor], *, is_any: bool = False
) -> SymbolicApplication | None:
    """The application with symbols for its sizes; None if it has none, or more than types say.

    With `is_any` the sizes of its tensors may be any.
    """
    state = inner.state
    given = tuple(state.values.fill_values.get(value.id) for value in inputs)
    numbers = tuple(None if isinstance(each, Dim) else each for each in given)
    if len(inputs) != len(block.inputs) or any(isinstance(each, Dim) for each in given):
        return None
    if any(
        value.type.dtype is DType.I32 and number is None
        for value, number in zip(inputs, numbers, strict=True)
    ):
        return None
    symbols = _Symbols(state, is_any=is_any)
    fixed = _counted(block)
    try:
        config = {
            each.name: inner.names[each.name]
            if each.name in fixed and isinstance(inner.names[each.name], int)
            else symbols.of_config(inner.names[each.name])
            for each in block.parameters
        }
    except KeyError:
        return None
    types = tuple(
        TensorType(value.type.dtype, symbols.of_shape(value.type.shape, is_alone=len(inputs) == 1))
        for value in inputs
    )
    sizes = {_name(number): size for number, size in enumerate(symbols.sizes)}
    if not sizes or not all(_is_positive(inner, size) for size in symbols.sizes):
        return None
    return SymbolicApplication(config, types, numbers, sizes, tuple(symbols.kinds))


@lru_cache(maxsize=512)
def _counted(block: ast.Block) -> frozenset[str]:
    """The names that say how many iterations there are, which no symbol can."""
    loops = (
        node for each in block.body for node in walk(each) if isinstance(node, ast.For | ast.Scan)
    )
    return frozenset(
        name for loop in loops for end in (loop.start, loop.stop) for name in names_in(end)
    )


def _is_positive(inner: Frame, size: Size) -> bool:
    if isinstance(size, int):
        return size >= 1
    return inner.facts.proves(Compare(">=", size, 1))


def with_sizes(summary: Summary, sizes: Mapping[str, Size], inner: Frame) -> Summary | None:
    """Returns a summary with sizes for its symbols; None if its conditions do not hold for them.

    It does not where a number has no value, or where something it needs is not known.
    """
    known: dict[Size, Size] = {}

    def sized(size: Size) -> Size:
        found = known.get(size)
        if found is None:
            found = known[size] = substitute(size, sizes)
        return found

    def typed(type_: TensorType) -> TensorType:
        return TensorType(type_.dtype, tuple([sized(size) for size in type_.shape]))

    def valued(values: Iterable[SummarizedValue]) -> tuple[SummarizedValue, ...]:
        return tuple([each._replace(type=typed(each.type)) for each in values])

    try:
        initials, deferred = _numbers(summary.deferred, sizes, inner.state)
    except ProblemError:
        return None
    needs = (condition_with_sizes(each, sizes) for each in summary.needs)
    unproved = tuple(each for each in needs if not inner.facts.proves(each))
    if unproved and not inner.state.abstract.symbols:
        return None
    parameters = tuple(
        [
            (
                name,
                info._replace(
                    type=typed(info.type), initializer=initials.get(name, info.initializer)
                ),
            )
            for name, info in summary.parameters
        ]
    )
    sizing = inner.state.abstract.symbols
    for _, info in parameters:
        for size in info.type.shape if info.kind != "cache" else ():
            if not isinstance(size, int) and not size.variables() <= sizing:
                return None  # a size that the data decides
    shapes = frozenset([tuple([sized(size) for size in shape]) for shape in summary.shapes])
    if not all(is_countable(shape, inner.facts) for shape in shapes):
        return None
    names = [name for name, _ in summary.updates]
    return replace(
        summary,
        results=valued(summary.results),
        updates=tuple(zip(names, valued(each for _, each in summary.updates), strict=True)),
        parameters=parameters,
        bindings=tuple(
            [
                Binding(each.span, each.name, each.path, typed(each.type))
                for each in summary.bindings
            ]
        ),
        deferred=deferred,
        needs=unproved,
        shapes=shapes,
    )


def _numbers(
    deferred: Sequence[DeferredNumber[Frame]], sizes: Mapping[str, Size], state: ElaborationState
) -> tuple[dict[str, Initializer], tuple[DeferredNumber[Frame], ...]]:
    """Returns initial values of parameters, and the numbers that are still not known.

    Raises `ProblemError` where a number has no value.
    """
    initials: dict[str, Initializer] = {}
    left: list[DeferredNumber[Frame]] = []
    for each in deferred:
        here = deferred_numbers.with_sizes(each, sizes, state)
        if isinstance(here, DeferredNumber):
            left.append(here)
        elif here is not None:
            initials[each.parameter] = here
    return initials, tuple(left)
