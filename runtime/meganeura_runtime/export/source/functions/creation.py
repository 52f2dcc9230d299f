"""New tensors."""

from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.functions.arguments import Arguments, device_of
from meganeura_runtime.export.source.functions.elementwise import as_float
from meganeura_runtime.export.source.text import Code, call


def _shape(arguments: Arguments) -> str:
    node = arguments.node_at(0, "shape")
    assert node is not None
    writer = arguments.writer
    if isinstance(node, ast.ListOf):
        items = [
            f"*{writer.static(each, 'forward')}"
            if isinstance(each, ast.Name) and writer.env.get(each.text) == "rest"
            else str(writer.static(each, "forward"))
            for each in node.items
        ]
        return ", ".join(items) if items else "()"
    return str(writer.static(node, "forward"))


def created(arguments: Arguments) -> Code:
    """Writes `zeros`, `ones` and random tensors."""
    functions = {
        "zeros": "zeros",
        "ones": "ones",
        "random_uniform": "rand",
        "random_normal": "randn",
    }
    name = functions[arguments.node.callee]
    return call(f"torch.{name}", _shape(arguments), **device_of(arguments))


def filled(arguments: Arguments) -> Code:
    """Writes `full`."""
    number = arguments.static(1, "value")
    text = as_float(number)
    node = arguments.node_at(0, "shape")
    shape = _shape(arguments)
    if isinstance(node, ast.ListOf) and shape != "()":
        shape = f"({shape},)" if len(node.items) == 1 else f"({shape})"
    return call("torch.full", shape, text, **device_of(arguments))


def constant_tensor(arguments: Arguments) -> Code:
    """Writes a list of numbers as a tensor."""
    node = arguments.node_at(0)
    assert node is not None
    return call("torch.tensor", arguments.writer.static(node, "forward"), **device_of(arguments))
