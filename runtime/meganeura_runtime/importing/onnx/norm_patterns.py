"""Norms that are written as what they compute, node by node.

rms_norm:    w * (x / sqrt(mean(x^2) + eps))
layer_norm:  w * ((x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps)) + b
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from onnx import NodeProto

from meganeura_runtime.importing.onnx.code import Tensor
from meganeura_runtime.importing.onnx.node import Known, Value

SAME = frozenset({"Cast", "Identity"})
"""Ops that may give what they are given."""


@dataclass(frozen=True)
class Normalized:
    """A value that is normalized along its last axis, and the kind of norm."""

    x: Tensor
    eps: float
    is_centered: bool


@dataclass(frozen=True)
class NormPatterns:
    """Finds norms behind a value of a graph."""

    makers: Mapping[str, NodeProto]
    """The node that gives each value."""
    values: Mapping[str, Value | None]

    def normalized(self, name: str) -> Normalized | None:
        """The tensor that a value is the normalized form of."""
        for numerator, root in self._quotients(name):
            added = self._made(root, "Sqrt")
            for square, number in self._pairs(added[0], "Add") if added else ():
                eps, mean = self._number(number), self._mean(square)
                if eps is None or mean is None or self._squared(mean) != self._id(numerator):
                    continue
                x = self.values.get(numerator)
                centered = self._centered(numerator)
                if centered is not None:
                    return Normalized(centered, eps, is_centered=True)
                if isinstance(x, Tensor):
                    return Normalized(x, eps, is_centered=False)
        return None

    def _quotients(self, name: str) -> Iterator[tuple[str, str]]:
        """Yields the dividend and divisor of a value that is a quotient, in any form."""
        divided = self._made(name, "Div")
        if divided:
            yield divided[0], divided[1]
        for first, second in self._pairs(name, "Mul"):
            inverse = self._made(second, "Reciprocal")
            if inverse:
                yield first, inverse[0]
            quotient = self._made(second, "Div")
            if quotient and self._number(quotient[0]) == 1:
                yield first, quotient[1]

    def _centered(self, name: str) -> Tensor | None:
        """`x`, where a value is x - mean(x)."""
        difference = self._made(name, "Sub")
        mean = self._mean(difference[1]) if difference else None
        x = self.values.get(difference[0]) if difference else None
        is_own = mean is not None and self._id(mean) == self._id(difference[0])
        return x if is_own and isinstance(x, Tensor) else None

    def _mean(self, name: str) -> str | None:
        """Returns x if the value is the mean of x along the last axis, which stays; else None."""
        found = self._node(name)
        if found is None or found.op_type != "ReduceMean":
            return None
        kept = next((each.i for each in found.attribute if each.name == "keepdims"), 1)
        x = self.values.get(found.input[0])
        axes = self._axes(found)
        if not kept or not isinstance(x, Tensor) or axes is None or len(axes) != 1:
            return None
        return found.input[0] if axes[0] in (-1, x.rank - 1) else None

    def _axes(self, reduction: NodeProto) -> Sequence[int] | None:
        """The axes of a reduction, as far as they are known."""
        found = next((list(each.ints) for each in reduction.attribute if each.name == "axes"), None)
        value = self.values.get(reduction.input[1]) if len(reduction.input) > 1 else None
        if found is None and isinstance(value, Known) and not value.is_symbolic:
            return [int(each) for each in value.array.reshape(-1)]
        return found

    def _squared(self, name: str) -> int | None:
        """The value that another is the square of, by its id."""
        power = self._made(name, "Pow")
        if power and self._number(power[1]) == 2:
            return self._id(power[0])
        factors = self._made(name, "Mul")
        if factors and self._id(factors[0]) == self._id(factors[1]):
            return self._id(factors[0])
        return None

    # --- values by name --------------------------------------------------------------------------

    def _node(self, name: str) -> NodeProto | None:
        """The node that gives a value, without those that change nothing."""
        node = self.makers.get(name)
        while node is not None and node.op_type in SAME and node.input:
            if self._id(node.input[0]) != self._id(name):
                return node
            name = node.input[0]
            node = self.makers.get(name)
        return node

    def _made(self, name: str, op: str) -> Sequence[str]:
        node = self._node(name)
        return node.input if node is not None and node.op_type == op else ()

    def _pairs(self, name: str, op: str) -> Iterator[tuple[str, str]]:
        found = self._made(name, op)
        if len(found) == 2:
            yield found[0], found[1]
            yield found[1], found[0]

    def _id(self, name: str) -> int | None:
        value = self.values.get(name)
        return value.id if isinstance(value, Tensor) else None

    def _number(self, name: str) -> float | None:
        value = self.values.get(name)
        if not isinstance(value, Known) or value.array.size != 1 or value.is_symbolic:
            return None
        return float(value.array.reshape(-1)[0])
