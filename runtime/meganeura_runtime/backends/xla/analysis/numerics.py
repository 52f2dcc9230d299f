"""Float types: the type that each op computes in, and the type that its result is stored in.

In `f32` and `tf32` everything is stored in its own type. In `bf16` these values of float32 are
stored in bfloat16, and every other one is computed from them in float32 where it is read:

- results of contractions that another contraction depends on: activations and their gradients,
  but not the gradients of weights;
- operands of contractions, but not parameters and values that depend on parameters alone;
- sums that several ops read, of which a part is computed from the former without a reduction:
  residuals and their gradients;
- selections of the former, as by the gradient of a relu, and gradients of max pooling.

Parameters that products read have a copy in bfloat16 beside them: they are rounded once, by the
step that updates them if there is one, and a product reads half as many bytes.

So norms, softmax, losses, reductions and updates read and return float32. The new value of a
parameter or state, and of a carry of a loop, is not rounded even if products read it: a mean over
many steps would stop where one of them changes it by less than a rounding. Moving elements changes
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
from meganeura_runtime.backends.xla.config.measured_choices import (
    ALIGNED_PRODUCTS,
    COLUMN_MAJOR_LOGITS,
    DEPTHWISE_BY_TAPS,
    NARROW_COPIES,
)
from meganeura_runtime.backends.xla.lowering.contraction import Arithmetic, has_unaligned_axis
from meganeura_runtime.backends.xla.lowering.element_types import jax_type
from meganeura_runtime.backends.xla.lowering.table import MOVES

VIEWS = (Reshape, Slice, Transpose)
"""Ops that move each element of one operand at most once."""
FLOAT32, BFLOAT16 = np.dtype(jnp.float32), np.dtype(jnp.bfloat16)


@dataclass(frozen=True)
class Numerics:
    """The float type of each value of a graph."""

    precision: ComputePrecision
    stored: Mapping[int, np.dtype[np.generic]]
    """The type that each value is stored in, by id."""
    copied: frozenset[str] = frozenset()
    """The parameters of which products read a copy in bfloat16."""
    moved: frozenset[int] = frozenset()
    """Such parameters with their elements moved, which products alone read."""
    trains_narrow: bool = False
    """The graph updates parameters, in bf16."""
    is_on_one_gpu: bool = False
    """The graph runs on a single GPU."""

    @staticmethod
    def of(
        graph: Graph, precision: ComputePrecision, carried: Collection[Value] = ()
    ) -> "Numerics":
        """Returns the numerics of a graph, or of the body of a loop with values it carries."""
        is_narrow = precision is ComputePrecision.BF16
        has_copies = is_narrow and NARROW_COPIES.is_on
        moved = frozenset(_moved(graph)) if has_copies else frozenset[int]()
        rounded = _rounded(graph, carried) | moved if is_narrow else frozenset[int]()
        stored = {
            value.id: BFLOAT16 if value.id in rounded else jax_type(value.type.dtype)
            for value in graph.values
        }
        copied = frozenset(_copied(graph, moved)) if has_copies else frozenset[str]()
        return Numerics(precision, stored, copied, moved, is_narrow and bool(graph.updates))

    def reads_copy(self, value: Value) -> bool:
        """True if a value reads the bfloat16 copies of parameters."""
        return _takes_copies(value) or value.id in self.moved

    @property
    def pads_to_alignment(self) -> bool:
        """True if long axes of products are padded: in training, which returns no product."""
        return self.trains_narrow and ALIGNED_PRODUCTS.is_on

    def has_unaligned_output(self, value: Value) -> bool:
        """True if a GPU returns a product with unaligned long axes as it is.

        XLA pads both operands of such a product, and copies the result into place.
        """
        return (
            COLUMN_MAJOR_LOGITS.is_on
            and self.is_on_one_gpu
            and self.precision is ComputePrecision.BF16
            and not self.trains_narrow
            and isinstance(value.op, MatMul)
            and self.stored[value.id] == FLOAT32
            and has_unaligned_axis(value.type)
        )

    def is_slice_of_padded(self, value: Value) -> bool:
        """True if a product is a slice of one whose long axes are padded."""
        return self.pads_to_alignment and has_unaligned_axis(value.type)

    def computed_in(self, value: Value) -> str:
        """Returns the float type that a value is computed in, as `build` prints it."""
        if value.op.traits & PRODUCTS:
            operands = self.arithmetic(value).operands or jax_type(value.type.dtype)
            is_tf32 = self.precision is ComputePrecision.TF32 and operands == FLOAT32
            return f"{'tf32' if is_tf32 else operands}, summed in float32"
        return "moved" if type(value.op) in MOVES else "float32"

    def arithmetic(self, value: Value) -> Arithmetic:
        """Returns types and exactness of a contraction."""
        result = self.stored[value.id]
        if self.has_unaligned_output(value):
            return Arithmetic(BFLOAT16, FLOAT32, lax.Precision.DEFAULT, unaligned_output=True)
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
                return Arithmetic(BFLOAT16, sums, lax.Precision.DEFAULT, self.pads_to_alignment)
            case ComputePrecision.F16:
                raise ValueError("`xla` does not compute in f16")
        sums_taps = self.is_on_one_gpu and DEPTHWISE_BY_TAPS.is_on
        return Arithmetic(FLOAT32, sums, exactness, sums_taps=sums_taps)


def stored_in_bfloat16(graph: Graph) -> frozenset[int]:
    """Returns the ids of the values that are stored in bfloat16 if the precision is bf16."""
    stored = Numerics.of(graph, ComputePrecision.BF16).stored
    return frozenset(number for number, dtype in stored.items() if dtype == BFLOAT16)


def _rounded(graph: Graph, carried: Collection[Value]) -> frozenset[int]:
    """Returns the ids of the float32 values that are stored in bfloat16."""
    needed = upstream(graph)
    varying = _varying(graph)
    readers = _readers(graph)
    kept = _kept(graph, carried)
    wanted = {*_between(graph, needed), *_read(graph, varying)}
    rounded: set[int] = set()
    derived: set[int] = set()
    """Values that are rounded, and values computed from them element by element."""
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
    """Returns the ids of carried values and of updates, and of values these move or select.

    Updates of caches are left out: caches hold activations.
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
    """Yields the ids of views of parameters that only products read."""
    readers: dict[int, list[Value]] = {}
    for value in graph.values:
        for operand in value.operands:
            readers.setdefault(operand.id, []).append(value)
    given = {value.id for value in (*graph.outputs.values(), *graph.updates.values())}
    only: set[int] = set()
    """Views that only products, or views for products alone, read."""
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
    """Yields the names of the parameters that products read, directly or through a view."""
    for value in graph.values:
        if _takes_copies(value) or value.id in moved:
            for operand in value.operands:
                if isinstance(operand.op, Parameter) and _is_parameter(operand):
                    yield operand.op.name


def _takes_copies(value: Value) -> bool:
    """True if an op reads copies of parameters."""
    return bool(value.op.traits & PRODUCTS)


def _is_parameter(value: Value) -> bool:
    """True if a value is a parameter of float32."""
    return isinstance(value.op, Parameter) and value.type.dtype is DType.F32


def upstream(graph: Graph) -> frozenset[int]:
    """Returns the ids of the values that some contraction depends on."""
    found: set[int] = set()
    for value in reversed(graph.values):
        if value.id in found or value.op.traits & PRODUCTS:
            found.update(operand.id for operand in value.operands)
    return frozenset(found)


def _varying(graph: Graph) -> frozenset[int]:
    """Returns the ids of the values that depend on inputs or random numbers."""
    found: set[int] = set()
    for value in graph.values:
        is_source = isinstance(value.op, Input | RandomBits)
        if is_source or any(operand.id in found for operand in value.operands):
            found.add(value.id)
    return frozenset(found)


def _between(graph: Graph, needed: frozenset[int]) -> Iterator[int]:
    """Yields the ids of the contractions that other contractions depend on."""
    for value in graph.values:
        if value.op.traits & PRODUCTS and value.id in needed:
            yield value.id


def _read(graph: Graph, varying: frozenset[int]) -> Iterator[int]:
    """Yields the ids of the computed operands of contractions, looking through views."""
    for value in graph.values:
        for operand in value.operands if value.op.traits & PRODUCTS else ():
            source = operand
            while Trait.VIEW in source.op.traits:
                (source,) = source.operands
            if source.id in varying and not isinstance(source.op, Input | Parameter):
                yield source.id


def _readers(graph: Graph) -> Counter[int]:
    """Returns the number of readers by id; readers of a selection read its operands too."""
    readers = Counter(operand.id for value in graph.values for operand in {*value.operands})
    for value in reversed(graph.values):
        for operand in {*value.operands} if isinstance(value.op, Where) else ():
            readers[operand.id] += max(readers[value.id] - 1, 0)
    return readers


def _selects(value: Value, rounded: Container[int]) -> bool:
    """True if each element is one of a value stored in bfloat16, or zero."""
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
    """True if a value is a broadcast, as statistics and biases are."""
    while Trait.VIEW in value.op.traits:
        if isinstance(value.op, Broadcast):
            return True
        (value,) = value.operands
    return False
