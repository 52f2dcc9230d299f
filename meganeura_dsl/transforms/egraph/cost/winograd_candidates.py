"""Forms of Winograd's convolution that are worth a try in a graph.

Each form is some more nodes for every convolution, and on most graphs none of them pays.
"""

from collections.abc import Iterable, Iterator

from meganeura_dsl.ir.cost_model import DeviceModel, kernel_cost
from meganeura_dsl.ir.graph import Builder, Graph
from meganeura_dsl.ir.ops import Conv, ConvInputGradient, ConvWeightGradient, Input
from meganeura_dsl.ir.ops.fused import FusedConv, WinogradKernel
from meganeura_dsl.ir.ops.fused.winograd import in_tiles
from meganeura_dsl.ir.ops.primitive.contraction import Convolution
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.transforms.egraph.cost.kernel_cost_model import costs_nothing


def promising_forms(graph: Graph, device: DeviceModel) -> tuple[int, ...]:
    """The forms that are the fastest for a convolution of the graph, by the model of the device."""
    if not device.winograd:
        return ()
    known = dict.fromkeys(_convolutions(graph))
    found = {_fastest(op, (a, b), device) for op, a, b in known}
    return tuple(form for form in device.winograd if form in found)


def tile_facts(forms: Iterable[int], device: DeviceModel) -> list[str]:
    """Returns the facts about a device that the rules of forms need."""
    return [f"(tile {form} {device.largest} {device.narrowest})" for form in forms]


Plain = Conv | ConvInputGradient | ConvWeightGradient


def _convolutions(graph: Graph) -> Iterator[tuple[Plain, TensorType, TensorType]]:
    """Yields convolutions of 3 x 3 with stride one, and the types of their factors."""
    for value in graph.values:
        factors = [operand.type for operand in value.operands[:2]]
        match value.op:
            case FusedConv() as op:
                found, kernel = op.product, factors[1]
            case Conv() as found:
                kernel = factors[1]
            case ConvInputGradient() as found:
                kernel = factors[0]
            case ConvWeightGradient() as found:
                kernel = value.type
            case _:
                continue
        if _is_suitable(found, concrete_shape(kernel.shape)):
            yield found, factors[0], factors[1]


def _is_suitable(op: Convolution, kernel: tuple[int, ...]) -> bool:
    once = concrete_shape((*op.stride, *op.dilation, op.groups))
    return kernel[2:] == (3, 3) and set(once) == {1} and max(concrete_shape(op.padding)) <= 2


def _fastest(op: Plain, factors: tuple[TensorType, ...], device: DeviceModel) -> int:
    """The form, 0 being the convolution as it is; a transformed kernel is taken to be at hand."""
    times = {0: _seconds(op, factors, 0, device)}
    times |= {form: _seconds(op, factors, form, device) for form in device.winograd}
    return min(times, key=times.__getitem__)


def _seconds(op: Plain, factors: tuple[TensorType, ...], form: int, device: DeviceModel) -> float:
    build = Builder()
    operands = [
        build.add(Input(str(position), of.dtype, of.shape)) for position, of in enumerate(factors)
    ]
    if form:
        in_tiles(build, op, operands, form)
    else:
        build.add(op, *operands)
    return sum(
        kernel_cost(value.op, [operand.type for operand in value.operands], value.type).seconds(
            device
        )
        for value in build.values
        if not costs_nothing(value.op) and not isinstance(value.op, WinogradKernel)
    )
