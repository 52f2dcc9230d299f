"""Which floats each op computes in, and which its results are stored in.

In `f32` and `tf32` everything is stored in its own type. In `bf16` these values of float32 are
stored in bfloat16, and every other one is computed from them in float32 where it is read:

- what contractions give that another contraction depends on: activations and their gradients,
  but not the gradients of weights;
- what contractions read, but not parameters and what depends on parameters alone;
- sums that several ops read, of which a part is computed from the former without a reduction:
  residuals and their gradients;
- what is selected of the former, as by the gradient of a relu, and gradients of max pooling.

Parameters that products read have a copy in bfloat16 beside them: they are rounded once, by the
step that updates them if there is one, and a product reads half as many bytes.

So norms, softmax, losses, reductions and updates read and give float32: what a step leaves in a
parameter or state, and a round in a carry, is not rounded where products read it, or a mean over
many steps would stay where one of them changes it by less than a rounding. Moving elements changes
no type.
"""

from collections import Counter
from collections.abc import Collection, Container, Iterator, Mapping
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import lax

from meganeura_dsl.ir.graph import Graph, Value
from meganeura_dsl.ir.ops import (
    Add,
    Broadcast,
    Constant,
    Input,
    MatMul,
    MaxPoolGradient,
    Parameter,
    RandomBits,
    Reshape,
    Slice,
    Transpose,
    Where,
)
from meganeura_dsl.ir.ops.primitive.contraction import Convolution
from meganeura_dsl.ir.traits import PRODUCTS, Trait
from meganeura_dsl.ir.types import DType
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_runtime.backends.xla.lowering.contraction import Arithmetic, is_cut
from meganeura_runtime.backends.xla.lowering.element_types import jax_type
from meganeura_runtime.backends.xla.lowering.table import MOVES

VIEWS = (Reshape, Slice, Transpose)
"""Ops that move the elements of one operand, each to one place at most."""
FLOAT32, BFLOAT16 = np.dtype(jnp.float32), np.dtype(jnp.bfloat16)


@dataclass(frozen=True)
class Numerics:
    """The floats of a graph's values."""

    precision: ComputePrecision
    stored: Mapping[int, np.dtype[np.generic]]
    """The type that each value is stored in, by its id."""
    copied: frozenset[str] = frozenset()
    """The parameters of which products read a copy in bfloat16."""
    moved: frozenset[int] = frozenset()
    """Such parameters with their elements moved, which products alone read."""
    is_aligned: bool = False
    """Whether long axes of products are aligned: in training, where no output is to be cut."""
    is_on_one_gpu: bool = False
    """Whether one GPU computes them."""

    @staticmethod
    def of(
        graph: Graph, precision: ComputePrecision, carried: Collection[Value] = ()
    ) -> "Numerics":
        """What a precision means for a graph, or for that of a round, which carries values on."""
        is_narrow = precision is ComputePrecision.BF16
        moved = frozenset(_moved(graph)) if is_narrow else frozenset[int]()
        rounded = _rounded(graph, carried) | moved if is_narrow else frozenset[int]()
        stored = {
            value.id: BFLOAT16 if value.id in rounded else jax_type(value.type.dtype)
            for value in graph.values
        }
        copied = frozenset(_copied(graph, moved)) if is_narrow else frozenset[str]()
        return Numerics(precision, stored, copied, moved, is_narrow and bool(graph.updates))

    def reads_copy(self, value: Value) -> bool:
        """Whether a value reads the copies of parameters."""
        return _takes_copies(value) or value.id in self.moved

    def has_odd_rows(self, value: Value) -> bool:
        """Whether a GPU gives long axes of a product that are no multiples as they are.

        XLA pads both factors of such a product, and copies what it gives to where it belongs.
        """
        return (
            self.is_on_one_gpu
            and self.precision is ComputePrecision.BF16
            and not self.is_aligned
            and isinstance(value.op, MatMul)
            and self.stored[value.id] == FLOAT32
            and is_cut(value.type)
        )

    def is_cut(self, value: Value) -> bool:
        """Whether a product is a part of one whose long axes are aligned."""
        return self.is_aligned and is_cut(value.type)

    def computed_in(self, value: Value) -> str:
        """The floats that a value is computed in, for people."""
        if value.op.traits & PRODUCTS:
            operands = self.arithmetic(value).operands or jax_type(value.type.dtype)
            is_tf32 = self.precision is ComputePrecision.TF32 and operands == FLOAT32
            return f"{'tf32' if is_tf32 else operands}, summed in float32"
        return "moved" if type(value.op) in MOVES else "float32"

    def arithmetic(self, value: Value) -> Arithmetic:
        """What a contraction computes in."""
        result = self.stored[value.id]
        if self.has_odd_rows(value):
            return Arithmetic(BFLOAT16, FLOAT32, lax.Precision.DEFAULT, has_odd_rows=True)
        sums = result if result == BFLOAT16 else FLOAT32
        if value.type.dtype is DType.F16:
            # cuDNN sums convolutions of halves in float32, and what runs on a CPU does not.
            is_exact = isinstance(value.op, Convolution) and self.precision == "f32"
            operands = FLOAT32 if is_exact else None
            return Arithmetic(operands, sums, lax.Precision.HIGHEST)
        match self.precision:
            case ComputePrecision.F32:
                exactness = lax.Precision.HIGHEST
            case ComputePrecision.TF32:
                exactness = lax.Precision.DEFAULT
            case ComputePrecision.BF16:
                return Arithmetic(BFLOAT16, sums, lax.Precision.DEFAULT, self.is_aligned)
        return Arithmetic(FLOAT32, sums, exactness, sums_taps=self.is_on_one_gpu)


def _rounded(graph: Graph, carried: Collection[Value]) -> frozenset[int]:
    """The values of float32 that are stored in bfloat16."""
    needed = upstream(graph)
    varying = _varying(graph)
    readers = _readers(graph)
    kept = _kept(graph, carried)
    wanted = {*_between(graph, needed), *_read(graph, varying)}
    rounded: set[int] = set()
    derived: set[int] = set()
    """Those, and what is computed from them element by element."""
    for value in graph.values:
        if value.type.dtype is not DType.F32:
            continue
        floats = [each for each in value.operands if each.type.dtype.is_float]
        parts = [each for each in floats if each.id in derived]
        if value.id not in kept and (
            value.id in wanted
            or _selects(value, rounded)
            or (isinstance(value.op, MaxPoolGradient) and value.id in needed)
            or (type(value.op) in MOVES and floats and all(each.id in rounded for each in floats))
            or (
                isinstance(value.op, Add)
                and parts
                and value.id in needed
                and readers[value.id] > 1
                and all(each.id in varying and not _is_spread(each) for each in floats)
            )
        ):
            rounded.add(value.id)
        if value.id in rounded or (parts and value.op.traits & {Trait.ELEMENTWISE, Trait.VIEW}):
            derived.add(value.id)
    return frozenset(rounded)


def _kept(graph: Graph, carried: Collection[Value]) -> frozenset[int]:
    """What is carried on, and what parameters and states become, as it is, moved or selected.

    Caches hold activations.
    """
    leaves = [value.op for value in graph.values if isinstance(value.op, Parameter)]
    caches = {leaf.name for leaf in leaves if leaf.kind == "cache"}
    found: set[int] = set()
    left = [*carried, *(value for name, value in graph.updates.items() if name not in caches)]
    while left:
        value = left.pop()
        if value.id not in found:
            found.add(value.id)
            if type(value.op) in MOVES or isinstance(value.op, Where):
                left += value.operands
    return frozenset(found)


def _moved(graph: Graph) -> Iterator[int]:
    """Parameters whose elements are moved for products alone."""
    readers: dict[int, list[Value]] = {}
    for value in graph.values:
        for operand in value.operands:
            readers.setdefault(operand.id, []).append(value)
    given = {value.id for value in (*graph.outputs.values(), *graph.updates.values())}
    only: set[int] = set()
    """What products alone read, perhaps moved once more."""
    for value in reversed(graph.values):
        reading = readers.get(value.id, [])
        if (
            isinstance(value.op, VIEWS)
            and value.type.dtype is DType.F32
            and value.id not in given
            and reading
            and all(_takes_copies(each) or each.id in only for each in reading)
        ):
            only.add(value.id)
    parameters: set[int] = set()
    for value in graph.values:
        if _is_parameter(value):
            parameters.add(value.id)
        elif value.id in only and value.operands[0].id in parameters:
            parameters.add(value.id)
            yield value.id


def _copied(graph: Graph, moved: frozenset[int]) -> Iterator[str]:
    """The parameters that products read, as they are or moved."""
    for value in graph.values:
        if _takes_copies(value) or value.id in moved:
            for operand in value.operands:
                if isinstance(operand.op, Parameter) and _is_parameter(operand):
                    yield operand.op.name


def _takes_copies(value: Value) -> bool:
    """Whether an op reads copies of parameters."""
    return bool(value.op.traits & PRODUCTS)


def _is_parameter(value: Value) -> bool:
    """Whether a value is a parameter of float32."""
    return isinstance(value.op, Parameter) and value.type.dtype is DType.F32


def upstream(graph: Graph) -> frozenset[int]:
    """What some contraction depends on."""
    found: set[int] = set()
    for value in reversed(graph.values):
        if value.id in found or value.op.traits & PRODUCTS:
            found.update(operand.id for operand in value.operands)
    return frozenset(found)


def _varying(graph: Graph) -> frozenset[int]:
    """What depends on inputs, or is drawn."""
    found: set[int] = set()
    for value in graph.values:
        is_source = isinstance(value.op, Input | RandomBits)
        if is_source or any(operand.id in found for operand in value.operands):
            found.add(value.id)
    return frozenset(found)


def _between(graph: Graph, needed: frozenset[int]) -> Iterator[int]:
    """What contractions give to other contractions."""
    for value in graph.values:
        if value.op.traits & PRODUCTS and value.id in needed:
            yield value.id


def _read(graph: Graph, varying: frozenset[int]) -> Iterator[int]:
    """What contractions read, where it is computed."""
    for value in graph.values:
        for operand in value.operands if value.op.traits & PRODUCTS else ():
            source = operand
            while Trait.VIEW in source.op.traits:
                (source,) = source.operands
            if source.id in varying and not isinstance(source.op, Input | Parameter):
                yield source.id


def _readers(graph: Graph) -> Counter[int]:
    """How many ops read each value; who reads a part that is selected of it reads it too."""
    readers = Counter(operand.id for value in graph.values for operand in {*value.operands})
    for value in reversed(graph.values):
        for operand in {*value.operands} if isinstance(value.op, Where) else ():
            readers[operand.id] += max(readers[value.id] - 1, 0)
    return readers


def _selects(value: Value, rounded: Container[int]) -> bool:
    """Whether a value is one that is stored in bfloat16, or zero: so it is in bfloat16 already."""
    if not isinstance(value.op, Where):
        return False
    _, *parts = value.operands
    stored = [each.id in rounded for each in parts]
    return any(stored) and all(map(_or_zero, stored, parts))


def _or_zero(is_stored: bool, value: Value) -> bool:  # noqa: FBT001
    while isinstance(value.op, Broadcast):
        (value,) = value.operands
    return is_stored or (isinstance(value.op, Constant) and value.op.value == 0)


def _is_spread(value: Value) -> bool:
    """Whether one number is repeated in a value, as statistics and biases are."""
    while Trait.VIEW in value.op.traits:
        if isinstance(value.op, Broadcast):
            return True
        (value,) = value.operands
    return False
