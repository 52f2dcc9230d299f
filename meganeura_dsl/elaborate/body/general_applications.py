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
from itertools import combinations

from meganeura_dsl.elaborate.body.layer_templates import with_types
from meganeura_dsl.elaborate.scope.scope import ElaborationState, Frame
from meganeura_dsl.elaborate.scope.summary import Summaries, SummarizedValue, Summary
from meganeura_dsl.elaborate.values import BlockValue, Evaluated, Tensor, describe, is_initializer
from meganeura_dsl.ir.graph import Builder
from meganeura_dsl.ir.ops import Input
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.assumptions import Compare, Facts, Proved
from meganeura_dsl.symbolic.size import Dim, Size, dim, substitute
from meganeura_dsl.syntax import ast

LEAST = 8
"""Numbers below choose kernels, strides and groups, which decide what a layer does."""


class Kind(Enum):
    """What a symbol stands for."""

    NUMBER = "a number that is not small"
    GENERAL = "a size in symbols that stand for numbers"
    SIZE = "a size that the data decides"


@dataclass(frozen=True)
class GeneralApplication:
    """What a block is applied to, with symbols for sizes."""

    config: Mapping[str, Evaluated]
    types: tuple[TensorType, ...]
    sizes: Mapping[str, Size]
    """The sizes of this application, by the symbols that stand for them."""
    kinds: tuple[Kind, ...]

    def key(self, inner: Frame, block: ast.Block) -> Hashable:
        """What applications have in common that differ in such sizes alone."""
        mode = (inner.state.training, inner.state.frozen)
        config = tuple(map(with_types, self.config.values()))
        return block, config, self.types, self.kinds, frozenset(inner.initials.items()), mode

    def frame(
        self, inner: Frame, block: ast.Block, summaries: Summaries
    ) -> tuple[Frame, list[Tensor]]:
        """The frame of the block in an elaboration of its own, and its inputs."""
        symbols = list(zip(self.sizes, self.kinds, strict=True))
        state = ElaborationState(
            Builder(_facts(symbols, summaries.facts)),
            inner.state.training,
            frozen=inner.state.frozen,
            summaries=summaries,
            generalized=frozenset(name for name, kind in symbols if kind is not Kind.SIZE),
        )
        items = (item for item in block.inputs if item.name in inner.names)
        inputs = {
            item.name: state.build.add(Input(item.name, type_.dtype, type_.shape))
            for item, type_ in zip(items, self.types, strict=True)
        }
        names = {**self.config, **inputs}
        frame = replace(inner, state=state, names=names, layers={}, own=set[str]())
        return frame, list(inputs.values())


def _facts(symbols: Sequence[tuple[str, Kind]], facts: Facts) -> Facts:
    """What is known of the symbols: numbers are not small, and differ."""
    numbers = [name for name, kind in symbols if kind is Kind.NUMBER]
    for name in numbers:
        facts = facts.with_lower_bound(name, LEAST)
    for one, other in combinations(numbers, 2):
        facts = facts.assume(Compare("!=", dim(one), dim(other)))
    return facts


class _Symbols:
    """Gives each size that is not a small number a symbol, equal ones the same."""

    def __init__(self, state: ElaborationState) -> None:
        self.state = state
        self.known: dict[Size, Dim] = {}
        self.kinds: list[Kind] = []

    def of(self, size: Size) -> Size:
        """The symbol of a size, or the small number itself."""
        if isinstance(size, int) and size < LEAST:
            return size
        if size not in self.known:
            self.known[size] = dim(f"#{len(self.known)}")
            self.kinds.append(self._kind(size))
        return self.known[size]

    def of_config(self, value: Evaluated) -> Evaluated:
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
        return Kind.GENERAL if size.variables() <= self.state.generalized else Kind.SIZE


def general_application(
    inner: Frame, block: ast.Block, inputs: Sequence[Tensor]
) -> GeneralApplication | None:
    """The application with symbols for its sizes; None if it has none, or more than types say."""
    state = inner.state
    if any(value.type.dtype is DType.I32 or value.id in state.neutral for value in inputs):
        return None
    symbols = _Symbols(state)
    try:
        config = {each.name: symbols.of_config(inner.names[each.name]) for each in block.parameters}
    except KeyError:
        return None
    types = tuple(
        TensorType(value.type.dtype, tuple(map(symbols.of, value.type.shape))) for value in inputs
    )
    sizes = {str(symbol): size for size, symbol in symbols.known.items()}
    positive = (inner.facts.decide(Compare(">=", size, 1)) for size in symbols.known)
    if not sizes or not all(isinstance(verdict, Proved) for verdict in positive):
        return None
    return GeneralApplication(config, types, sizes, tuple(symbols.kinds))


def with_sizes(summary: Summary, sizes: Mapping[str, Size]) -> Summary:
    """What a summary says where its symbols are these sizes."""

    def typed(type_: TensorType) -> TensorType:
        return TensorType(type_.dtype, tuple(substitute(size, sizes) for size in type_.shape))

    def valued(values: Iterable[SummarizedValue]) -> tuple[SummarizedValue, ...]:
        return tuple(replace(each, type=typed(each.type)) for each in values)

    names = [name for name, _ in summary.updates]
    return replace(
        summary,
        results=valued(summary.results),
        updates=tuple(zip(names, valued(each for _, each in summary.updates), strict=True)),
        parameters=tuple(
            (name, replace(info, type=typed(info.type))) for name, info in summary.parameters
        ),
        bindings=tuple(replace(each, type=typed(each.type)) for each in summary.bindings),
    )
