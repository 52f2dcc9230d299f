"""The kind of kernel that computes a fused group of values, chosen by its anchor."""

from meganeura_runtime.backends.webgpu.analysis.materialize import (
    is_attention,
    is_contraction,
    is_transform,
)
from meganeura_runtime.backends.webgpu.codegen.attention.kernel_choice import attention_kernel
from meganeura_runtime.backends.webgpu.codegen.kernels.elementwise_kernel import elementwise_kernel
from meganeura_runtime.backends.webgpu.codegen.kernels.kernel import Kernel, Memory, Work
from meganeura_runtime.backends.webgpu.codegen.kernels.part_kernel import (
    part_kernel,
    writes_parts,
)
from meganeura_runtime.backends.webgpu.codegen.kernels.reduction_kernel import reduction_kernel
from meganeura_runtime.backends.webgpu.codegen.kernels.row_reduction_kernel import (
    row_reduction_kernel,
    row_reduction_of,
)
from meganeura_runtime.backends.webgpu.codegen.kernels.winograd_kernel import winograd_kernel
from meganeura_runtime.backends.webgpu.codegen.matmul.contraction_kernel import contraction_kernel
from meganeura_runtime.backends.webgpu.config.limits import Target


def write_kernel(target: Target, work: Work, memory: Memory) -> Kernel:
    """Returns the kernel of a group of values.

    A group without an anchor is elementwise. `row_reduction_of` says which reductions workgroups
    compute together; in the others one invocation computes each result.
    """
    if writes_parts(work, memory):
        return part_kernel(work, memory, target)
    if not work.anchors:
        return elementwise_kernel(work, memory, target)
    if is_contraction(work.anchors[0]):
        return contraction_kernel(work, memory, target)
    if is_attention(work.anchors[0]):
        return attention_kernel(work, memory, target)
    if is_transform(work.anchors[0]):
        return winograd_kernel(work, memory, target)
    rows = row_reduction_of(work.anchors[0], target)
    if rows is not None:
        return row_reduction_kernel(work, memory, target, rows)
    return reduction_kernel(work, memory, target)
