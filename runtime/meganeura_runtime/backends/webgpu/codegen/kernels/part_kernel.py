"""The kernel that writes parts of caches where they lie: one invocation for each element of a part.

An update whose old value nobody reads later lies in the memory of what it updates. So only the part
that changes is written, however large the cache is.
"""

from math import prod

from meganeura_dsl.ir.graph import Leaf, Value
from meganeura_dsl.ir.ops import DynamicUpdate
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_runtime.backends.webgpu.codegen.kernels.kernel import (
    Element,
    Kernel,
    Launch,
    Memory,
    Result,
    Work,
    all_of,
    write_result,
)
from meganeura_runtime.backends.webgpu.codegen.lowering.element_inliner import ElementInliner
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import ravel, unravel, variable
from meganeura_runtime.backends.webgpu.codegen.wgsl.emitter import WgslEmitter
from meganeura_runtime.backends.webgpu.codegen.wgsl.expression import Expressions, integer
from meganeura_runtime.backends.webgpu.config.limits import Target

WORKGROUP = 64


def writes_parts(work: Work, memory: Memory) -> bool:
    """True if all it stores are tensors in their own memory with a part replaced."""
    return not work.anchors and all(_is_part(value, memory) for value in work.stores)


def _is_part(value: Value, memory: Memory) -> bool:
    if not isinstance(value.op, DynamicUpdate):
        return False
    before = value.operands[0]
    is_leaf = isinstance(before.op, Leaf)
    return is_leaf and memory.tensors[before.id] == memory.tensors[value.id]


def part_bytes(work: Work) -> int:
    """The bytes of the parts that are written."""
    parts = (value.operands[1].type for value in work.stores)
    return sum(prod(concrete_shape(part.shape)) * part.dtype.bytes for part in parts)


def part_kernel(work: Work, memory: Memory, target: Target) -> Kernel:
    """Compute and store each element of the parts, which have one shape and begin at one place."""
    first = work.stores[0]
    shape = concrete_shape(first.operands[1].type.shape)
    launch = Launch(prod(shape), WORKGROUP, target)
    emitter, make = WgslEmitter(memory.halves), Expressions()
    axis, exists = launch.declare(emitter, "i")
    index = unravel(variable(axis), shape)
    reader = ElementInliner(make, memory.before(work))
    starts = (integer(reader.at(start, ())) for start in first.operands[2:])
    moved = tuple(start + at for start, at in zip(starts, index, strict=True))
    position = ravel(moved, concrete_shape(first.type.shape))
    element = Element(position, {}, all_of(exists))
    parts = tuple((reader.at(value.operands[1], index),) for value in work.stores)
    write_result(emitter, memory, Result(work.stores, (element,), parts))
    return launch.kernel(emitter, memory)
