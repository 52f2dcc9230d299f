"""Choice of the template of an attention kernel."""

from meganeura_runtime.backends.webgpu.codegen.attention.attention_tile import AttentionTile
from meganeura_runtime.backends.webgpu.codegen.attention.kernel_template import KernelTemplate
from meganeura_runtime.backends.webgpu.codegen.attention.lane_template import LaneTemplate
from meganeura_runtime.backends.webgpu.codegen.attention.matrix_template import MatrixTemplate
from meganeura_runtime.backends.webgpu.codegen.kernels.kernel import Memory, Work
from meganeura_runtime.backends.webgpu.config.limits import Target


def template_of(
    work: Work,
    memory: Memory,
    target: Target,
    tile: AttentionTile,
    batch: tuple[int, ...],
    sizes: tuple[int, int],
) -> KernelTemplate:
    """Returns the template for an adapter's units: `sizes` are all rows and all columns."""
    template = LaneTemplate if target.limits.matrix_units is None else MatrixTemplate
    return template(work, memory, target, tile, batch, sizes)
