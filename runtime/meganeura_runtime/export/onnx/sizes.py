"""Symbolic sizes in an ONNX graph: read from the shapes of inputs, computed as int64 tensors."""

from collections.abc import Mapping
from dataclasses import dataclass

from meganeura_dsl.ir.types import Shape, TensorType
from meganeura_dsl.symbolic.polynomial import Floor, terms_of, variables_of
from meganeura_dsl.symbolic.size import Dim, Size, dim
from meganeura_runtime.export.onnx.emitter import Emitter

COPIED = 0
"""The entry of a `Reshape` that stands for the operand's size on the same axis."""
INFERRED = -1
"""The entry of a `Reshape` that stands for the remaining elements."""


@dataclass(frozen=True)
class _Source:
    """An axis of an input that is a size."""

    input: str
    axis: int


class Sizes:
    """Sizes as int64 vectors of one element; each is computed once."""

    def __init__(self, emitter: Emitter, inputs: Mapping[str, TensorType]) -> None:
        self._emitter = emitter
        self._sources = {
            size: _Source(name, axis)
            for name, each in inputs.items()
            for axis, size in enumerate(each.shape)
            if isinstance(size, Dim)
        }
        """The axes of inputs; elaboration saw to it that every variable follows from them."""
        self._known: dict[Size, str] = {}

    def vector(self, size: Size) -> str:
        """A size as a vector of one."""
        if isinstance(size, int):
            return self._emitter.integers([size])
        if size not in self._known:
            self._known[size] = self._computed(size)
        return self._known[size]

    def shape(self, shape: Shape) -> str:
        """A shape as a vector."""
        if all(isinstance(size, int) for size in shape):
            return self._emitter.integers([size for size in shape if isinstance(size, int)])
        return self._emitter.add("Concat", *map(self.vector, shape), axis=0)

    def target(self, operand: Shape, result: Shape) -> str:
        """Returns the target of a `Reshape` from `operand` to `result`, constant if possible."""
        known = [
            COPIED if isinstance(size, Dim) and operand[axis : axis + 1] == (size,) else size
            for axis, size in enumerate(result)
        ]
        unknown = [axis for axis, size in enumerate(known) if isinstance(size, Dim)]
        if len(unknown) > 1:
            return self.shape(result)
        return self._emitter.integers(
            [size if isinstance(size, int) else INFERRED for size in known]
        )

    def _computed(self, size: Dim) -> str:
        source = self._sources.get(size)
        if source is not None:
            axis = source.axis
            return self._emitter.add("Shape", source.input, start=axis, end=axis + 1)
        terms = [self._term(factors, count) for factors, count in terms_of(size).items()]
        total = terms[0]
        for term in terms[1:]:
            total = self._emitter.add("Add", total, term)
        return total

    def _term(self, factors: tuple[str | Floor, ...], count: int) -> str:
        vectors = [self._factor(factor) for factor in factors]
        if count != 1 or not vectors:
            vectors.insert(0, self._emitter.integers([count]))
        product = vectors[0]
        for vector in vectors[1:]:
            product = self._emitter.add("Mul", product, vector)
        return product

    def _factor(self, factor: str | Floor) -> str:
        if isinstance(factor, Floor):
            numerator, denominator = map(self.vector, (factor.numerator, factor.denominator))
            # `Div` truncates. What `Mod` leaves has the sign of the divisor, so this is the floor.
            rest = self._emitter.add("Mod", numerator, denominator)
            whole = self._emitter.add("Sub", numerator, rest)
            return self._emitter.add("Div", whole, denominator)
        size = dim(factor)
        if size in self._sources:
            return self.vector(size)
        return self._solved(factor)

    def _solved(self, name: str) -> str:
        """A variable from an axis that is `scale * variable + rest`, of sizes that are known."""
        for shown in self._sources:
            scale, rest = _affine(shown, name)
            if scale == 0 or name in variables_of(scale) | variables_of(rest):
                continue
            whole = self._emitter.add("Sub", self.vector(shown), self.vector(rest))
            return self._emitter.add("Div", whole, self.vector(scale))
        raise ValueError(f"no input shows the size `{name}`")


def _affine(size: Dim, name: str) -> tuple[Size, Size]:
    """Returns the factor of a variable in a size, and the rest of the size."""
    scale: Size = 0
    rest: Size = 0
    for factors, count in terms_of(size).items():
        others = [factor for factor in factors if factor != name]
        part: Size = Dim({tuple(others): count}) if others else count
        if len(others) < len(factors):
            scale = scale + part
        else:
            rest = rest + part
    return scale, rest
