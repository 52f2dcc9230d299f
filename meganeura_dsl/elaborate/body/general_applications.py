"""An application whose numbers are symbols, so that what is found holds for other numbers too.

Models of one family apply the same layers to 64, 128 or 256 channels. Where a layer is applied a
second time with other numbers, each number that is not small becomes a symbol, equal ones the same
symbol, of which nothing is known but that it is not small and differs from the others. What is
proved of that application holds for all such numbers, and its types are sizes in the symbols.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from meganeura_dsl.elaborate.body.layer_templates import with_types
from meganeura_dsl.elaborate.scope.scope import ElaborationState, Frame
from meganeura_dsl.elaborate.scope.summary import SummarizedValue, Summary
from meganeura_dsl.elaborate.values import Evaluated, Tensor
from meganeura_dsl.ir.graph import Builder
from meganeura_dsl.ir.ops import Input
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.conditions import Compare
from meganeura_dsl.symbolic.size import Dim, Size, dim, substitute
from meganeura_dsl.syntax import ast

LEAST = 8
"""Numbers below choose kernels, strides and groups, which decide what a layer does."""


@dataclass(frozen=True)
class GeneralApplication:
    """What a block is applied to, with symbols for numbers."""

    config: Mapping[str, Evaluated]
    types: tuple[TensorType, ...]
    sizes: Mapping[str, int]
    """The numbers of this application, by the symbols that stand for them."""

    def key(self, inner: Frame, block: ast.Block) -> Hashable:
        """What applications have in common that differ in such numbers alone."""
        mode = (inner.state.training, inner.state.frozen)
        config = tuple(map(with_types, self.config.values()))
        initials = frozenset(inner.initials.items())
        return block, config, self.types, tuple(self.sizes), initials, mode, inner.facts

    def frame(self, inner: Frame, block: ast.Block) -> tuple[Frame, list[Tensor]]:
        """The frame of the block in an elaboration of its own, and its inputs."""
        names = list(self.sizes)
        facts = inner.facts
        for number, name in enumerate(names):
            facts = facts.with_lower_bound(name, LEAST)
            for other in names[:number]:
                facts = facts.assume(Compare("!=", dim(name), dim(other)))
        state = ElaborationState(
            Builder(facts),
            inner.state.training,
            frozen=inner.state.frozen,
            summaries=inner.state.summaries,
            generalized=inner.state.generalized.union(names),
        )
        items = (item for item in block.inputs if item.name in inner.names)
        inputs = {
            item.name: state.build.add(Input(item.name, type_.dtype, type_.shape))
            for item, type_ in zip(items, self.types, strict=True)
        }
        frame = replace(
            inner,
            state=state,
            names={**self.config, **inputs},
            layers={},
            own=set[str](),
        )
        return frame, list(inputs.values())


def general_application(
    inner: Frame, block: ast.Block, inputs: Sequence[Tensor]
) -> GeneralApplication | None:
    """The application with symbols for its numbers; None if there is no use in it."""
    state = inner.state
    if any(value.type.dtype is DType.I32 or value.id in state.neutral for value in inputs):
        return None
    symbols: dict[int, Dim] = {}

    def general(value: Size) -> Size:
        if isinstance(value, Dim) or value < LEAST:
            return value
        name = f"#{len(state.generalized) + len(symbols)}"
        return symbols.setdefault(value, dim(name))

    config = {
        parameter.name: general(value) if type(value) is int else value
        for parameter in block.parameters
        for value in (inner.names[parameter.name],)
    }
    types = tuple(
        TensorType(value.type.dtype, tuple(map(general, value.type.shape))) for value in inputs
    )
    if not symbols:
        return None
    return GeneralApplication(config, types, {str(name): size for size, name in symbols.items()})


def with_numbers(summary: Summary, sizes: Mapping[str, int]) -> Summary:
    """What a summary says where its symbols are these numbers."""

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
