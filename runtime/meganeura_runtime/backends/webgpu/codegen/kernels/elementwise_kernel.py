"""The kernel of a pointwise group: one invocation for each element, or for four neighbours."""

from math import prod

from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_runtime.backends.webgpu.codegen.kernels.kernel import (
    Element,
    Kernel,
    Launch,
    Memory,
    Work,
    all_of,
    are_many_vec4s,
    result_of,
    vec4s_of,
    write_result,
)
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import variable
from meganeura_runtime.backends.webgpu.codegen.wgsl.emitter import WgslEmitter
from meganeura_runtime.backends.webgpu.codegen.wgsl.expression import Expressions
from meganeura_runtime.backends.webgpu.config.limits import Style, Target

WORKGROUP, LARGE_WORKGROUP = 64, 256
"""Invocations of a workgroup: of 64, a large GPU reads memory at two thirds of its rate."""
MANY_INVOCATIONS = 1 << 16
"""Invocations for which a large workgroup is worth that a small kernel cannot share its launch."""


def elementwise_kernel(work: Work, memory: Memory, target: Target) -> Kernel:
    """Compute and store each element of the results."""
    count = prod(concrete_shape(work.stores[0].type.shape))
    wide = are_many_vec4s(count, target)
    each = 4 if wide else 1
    make = Expressions()
    many = target.style is Style.GPU and count // each >= MANY_INVOCATIONS
    launch = Launch(count // each, LARGE_WORKGROUP if many else WORKGROUP, target)
    emitter = WgslEmitter(memory.halves)
    axis, exists = launch.declare(emitter, "i")
    elements = [Element(variable(axis) * each + at, {}, all_of(exists)) for at in range(each)]
    result = result_of(make, work.stores, memory.before(work), elements)
    if wide:
        emitter.vec4s = vec4s_of([], memory, [result])
    write_result(emitter, memory, result)
    return launch.kernel(emitter, memory)
