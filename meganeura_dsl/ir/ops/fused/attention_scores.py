"""The scores of queries and keys, which all attention ops share."""

from dataclasses import dataclass

import numpy as np

from meganeura_dsl.ir.graph import Array, Builder, TypeRuleError, Value
from meganeura_dsl.ir.ops.fused.base import Fused
from meganeura_dsl.ir.ops.primitive.broadcast import Broadcast, full
from meganeura_dsl.ir.ops.primitive.contraction import MatMul
from meganeura_dsl.ir.ops.primitive.elementwise import Add, Compare, Mul, Sub, Where
from meganeura_dsl.ir.ops.primitive.leaf import Iota
from meganeura_dsl.ir.ops.primitive.movement import Reshape
from meganeura_dsl.ir.ops.type_rules import concrete_shape, require_same_type, title
from meganeura_dsl.ir.traits import Trait
from meganeura_dsl.ir.types import TensorType, element_count
from meganeura_dsl.symbolic.assumptions import Facts

HIDDEN = -1e30
"""The score of a hidden position, as the standard library writes it."""


@dataclass(frozen=True)
class ScaledProduct(Fused, abstract=True):
    """Scores scale q k^T of q [..., heads, s, d] and k [..., heads / shared, t, d], plus a mask.

    If `causal`, no row looks ahead, nor back by `window` positions or more if that is not 0.
    `shared` heads in a row compare with one and the same head of keys: as one head that has the
    rows of all of them, they are a plain product, and nothing is repeated.
    """

    traits = frozenset({Trait.ATTENTION})
    scale: float
    causal: bool
    window: int = 0
    shared: int = 1

    @property
    def form(self) -> tuple[float, bool, int, int]:
        """The fields that are equal in the ops of one attention."""
        return self.scale, self.causal, self.window, self.shared

    # --- numbers ----------------------------------------------------------------------------------

    def scores(self, q: Array, k: Array, *mask: Array) -> Array:
        """The scores of every query with every key."""
        product = self.parted(np.matmul(self.joined(q), np.swapaxes(k, -1, -2)), q) * self.scale
        for each in mask:
            product = product + each
        return np.where(self._hidden(*product.shape[-2:]), HIDDEN, product)

    def _hidden(self, rows: int, columns: int) -> Array:
        back = np.arange(rows)[:, None] - np.arange(columns)
        hidden: Array = (back < 0) & self.causal
        return hidden | (back >= self.window) if self.window else hidden

    def joined(self, x: Array) -> Array:
        """A tensor [..., heads, s, d] with the rows of heads that share keys below each other."""
        *batch, heads, rows, width = x.shape
        return x.reshape(*batch, heads // self.shared, self.shared * rows, width)

    def parted(self, x: Array, q: Array) -> Array:
        """Inverts `joined`: returns a tensor with the rows of q and the width of x."""
        return x.reshape(*q.shape[:-1], x.shape[-1])

    # --- primitives -------------------------------------------------------------------------------

    def scores_value(self, build: Builder, q: Value, k: Value, *mask: Value) -> Value:
        """The scores in primitives."""
        product = build.add(MatMul(transpose_right=True), self.joined_value(build, q), k)
        product = self.parted_value(build, product, q)
        scores = build.add(Mul(), product, full(build, product.type, self.scale))
        for each in mask:
            scores = build.add(Add(), scores, each)
        return self._hidden_value(build, scores) if self.causal else scores

    def _hidden_value(self, build: Builder, scores: Value) -> Value:
        shape = scores.type.shape
        rows, columns = concrete_shape(shape[-2:])
        down = build.add(Broadcast((rows, columns), (0,)), build.add(Iota(rows)))
        along = build.add(Broadcast((rows, columns), (1,)), build.add(Iota(columns)))
        hidden = [build.add(Compare("gt"), along, down)]
        if self.window:
            back = build.add(Sub(), down, along)
            far = full(build, back.type, self.window)
            hidden.append(build.add(Compare("ge"), back, far))
        low = full(build, scores.type, HIDDEN)
        for each in hidden:
            everywhere = build.add(Broadcast(shape, (len(shape) - 2, len(shape) - 1)), each)
            scores = build.add(Where(), everywhere, low, scores)
        return scores

    def joined_value(self, build: Builder, x: Value) -> Value:
        """The same as `joined`."""
        if self.shared == 1:
            return x
        *batch, heads, rows, width = concrete_shape(x.type.shape)
        shape = (*batch, heads // self.shared, self.shared * rows, width)
        return build.add(Reshape(shape), x)

    def parted_value(self, build: Builder, x: Value, q: Value) -> Value:
        """The same as `parted`."""
        if self.shared == 1:
            return x
        return build.add(Reshape((*q.type.shape[:-1], x.type.shape[-1])), x)

    # --- types ------------------------------------------------------------------------------------

    def require_scores(
        self, facts: Facts, q: TensorType, k: TensorType, *mask: TensorType
    ) -> TensorType:
        """The type of the scores."""
        if q.rank < 3 or q.rank != k.rank:
            raise TypeRuleError(f"{title(self)} takes batches, not {q} and {k}")
        if self.window < 0 or (self.window and not self.causal) or self.shared < 1:
            raise TypeRuleError(f"{title(self)} has no such window or sharing")
        scores = MatMul(transpose_right=True).infer(facts, q, self._repeated(k))
        if self.causal:
            rows, columns = scores.shape[-2:]
            facts.require_equal(rows, columns, f"causal {title(self)} has a key for each query")
        for each in mask:
            require_same_type(self, facts, each, scores)
        return scores

    def require_values(
        self, facts: Facts, q: TensorType, k: TensorType, v: TensorType, *mask: TensorType
    ) -> TensorType:
        """The type of the weighted mean of values."""
        scores = self.require_scores(facts, q, k, *mask)
        if v.rank != q.rank:
            raise TypeRuleError(f"{title(self)} takes batches, not {q} and {v}")
        return MatMul().infer(facts, scores, self._repeated(v))

    def _repeated(self, of: TensorType) -> TensorType:
        """Keys or values as if each head had its own."""
        *batch, heads, rows, width = of.shape
        return of.with_shape((*batch, heads * self.shared, rows, width))

    # --- work -------------------------------------------------------------------------------------

    def products(self, queries: TensorType, keys: TensorType, width: int) -> int:
        """The arithmetic of one product with the matrix of scores."""
        return (
            2 * element_count(queries) // width_of(queries) * concrete_shape(keys.shape)[-2] * width
        )


def over_keys(build: Builder, x: Value, scores: Value) -> Value:
    """One number per query, repeated for every key."""
    rank = scores.type.rank
    return build.add(Broadcast(scores.type.shape, tuple(range(rank - 1))), x)


def width_of(of: TensorType) -> int:
    """The length of one vector."""
    return concrete_shape(of.shape)[-1]
