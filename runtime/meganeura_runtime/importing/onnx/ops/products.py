"""Products of matrices and convolutions."""

from collections.abc import Mapping, Sequence

import numpy as np

from meganeura_dsl.ir.types import DType
from meganeura_dsl.symbolic.size import Size
from meganeura_runtime.importing.onnx.builder import Builder
from meganeura_runtime.importing.onnx.code import Piece, Ref, Tensor
from meganeura_runtime.importing.onnx.import_problems import UnsupportedNodeError
from meganeura_runtime.importing.onnx.node import Known, Node, Part, Value
from meganeura_runtime.importing.onnx.ops.elementwise import Entry

LARGEST_STEP = 1 << 20
"""Above all strides, dilations, paddings and sizes of a window that are read."""


def _matmul(node: Node) -> list[Value | None]:
    weight = node.value(1)
    if isinstance(weight, Known) and weight.rank == 2 and node.is_own(weight):
        built = _linear_of(node, weight)
        if built is not None:
            return [built]
    a, b = node.tensor(0), node.tensor(1)
    return [matmul(node.build, a, b)]


def _linear_of(node: Node, weight: Known) -> Tensor | None:
    """`linear`, if a weight without a name of its own is multiplied and perhaps a bias is added."""
    out, bias = weight.array.shape[1], node.follower
    has_bias = bias is not None and node.is_own(bias) and bias.shape == (out,)
    if not isinstance(node.value(0), Tensor):
        return None
    is_unnamed = "MatMul" in weight.name or weight.name.isdecimal()
    is_linear = weight.is_turned and weight.name.endswith(".weight")
    if not is_unnamed and not is_linear and not _packs_turned(weight):
        return None  # a name that a checkpoint has, and that no `linear` gives
    x = node.tensor(0)
    if (
        x.rank < 2
        or x.dtype is not DType.F32
        or not node.build.same(x.shape[-1], weight.array.shape[0])
    ):
        return None
    parts = {"weight": Part(weight, is_flipped=True)}
    if has_bias and bias is not None:
        parts["bias"] = Part(bias)
    layer = _linear(node, x, parts, out)
    node.is_absorbed = layer is not None and has_bias
    return layer


def _packs_turned(weight: Known) -> bool:
    """True if the levels of a matrix stay packed as those of its transpose, and not as they are."""
    levels, shape = weight.levels, weight.array.shape
    if levels is None or levels.packed(shape) is not None:
        return False
    return levels.turned.packed(shape[::-1]) is not None


def matmul(build: Builder, a: Tensor, b: Tensor) -> Tensor:
    """The product as NumPy broadcasts it."""
    for each in (a, b):
        if not each.dtype.is_float:
            raise UnsupportedNodeError("whole numbers are multiplied as matrices")
        if each.rank == 0:
            raise UnsupportedNodeError("a number is multiplied as a matrix")
    if a.rank == 1 and b.rank == 1:
        return build.reduce("sum", build.binary("*", a, b), [0], keep=False)
    if b.rank == 1:
        column = matmul(build, a, build.reshape(b, (b.shape[0], 1)))
        return build.reshape(column, column.shape[:-1])
    build.need("==", a.shape[-1], b.shape[-2], "a product of matrices sums over one size")
    if a.rank == 1:
        row = matmul(build, build.reshape(a, (1, a.shape[0])), b)
        return build.reshape(row, (*row.shape[:-2], row.shape[-1]))
    if b.rank == 2:
        return build.matmul(a, b)
    leading = build.broadcast_shape([a.shape[:-2], b.shape[:-2]])
    a = build.expand(a, (*leading, *a.shape[-2:]))
    b = build.expand(b, (*leading, *b.shape[-2:]))
    return build.matmul(a, b)


def _gemm(node: Node) -> list[Value | None]:
    build, x = node.build, node.tensor(0)
    alpha, beta = node.attribute("alpha", 1.0), node.attribute("beta", 1.0)
    flips, turned = node.attribute("transA", 0), node.attribute("transB", 0)
    weight = node.value(1)
    bias = _bias(node)
    if flips:
        x = build.transpose(x, (1, 0))
    is_linear = (
        x.dtype is DType.F32 and turned and alpha == beta == 1
        and isinstance(weight, Known) and node.is_own(weight) and weight.rank == 2
        and (bias is None or (node.is_own(bias) and bias.shape == weight.shape[:1]))
    )  # fmt: skip
    if is_linear and isinstance(weight, Known):
        build.need("==", x.shape[-1], weight.array.shape[1], "a product sums over one size")
        parts = {"weight": Part(weight)} | ({"bias": Part(bias)} if isinstance(bias, Known) else {})
        layer = _linear(node, x, parts, weight.array.shape[0])
        if layer is not None:
            return [layer]
    b = node.tensor(1)
    if turned:
        b = build.transpose(b, (1, 0))
    y = matmul(build, x, b)
    if alpha != 1:
        y = build.binary("*", y, float(np.float32(alpha)))
    if bias is not None and beta != 0:
        c = node.tensor(2)
        y = build.binary("+", y, c if beta == 1 else build.binary("*", c, float(np.float32(beta))))
    return [y]


def _linear(node: Node, x: Tensor, parts: Mapping[str, Part], out: int) -> Tensor | None:
    config: list[tuple[Piece, ...]] = [(str(out),)]
    config += [] if "bias" in parts else [("bias=false",)]
    return node.layer("linear", x, config, parts, "linear", (*x.shape[:-1], out))


def _bias(node: Node) -> Value | None:
    """Returns the bias of a product or convolution; None for zeros that no parameter holds."""
    found = node.value(2) if node.has(2) else None
    is_constant = isinstance(found, Known) and (not found.name or found.name in node.constants)
    if isinstance(found, Known) and is_constant and not found.is_symbolic and not found.array.any():
        return None
    return found


# --- convolutions --------------------------------------------------------------------------------


def window_pads(
    node: Node,
    sizes: Sequence[Size],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> tuple[list[int], list[int]]:
    """Returns the padding before and after each axis."""
    rank = len(kernel)
    kind = node.attribute("auto_pad", "NOTSET")
    if kind in ("NOTSET", ""):
        pads = node.attribute("pads", [0] * (2 * rank))
        if len(pads) != 2 * rank or min(pads) < 0 or max(pads) >= LARGEST_STEP:
            raise UnsupportedNodeError("its padding is impossible")
        return list(pads[:rank]), list(pads[rank:])
    if kind == "VALID":
        return [0] * rank, [0] * rank
    if kind not in ("SAME_UPPER", "SAME_LOWER"):
        raise UnsupportedNodeError(f"its padding is `{kind[:40]}`")
    before: list[int] = []
    after: list[int] = []
    for size, k, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        span = dilation * (k - 1) + 1
        if isinstance(size, int):
            total = max(0, (-(-size // stride) - 1) * stride + span - size)
        elif stride == 1:
            total = span - 1
        else:
            raise UnsupportedNodeError("its padding depends on a size that is open")
        less, more = total // 2, total - total // 2
        before.append(less if kind == "SAME_UPPER" else more)
        after.append(more if kind == "SAME_UPPER" else less)
    return before, after


def positive(node: Node, name: str, rank: int, default: int = 1) -> list[int]:
    """An attribute of one number for each axis, all of which are at least 1."""
    found = list(node.attribute(name, [default] * rank))
    if len(found) != rank or not 1 <= min(found, default=1) <= max(found, default=1) < LARGEST_STEP:
        raise UnsupportedNodeError(f"its `{name}` are impossible")
    return found


def _conv(node: Node) -> list[Value | None]:
    return [convolved(node)]


def convolved(node: Node) -> Tensor:
    """The result of a `Conv`."""
    build, x, weight = node.build, node.tensor(0), node.value(1)
    rank = x.rank - 2
    if rank < 1 or weight.rank != x.rank:
        raise UnsupportedNodeError("its operands have different axes")
    kernel = [size for size in weight.shape[2:] if isinstance(size, int)]
    if len(kernel) != rank:
        raise UnsupportedNodeError("the size of its kernel is open")
    strides, dilations = positive(node, "strides", rank), positive(node, "dilations", rank)
    before, after = window_pads(node, x.shape[2:], kernel, strides, dilations)
    groups = node.attribute("group", 1)
    if groups < 1:
        raise UnsupportedNodeError("it has no groups")
    if before != after:
        for axis in range(rank):
            x = build.pad(x, axis + 2, before[axis], after[axis])
        before = [0] * rank
    spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True)]
    channels = weight.shape[0]
    build.need("==", x.shape[1], weight.shape[1] * groups, "it has other channels")
    if isinstance(channels, int) and channels % groups:
        raise UnsupportedNodeError("its groups are uneven")
    for size, pad, span in zip(x.shape[2:], before, spans, strict=True):
        build.need(">=", size + 2 * pad, span, "its kernel does not fit")
    spatial = [
        (size + 2 * pad - span) // stride + 1
        for size, pad, span, stride in zip(x.shape[2:], before, spans, strides, strict=True)
    ]
    shape = (x.shape[0], channels, *spatial)
    geometry = {
        "stride": (strides, 1),
        "pad": (before, 0),
        "dilation": (dilations, 1),
        "groups": ([groups], 1),
    }
    bias = _bias(node)
    layer = _conv_layer(node, x, weight, bias, geometry, kernel, shape)
    if layer is not None:
        return layer
    config: list[tuple[Piece, ...]] = [(Ref(node.tensor(1).id),)]
    config += [
        (f"{name}={_list(each)}",)
        for name, (each, usual) in geometry.items()
        if set(each) != {usual}
    ]
    y = build.call("conv", x, *config, shape=shape)
    if bias is not None:
        y = build.binary("+", y, build.along(node.tensor(2), 1, shape))
    return y


def _list(numbers: Sequence[int]) -> str:
    return str(numbers[0]) if len(set(numbers)) == 1 else f"[{', '.join(map(str, numbers))}]"


def _conv_layer(
    node: Node,
    x: Tensor,
    weight: Value,
    bias: Value | None,
    geometry: Mapping[str, tuple[Sequence[int], int]],
    kernel: Sequence[int],
    shape: tuple[Size, ...],
) -> Tensor | None:
    """`conv1d` or `conv2d`, if the weights are its own and all axes are treated as one."""
    if len(kernel) > 2 or len(set(kernel)) != 1 or not isinstance(weight, Known):
        return None
    if any(len(set(each)) != 1 for each, _ in geometry.values()) or not node.is_own(weight):
        return None
    if bias is not None and not (isinstance(bias, Known) and node.is_own(bias)):
        return None
    if x.dtype is not DType.F32:
        return None
    parts = {"weight": Part(weight)} | ({"bias": Part(bias)} if isinstance(bias, Known) else {})
    config = [f"{weight.array.shape[0]}", f"{kernel[0]}"]
    if geometry["stride"][0][0] != 1:
        config.append(str(geometry["stride"][0][0]))
    config += [
        f"{name}={each[0]}"
        for name, (each, usual) in geometry.items()
        if name != "stride" and each[0] != usual
    ]
    config += [] if "bias" in parts else ["bias=false"]
    callee = "conv1d" if len(kernel) == 1 else "conv2d"
    return node.layer(callee, x, [(each,) for each in config], parts, "conv", shape)


def _conv_transpose(node: Node) -> list[Value | None]:
    build, x, weight = node.build, node.tensor(0), node.tensor(1)
    rank = x.rank - 2
    kernel = [size for size in weight.shape[2:] if isinstance(size, int)]
    if rank < 1 or len(kernel) != rank:
        raise UnsupportedNodeError("the size of its kernel is open")
    strides, dilations = positive(node, "strides", rank), positive(node, "dilations", rank)
    extra = list(node.attribute("output_padding", [0] * rank))
    groups = node.attribute("group", 1)
    before, after = _transposed_pads(node, x.shape[2:], kernel, strides, dilations, extra)
    geometry = {"stride": strides, "dilation": dilations, "groups": [groups]}
    config: list[tuple[Piece, ...]] = [(Ref(weight.id),)]
    config += [(f"{name}={_list(each)}",) for name, each in geometry.items() if set(each) != {1}]
    full = [
        (size - 1) * stride + dilation * (k - 1) + 1
        for size, stride, dilation, k in zip(x.shape[2:], strides, dilations, kernel, strict=True)
    ]
    shape = (x.shape[0], weight.shape[1] * groups, *full)
    if before == after and not any(extra):
        if any(before):
            config.append((f"pad={_list(before)}",))
            shape = (*shape[:2], *(size - 2 * pad for size, pad in zip(full, before, strict=True)))
        y = build.call("conv_transpose", x, *config, shape=shape)
    else:
        y = build.call("conv_transpose", x, *config, shape=shape)
        for axis in range(rank):
            more = extra[axis] - after[axis]
            y = build.pad(y, axis + 2, -before[axis], more)
    if _bias(node) is not None:
        y = build.binary("+", y, build.along(node.tensor(2), 1, y.shape))
    return [y]


def _transposed_pads(
    node: Node,
    sizes: Sequence[Size],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    extra: list[int],
) -> tuple[list[int], list[int]]:
    """Returns the elements cut off before and after each axis."""
    rank, kind = len(kernel), node.attribute("auto_pad", "NOTSET")
    wanted = node.attributes.get("output_shape")
    if wanted is None and kind in ("NOTSET", "VALID", ""):
        pads = node.attribute("pads", [0] * (2 * rank))
        return list(pads[:rank]), list(pads[rank:])
    before: list[int] = []
    after: list[int] = []
    for axis in range(rank):
        size = sizes[axis]
        if not isinstance(size, int):
            raise UnsupportedNodeError("its padding depends on a size that is open")
        goal = size * strides[axis] if wanted is None else wanted[len(wanted) - rank + axis]
        span = dilations[axis] * (kernel[axis] - 1) + 1
        total = strides[axis] * (size - 1) + extra[axis] + span - goal
        if total < 0:
            extra[axis], total = extra[axis] - total, 0
        less, more = total // 2, total - total // 2
        before.append(less if kind == "SAME_UPPER" else more)
        after.append(more if kind == "SAME_UPPER" else less)
    return before, after


def _einsum(node: Node) -> list[Value | None]:
    """Sums of products over named axes: each operand is spread over all names, then summed."""
    build = node.build
    equation = node.attribute("equation", "").replace(" ", "")
    if (
        "..." in equation
        or not equation
        or set(equation) - set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ,->")
    ):
        return None  # pyright: ignore[reportReturnType] - the table allows it
    left, _, right = equation.partition("->")
    terms = left.split(",")
    if "->" not in equation:
        right = "".join(sorted(name for name in set(left) - {","} if left.count(name) == 1))
    operands = node.tensors()
    if len(terms) != len(operands) or any(len(set(term)) != len(term) for term in terms):
        raise UnsupportedNodeError("an operand repeats an axis")
    sizes: dict[str, Size] = {}
    for term, x in zip(terms, operands, strict=True):
        if len(term) != x.rank:
            raise UnsupportedNodeError("its equation has other axes than its operands")
        for name, size in zip(term, x.shape, strict=True):
            build.need("==", sizes.setdefault(name, size), size, "axes of one name differ")
    if len(operands) == 2:
        return [_contract(build, terms, operands, right, sizes)]
    names = right + "".join(name for name in sizes if name not in right)
    total: Tensor | None = None
    for term, x in zip(terms, operands, strict=True):
        order = sorted(range(len(term)), key=lambda axis, term=term: names.index(term[axis]))
        moved = build.transpose(x, order)
        part = build.reshape(moved, tuple(sizes[name] if name in term else 1 for name in names))
        total = part if total is None else build.binary("*", total, part)
    assert total is not None
    total = build.expand(total, tuple(sizes[name] for name in names))
    return [build.reduce("sum", total, range(len(right), len(names)), keep=False)]


def _contract(
    build: Builder,
    terms: Sequence[str],
    operands: Sequence[Tensor],
    right: str,
    sizes: Mapping[str, Size],
) -> Tensor:
    """Two operands, as one product of batches of matrices."""
    (first, second), (a, b) = terms, operands
    for index, (term, other) in enumerate(((first, second), (second, first))):
        alone = [name for name in term if name not in other and name not in right]
        if alone:
            x = (a, b)[index]
            x = build.reduce("sum", x, [term.index(name) for name in alone], keep=False)
            a, b = (x, b) if index == 0 else (a, x)
    first = "".join(name for name in first if name in second or name in right)
    second = "".join(name for name in second if name in first or name in right)
    batch = [name for name in right if name in first and name in second]
    rows = [name for name in first if name not in second]
    columns = [name for name in second if name not in first]
    summed = [name for name in first if name in second and name not in right]
    shape = {name: sizes[name] for name in sizes}

    def flat(x: Tensor, term: str, groups: Sequence[Sequence[str]]) -> Tensor:
        order = [term.index(name) for group in groups for name in group]
        merged: list[Size] = [shape[name] for name in groups[0]]
        for group in groups[1:]:
            size: Size = 1
            for name in group:
                size = size * shape[name]
            merged.append(size)
        return build.reshape(build.transpose(x, order), tuple(merged))

    y = matmul(
        build, flat(a, first, (batch, rows, summed)), flat(b, second, (batch, summed, columns))
    )
    built = [*batch, *rows, *columns]
    y = build.reshape(y, tuple(shape[name] for name in built))
    return build.transpose(y, [built.index(name) for name in right])


OPS: Mapping[str, Entry] = {
    "MatMul": _matmul, "Gemm": _gemm, "Conv": _conv, "ConvTranspose": _conv_transpose,
    "Einsum": _einsum,
}  # fmt: skip
"""The translation of each op."""
