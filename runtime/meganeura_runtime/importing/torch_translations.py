"""ONNX for ops of PyTorch that its exporter has no form for, or another than the language has.

It has none for extremes along all axes and for stable sorts, and bounds whose slope is 0 it writes
as others. Attention it writes with its scale
split among queries and keys, masks as numbers, and a guard of each row; here it is as a person
writes it, with the same results.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import ModuleType
from typing import Any

from meganeura_runtime.support.optional_imports import load

Tensor = Any
"""A value of onnxscript, which is typed for itself alone."""
Opset = Any
HIDDEN, AHEAD = -1e29, -1e30
"""Scores of keys that a mask hides, and of keys ahead: as the layer `attention` has them."""


def translations(torch: ModuleType) -> Mapping[Any, Callable[..., Tensor]]:
    """Returns the function that writes each op, as `torch.onnx.export` takes them."""
    op = load("onnxscript", "torch", "read programs of torch.export").opset18
    aten = torch.ops.aten
    return {
        aten.amax.default: partial(_extreme, op.ReduceMax),
        aten.amin.default: partial(_extreme, op.ReduceMin),
        aten.hardtanh.default: partial(_hardtanh, op),
        aten.relu6.default: partial(_hardtanh, op, min_val=0, max_val=6),
        aten.sort.stable: partial(_sort, op),
        aten.scaled_dot_product_attention.default: partial(_attention, op),
    }


def _extreme(
    reduce: Callable[..., Tensor], x: Tensor, dim: Sequence[int] = (), keepdim: int = 0
) -> Tensor:
    """The largest or smallest elements along axes, or along all where none are named."""
    return reduce(x, *([[*dim]] if dim else []), keepdims=int(keepdim))


def _hardtanh(op: Opset, x: Tensor, min_val: float = -1, max_val: float = 1) -> Tensor:
    """`x` within two bounds, with a slope of 0 at both, which `Clip` does not tell."""
    least, largest = (op.CastLike(float(each), x) for each in (min_val, max_val))
    below = op.Relu(x) if min_val == 0 else op.Where(op.LessOrEqual(x, least), least, x)
    return op.Where(op.GreaterOrEqual(x, largest), largest, below)


def _sort(op: Opset, x: Tensor, dim: int = -1, descending: int = 0, **_stable: object) -> Tensor:
    """Sorted elements and their places: of two equal ones, TopK takes that of the lower index."""
    size = op.Gather(op.Shape(x), [dim], axis=0)
    return op.TopK(x, size, axis=dim, largest=int(descending), sorted=1)


def _attention(  # noqa: PLR0913, PLR0917 - as PyTorch calls it
    op: Opset,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: int = 0,
    scale: float | None = None,
    enable_gqa: int = 0,
) -> Tensor:
    """softmax(q k^T scale + mask) v; a query of which a mask of bools shows no key gives 0."""
    rank = len(key.shape)
    if enable_gqa:
        key, value = (_repeated(op, each, query) for each in (key, value))
    turned = op.Transpose(key, perm=[*range(rank - 2), rank - 1, rank - 2])
    scores = op.MatMul(query, turned)
    scores = op.Mul(scores, op.CastLike(_scale(op, query, scale), scores))
    is_bool = attn_mask is not None and attn_mask.dtype.name == "BOOL"
    if is_causal:
        scores = op.Where(_ahead(op, query, key), op.CastLike(AHEAD, scores), scores)
    elif is_bool:
        scores = op.Where(attn_mask, scores, op.CastLike(HIDDEN, scores))
    elif attn_mask is not None:
        scores = op.Add(scores, attn_mask)
    weights = op.Softmax(scores, axis=-1)
    if is_bool and not is_causal:
        weights = op.Where(attn_mask, weights, op.CastLike(0.0, weights))
    if dropout_p:
        weights, _ = op.Dropout(weights, dropout_p)
    return op.MatMul(weights, value)


def _scale(op: Opset, query: Tensor, scale: float | None) -> Tensor:
    """The factor of scores: where none is given, d ** -0.5 of queries of d numbers."""
    width = query.shape[-1]
    if scale is not None or isinstance(width, int):
        return op.Constant(value_float=float(width**-0.5 if scale is None else scale))
    return op.Reciprocal(op.Sqrt(op.CastLike(op.Shape(query, start=-1), query)))


def _ahead(op: Opset, query: Tensor, key: Tensor) -> Tensor:
    """A bool for each query i and key j: true where i < j."""
    rows, columns = (
        op.Range(0, op.Squeeze(op.Shape(each, start=-2, end=-1), [0]), 1) for each in (query, key)
    )
    return op.Less(op.Sub(op.Unsqueeze(rows, [1]), columns), 0)


def _repeated(op: Opset, x: Tensor, query: Tensor) -> Tensor:
    """[n, shared, t, d] with each head as often as it takes to have as many as queries have."""
    batch, shared, rows, width = (
        op.Shape(x, start=axis, end=axis + 1) for axis in range(len(x.shape))
    )
    heads = op.Shape(query, start=1, end=2)
    times = op.Div(heads, shared)
    apart = op.Concat(batch, shared, times, rows, width, axis=0)
    whole = op.Concat(batch, heads, rows, width, axis=0)
    return op.Reshape(op.Expand(op.Unsqueeze(x, [2]), apart), whole)
