"""Order and running sums along an axis."""

from meganeura_runtime.export.source.functions.arguments import Arguments
from meganeura_runtime.export.source.text import Code, call


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
