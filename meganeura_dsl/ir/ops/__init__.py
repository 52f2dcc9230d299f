"""The primitive ops: the closed set that elaboration targets and every backend implements."""

from meganeura_dsl.ir.graph import Op
from meganeura_dsl.ir.ops.primitive import (
    broadcast,
    contraction,
    cumulative,
    dynamic,
    elementwise,
    gather_scatter,
    leaf,
    movement,
    pool,
    random_bits,
    reduce,
    scan,
    sort,
    whole,
)
from meganeura_dsl.ir.ops.primitive.broadcast import *
from meganeura_dsl.ir.ops.primitive.contraction import *
from meganeura_dsl.ir.ops.primitive.cumulative import *
from meganeura_dsl.ir.ops.primitive.dynamic import *
from meganeura_dsl.ir.ops.primitive.elementwise import *
from meganeura_dsl.ir.ops.primitive.gather_scatter import *
from meganeura_dsl.ir.ops.primitive.leaf import *
from meganeura_dsl.ir.ops.primitive.movement import *
from meganeura_dsl.ir.ops.primitive.pool import *
from meganeura_dsl.ir.ops.primitive.random_bits import *
from meganeura_dsl.ir.ops.primitive.reduce import *
from meganeura_dsl.ir.ops.primitive.scan import *
from meganeura_dsl.ir.ops.primitive.sort import *
from meganeura_dsl.ir.ops.primitive.whole import *

OPS: tuple[type[Op], ...] = (
    *leaf.OPS,
    *random_bits.OPS,
    *broadcast.OPS,
    *elementwise.OPS,
    *whole.OPS,
    *reduce.OPS,
    *movement.OPS,
    *gather_scatter.OPS,
    *dynamic.OPS,
    *cumulative.OPS,
    *sort.OPS,
    *contraction.OPS,
    *pool.OPS,
    *scan.OPS,
)

__all__ = ["OPS"]
__all__ += broadcast.__all__
__all__ += contraction.__all__
__all__ += cumulative.__all__
__all__ += dynamic.__all__
__all__ += elementwise.__all__
__all__ += gather_scatter.__all__
__all__ += leaf.__all__
__all__ += movement.__all__
__all__ += pool.__all__
__all__ += random_bits.__all__
__all__ += reduce.__all__
__all__ += scan.__all__
__all__ += sort.__all__
__all__ += whole.__all__
