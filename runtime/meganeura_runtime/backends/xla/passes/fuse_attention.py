"""Fusion of attention, and of its gradient, into calls of a library of the device."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp

from meganeura_dsl.ir.graph import Application, Builder, Graph, Value, rebuild
from meganeura_dsl.ir.ops import Mul, Sum
from meganeura_dsl.ir.ops.fused.attention import Attention, AttentionGradient
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.xla.lowering.attention import attention
from meganeura_runtime.backends.xla.ops.attention import (
    Library,
    LibraryAttention,
    LibraryAttentionGradient,
)

Supports = Callable[[Library, Attention, Sequence[Value], bool], bool]
"""A predicate: the library supports an attention of q, k and v, and its gradient if it has one."""
CUDNN = (Library("cudnn"), Library("cudnn", multiple=2))
"""Libraries in order of preference: cuDNN's gradient needs even numbers of rows."""
QKV = len(Attention.operands.required)
ROWS, LEVEL = 4, 5
"""Operands of a gradient: the logarithms of the rows, and sum(dy mean)."""


def fuse_attention(graph: Graph) -> Graph:
    """Returns the graph with each attention that cuDNN supports on this machine as its op."""
    return fuse_into(graph, CUDNN, supports)


def fuse_into(graph: Graph, libraries: Sequence[Library], supports: Supports) -> Graph:
    """Returns the graph with each supported attention as an op of the first library that has it.

    An attention stays as it is if it has a mask, or if something but its gradient reads the
    logarithms of its rows.
    """
    readers = _readers_of_rows(graph)
    fused = {
        value.application: library
        for value in graph.values
        if isinstance(value.op, Attention)
        and len(value.operands) == QKV
        and all(readers[value.application])
        for library in reversed(libraries)
        if supports(library, value.op, value.operands, bool(readers[value.application]))
    }
    build = Builder()
    means: dict[Application, Value] = {}

    def change(value: Value, operands: tuple[Value, ...]) -> Value:
        op = value.op
        if isinstance(op, Attention) and value.application in fused:
            fusion = LibraryAttention(op, fused[value.application])
            means[value.application] = build.add(fusion, *operands)
            return means[value.application]  # nothing reads the rows any more
        if isinstance(op, AttentionGradient) and value.operands[ROWS].application in fused:
            q, k, v, dy, *_ = operands
            forward = value.operands[ROWS].application
            gradient = LibraryAttentionGradient(Attention(*op.form), fused[forward])
            mean = means[forward]
            return build.add_all(gradient, q, k, v, mean, dy)[value.index]
        return build.reapply(value, *operands)

    return rebuild(graph, build, change)


def _readers_of_rows(graph: Graph) -> Mapping[Application, list[bool]]:
    """Returns, for each attention, one flag for each reader of its rows: it is the gradient."""
    found: defaultdict[Application, list[bool]] = defaultdict(list)
    for value in graph.values:
        for number, operand in enumerate(value.operands):
            if isinstance(operand.op, Attention) and operand.index == 1:
                is_gradient = number == ROWS and _is_gradient(value, operand)
                found[operand.application].append(is_gradient)
    for root in graph.roots:
        if isinstance(root.op, Attention) and root.index == 1:
            found[root.application].append(False)
    return found


def _is_gradient(value: Value, rows: Value) -> bool:
    """True if a value is the gradient of the attention that returned `rows`."""
    op, forward = value.op, rows.op
    if not isinstance(op, AttentionGradient) or not isinstance(forward, Attention):
        return False
    q, k, v, dy, _, level, *mask = value.operands
    if op.form != forward.form or (q, k, v, *mask) != rows.operands:
        return False
    if not isinstance(level.op, Sum) or level.op.axes != (rows.type.rank,):
        return False
    (product,) = level.operands
    means = {each.id for each in product.operands if each.application == rows.application}
    factors = {each.id for each in product.operands}
    return isinstance(product.op, Mul) and bool(means) and factors == {*means, dy.id}


def supports(library: Library, whole: Attention, qkv: Sequence[Value], trained: bool) -> bool:  # noqa: FBT001
    """True if JAX can call a library for these sizes on this machine."""
    if any(each.type.dtype is not DType.F32 for each in qkv):
        return False

    def mean(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return attention(whole, library, q, k, v)

    def gradients(q: jax.Array, k: jax.Array, v: jax.Array) -> tuple[jax.Array, ...]:
        found, pullback = jax.vjp(mean, q, k, v)
        return pullback(found)

    shapes = [jax.ShapeDtypeStruct(concrete_shape(each.type.shape), jnp.bfloat16) for each in qkv]
    try:
        jax.eval_shape(gradients if trained else mean, *shapes)
    except (NotImplementedError, RuntimeError, ValueError):
        return False
    return True
