"""Copies of parameters in f16, which the products of a step of training read.

Matrix units take halves, and a product reads each element of a parameter once for every tile of the
other factor. A copy is rounded once a step, so that all of these reads are of half as many bytes.
The parameter itself stays as it is for the optimizer.
"""

from collections.abc import Sequence
from math import prod

from meganeura_dsl.ir.graph import Builder, Graph, Value, rebuild
from meganeura_dsl.ir.ops import Parameter
from meganeura_dsl.ir.traits import Trait
from meganeura_dsl.ir.types import DType, element_count
from meganeura_runtime.backends.webgpu.codegen.matmul.contraction_kernel import contraction_of
from meganeura_runtime.backends.webgpu.config.limits import Target
from meganeura_runtime.backends.webgpu.ops.lowered import HalfCopy

FEWEST_PRODUCTS = 1024
"""Products of an element of a parameter for which its copy is worth a kernel."""


def half_copies(graph: Graph, target: Target) -> Graph:
    """The graph whose products read copies, if it updates parameters and has matrix units."""
    if target.limits.matrix_units is None or not graph.updates:
        return graph
    build = Builder()
    copies: dict[int, Value] = {}

    def copied(value: Value) -> Value:
        """A parameter, or a view of one, made of its copy."""
        if value.id not in copies:
            copies[value.id] = (
                build.reapply(value, *map(copied, value.operands))
                if Trait.VIEW in value.op.traits
                else build.add(HalfCopy(), value)
            )
        return copies[value.id]

    def change(value: Value, operands: tuple[Value, ...]) -> Value:
        if Trait.CONTRACTION in value.op.traits:
            operands = tuple(
                copied(operand) if _is_worth_copying(operand, value) else operand
                for operand in operands
            )
        return build.reapply(value, *operands)

    return rebuild(graph, build, change)


def _is_worth_copying(operand: Value, product: Value) -> bool:
    """True for a parameter of f32, or a view of one, with elements in many products."""
    source = operand
    while Trait.VIEW in source.op.traits:
        (source,) = source.operands
    if not isinstance(source.op, Parameter) or source.type.dtype is not DType.F32:
        return False
    return _products(product) >= FEWEST_PRODUCTS * element_count(source.type)


def _products(value: Value) -> int:
    found = contraction_of(value)
    sizes: Sequence[tuple[int, ...]] = (found.batch, found.rows, found.columns, found.terms)
    return prod(map(prod, sizes))
