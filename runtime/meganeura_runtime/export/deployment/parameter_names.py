"""Names in a file of the parameters of an inference form.

A parameter that is still the program's keeps its name. What a convolution was given in place of its
own follows from the kernels it is made of:

    one kernel        P.conv1.weight             the name stays, and beside it P.conv1.bias
    several kernels   P.conv_kxk.conv.weight,    P.reparam_conv.weight and P.reparam_conv.bias,
                      P.conv_1x1.conv.weight     P being the layer they have in common

The second is what timm (1.0) calls it in all families it reparameterises. Everything else that the
optimizer computes ahead has no name elsewhere, and keeps the one the optimizer gave it.
"""

from collections.abc import Iterable, Mapping
from itertools import takewhile

from meganeura_dsl.ir.graph import Graph, Value, dependencies
from meganeura_dsl.ir.ops import Conv, Parameter
from meganeura_dsl.ir.ops.fused import FusedConv

MERGED = "reparam_conv"
"""The name in timm of the convolution that replaces several branches."""

WEIGHT, BIAS = ".weight", ".bias"


def deployed_names(graph: Graph, load: Graph) -> dict[str, str]:
    """Returns the name in a file of each parameter of an inference form, in order."""
    parameters = [value.op.name for value in graph.values if isinstance(value.op, Parameter)]
    wanted: dict[str, str] = {}
    for value in graph.values:
        if isinstance(value.op, Conv | FusedConv):
            wanted |= _of_convolution(value, load)
    names = {name: name for name in parameters}
    taken = {name for name in parameters if name not in load.outputs}
    for name, better in wanted.items():
        if better not in taken:
            names[name] = better
            taken.add(better)
    return names


def _of_convolution(value: Value, load: Graph) -> Mapping[str, str]:
    """Better names for the kernel and the bias of a convolution, where they are derived."""
    kernel, *rest = (operand.op for operand in value.operands[1:3])
    if not isinstance(kernel, Parameter):
        return {}
    derived = load.outputs.get(kernel.name)
    name = kernel.name if derived is None else _kernel_name(derived) or kernel.name
    found = {kernel.name: name}
    bias = rest[0] if rest else None
    if name.endswith(WEIGHT) and isinstance(bias, Parameter) and bias.name in load.outputs:
        found[bias.name] = name.removesuffix(WEIGHT) + BIAS
    return found


def _kernel_name(derived: Value) -> str | None:
    """The name for what is made of kernels, which are the parameters of its rank."""
    kernels = sorted(
        value.op.name
        for value in dependencies([derived])
        if isinstance(value.op, Parameter) and value.type.rank == derived.type.rank
    )
    match kernels:
        case []:
            return None
        case [kernel]:
            return kernel
        case _:
            return ".".join((*_common_layer(kernels), MERGED)) + WEIGHT


def _common_layer(names: Iterable[str]) -> list[str]:
    """The path of the innermost layer that all are in."""
    columns = zip(*(name.split(".") for name in names), strict=False)
    return [column[0] for column in takewhile(lambda each: len(set(each)) == 1, columns)]
