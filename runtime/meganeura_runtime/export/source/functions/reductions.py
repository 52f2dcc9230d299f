"""Sums, means and other reductions; order and running sums along an axis."""

from meganeura_dsl.ir.types import DType
from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.functions.arguments import FLOAT, Arguments
from meganeura_runtime.export.source.functions.axes import (
    Axis,
    axis_order,
    merged,
    sides_of,
    split_axes,
)
from meganeura_runtime.export.source.observed import refuse
from meganeura_runtime.export.source.text import Code, call, method, tuple_text


def reduced(arguments: Arguments) -> Code:
    """Writes a reduction of some axes."""
    name = arguments.node.callee
    rest = arguments.places[1:]
    target: list[list[Axis]] | None = None
    value = arguments.tensor(0)
    if rest and isinstance(rest[0], ast.Rearrangement):
        source, target = sides_of(arguments)
        value = split_axes(arguments, value, source)
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
        value = method(value, "to", FLOAT)
    elif name in ("mean", "variance") and arguments.dtype().is_integer:
        raise refuse(arguments.node, "the mean of whole numbers")
    dims = (
        str(axes[0]) if len(axes) == 1 else tuple_text([str(each) for each in axes]) if axes else ""
    )
    given = [] if everything else [dims]
    match name:
        case "variance":
            found = method(value, "var", *given, correction="0")
        case "max":
            found = method(value, "amax", *given)
        case "min":
            found = method(value, "amin", *given)
        case _:
            found = method(value, name, *given)
    return found if target is None else merged(found, target)


def argmax(arguments: Arguments) -> Code:
    """Writes `argmax` and `argmin`."""
    callee = arguments.node.callee
    return method(arguments.tensor(0), callee, str(arguments.number(1, "axis", -1)))


def in_order(arguments: Arguments) -> Code:
    """Writes `sort` and `argsort`."""
    axis = arguments.number(1, "axis", -1)
    named = {"dim": str(axis), "stable": "True"}
    if arguments.node_at(2, "descending") is not None:
        named["descending"] = str(arguments.static(2, "descending"))
    if arguments.node.callee == "argsort":
        return call("torch.argsort", arguments.tensor(0), **named)
    return call("torch.sort", arguments.tensor(0), **named)


def top_k(arguments: Arguments) -> Code:
    """Writes `top_k`."""
    axis = arguments.number(2, "axis", -1)
    given = [] if axis in (-1, arguments.rank() - 1) else [str(axis)]
    return call("torch.topk", arguments.tensor(0), arguments.static(1, "k"), *given)


def cumulative(arguments: Arguments) -> Code:
    """Writes running sums, products and extremes."""
    found = call(
        f"torch.{arguments.node.callee}", arguments.tensor(0), dim=str(arguments.number(1, "axis"))
    )
    return found if arguments.node.callee in ("cumsum", "cumprod") else Code(f"{found}.values")


def recurrence(arguments: Arguments) -> Code:
    """Writes `linear_recurrence` as a function of the file."""
    arguments.writer.source.helper("linear_recurrence")
    axis = str(arguments.number(2, "axis"))
    return call("linear_recurrence", arguments.tensor(0), arguments.tensor(1), dim=axis)
