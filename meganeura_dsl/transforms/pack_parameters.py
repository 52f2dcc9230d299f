"""Parameters kept as numbers of a few bits: each is read as a `Dequantize` of its words."""

from collections.abc import Mapping

from meganeura_dsl.ir.graph import Array, Builder, Graph, Value, rebuild
from meganeura_dsl.ir.ops import Parameter
from meganeura_dsl.ir.ops.fused import Dequantize
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.quantization import Quantization
from meganeura_dsl.ir.types import DType

WORDS, SCALES = ".words", ".scales"
"""Endings of the names of the two parameters that replace one."""


def pack_parameters(graph: Graph, levels: Mapping[str, Quantization]) -> Graph:
    """The same graph, in which `name.words` and `name.scales` replace each of these parameters.

    A parameter that the graph updates, or that is no f32, stays as it is.
    """
    build = Builder()

    def change(value: Value, operands: tuple[Value, ...]) -> Value:
        leaf = packed_leaf(value, graph, levels)
        if leaf is None:
            return build.reapply(value, *operands)
        how, shape = levels[leaf.name], concrete_shape(leaf.shape)
        words = Parameter(leaf.name + WORDS, DType.U32, how.words(shape), "frozen")
        scales = Parameter(leaf.name + SCALES, DType.F32, how.scales(shape), "frozen")
        return build.add(Dequantize(shape, how.bits), build.add(words), build.add(scales))

    return rebuild(graph, build, change)


def packed_values(
    values: Mapping[str, Array], levels: Mapping[str, Quantization]
) -> dict[str, Array]:
    """Returns the values, with words and scales in place of those that `pack_parameters` packs."""
    found: dict[str, Array] = {}
    for name, array in values.items():
        if name in levels:
            found[name + WORDS], found[name + SCALES] = levels[name].quantize(array)
        else:
            found[name] = array
    return found


def packed_leaf(value: Value, graph: Graph, levels: Mapping[str, Quantization]) -> Parameter | None:
    """The parameter that a value is, if `pack_parameters` replaces it."""
    match value.op:
        case Parameter(name=name, dtype=DType.F32) as leaf:
            return leaf if name in levels and name not in graph.updates else None
        case _:
            return None
