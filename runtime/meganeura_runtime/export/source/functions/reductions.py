"""Sums, means and other reductions."""

from meganeura_dsl.ir.types import DType
from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.axis import Axis
from meganeura_runtime.export.source.functions.arguments import Arguments
from meganeura_runtime.export.source.functions.axes import axis_order, sides_of
from meganeura_runtime.export.source.observed import refuse
from meganeura_runtime.export.source.text import Code, method, tuple_text


def reduced(arguments: Arguments) -> Code:
    """Writes a reduction of some axes."""
    writer, name = arguments.writer, arguments.node.callee
    rest = arguments.places[1:]
    target: list[list[Axis]] | None = None
    value = arguments.tensor(0)
    if rest and isinstance(rest[0], ast.Rearrangement):
        source, target = sides_of(arguments)
        value = writer.split(arguments.node, value, source)
        keys = [each.key for group in source for each in group]
        kept = axis_order(keys, [each.key for group in target for each in group])
        axes = [at for at in range(len(keys)) if at not in kept]
        everything = len(axes) == len(keys)
    else:
        axes = list[int]()
        for at in range(1, len(arguments.places)):
            axes.append(arguments.number(at, "axis"))
        everything = not axes
    if arguments.dtype() is DType.BOOL and name in ("mean", "sum"):
        value = writer.convert(value, DType.BOOL, "f32") or value
    elif name in ("mean", "variance") and arguments.dtype().is_integer:
        raise refuse(arguments.node, "the mean of whole numbers")
    dims = (
        str(axes[0]) if len(axes) == 1 else tuple_text([str(each) for each in axes]) if axes else ""
    )
    found = writer.reduce(name, value, "" if everything else dims)
    return found if target is None else writer.merge(found, target)


def argmax(arguments: Arguments) -> Code:
    """Writes `argmax` and `argmin`."""
    callee = arguments.node.callee
    return method(arguments.tensor(0), callee, str(arguments.number(1, "axis", -1)))
