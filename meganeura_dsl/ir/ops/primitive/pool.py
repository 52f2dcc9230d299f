"""Max pooling. The gradient and its adjoint read x again to find each window's largest."""

from dataclasses import dataclass

from meganeura_dsl.ir.graph import Array, Builder, Op, TypeRuleError, Value
from meganeura_dsl.ir.ops.primitive.broadcast import full
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
from meganeura_dsl.ir.types import Shape, TensorType
from meganeura_dsl.startup.lazy_numpy import np
from meganeura_dsl.symbolic.assumptions import Compare, Facts

__all__ = ["MaxPool", "MaxPoolGradient", "MaxPoolSelect"]


@dataclass(frozen=True)
class Pooling(Op, abstract=True):
    """The geometry that max pooling and its adjoints share; the padding is smaller than all."""

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

    def _winners(self, x: Array) -> tuple[tuple[int, ...], Array]:
        """The shape of padded x, and for each window the index in it of the first maximum."""
        windows = self._windows()
        padded = windows.pad(x, -np.inf)
        places = [place for _, place in windows.taps(x.shape[2:])]
        best = padded[(..., *places[0])].copy()
        first = np.zeros(best.shape, np.min_scalar_type(len(places)))
        for tap, place in enumerate(places):
            candidate = padded[(..., *place)]
            # Taps come in order, so the latest to be larger is the largest number so far.
            np.maximum(first, (candidate > best) * first.dtype.type(tap), out=first)
            np.maximum(best, candidate, out=best)
        if np.isnan(best).any():
            # No comparison finds NaN, which is the largest.
            first = np.argmax(np.stack([padded[(..., *place)] for place in places]), axis=0)
        index = np.arange(padded.size).reshape(padded.shape)
        steps = np.array([index[(0, 0, *place)].flat[0] for place in places])
        return padded.shape, index[(..., *places[0])] + steps[first]

    def _chosen(self, build: Builder, x: Value, pooled: TensorType) -> Value:
        """Of how many windows each element of x is the largest."""
        return build.add(MaxPoolGradient(*self._geometry), x, full(build, pooled, 1))

    @property
    def _geometry(self) -> tuple[Shape, Shape, Shape]:
        return self.window, self.stride, self.padding


@dataclass(frozen=True)
class MaxPool(Pooling):
    """The largest in each window of x [n, c, *spatial]. The first in row-major order wins a tie."""

    operands = Operands(("x",))

    def infer(self, facts: Facts, x: TensorType) -> TensorType:
        return self._pooled(facts, x)

    def evaluate(self, x: Array) -> Array:
        windows = self._windows()
        padded = windows.pad(x, -np.inf)
        start, *others = (place for _, place in windows.taps(x.shape[2:]))
        best = padded[(..., *start)].copy()
        for place in others:
            np.maximum(best, padded[(..., *place)], out=best)
        return best

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> tuple[Value | None, ...]:
        return (build.add(MaxPoolGradient(*self._geometry), out.operands[0], cotangent),)

    def chosen_piece(self, build: Builder, out: Value) -> Value:
        return self._chosen(build, out.operands[0], out.type)


@dataclass(frozen=True)
class MaxPoolGradient(Pooling):
    """Each window's cotangent, added to the place of its largest in x."""

    operands = Operands(("x", "dy"))

    def infer(self, facts: Facts, x: TensorType, dy: TensorType) -> TensorType:
        require_same_type(self, facts, dy, self._pooled(facts, x))
        return x

    def evaluate(self, x: Array, dy: Array) -> Array:
        shape, winner = self._winners(x)
        total = np.bincount(winner.reshape(-1), dy.reshape(-1), int(np.prod(shape)))
        return self._windows().unpad(total.reshape(shape)).astype(dy.dtype)

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> tuple[Value | None, ...]:
        return None, build.add(MaxPoolSelect(*self._geometry), out.operands[0], cotangent)

    def chosen_piece(self, build: Builder, out: Value) -> Value:
        x, dy = out.operands
        return self._chosen(build, x, dy.type)


@dataclass(frozen=True)
class MaxPoolSelect(Pooling):
    """From g, which has the shape of x, what stands at the place of each window's largest in x."""

    operands = Operands(("x", "g"))

    def infer(self, facts: Facts, x: TensorType, g: TensorType) -> TensorType:
        require_same_type(self, facts, x, g)
        return self._pooled(facts, x)

    def evaluate(self, x: Array, g: Array) -> Array:
        _, winner = self._winners(x)
        return self._windows().pad(g, 0).reshape(-1)[winner]

    def pullback(self, build: Builder, out: Value, cotangent: Value) -> tuple[Value | None, ...]:
        return None, build.add(MaxPoolGradient(*self._geometry), out.operands[0], cotangent)

    def chosen_piece(self, build: Builder, out: Value) -> Value:
        return self._chosen(build, out.operands[0], out.type)


OPS: tuple[type[Op], ...] = (MaxPool, MaxPoolGradient, MaxPoolSelect)
