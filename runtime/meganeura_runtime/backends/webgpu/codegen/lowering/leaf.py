"""Values that no memory is read for: constants, index ranges and random words."""

from meganeura_dsl.ir.graph import Op, Value
from meganeura_dsl.ir.ops import OPS as PRIMITIVES
from meganeura_dsl.ir.ops import Constant, Iota, RandomBits
from meganeura_dsl.ir.ops.type_rules import concrete, concrete_shape
from meganeura_dsl.ir.traits import Trait
from meganeura_dsl.ir.types import DType
from meganeura_dsl.symbolic.size import Dim
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import Affine, Expression, Index, ravel
from meganeura_runtime.backends.webgpu.codegen.wgsl.expression import ElementReader

OPS: tuple[type[Op], ...] = tuple(op for op in PRIMITIVES if Trait.GENERATOR in op.traits)


def read(reading: ElementReader, value: Value, index: Index) -> Expression:
    """The element of a value that is computed from its index."""
    make = reading.make
    match value.op:
        case Constant(value=number, dtype=dtype):
            return make.literal(concrete(number) if isinstance(number, Dim) else number, dtype)
        case Iota():
            return make.number(index[0], DType.I32)
        case RandomBits(stream=stream, shape=shape):
            seed, step = (reading.at(value.operands[0], (Affine(word),)) for word in (0, 1))
            word = make.number(ravel(index, concrete_shape(shape)), DType.U32)
            name = make.literal(stream, DType.U32)
            return make.call("random_word({0}, {1}, {2}, {3})", DType.U32, seed, step, word, name)
        case op:
            raise TypeError(f"{op} is no leaf")
