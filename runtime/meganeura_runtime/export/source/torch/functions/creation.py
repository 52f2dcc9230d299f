"""New tensors."""

from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.functions.arguments import Arguments
from meganeura_runtime.export.source.functions.creation import shape_items
from meganeura_runtime.export.source.functions.elementwise import as_float
from meganeura_runtime.export.source.text import Code, call


def _shape(arguments: Arguments) -> str:
    items = shape_items(arguments)
    if items is None:
        return str(arguments.static(0, "shape"))
    return ", ".join(items) if items else "()"


def created(arguments: Arguments) -> Code:
    """Writes `zeros`, `ones` and random tensors."""
    functions = {
        "zeros": "zeros",
        "ones": "ones",
        "random_uniform": "rand",
        "random_normal": "randn",
    }
    name = functions[arguments.node.callee]
    return call(f"torch.{name}", _shape(arguments), **arguments.writer.placement())


def filled(arguments: Arguments) -> Code:
    """Writes `full`."""
    number = arguments.static(1, "value")
    text = as_float(number)
    node = arguments.node_at(0, "shape")
    shape = _shape(arguments)
    if isinstance(node, ast.ListOf) and shape != "()":
        shape = f"({shape},)" if len(node.items) == 1 else f"({shape})"
    return call("torch.full", shape, text, **arguments.writer.placement())


def constant_tensor(arguments: Arguments) -> Code:
    """Writes a list of numbers as a tensor."""
    return call("torch.tensor", arguments.static(0, ""), **arguments.writer.placement())
