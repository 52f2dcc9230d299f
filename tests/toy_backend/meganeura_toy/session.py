"""A table of NumPy functions, one for each op that it has, and a session that calls them."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from meganeura_dsl.ir import ops
from meganeura_dsl.ir.graph import Array, Graph, Leaf, Op
from meganeura_dsl.ir.interpreter import Results, storage_type
from meganeura_runtime.backends.host_session import HostSession
from meganeura_runtime.backends.op_support import OpSupport


def broadcast(op: Any, x: Array) -> Array:
    others = [axis for axis in range(len(op.shape)) if axis not in op.axes]
    return np.broadcast_to(np.expand_dims(x, others), op.shape)


def matmul(op: Any, a: Array, b: Array) -> Array:
    a = np.swapaxes(a, -1, -2) if op.transpose_left else a
    return np.dot(a, b.T if op.transpose_right else b)


COMPARE = {"eq": np.equal, "le": np.less_equal, "gt": np.greater}

FUNCTIONS: Mapping[type[Op], Callable[..., Any]] = {
    ops.Add: lambda _, a, b: a + b,
    ops.Sub: lambda _, a, b: a - b,
    ops.Mul: lambda _, a, b: a * b,
    ops.Div: lambda _, a, b: a / b,
    ops.Neg: lambda _, x: -x,
    ops.Exp: lambda _, x: np.exp(x),
    ops.Log: lambda _, x: np.log(x),
    ops.Sqrt: lambda _, x: np.sqrt(x),
    ops.Maximum: lambda _, a, b: np.fmax(a, b),
    ops.Where: lambda _, c, a, b: np.where(c, a, b),
    ops.Compare: lambda op, a, b: COMPARE[op.kind](a, b),
    ops.Cast: lambda op, x: x.astype(storage_type(op.dtype)),
    ops.Constant: lambda op: np.array(op.value, storage_type(op.dtype)),
    ops.Iota: lambda op: np.arange(op.size, dtype=np.int32),
    ops.StopGradient: lambda _, x: x,
    ops.Broadcast: broadcast,
    ops.Reshape: lambda op, x: x.reshape(op.shape),
    ops.Transpose: lambda op, x: np.moveaxis(x, op.permutation, range(x.ndim)),
    ops.Sum: lambda op, x: np.add.reduce(x, axis=op.axes),
    ops.ReduceMax: lambda op, x: np.maximum.reduce(x, axis=op.axes),
    ops.ArgMax: lambda op, x: np.argmax(x, axis=op.axis).astype(np.int32),
    ops.MatMul: matmul,
}
SUPPORT = OpSupport("toy", frozenset((*FUNCTIONS, ops.Input, ops.Parameter)))


class ToySession(HostSession):
    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.graph = SUPPORT.supported(graph)

    def _computed(self, given: Mapping[str, Array]) -> Results:
        found: dict[int, Array] = {}
        for value in self.graph.values:
            op, operands = value.op, [found[each.id] for each in value.operands]
            made = given[op.name] if isinstance(op, Leaf) else FUNCTIONS[type(op)](op, *operands)
            found[value.id] = np.asarray(made, storage_type(value.type.dtype))
        outputs = {name: found[each.id] for name, each in self.graph.outputs.items()}
        return Results(outputs, {name: found[each.id] for name, each in self.graph.updates.items()})
