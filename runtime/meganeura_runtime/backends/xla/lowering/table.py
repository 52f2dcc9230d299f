"""The table of ops: the function that lowers each, and the float types of its operands."""

from collections.abc import Callable, Mapping

import jax

from meganeura_dsl.ir.graph import Op
from meganeura_dsl.ir.ops import (
    ArgMax,
    Broadcast,
    Cast,
    Compare,
    Concat,
    Constant,
    Conv,
    ConvInputGradient,
    ConvWeightGradient,
    Cumulative,
    DynamicSlice,
    DynamicUpdate,
    FloorDivide,
    Gather,
    Iota,
    LinearRecurrence,
    MatMul,
    MaxPool,
    MaxPoolGradient,
    MaxPoolSelect,
    Pad,
    RandomBits,
    ReduceMax,
    Remainder,
    Reshape,
    Reverse,
    Scan,
    ScatterAdd,
    ScatterExtreme,
    Slice,
    Sort,
    StopGradient,
    Sum,
    Tanh,
    Transpose,
    Where,
)
from meganeura_dsl.ir.ops.fused.softmax import CrossEntropy
from meganeura_runtime.backends.xla.lowering import (
    contraction,
    elementwise,
    gather,
    generators,
    movement,
    pool,
    reduction,
)
from meganeura_runtime.backends.xla.ops.matmul import LibraryMatMul

Lowered = jax.Array | tuple[jax.Array, ...]
Lowering = Callable[..., Lowered]
"""Maps an op and its operands to its result, or to all of its results."""

MOVES: Mapping[type[Op], Lowering] = {
    Broadcast: movement.broadcast,
    Reshape: movement.reshape,
    Transpose: movement.transpose,
    Slice: movement.slice_,
    Pad: movement.pad,
    Concat: movement.concat,
    Reverse: movement.reverse,
    StopGradient: movement.stop_gradient,
    Gather: gather.gather,
    DynamicSlice: gather.dynamic_slice,
    DynamicUpdate: gather.dynamic_update,
    MaxPool: pool.max_pool,
    MaxPoolSelect: pool.max_pool_select,
}
"""Ops whose results have the float type of their operands, in whatever type these are stored."""

CONTRACTIONS: Mapping[type[Op], Lowering] = {
    MatMul: contraction.mat_mul,
    Conv: contraction.conv,
    ConvInputGradient: contraction.conv_input_gradient,
    ConvWeightGradient: contraction.conv_weight_gradient,
}
"""Ops whose functions also take an `Arithmetic`."""

LIBRARY_PRODUCTS: Mapping[type[Op], Lowering] = {LibraryMatMul: contraction.library_mat_mul}
"""Contractions that only graphs for XLA contain."""


def _plain(function: Callable[..., jax.Array]) -> Lowering:
    def lowered(_op: Op, *operands: jax.Array) -> jax.Array:
        return function(*operands)

    return lowered


COMPUTES: Mapping[type[Op], Lowering] = {
    Constant: generators.constant,
    Iota: generators.iota,
    RandomBits: generators.random_bits,
    **{op: _plain(function) for op, function in elementwise.UNARY.items()},
    **{op: _plain(function) for op, function in elementwise.BINARY.items()},
    Compare: elementwise.compare,
    Where: elementwise.where,
    Cast: elementwise.cast,
    Sum: reduction.sum_,
    ReduceMax: reduction.reduce_max,
    ArgMax: reduction.arg_max,
    ScatterAdd: reduction.scatter_add,
    ScatterExtreme: reduction.scatter_extreme,
    Cumulative: reduction.cumulative,
    LinearRecurrence: reduction.linear_recurrence,
    Sort: reduction.sort,
    FloorDivide: elementwise.floor_divide,
    Remainder: elementwise.remainder,
    MaxPoolGradient: pool.max_pool_gradient,
}
"""Ops that compute in float32 on operands of narrower types."""

FUSED: Mapping[type[Op], Lowering] = {CrossEntropy: reduction.cross_entropy}
"""Fused ops with a lowering of their own, rather than by parts; these compute in float32 too."""

IN_BFLOAT16: Mapping[type[Op], Lowering] = {Tanh: elementwise.tanh_by_exponential}
"""Overrides in bf16."""
ON_ONE_GPU: Mapping[type[Op], Lowering] = {Sum: reduction.sum_by_parts}
"""Overrides on one GPU."""

LOWERED = frozenset((*MOVES, *CONTRACTIONS, *COMPUTES, *FUSED, Scan))
"""Every op that is lowered; the body of a `Scan` is traced as another step function."""
