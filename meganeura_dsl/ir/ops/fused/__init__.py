"""The second tier: fused ops, which the optimizer introduces and a user never writes."""

from meganeura_dsl.ir.graph import Op
from meganeura_dsl.ir.ops.fused import (
    activation,
    attention,
    contraction,
    norm,
    quantized,
    rotary,
    softmax,
    standardize,
    winograd,
)
from meganeura_dsl.ir.ops.fused.activation import *
from meganeura_dsl.ir.ops.fused.attention import *
from meganeura_dsl.ir.ops.fused.base import Fused
from meganeura_dsl.ir.ops.fused.contraction import *
from meganeura_dsl.ir.ops.fused.norm import *
from meganeura_dsl.ir.ops.fused.quantized import *
from meganeura_dsl.ir.ops.fused.rotary import *
from meganeura_dsl.ir.ops.fused.softmax import *
from meganeura_dsl.ir.ops.fused.standardize import *
from meganeura_dsl.ir.ops.fused.winograd import *

FUSED_OPS: tuple[type[Op], ...] = (
    *activation.OPS,
    *contraction.OPS,
    *standardize.OPS,
    *norm.OPS,
    *softmax.OPS,
    *quantized.OPS,
    *rotary.OPS,
    *attention.OPS,
    *winograd.OPS,
)

__all__ = ["FUSED_OPS", "Fused"]
__all__ += activation.__all__
__all__ += attention.__all__
__all__ += contraction.__all__
__all__ += norm.__all__
__all__ += quantized.__all__
__all__ += rotary.__all__
__all__ += softmax.__all__
__all__ += standardize.__all__
__all__ += winograd.__all__
