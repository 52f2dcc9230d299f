"""Float types: the type that each op computes in, and the type that its result is stored in.

In `f32` and `tf32` everything is stored in its own type. In `bf16` the values of `narrow_storage`
are stored in bfloat16, and every other one is computed from them in float32 where it is read.

Parameters that products read have a copy in bfloat16 beside them: they are rounded once, by the
step that updates them if there is one, and a product reads half as many bytes.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import lax

from meganeura_dsl.ir.graph import Graph, Value
from meganeura_dsl.ir.ops import (
    MatMul,
    Parameter,
    Reshape,
    Slice,
    Transpose,
)
from meganeura_dsl.ir.ops.primitive.contraction import Convolution
from meganeura_dsl.ir.traits import PRODUCTS
from meganeura_dsl.ir.types import DType
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_runtime.backends.narrow_storage import MOVES, narrow_values
from meganeura_runtime.backends.xla.config.measured_choices import (
    ALIGNED_PRODUCTS,
    COLUMN_MAJOR_LOGITS,
    DEPTHWISE_BY_TAPS,
    NARROW_COPIES,
)
from meganeura_runtime.backends.xla.lowering.contraction import Arithmetic, has_unaligned_axis
from meganeura_runtime.backends.xla.lowering.element_types import jax_type

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
        rounded = narrow_values(graph, carried) | moved if is_narrow else frozenset[int]()
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
