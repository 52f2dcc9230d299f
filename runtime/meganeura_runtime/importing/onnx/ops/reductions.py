"""Reductions, softmax, and what orders elements."""

from collections.abc import Callable, Mapping

from meganeura_dsl.ir.types import DType
from meganeura_dsl.symbolic.size import product
from meganeura_runtime.importing.onnx.builder import Builder
from meganeura_runtime.importing.onnx.code import Applied, Tensor
from meganeura_runtime.importing.onnx.import_problems import UnsupportedNodeError
from meganeura_runtime.importing.onnx.node import Node, Value
from meganeura_runtime.importing.onnx.ops.elementwise import Entry

AXES_ARE_OPERANDS = 18
"""The opset since which axes of reductions are an operand; those of sums are since 13."""


def _axes(node: Node, since: int = AXES_ARE_OPERANDS) -> list[int]:
    axes = node.axes(1, since)
    if axes is None or (not axes and not node.attribute("noop_with_empty_axes", 0)):
        return [] if node.attribute("noop_with_empty_axes", 0) else list(range(node.value(0).rank))
    if len(set(axes)) != len(axes):
        raise UnsupportedNodeError("an axis is named twice")
    return axes


def _reduction(callee: str, since: int = AXES_ARE_OPERANDS) -> Entry:
    def entry(node: Node) -> list[Value | None]:
        x, axes = node.tensor(0), _axes(node, since)
        keep = bool(node.attribute("keepdims", 1))
        if x.dtype is DType.BOOL:
            callee_of = {"max": "any", "min": "all"}.get(callee)
            if callee_of is None:
                raise UnsupportedNodeError("it is applied to truth values")
            return [node.build.reduce(callee_of, x, axes, keep=keep)]
        if callee == "mean" and not x.dtype.is_float:
            raise UnsupportedNodeError("it is the mean of whole numbers")
        return [node.build.reduce(callee, x, axes, keep=keep)]

    return entry


def _through(
    before: Callable[[Builder, Tensor], Tensor] | None,
    after: Callable[[Builder, Tensor], Tensor] | None,
) -> Entry:
    """A sum with a function of each element before it and one of the result."""

    def entry(node: Node) -> list[Value | None]:
        build, x, axes = node.build, node.tensor(0), _axes(node)
        if before is not None:
            x = before(build, x)
        x = build.reduce("sum", x, axes, keep=bool(node.attribute("keepdims", 1)))
        return [x if after is None else after(build, x)]

    return entry


def _squared(build: Builder, x: Tensor) -> Tensor:
    return build.power(x, 2) if x.dtype.is_float else build.binary("*", x, x)


def _root(build: Builder, x: Tensor) -> Tensor:
    return build.elementwise("sqrt", x)


def _absolute(build: Builder, x: Tensor) -> Tensor:
    return build.elementwise("abs", x)


def _log(build: Builder, x: Tensor) -> Tensor:
    return build.elementwise("log", x)


def _log_sum_exp(node: Node) -> list[Value | None]:
    build, x, axes = node.build, node.tensor(0), _axes(node)
    keep = bool(node.attribute("keepdims", 1))
    if not x.dtype.is_float:
        raise UnsupportedNodeError("it is applied to whole numbers")
    if len(axes) == 1:
        rest = tuple(size for axis, size in enumerate(x.shape) if axis != axes[0])
        config = [] if axes[0] == x.rank - 1 else [(str(axes[0]),)]
        result = build.block("logsumexp", x, *config, shape=rest)
        kept = tuple(1 if axis == axes[0] else size for axis, size in enumerate(x.shape))
        return [build.reshape(result, kept) if keep else result]
    largest = build.reduce("max", x, axes, keep=True)
    total = build.reduce(
        "sum", build.elementwise("exp", build.binary("-", x, largest)), axes, keep=True
    )
    result = build.binary("+", largest, _log(build, total))
    if keep:
        return [result]
    return [build.reshape(result, tuple(s for a, s in enumerate(x.shape) if a not in axes))]


def _product(node: Node) -> list[Value | None]:
    build, x, axes = node.build, node.tensor(0), _axes(node)
    for axis in axes:
        size = x.shape[axis]
        running = build.call("cumprod", x, (str(axis),), shape=x.shape)
        x = build.between(running, axis, size - 1, size)
    if node.attribute("keepdims", 1):
        return [x]
    return [build.reshape(x, tuple(s for a, s in enumerate(x.shape) if a not in axes))]


def _softmax(callee: str) -> Entry:
    def entry(node: Node) -> list[Value | None]:
        build, x = node.build, node.tensor(0)
        if node.opset >= 13:
            return [_along(build, callee, x, node.axis(-1))]
        axis = node.axis(1)
        if axis == x.rank - 1:
            return [_along(build, callee, x, axis)]
        flat = build.reshape(x, (product(x.shape[:axis]), product(x.shape[axis:])))
        return [build.reshape(build.block(callee, flat), x.shape)]

    return entry


def _along(build: Builder, callee: str, x: Tensor, axis: int) -> Tensor:
    config = [] if axis == x.rank - 1 else [(str(axis),)]
    return build.block(callee, x, *config)


def _hardmax(node: Node) -> list[Value | None]:
    build, x = node.build, node.tensor(0)
    if node.opset < 13:
        return None  # pyright: ignore[reportReturnType] - the table allows it
    axis = node.axis(-1)
    best = _arg(build, x, axis, last=False)
    shape = x.shape
    column = build.expand(build.reshape(best, (*shape[:axis], 1, *shape[axis + 1 :])), shape)
    positions = build.along(build.iota(shape[axis]), axis, shape)
    return [build.cast(build.binary("==", column, build.expand(positions, shape)), x.dtype)]


def _arg(build: Builder, x: Tensor, axis: int, *, last: bool) -> Tensor:
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    if last:
        x = build.call("reverse", x, (str(axis),), shape=x.shape)
    found = build.call("argmax", x, (str(axis),), shape=shape, dtype=DType.I32)
    return found if not last else build.binary("-", x.shape[axis] - 1, found)


def _arg_extreme(sign: int) -> Entry:
    def entry(node: Node) -> list[Value | None]:
        build, x = node.build, node.tensor(0)
        axis = node.axis(0)
        last = bool(node.attribute("select_last_index", 0))
        found = _arg(build, x if sign > 0 else build.negative(x), axis, last=last)
        if node.attribute("keepdims", 1):
            found = build.reshape(found, (*x.shape[:axis], 1, *x.shape[axis + 1 :]))
        return [found]

    return entry


def _top_k(node: Node) -> list[Value | None]:
    build, x = node.build, node.tensor(0)
    axis = node.axis(-1)
    k = node.attributes.get("k") or node.integers(1, "number of elements")[0]
    build.need(">=", x.shape[axis], k, "there are not so many elements")
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    types = [(x.dtype, shape), (DType.I32, shape)]
    if node.attribute("largest", 1):
        config = (f"{k}",) if axis == x.rank - 1 else (f"{k}, axis={axis}",)
        return list(build.add_all(Applied(x.id, "top_k", config), types))
    whole = [(x.dtype, x.shape), (DType.I32, x.shape)]
    both = build.add_all(Applied(x.id, "sort", (str(axis),)), whole)
    return [build.between(each, axis, 0, k) for each in both]


def _cumulative(callee: str) -> Entry:
    def entry(node: Node) -> list[Value | None]:
        build, x = node.build, node.tensor(0)
        axis = node.checked_axis(node.integers(1, "axis")[0], x.rank)
        backwards, exclusive = node.attribute("reverse", 0), node.attribute("exclusive", 0)
        if backwards:
            x = build.call("reverse", x, (str(axis),), shape=x.shape)
        if exclusive:
            size = x.shape[axis]
            start = build.filled(
                0 if callee == "cumsum" else 1, x.dtype, (*x.shape[:axis], 1, *x.shape[axis + 1 :])
            )
            x = (
                build.concat([start, build.between(x, axis, 0, size - 1)], axis)
                if size != 1
                else start
            )
        x = build.call(callee, x, (str(axis),), shape=x.shape)
        if backwards:
            x = build.call("reverse", x, (str(axis),), shape=x.shape)
        return [x]

    return entry


def _global(callee: str) -> Entry:
    def entry(node: Node) -> list[Value | None]:
        x = node.tensor(0)
        return [node.build.reduce(callee, x, range(2, x.rank), keep=True)]

    return entry


def _lp_normalization(node: Node) -> list[Value | None]:
    build, x, axis = node.build, node.tensor(0), node.axis(-1)
    p = node.attribute("p", 2)
    if p not in (1, 2):
        raise UnsupportedNodeError(f"its norm is of order {p}")
    size = build.reduce(
        "sum", _absolute(build, x) if p == 1 else _squared(build, x), [axis], keep=True
    )
    size = size if p == 1 else _root(build, size)
    size = build.expand(size, x.shape)
    is_zero = build.binary("==", size, 0.0)
    return [build.where(is_zero, 0.0, build.binary("/", x, size))]


def _global_lp(node: Node) -> list[Value | None]:
    build, x, p = node.build, node.tensor(0), node.attribute("p", 2)
    if p not in (1, 2):
        raise UnsupportedNodeError(f"its norm is of order {p}")
    size = build.reduce(
        "sum", _absolute(build, x) if p == 1 else _squared(build, x), range(2, x.rank), keep=True
    )
    return [size if p == 1 else _root(build, size)]


OPS: Mapping[str, Entry] = {
    "ReduceSum": _reduction("sum", 13), "ReduceMean": _reduction("mean"),
    "ReduceMax": _reduction("max"), "ReduceMin": _reduction("min"), "ReduceProd": _product,
    "ReduceL1": _through(_absolute, None), "ReduceL2": _through(_squared, _root),
    "ReduceLogSum": _through(None, _log), "ReduceLogSumExp": _log_sum_exp,
    "ReduceSumSquare": _through(_squared, None), "Softmax": _softmax("softmax"),
    "LogSoftmax": _softmax("log_softmax"), "Hardmax": _hardmax, "ArgMax": _arg_extreme(1),
    "ArgMin": _arg_extreme(-1), "TopK": _top_k, "CumSum": _cumulative("cumsum"),
    "CumProd": _cumulative("cumprod"), "GlobalAveragePool": _global("mean"),
    "GlobalMaxPool": _global("max"), "GlobalLpPool": _global_lp,
    "LpNormalization": _lp_normalization,
}  # fmt: skip
"""The translation of each op."""
