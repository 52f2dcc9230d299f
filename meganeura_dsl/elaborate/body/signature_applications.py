"""An application of any sizes: each size that a signature names is a symbol, as in a proof.

Nothing is known of these symbols but that they are 1 at least, and what `where` states. So what is
found of such an application holds for every one whose configuration differs in sizes alone.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from meganeura_dsl.elaborate.body.layer_templates import with_types
from meganeura_dsl.elaborate.scope.guide import Guide
from meganeura_dsl.elaborate.scope.scope import ElaborationState, Frame, ProofPath
from meganeura_dsl.elaborate.scope.summary import Summaries
from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.elaborate.typecheck.positions import names_in
from meganeura_dsl.elaborate.typecheck.shape_patterns import Evaluate, size_names
from meganeura_dsl.elaborate.typecheck.signatures import shape_of
from meganeura_dsl.elaborate.typecheck.symbolic_inputs import rest_axes, rest_names
from meganeura_dsl.elaborate.typecheck.tensor_arithmetic import scalar
from meganeura_dsl.elaborate.values import Axes, BlockValue, Evaluated, Tensor, is_initializer
from meganeura_dsl.ir.graph import Builder
from meganeura_dsl.ir.ops import Input
from meganeura_dsl.ir.types import DType
from meganeura_dsl.startup.deferred_dataclass import dataclass
from meganeura_dsl.symbolic.assumptions import Compare
from meganeura_dsl.symbolic.size import Dim, Size, dim
from meganeura_dsl.syntax import ast

LEAST = 8
"""Numbers below choose kernels, strides and groups, which decide what a layer does."""


@dataclass(frozen=True)
class SignatureApplication:
    """What a block is applied to, with the names of its signature for sizes."""

    config: Mapping[str, Evaluated]
    rests: Mapping[str, Axes]
    dtypes: tuple[DType, ...]
    numbers: tuple[float | None, ...]
    """For each input the number that it is everywhere, if it is a default."""
    sizes: Mapping[str, Size]
    """The sizes of this application, by the symbols that stand for them."""

    def key(self, inner: Frame, block: ast.Block, idle: frozenset[str]) -> Hashable:
        """What applications have in common that differ in sizes, and `idle` numbers, alone."""
        mode = (inner.state.training, inner.state.frozen)
        config = tuple(
            0.0 if name in idle and isinstance(value, float) else with_types(value)
            for name, value in self.config.items()
        )
        numbers = tuple(map(with_types, self.numbers))
        initials = frozenset(inner.initials.items())
        ranks = tuple(map(len, self.rests.values()))
        return block, config, ranks, self.dtypes, numbers, initials, mode

    def frame(
        self, inner: Frame, block: ast.Block, summaries: Summaries, guide: Guide, evaluate: Evaluate
    ) -> tuple[Frame, list[Tensor]]:
        """The frame of the block in an elaboration of its own, and its inputs."""
        state = ElaborationState(
            Builder(summaries.facts),
            inner.state.training,
            frozen=inner.state.frozen,
            summaries=summaries,
            generalized=frozenset(self.sizes),
            guide=guide,
        )
        frame = replace(
            inner, state=state, names={**self.config}, layers={}, own=set[str](),
            parent=None, call_span=None, choices=ProofPath(),
        )  # fmt: skip
        named = replace(frame, names={**_names(block).symbols, **self.config, **self.rests})
        inputs: list[Tensor] = []
        for item, dtype, number in zip(block.inputs, self.dtypes, self.numbers, strict=True):
            shape = shape_of(item.type.shape, named, evaluate)
            if number is None:
                value = frame.add(item.span, Input(item.name, dtype, shape))
            else:
                value = scalar(frame, item.span, number, dtype, shape)
                state.neutral[value.id] = number
            frame.names[item.name] = value
            inputs.append(value)
        return frame, inputs


@dataclass(frozen=True)
class _Names:
    """The names of a signature."""

    symbols: Mapping[str, Dim]
    """A symbol for each name in the shapes of the inputs."""
    parameters: tuple[str, ...]
    counted: frozenset[str]
    """Those that say how many rounds there are, which no symbol can."""
    rests: tuple[str, ...]


@lru_cache(maxsize=512)
def _names(block: ast.Block) -> _Names:
    entries = [entry for item in block.inputs for entry in item.type.shape.entries]
    parts = [entry for entry in entries if not isinstance(entry, ast.Rest)]
    loops = [
        node for each in block.body for node in walk(each) if isinstance(node, ast.For | ast.Scan)
    ]
    return _Names(
        {name: dim(name) for entry in parts for name in size_names(entry)},
        tuple(each.name for each in block.parameters),
        frozenset(
            name for loop in loops for end in (loop.start, loop.stop) for name in names_in(end)
        ),
        tuple(rest_names(block)),
    )


def signature_application(
    inner: Frame, block: ast.Block, inputs: Sequence[Tensor]
) -> SignatureApplication | None:
    """The application with symbols for its sizes; None if it has none, or more than types say."""
    if len(inputs) != len(block.inputs):
        return None
    neutral = inner.state.neutral
    numbers: list[float | None] = []
    for value in inputs:
        number = neutral.get(value.id)
        if isinstance(number, Dim) or (value.type.dtype is DType.I32 and number is None):
            return None
        numbers.append(number)
    names, known = _names(block), inner.names
    sizes: dict[str, Size] = {}
    config: dict[str, Evaluated] = {}
    for name in names.parameters:
        value = known[name]
        match value:
            case bool() | float() | str():
                config[name] = value
            case int() if value < LEAST or name in names.counted:
                config[name] = value
            case int() | Dim():
                config[name], sizes[name] = dim(name), value
            case BlockValue(config=held) if all(
                isinstance(each, bool | int | float | str) for _, each in held
            ):
                config[name] = value
            case _ if is_initializer(value):
                config[name] = value
            case _:
                return None
    rests: dict[str, Axes] = {}
    for name in names.rests:
        axes = known[name]
        assert isinstance(axes, Axes)
        rests[name] = rest_axes(block, name, len(axes))
        sizes.update(zip(map(str, rests[name]), axes, strict=True))
    for name in names.symbols:
        if name not in config:
            size = known.get(name)
            if not isinstance(size, int | Dim):  # the configuration chose a size without it
                return None
            sizes[name] = size
    if not sizes or not all(_is_positive(inner, size) for size in sizes.values()):
        return None
    dtypes = tuple([value.type.dtype for value in inputs])
    return SignatureApplication(config, rests, dtypes, tuple(numbers), sizes)


def _is_positive(inner: Frame, size: Size) -> bool:
    if isinstance(size, int):
        return size >= 1
    return inner.facts.proves(Compare(">=", size, 1))
