"""A graph of primitives as PyTorch computes it, in double precision, with its gradients.

Nothing of the graph's own semantics is used but for values that are whole numbers by nature:
positions, labels and random bits.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod

import torch
import torch.nn.functional as F  # noqa: N812 - so it is known

from meganeura_dsl.ir.graph import Array, Graph, Leaf, Op, Value
from meganeura_dsl.ir.interpreter import storage_type
from meganeura_dsl.ir.ops import (
    Abs,
    Add,
    ArgMax,
    Broadcast,
    Cast,
    Compare,
    Concat,
    Constant,
    Conv,
    Cos,
    Cumulative,
    Div,
    DynamicSlice,
    DynamicUpdate,
    Erf,
    Exp,
    Expm1,
    Floor,
    Gather,
    LinearRecurrence,
    Log,
    Log1p,
    Logistic,
    MatMul,
    Maximum,
    MaxPool,
    Minimum,
    Mul,
    Neg,
    Pad,
    ReduceMax,
    Reshape,
    Reverse,
    Round,
    ScatterAdd,
    Sin,
    Slice,
    Sort,
    Sqrt,
    StopGradient,
    Sub,
    Sum,
    Tanh,
    Transpose,
    Where,
)
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType
from meganeura_dsl.startup.lazy_numpy import np

Tensor = torch.Tensor

FUNCTIONS = {
    Neg: torch.neg,
    Abs: torch.abs,
    Exp: torch.exp,
    Expm1: torch.expm1,
    Log: torch.log,
    Log1p: torch.log1p,
    Logistic: torch.sigmoid,
    Sqrt: torch.sqrt,
    Sin: torch.sin,
    Cos: torch.cos,
    Tanh: torch.tanh,
    Erf: torch.erf,
    Floor: torch.floor,
    Round: torch.round,
    StopGradient: torch.detach,
    Add: torch.add,
    Sub: torch.sub,
    Mul: torch.mul,
    Div: torch.div,
    Maximum: torch.maximum,
    Minimum: torch.minimum,
    Where: torch.where,
}
ACCUMULATED: dict[str, Callable[..., Tensor]] = {
    "sum": torch.cumsum,
    "prod": torch.cumprod,
    "max": lambda x, axis: torch.cummax(x, axis)[0],
    "min": lambda x, axis: torch.cummin(x, axis)[0],
}
CONVOLUTIONS: tuple[Callable[..., Tensor], ...] = (F.conv1d, F.conv2d, F.conv3d)
POOLS: tuple[Callable[..., tuple[Tensor, Tensor]], ...] = (F.max_pool1d, F.max_pool2d, F.max_pool3d)


def run(graph: Graph, feeds: Mapping[str, Array]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The outputs of a graph, and its float leaves, which outputs may be differentiated in."""
    values: dict[int, Tensor] = {}
    leaves: dict[str, Tensor] = {}
    for value in graph.values:
        if isinstance(value.op, Leaf):
            found = torch.tensor(feeds[value.op.name])
            if value.type.dtype.is_float:
                found = leaves[value.op.name] = found.double().requires_grad_()
        else:
            found = _result(value, [values[each.id] for each in value.operands])
        values[value.id] = found
    return {name: values[value.id] for name, value in graph.outputs.items()}, leaves


def gradients(loss: Tensor, leaves: Mapping[str, Tensor]) -> dict[str, Array]:
    """The gradients of a loss; zeros for what it does not depend on."""
    if not loss.requires_grad:
        return {name: np.zeros(tuple(leaf.shape)) for name, leaf in leaves.items()}
    found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    return {
        name: np.zeros(tuple(leaf.shape)) if each is None else each.numpy()
        for (name, leaf), each in zip(leaves.items(), found, strict=True)
    }


def _result(value: Value, operands: Sequence[Tensor]) -> Tensor:
    if not any(each.is_floating_point() for each in operands):
        whole = _whole(value, operands)
        if whole is not None:
            return whole
    match value.op:
        case MaxPool():
            result = _pooled(value.op, operands[0])[value.index]
        case Sort():
            result = _sorted(value, *operands)
        case _:
            result = _primitive(value.op, operands)
    assert tuple(result.shape) == concrete_shape(value.type.shape), value.op
    return result


def _whole(value: Value, operands: Sequence[Tensor]) -> Tensor | None:
    """Returns the reference's value if no float goes into it, but for bools moved to floats."""
    arrays = [each.numpy() for each in operands]
    found = np.asarray(value.op.evaluate_all(*arrays)[value.index])
    if value.type.dtype.is_float:
        return torch.tensor(found.astype(np.float64))
    return torch.tensor(found.astype(storage_type(value.type.dtype)))


def _primitive(op: Op, operands: Sequence[Tensor]) -> Tensor:
    if type(op) in FUNCTIONS:
        return FUNCTIONS[type(op)](*operands)
    x = operands[0]
    match op:
        case Constant():
            return torch.tensor(op.evaluate())
        case Compare(kind=kind):
            return getattr(torch, kind)(*operands)
        case Cast(dtype=dtype):
            return _cast(x, dtype)
        case Sum(axes=axes):
            return x.sum(axes) if axes else x
        case ReduceMax(axes=axes):
            return torch.amax(x, axes)
        case ArgMax(axis=axis):
            return torch.argmax(x, axis).int()
        case Cumulative(kind=kind, axis=axis, backward=backward):
            moved = ACCUMULATED[kind](x.flip(axis) if backward else x, axis)
            return moved.flip(axis) if backward else moved
        case LinearRecurrence():
            return _recurred(op, *operands)
        case Gather(axis=axis, batch=batch) if batch:
            ids = operands[1].long()
            each = (torch.index_select(t, axis - 1, i) for t, i in zip(x, ids, strict=True))
            assert (batch, ids.ndim) == (1, 2)
            return torch.stack(list(each))
        case Gather(axis=axis):
            ids = operands[1].long()
            rows = torch.index_select(x, axis, ids.reshape(-1))
            return rows.reshape(*x.shape[:axis], *ids.shape, *x.shape[axis + 1 :])
        case ScatterAdd(axis=axis, size=size):
            return _scattered(x.long(), operands[1], axis, int(str(size)))
        case MatMul(transpose_left=left, transpose_right=right):
            a, b = operands
            return torch.matmul(a.mT if left else a, b.mT if right else b)
        case Conv(stride=s, padding=p, dilation=d, groups=groups):
            geometry = (concrete_shape(each) for each in (s, p, d))
            return CONVOLUTIONS[len(s) - 1](*operands, None, *geometry, int(str(groups)))
        case _:
            return _moved(op, operands)


def _pooled(op: MaxPool, x: Tensor) -> tuple[Tensor, Tensor]:
    """The largest of each window, and its number there; PyTorch says its number in all of x."""
    window, stride, padding = map(concrete_shape, (op.window, op.stride, op.padding))
    largest, places = POOLS[len(window) - 1](x, window, stride, padding, return_indices=True)
    index = torch.zeros_like(places)
    for axis in range(len(window)):
        behind = prod(x.shape[axis + 3 :])
        place = places // behind % x.shape[axis + 2]
        starts = torch.arange(largest.shape[axis + 2]) * stride[axis] - padding[axis]
        rows = starts.reshape(-1, *(1 for _ in largest.shape[axis + 3 :]))
        index = index * window[axis] + place - rows
    return largest, index.int()


def _sorted(value: Value, x: Tensor) -> Tensor:
    """One result of a stable sort."""
    assert isinstance(value.op, Sort)
    found = torch.sort(x, stable=True, dim=value.op.axis, descending=value.op.descending)
    return found.indices.int() if value.index else found.values


def _recurred(op: LinearRecurrence, a: Tensor, b: Tensor) -> Tensor:
    """The recurrence, one element after another."""
    size = a.shape[op.axis]
    found: dict[int, Tensor] = {}
    for at in reversed(range(size)) if op.backward else range(size):
        before = found.get(at + 1 if op.backward else at - 1)
        term = b.select(op.axis, at)
        found[at] = term if before is None else a.select(op.axis, at) * before + term
    return torch.stack([found[at] for at in range(size)], op.axis)


def _moved(op: Op, operands: Sequence[Tensor]) -> Tensor:
    """Elements that change their place."""
    x = operands[0]
    match op:
        case Broadcast(shape=shape, axes=axes):
            whole = concrete_shape(shape)
            alone = [whole[axis] if axis in axes else 1 for axis in range(len(whole))]
            order = sorted(range(len(axes)), key=axes.__getitem__)
            return x.permute(order).reshape(alone).expand(whole)
        case Reshape(shape=shape):
            return x.reshape(concrete_shape(shape))
        case Transpose(permutation=permutation):
            return x.permute(permutation)
        case Slice(start=start, stop=stop, step=step):
            axes = (concrete_shape(each) for each in (start, stop, step))
            return x[tuple(slice(*each) for each in zip(*axes, strict=True))]
        case Pad(low=low, high=high, interior=interior):
            sides = zip(x.shape, *map(concrete_shape, (low, high, interior)), strict=True)
            axes = [(a, n + (n - 1) * i, b, i + 1) for n, a, b, i in sides]
            whole = torch.zeros([a + n + b for a, n, b, _ in axes], dtype=x.dtype)
            whole[tuple(slice(a, a + n, by) for a, n, _, by in axes)] = x
            return whole
        case Concat(axis=axis):
            return torch.cat(list(operands), axis)
        case Reverse(axes=axes):
            return x.flip(axes)
        case DynamicSlice(sizes=sizes):
            return x[_part(operands[1:], concrete_shape(sizes))]
        case DynamicUpdate():
            whole = x.clone()
            whole[_part(operands[2:], tuple(operands[1].shape))] = operands[1]
            return whole
        case _:
            raise NotImplementedError(f"{op} is no primitive that PyTorch was told of")


def _part(starts: Sequence[Tensor], sizes: tuple[int, ...]) -> tuple[slice, ...]:
    """The part of these sizes that begins at the starts."""
    firsts = [int(start) for start in starts]
    return tuple(slice(at, at + size) for at, size in zip(firsts, sizes, strict=True))


def _cast(x: Tensor, dtype: DType) -> Tensor:
    if dtype.is_float:
        return x.double()
    if dtype is DType.BOOL:
        return x != 0
    found = Cast(dtype).evaluate(x.detach().numpy())
    return torch.tensor(found)


def _scattered(ids: Tensor, updates: Tensor, axis: int, size: int) -> Tensor:
    before, after = updates.shape[:axis], updates.shape[axis + ids.ndim :]
    table = torch.zeros((*before, size, *after), dtype=updates.dtype)
    rows = updates.reshape(*before, ids.numel(), *after)
    inside = (ids.reshape(-1) >= 0) & (ids.reshape(-1) < size)
    at = ids.reshape(-1)[inside]
    return table.index_add(axis, at, torch.index_select(rows, axis, inside.nonzero()[:, 0]))
