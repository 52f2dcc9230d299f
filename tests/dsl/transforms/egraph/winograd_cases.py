"""Random instances of 3 x 3 convolutions that Winograd's rules rewrite, by the name of the rule."""

from collections.abc import Callable, Iterator

from hypothesis import strategies as st

from meganeura_dsl.ir.cost_model import DeviceModel
from meganeura_dsl.ir.graph import Op, Value
from meganeura_dsl.ir.ops import Add, Conv, ConvInputGradient, ConvWeightGradient
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from tests.dsl.transforms.egraph.algebra_cases import Draw, Make, sizes
from tests.dsl.transforms.egraph.net import Net

FORMS = DeviceModel(launch=0, bandwidth=1e30, throughput=1, winograd=(2, 4), narrowest=1)
"""A device on which multiplications alone count."""


def winograd() -> Iterator[tuple[str, Make]]:
    def drawn(
        make: Callable[[Net, Value, Value, tuple[int, int]], Value],
    ) -> Make:
        def case(net: Net, draw: Draw) -> Value:
            images, inputs, outputs = sizes(draw, 3, most=3)
            padding = draw(st.integers(0, 2)), draw(st.integers(0, 2))
            spatial = (draw(st.integers(max(1, 3 - 2 * around), 9)) for around in padding)
            x = net.x(images, inputs, *spatial)
            return make(net, x, net.x(outputs, inputs, 3, 3), padding)

        return case

    def biased(net: Net, x: Value, w: Value, padding: tuple[int, int]) -> Value:
        y = net.conv(x, w, padding)
        return net.do(Add(), y, net.spread(net.x(*concrete_shape(w.type.shape[:1])), y, 1))

    def added(net: Net, x: Value, w: Value, padding: tuple[int, int]) -> Value:
        y = biased(net, x, w, padding)
        return net.do(Add(), y, net.x(*concrete_shape(y.type.shape)))

    def gradient(
        net: Net, x: Value, w: Value, padding: tuple[int, int], *, of_input: bool
    ) -> Value:
        y = net.conv(x, w, padding)
        dy = net.x(*concrete_shape(y.type.shape))
        geometry = ((1, 1), padding, (1, 1), 1)
        if of_input:
            return net.do(ConvInputGradient(*geometry, x.type.shape[2:]), w, dy)
        return net.do(ConvWeightGradient(*geometry, (3, 3)), x, dy)

    yield "winograd", drawn(Net.conv)
    yield "winograd-bias", drawn(lambda *given: given[0].relu(biased(*given)))
    yield "winograd-residual", drawn(lambda *given: given[0].relu(added(*given)))
    yield "winograd-input-gradient", drawn(lambda *given: gradient(*given, of_input=True))
    yield "winograd-weight-gradient", drawn(lambda *given: gradient(*given, of_input=False))


Geometry = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int]
PLAIN: Geometry = ((1, 1), (1, 1), (1, 1), 1)
"""Stride, padding, dilation and groups of what the rules are about."""


def convolution(
    net: Net,
    op: str = "Conv",
    spatial: tuple[int, ...] = (6, 6),
    kernel: tuple[int, ...] = (3, 3),
    geometry: Geometry = PLAIN,
) -> Value:
    """A convolution of two images and four channels, or a gradient of one."""
    x, w = net.x(2, 4, *spatial), net.x(4, 4 // geometry[-1], *kernel)
    y = net.do(Conv(*geometry), x, w)
    made: dict[str, tuple[Op, tuple[Value, Value]]] = {
        "ConvInputGradient": (ConvInputGradient(*geometry, spatial), (w, y)),
        "ConvWeightGradient": (ConvWeightGradient(*geometry, kernel), (x, y)),
    }
    return net.do(made[op][0], *made[op][1]) if op in made else y
