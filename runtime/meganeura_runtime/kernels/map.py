"""The kernel of a pointwise group: one invocation for each element."""

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
    write_element,
)
from meganeura_runtime.kernels.limits import Target
from meganeura_runtime.kernels.writer import Writer

WORKGROUP = 64


def map_kernel(work: Work, memory: Memory, target: Target) -> Kernel:
    """Compute and store each element of the results."""
    count = prod(concrete_shape(work.stores[0].type.shape))
    launch = Launch(count, WORKGROUP, target)
    writer = Writer()
    axis, exists = launch.declare(writer, "i")
    element = Element(variable(axis), {}, all_of(exists))
    write_element(writer, Expressions(), work, memory, element)
    return launch.kernel(writer, memory)
