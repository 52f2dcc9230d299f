"""Random instances of the left sides of the fusions, by the name of the rewrite."""

from collections.abc import Callable, Iterator
from math import prod

from hypothesis import strategies as st

from meganeura_dsl.ir.graph import Op, Value
from meganeura_dsl.ir.ops import (
    Add,
    Compare,
    Div,
    Erf,
    Iota,
    MatMul,
    Mul,
    Reshape,
    Sqrt,
    Sum,
    Tanh,
    Where,
)
from meganeura_dsl.ir.types import DType
from tests.dsl.transforms.egraph.algebra_cases import Draw, Make, of_operands, shape, sizes
from tests.dsl.transforms.egraph.net import Net


def activations() -> Iterator[tuple[str, Make]]:
    def gelu(net: Net, x: Value) -> Value:
        return net.halved(x, net.do(Erf(), net.do(Mul(), x, net.full(2**-0.5, x))))

    def gelu_tanh(net: Net, x: Value) -> Value:
        cube = net.do(Mul(), x, net.do(Mul(), x, x))
        bent = net.do(Add(), x, net.do(Mul(), net.full(0.044715, x), cube))
        scaled = net.do(Mul(), net.full(0.7978845608028654, x), bent)
        return net.halved(x, net.do(Tanh(), scaled))

    def silu(net: Net, x: Value) -> Value:
        return net.do(Mul(), x, net.sigmoid(x))

    yield "relu", of_operands(1, lambda net, x: net.relu(x))
    yield "sigmoid", of_operands(1, lambda net, x: net.sigmoid(x))
    yield "softplus", of_operands(1, lambda net, x: net.softplus(x))
    yield "silu", of_operands(1, silu)
    yield "gelu", of_operands(1, gelu)
    yield "gelu-tanh", of_operands(1, gelu_tanh)
    yield "swiglu", of_operands(2, lambda net, g, u: net.do(Mul(), u, silu(net, g)))


def norms() -> Iterator[tuple[str, Make]]:
    def over_some(make: Callable[[Net, Value, tuple[int, ...], tuple[int, ...]], Value]) -> Make:
        def case(net: Net, draw: Draw) -> Value:
            axes = draw(st.sampled_from([(0,), (1,), (2,), (0, 2), (1, 2)]))
            kept = tuple(axis for axis in range(3) if axis not in axes)
            return make(net, net.x(*sizes(draw, 3)), axes, kept)

        return case

    def weight(net: Net, x: Value, kept: tuple[int, ...]) -> Value:
        return net.do(
            Reshape(tuple(x.type.shape[axis] for axis in kept)),
            net.x(*(size for axis in kept if isinstance(size := x.type.shape[axis], int))),
        )

    def variance(net: Net, x: Value, axes: tuple[int, ...], _: tuple[int, ...]) -> Value:
        centred = net.centred(x, *axes)
        return net.mean(net.do(Mul(), centred, centred), *axes)

    def standardized(net: Net, x: Value, axes: tuple[int, ...], _: tuple[int, ...]) -> Value:
        return net.standardized(x, *axes)

    def centreless(net: Net, x: Value, axes: tuple[int, ...], _: tuple[int, ...]) -> Value:
        return net.do(Div(), x, net.root(x, *axes))

    def scaled(net: Net, x: Value, axes: tuple[int, ...], kept: tuple[int, ...]) -> Value:
        along = axes if len(axes) == 1 else kept
        spread = net.spread(weight(net, x, along), x, *along)
        return net.do(Mul(), net.standardized(x, *axes), spread)

    def quotient(net: Net, x: Value, axes: tuple[int, ...], kept: tuple[int, ...]) -> Value:
        centred = net.centred(x, *axes)
        square = net.mean(net.do(Mul(), centred, centred), *axes)
        root = net.do(Sqrt(), net.do(Add(), square, net.full(1e-5, square)))
        scale = net.do(Div(), weight(net, x, kept), root)
        return net.do(Mul(), centred, net.spread(scale, x, *kept))

    def norm(net: Net, x: Value, axes: tuple[int, ...], kept: tuple[int, ...]) -> Value:
        along = axes if len(axes) == 1 else kept
        scale, shift = weight(net, x, along), weight(net, x, along)
        return net.affine(net.standardized(x, *axes), scale, shift, *along)

    def grouped(net: Net, draw: Draw) -> Value:
        groups = draw(st.integers(1, 3))
        x = net.x(draw(st.integers(1, 2)), 2 * groups, *sizes(draw, draw(st.integers(1, 2))))
        return net.group_standardized(x, groups)

    def grouped_affine(rank: int) -> Make:
        def case(net: Net, draw: Draw) -> Value:
            groups, each = draw(st.integers(1, 3)), draw(st.integers(1, 2))
            x = net.x(draw(st.integers(1, 2)), each * groups, *sizes(draw, rank - 2))
            weight, bias = net.x(each * groups), net.x(each * groups)
            return net.affine(net.group_standardized(x, groups), weight, bias, 1)

        return case

    for rank in (3, 4):
        yield f"scaled-group-norm-{rank}", grouped_affine(rank)
        yield f"group-norm-{rank}", grouped_affine(rank)
    yield "sub-in-groups", grouped
    yield "div-in-groups", grouped
    yield "standardize", grouped
    yield "variance", over_some(variance)
    yield "standardize", over_some(standardized)
    yield "standardize-centreless", over_some(centreless)
    yield "scaled-norm", over_some(scaled)
    yield "scaled-norm-of-quotient", over_some(quotient)
    yield "norm", over_some(norm)


def softmax() -> Iterator[tuple[str, Make]]:
    def softmax(net: Net, draw: Draw) -> Value:
        x = net.x(*shape(draw, least=1))
        return net.softmax(x, draw(st.integers(0, x.type.rank - 1)))

    def log_softmax(net: Net, draw: Draw) -> Value:
        x = net.x(*shape(draw, least=1))
        return net.log_softmax(x, draw(st.integers(0, x.type.rank - 1)))

    def cross_entropy(net: Net, draw: Draw) -> Value:
        logits = net.x(*shape(draw, least=1))
        last = logits.type.rank - 1
        *rows, classes = (size for size in logits.type.shape if isinstance(size, int))
        labels = net.over(net.x(*rows, dtype=DType.I32), logits, last)
        indices = net.spread(net.do(Iota(classes)), logits, last)
        picked = net.do(Compare("eq"), labels, indices)
        logs = net.log_softmax(logits, last)
        return net.do(Sum((last,)), net.do(Where(), picked, logs, net.full(0, logs)))

    yield "softmax", softmax
    yield "log-softmax", log_softmax

    def soft_cross_entropy(net: Net, draw: Draw) -> Value:
        each = shape(draw, least=1)
        logits, labels = net.x(*each), net.x(*each)
        last = logits.type.rank - 1
        parts = draw(st.permutations([labels, net.log_softmax(logits, last)]))
        return net.do(Sum((last,)), net.do(Mul(), *parts))

    yield "cross-entropy", cross_entropy
    yield "soft-cross-entropy", soft_cross_entropy


def attention() -> Iterator[tuple[str, Make]]:
    def case(*, masked: bool, rank: int | None = None, windows: bool = False) -> Make:
        def make(net: Net, draw: Draw) -> Value:
            depth = draw(st.integers(3, 4)) if rank is None else rank
            count = 1 if rank is None else draw(st.integers(1, 3))
            *batch, heads = sizes(draw, depth - 2, most=2)
            rows, columns, width, out = sizes(draw, 4)
            kind = "gt" if windows else draw(st.sampled_from(["", "gt", "difference"]))
            columns = rows if kind else columns
            q = net.x(*batch, heads * count, rows, width)
            k, v = (net.x(*batch, heads, columns, each) for each in (width, out))
            if rank is not None:
                k, v = (net.repeated(each, depth - 3, count) for each in (k, v))
            scores = net.scores(q, k, 0.7)
            if masked:
                mask = net.spread(net.x(rows, columns), scores, depth - 2, depth - 1)
                scores = net.do(Add(), *draw(st.permutations([scores, mask])))
            if kind:
                window = draw(st.integers(1, 3)) if windows or draw(st.booleans()) else None
                scores = net.causal(scores, kind, window=window)
            return net.do(MatMul(), net.softmax(scores, depth - 1), v)

        return make

    for masked, prefix in ((False, ""), (True, "masked-")):
        yield f"{prefix}attention", case(masked=masked)
        yield f"{prefix}attention", case(masked=masked, windows=True)
        for rank in (3, 4):
            yield f"{prefix}shared-heads-{rank}", case(masked=masked, rank=rank)


def rotations() -> Iterator[tuple[str, Make]]:
    def rotated(net: Net, draw: Draw) -> Value:
        rows, half = sizes(draw, 2)
        x = net.x(*sizes(draw, draw(st.integers(0, 2)), most=2), rows, 2 * half)
        return net.rotated(x, *net.halves(x), net.x(rows, half))

    yield "rotate", rotated


def projections() -> Iterator[tuple[str, Make]]:
    def attended(net: Net, draw: Draw) -> Value:
        batch, rows, width, heads, channels = sizes(draw, 5, most=3)
        x = net.x(batch, rows, width)
        transposed = draw(st.booleans())
        biases = draw(st.tuples(*[st.booleans()] * 3))
        q, k, v = (
            net.headed(
                net.projected(x, heads * channels, transposed=transposed, biased=biased), heads
            )
            for biased in biases
        )
        if channels % 2 == 0 and draw(st.booleans()):
            angle = net.x(rows, channels // 2)
            q, k = (net.rotated(each, *net.halves(each), angle) for each in (q, k))
        return net.do(MatMul(), net.softmax(net.scores(q, k, 0.7), 3), v)

    def summed(net: Net, draw: Draw) -> Value:
        rows = sizes(draw, draw(st.integers(0, 2)))
        outputs, transposed = draw(st.integers(1, 4)), draw(st.booleans())
        products = [
            net.projected(net.x(*rows, *sizes(draw, 1)), outputs, transposed=transposed)
            for _ in range(3)
        ]
        return net.do(Add(), net.do(Add(), products[0], products[1]), products[2])

    def attended_as_one(rank: int) -> Make:
        """Each of all rows beside the others, whichever axes they lie along."""

        def case(net: Net, draw: Draw) -> Value:
            x, channels = net.x(*sizes(draw, rank, most=2)), draw(st.integers(1, 3))
            rows = prod(size for size in x.type.shape[:-1] if isinstance(size, int))
            flat = Reshape((1, rows, channels))
            q, k, v = (net.do(flat, net.projected(x, channels)) for _ in range(3))
            return net.do(MatMul(), net.softmax(net.scores(q, k, 0.7), 2), v)

        return case

    yield "sum-of-products", summed
    yield "part-of-product", attended
    for rank in range(1, 6):
        yield "part-of-product", attended_as_one(rank)


def epilogues() -> Iterator[tuple[str, Make]]:
    def matmul(net: Net, draw: Draw) -> Value:
        batch = sizes(draw, draw(st.integers(0, 2)), most=2)
        rows, inner, columns = sizes(draw, 3)
        y = net.do(MatMul(), net.x(*batch, rows, inner), net.x(inner, columns))
        return net.do(Add(), net.spread(net.x(columns), y, y.type.rank - 1), y)

    def conv(net: Net, draw: Draw) -> Value:
        rank = draw(st.integers(1, 2))
        groups, kernel = draw(st.integers(1, 2)), draw(st.integers(1, 3))
        batch, inputs, outputs = sizes(draw, 3, most=2)
        x = net.x(batch, inputs * groups, *(draw(st.integers(3, 5)) for _ in range(rank)))
        w = net.x(outputs * groups, inputs, *(kernel for _ in range(rank)))
        stride, padding = draw(st.integers(1, 2)), draw(st.integers(0, 1))
        y = net.conv(x, w, padding, stride, groups=groups)
        return net.do(Add(), y, net.spread(net.x(outputs * groups), y, 1))

    def with_residual(make: Make) -> Make:
        def case(net: Net, draw: Draw) -> Value:
            y = make(net, draw)
            return net.do(Add(), net.x(*(s for s in y.type.shape if isinstance(s, int))), y)

        return case

    def with_activation(make: Make) -> Make:
        def case(net: Net, draw: Draw) -> Value:
            y = make(net, draw)
            return net.relu(y) if draw(st.booleans()) else net.do(Mul(), y, net.sigmoid(y))

        return case

    for name, make in (("matmul", matmul), ("conv", conv)):
        yield f"{name}-bias", make
        yield f"{name}-residual", with_residual(make)
        yield f"{name}-activation", with_activation(make)
        yield f"{name}-residual-activation", with_activation(with_residual(make))


def inference() -> Iterator[tuple[str, Make]]:
    def branches(net: Net, draw: Draw) -> Value:
        groups, width = draw(st.integers(1, 2)), draw(st.integers(1, 2))
        channels, rank = groups * width, draw(st.integers(1, 2))
        x = net.x(1, channels, *(draw(st.integers(1, 4)) for _ in range(rank)))
        kernels = draw(st.permutations([3, 1, 5, 0]))[: draw(st.integers(1, 3))]
        parts: list[Value] = []
        for kernel in kernels:
            part = x
            if kernel:
                w = net.w(channels, width, *(kernel for _ in range(rank)))
                part = net.conv(x, w, kernel // 2, groups=groups)
            parts.append(net.batch_norm(part) if draw(st.booleans()) or not kernel else part)
        if not any(kernels):
            parts.append(
                net.batch_norm(net.conv(x, net.w(channels, width, *(1,) * rank), 0, groups=groups))
            )
        total = parts[0]
        for part in parts[1:]:
            total = net.do(Add(), total, part)
        return net.batch_norm(total) if len(parts) == 1 else total

    def apart(net: Net, draw: Draw) -> Value:
        x = net.x(1, 2, 4)
        one, other = (net.conv(x, net.w(2, 2, kernel), kernel // 2) for kernel in (3, 1))
        parts = [net.do(Add(), net.batch_norm(one), net.x(1, 2, 4)), net.batch_norm(other)]
        return net.do(Add(), *draw(st.permutations(parts)))

    def scaled(op: Op, contraction: str) -> Make:
        def case(net: Net, draw: Draw) -> Value:
            if contraction == "product":
                rows, inner, columns = sizes(draw, 3)
                x = net.x(rows, inner)
                return net.do(MatMul(), net.do(op, x, net.full(16, x)), net.w(inner, columns))
            x = net.x(1, 2, draw(st.integers(1, 5)))
            return net.conv(net.do(op, x, net.full(16, x)), net.w(3, 2, 3), 1)

        return case

    yield "convolve-once", branches
    yield "reassociate-convolutions", apart
    for contraction in ("convolution", "product"):
        yield f"scale-into-{contraction}", scaled(Mul(), contraction)
        yield f"quotient-into-{contraction}", scaled(Div(), contraction)
