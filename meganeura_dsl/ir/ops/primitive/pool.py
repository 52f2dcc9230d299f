"""Max pooling, which says where each window's largest is, and what is added or read there."""

from dataclasses import dataclass
from typing import ClassVar

from meganeura_dsl.ir.graph import Array, Builder, Op, TypeRuleError, Value
from meganeura_dsl.ir.ops.primitive.windows import Windows, output_shape
from meganeura_dsl.ir.ops.type_rules import (
    FLOATS,
    concrete_shape,
    require_at_least,
    require_dtype,
    require_length,
    require_same_type,
    title,
)
from meganeura_dsl.ir.traits import ElementCost, Operands, Trait
from meganeura_dsl.ir.types import DType, Shape, TensorType
from meganeura_dsl.startup.lazy_numpy import np
from meganeura_dsl.symbolic.assumptions import Compare, Facts

__all__ = ["MaxPool", "MaxPoolGradient", "MaxPoolSelect"]


@dataclass(frozen=True)
class Pooling(Op, abstract=True):
    """The geometry that max pooling and its adjoints share; the padding is smaller than all.

    A place in a window is known by its row-major number there, an i32.
    """

    traits = frozenset({Trait.REDUCTION})
    element_cost = ElementCost.LOAD
    window: Shape
    stride: Shape
    padding: Shape

    def _pooled(self, facts: Facts, x: TensorType) -> TensorType:
        require_dtype(self, x, FLOATS)
        if x.rank < 3:
            raise TypeRuleError(f"{title(self)} takes [n, c, *spatial], not {x}")
        for name, sizes, least in (
            ("window", self.window, 1),
            ("stride", self.stride, 1),
            ("padding", self.padding, 0),
        ):
            require_length(self, name, sizes, x.rank - 2)
            require_at_least(self, facts, name, sizes, least)
        for window, padding in zip(self.window, self.padding, strict=True):
            facts.require(
                Compare("<=", 2 * padding, window),
                f"the padding of {title(self)} is at most half its window",
            )
        dense = (1,) * (x.rank - 2)
        spatial = output_shape(
            self, facts, x.shape[2:], self.window, self.stride, self.padding, dense
        )
        return x.with_shape((*x.shape[:2], *spatial))

    def _windows(self) -> Windows:
        window = concrete_shape(self.window)
        return Windows(
            window, concrete_shape(self.stride), concrete_shape(self.padding), (1,) * len(window)
        )

    def _index_type(self, pooled: TensorType) -> TensorType:
        return pooled.with_dtype(DType.I32)

    def _found(self, indices: Array, spatial: tuple[int, ...]) -> tuple[tuple[int, ...], Array]:
        """The shape of padded x [n, c, *spatial], and the places of windows' indices in it."""
        windows = self._windows()
        shape = (*indices.shape[:2], *windows.padded(spatial))
        position = np.arange(int(np.prod(shape))).reshape(shape)
        taps = [position[(..., *tap)] for _, tap in windows.taps(spatial)]
        if indices.min() < 0 or indices.max() >= len(taps):
            raise IndexError(f"an index is outside a window of {len(taps)} elements")
        steps = np.array([tap.flat[0] for tap in taps])
        return shape, taps[0] + steps[indices]

    @property
    def _geometry(self) -> tuple[Shape, Shape, Shape]:
        return self.window, self.stride, self.padding


@dataclass(frozen=True)
class MaxPool(Pooling):
    """The largest in each window of x [n, c, *spatial], and its index in the window.

    The first in row-major order wins a tie, and NaN is larger than every number.
    """

    operands = Operands(("x",))

    multiple_results: ClassVar[bool] = True

    def infer(self, facts: Facts, x: TensorType) -> tuple[TensorType, TensorType]:
        pooled = self._pooled(facts, x)
        return pooled, self._index_type(pooled)

    def evaluate(self, x: Array) -> tuple[Array, Array]:
        windows = self._windows()
        padded = windows.pad(x, -np.inf)
        taps = [padded[(..., *position)] for _, position in windows.taps(x.shape[2:])]
        best = taps[0].copy()
        for tap in taps[1:]:
            np.maximum(best, tap, out=best)
        if np.isnan(best).any():
            # No comparison finds NaN, which is the largest.
            return best, np.argmax(np.stack(taps), axis=0)
        index = np.zeros(best.shape, np.min_scalar_type(len(taps)))
        smaller = np.ones(best.shape, np.bool_)
        for tap in taps[:-1]:
            # An index is the number of taps before the first that is largest.
            smaller &= tap < best
            index += smaller
        return best, index

    def pullback(
        self, build: Builder, out: tuple[Value, ...], cotangent: tuple[Value | None, ...]
    ) -> tuple[Value | None, ...]:
        (largest, indices), (dy, _) = out, cotangent
        if dy is None:
            return (None,)
        spatial = largest.operands[0].type.shape[2:]
        return (build.add(MaxPoolGradient(*self._geometry, spatial), indices, dy),)

    def branch_index(self, build: Builder, out: Value) -> Value:
        return build.results_of(out)[1]


@dataclass(frozen=True)
class MaxPoolGradient(Pooling):
    """Each window's cotangent, added to [n, c, *spatial] at the window's index."""

    operands = Operands(("indices", "dy"))
    spatial: Shape

    def infer(self, facts: Facts, indices: TensorType, dy: TensorType) -> TensorType:
        total = dy.with_shape((*dy.shape[:2], *self.spatial))
        require_same_type(self, facts, dy, self._pooled(facts, total))
        require_same_type(self, facts, indices, self._index_type(dy))
        return total

    def evaluate(self, indices: Array, dy: Array) -> Array:
        shape, position = self._found(indices, concrete_shape(self.spatial))
        total = np.bincount(position.reshape(-1), dy.reshape(-1), int(np.prod(shape)))
        return self._windows().unpad(total.reshape(shape)).astype(dy.dtype)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> tuple[Value | None, ...]:
        return None, build.add(MaxPoolSelect(*self._geometry), out.operands[0], cotangent)


@dataclass(frozen=True)
class MaxPoolSelect(Pooling):
    """From g [n, c, *spatial], what stands at each window's index."""

    operands = Operands(("indices", "g"))
    traits = frozenset({Trait.GATHER})
    element_cost = ElementCost.SIMPLE  # not a load: its neighbours read the same few elements

    def infer(self, facts: Facts, indices: TensorType, g: TensorType) -> TensorType:
        pooled = self._pooled(facts, g)
        require_same_type(self, facts, indices, self._index_type(pooled))
        return pooled

    def evaluate(self, indices: Array, g: Array) -> Array:
        _, position = self._found(indices, g.shape[2:])
        return self._windows().pad(g, 0).reshape(-1)[position]

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> tuple[Value | None, ...]:
        indices, g = out.operands
        gradient = MaxPoolGradient(*self._geometry, g.type.shape[2:])
        return None, build.add(gradient, indices, cotangent)


OPS: tuple[type[Op], ...] = (MaxPool, MaxPoolGradient, MaxPoolSelect)
