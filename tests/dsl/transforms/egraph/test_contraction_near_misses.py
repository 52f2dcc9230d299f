"""Near misses of products and convolutions: of their factors, kernels, biases and rows."""

from collections.abc import Callable

from meganeura_dsl.ir.graph import Op, Value
from meganeura_dsl.ir.ops import (
    Add,
    Div,
    MatMul,
    Mul,
    Parameter,
    Reshape,
    Slice,
    Sub,
    Transpose,
)
from meganeura_dsl.ir.types import DType
from meganeura_dsl.transforms.egraph.rules.rule_sets import Mode
from tests.dsl.transforms.egraph.classes import examine
from tests.dsl.transforms.egraph.net import Net
from tests.folded import each_of

Make = Callable[[Net], Value]


def _scaled_by_data(net: Net) -> Value:
    """A convolution whose channels a gate scales: its kernel would be made anew in each run."""
    return _stepped(Mul())(net)


def _stepped(op: Op) -> Make:
    def make(net: Net) -> Value:
        y = net.conv(net.x(1, 2, 3), net.w(2, 2, 1))
        return net.do(op, y, net.spread(net.x(2), y, 1))

    return make


def _scaled(op: Op, number: float, contraction: str, dtype: DType = DType.F32) -> Make:
    """Data times a number, or by it, times data or, if it is of single precision, a parameter."""

    def make(net: Net) -> Value:
        x = net.x(2, 4, 4, dtype=dtype)
        w = net.x(4, 4, 1)
        if dtype is DType.F16:
            w = net.do(Parameter("half", dtype, (4, 4, 1), "param"))
        y = net.do(op, x, net.full(number, x))
        if contraction == "product":
            return net.do(MatMul(), y, net.do(Reshape((4, 4)), w))
        return net.conv(y, w)

    return make


def _kernels_of_other_places(net: Net) -> Value:
    """Every third place, and the places between: the sizes agree, as what is left over differs."""
    x = net.x(1, 2, 6)
    one = net.conv(x, net.w(2, 2, 3), 1, stride=3, dilation=2)
    return net.do(Add(), one, net.conv(x, net.w(2, 2, 1), stride=3, dilation=2))


def _kernels_across_each_other(net: Net) -> Value:
    x = net.x(1, 2, 4, 4)
    one = net.conv(x, net.w(2, 2, 3, 1), (1, 0))
    return net.do(Add(), one, net.conv(x, net.w(2, 2, 1, 3), (0, 1)))


def _kernels_of_odd_and_even_size(*kernel: int) -> Make:
    """Of as many places, as what is left over differs."""

    def make(net: Net) -> Value:
        x = net.x(1, 2, *(5 for _ in kernel))
        one, other = (net.w(2, 2, *each) for each in ((3,) * len(kernel), kernel))
        return net.do(Add(), net.conv(x, one, stride=2), net.conv(x, other, stride=2))

    return make


def _kernel_of_data_beside_one_of_parameters(net: Net) -> Value:
    x = net.x(1, 2, 4)
    one, other = (net.conv(x, w, 1) for w in (net.w(2, 2, 3), net.x(2, 2, 3)))
    return net.do(Add(), one, other)


def _kernel_of_data(*, scaled: bool) -> Make:
    """A kernel of data, or one that data scales, beside one of parameters."""

    def make(net: Net) -> Value:
        x, w = net.x(1, 2, 4), net.x(2, 2, 3)
        w = net.do(Mul(), w, net.w(2, 2, 3)) if scaled else w
        return net.do(Add(), net.batch_norm(net.conv(x, net.w(2, 2, 3), 1)), net.conv(x, w, 1))

    return make


def _kernels_of_other_rows(*padding: int) -> Make:
    """As above, along one axis of two."""

    def make(net: Net) -> Value:
        x = net.x(1, 2, 6, 6)
        one = net.conv(x, net.w(2, 2, 3, 3), padding, stride=3, dilation=2)
        return net.do(Add(), one, net.conv(x, net.w(2, 2, 1, 1), stride=3, dilation=2))

    return make


def _bias_along_rows(net: Net) -> Value:
    y = net.do(MatMul(), net.x(3, 3), net.x(3, 3))
    return net.do(Add(), y, net.spread(net.x(3), y, 0))


def _bias_along_space(net: Net) -> Value:
    y = net.conv(net.x(1, 3, 5), net.x(3, 3, 3))
    return net.do(Add(), y, net.spread(net.x(3), y, 2))


def _transposed_by_another(net: Net) -> Value:
    b = net.do(Transpose((1, 0, 2)), net.x(2, 2, 2))
    return net.do(MatMul(), net.x(2, 2, 2), b)


def _shared_right_operand(net: Net) -> Value:
    a = net.do(Transpose((0, 2, 1)), net.x(2, 3, 3))
    return net.do(MatMul(), a, net.x(3, 3))


def _products_with_one_matrix_transposed(net: Net) -> Value:
    return net.do(Transpose((0, 2, 1)), net.do(MatMul(), net.x(2, 3, 3), net.x(3, 3)))


def _rows_of_product(fault: str) -> Make:
    def make(net: Net) -> Value:
        a = net.x(3, 3, 3)
        b = net.x(3, 3, 3) if fault == "batch" else net.x(3, 3)
        y = net.do(MatMul(), a, b)
        stop = (3, 2, 2) if fault == "columns" else (3, 2, 3)
        return net.do(Slice((0, 0, 0), stop, (1, 2 if fault == "stride" else 1, 1)), y)

    return make


def _projections(fault: str) -> Make:
    def make(net: Net) -> Value:
        x = net.x(2, 3, 4)
        v = net.projected(net.x(2, 3, 4) if fault == "another" else x, 4)
        if fault == "layout":
            v = net.projected(x, 4, transposed=False)
        biased = fault.startswith("biased")
        if "data" in fault:
            v = net.do(MatMul(transpose_right=True), x, net.x(4, 4))
            v = net.do(Add(), v, net.spread(net.w(4), v, 2)) if biased else v
        if fault == "product":
            w = net.do(MatMul(), net.w(4, 4), net.w(4, 4))
            v = net.do(MatMul(transpose_right=True), x, w)
        q, k = (net.projected(x, 4, biased=biased) for _ in range(2))
        if fault == "a matrix for each":
            q, k, v = (net.do(MatMul(), x, net.w(2, 4, 4)) for _ in range(3))
        if fault == "nobody asks":
            return net.do(MatMul(), net.scores(q, k, 0.5), v)
        return net.do(MatMul(), net.softmax(net.scores(q, k, 0.5), 2), v)

    return make


def _summed(fault: str) -> Make:
    def make(net: Net) -> Value:
        one, two, three = (net.projected(net.x(2, 3), 3) for _ in range(3))
        if fault == "data":
            three = net.do(MatMul(transpose_right=True), net.x(2, 3), net.x(3, 3))
        if fault == "a matrix for each":
            one, two, three = (net.do(MatMul(), net.x(2, 2, 2), net.w(2, 2, 2)) for _ in range(3))
        if fault == "turned":
            three = net.do(
                MatMul(transpose_left=True, transpose_right=True), net.x(3, 2), net.w(3, 3)
            )
        if fault == "layout":
            two = net.projected(net.x(2, 3), 3, transposed=False)
        return net.do(Sub() if fault == "difference" else Add(), net.do(Add(), one, two), three)

    return make


NEAR_MISSES: tuple[tuple[str, Mode, Make], ...] = (
    ("affine-scale", "infer", _scaled_by_data),
    ("affine-quotient", "infer", _stepped(Div())),
    ("affine-shift", "infer", _stepped(Add())),
    ("affine-centre", "infer", _stepped(Sub())),
    *(
        (f"{name}-into-{contraction}", "infer", _scaled(op, number, contraction, dtype))
        for contraction in ("convolution", "product")
        for name, op, number, dtype in (
            ("scale", Mul(), 3, DType.F32),
            ("quotient", Div(), 3, DType.F32),
            ("scale", Mul(), 3, DType.F16),
            ("quotient", Div(), 3, DType.F16),
        )
    ),
    *(
        ("convolution-without-bias", "infer", _kernel_of_data(scaled=scaled))
        for scaled in (False, True)
    ),
    (
        "fold-affine-into-convolution",
        "infer",
        lambda net: net.batch_norm(net.conv(net.x(1, 2, 4), net.x(2, 2, 3))),
    ),
    ("convolutions-without-bias", "infer", _kernel_of_data_beside_one_of_parameters),
    ("grow-kernel-1", "infer", _kernels_of_other_places),
    *(
        (f"grow-kernel-{len(kernel)}", "infer", _kernels_of_odd_and_even_size(*kernel))
        for kernel in ((2,), (2, 3), (3, 2))
    ),
    ("grow-kernel-2", "infer", _kernels_across_each_other),
    ("grow-kernel-2", "infer", _kernels_of_other_rows(1, 2)),
    ("grow-kernel-2", "infer", _kernels_of_other_rows(2, 1)),
    ("matmul-bias", "train", _bias_along_rows),
    ("conv-bias", "train", _bias_along_space),
    ("matmul-right", "train", _transposed_by_another),
    ("matmul-left", "train", _shared_right_operand),
    ("matmul-transposed", "train", _products_with_one_matrix_transposed),
    *(
        ("matmul-rows", "train", _rows_of_product(fault))
        for fault in ("batch", "columns", "stride")
    ),
    *(
        ("sum-of-products", "train", _summed(fault))
        for fault in ("data", "turned", "layout", "difference", "a matrix for each")
    ),
    *(
        ("part-of-product", "infer", _projections(fault))
        for fault in (
            *("another", "layout", "data", "biased data", "product", "nobody asks"),
            "a matrix for each",
        )
    ),
    ("conv-bias", "forward", lambda net: net.batch_norm(net.conv(net.x(1, 2, 3), net.w(2, 2, 1)))),
)


@each_of(("rule", "mode", "make"), NEAR_MISSES)
def test_a_near_miss_is_left_alone(rule: str, mode: Mode, make: Make) -> None:
    net = Net()
    explored, _ = examine(net.graph(make(net)), mode)
    assert explored.matches[rule] == 0
