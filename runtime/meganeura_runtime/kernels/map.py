"""The kernel of a pointwise group: one invocation for each element, or for four neighbours."""

from math import prod

from meganeura_dsl.ops.rules import concrete_shape
from meganeura_runtime.kernels.affine import variable
from meganeura_runtime.kernels.expression import Expressions
from meganeura_runtime.kernels.kernel import (
    Element,
    Kernel,
    Launch,
    Memory,
    Work,
    all_of,
    quads_of,
    result_of,
    write_result,
)
from meganeura_runtime.kernels.limits import Style, Target
from meganeura_runtime.kernels.writer import Writer

WORKGROUP = 64
FEWEST_QUADS = {Style.GPU: 1 << 15, Style.CPU_ADAPTER: 1}
"""Quads that keep a device busy; with fewer of them, invocations count for more than wide loads."""


def map_kernel(work: Work, memory: Memory, target: Target) -> Kernel:
    """Compute and store each element of the results."""
    count = prod(concrete_shape(work.stores[0].type.shape))
    wide = count % 4 == 0 and count >= 4 * FEWEST_QUADS[target.style]
    each = 4 if wide else 1
    make = Expressions()
    launch = Launch(count // each, WORKGROUP, target)
    writer = Writer()
    axis, exists = launch.declare(writer, "i")
    elements = [Element(variable(axis) * each + at, {}, all_of(exists)) for at in range(each)]
    result = result_of(make, work.stores, memory.before(work), elements)
    if wide:
        writer.quads = quads_of([], memory, [result])
    write_result(writer, memory, result)
    return launch.kernel(writer, memory)
