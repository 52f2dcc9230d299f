"""Loops as `Scan`, and what accumulates along an axis as a loop of one or two nodes."""

from collections.abc import Mapping, Sequence
from typing import assert_never

import numpy as np
from onnx import GraphProto

from meganeura_dsl.ir.graph import Op, Value
from meganeura_dsl.ir.ops import Cumulative, LinearRecurrence, Scan
from meganeura_dsl.ir.ops.primitive.gather_scatter import combination
from meganeura_dsl.ir.ops.primitive.loop import CAPTURED, CARRY, ITERATION, SLICE
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_runtime.export.onnx.emitter import ELEMENT
from meganeura_runtime.export.onnx.lowering import INT64, Lower, Lowering, OnnxTensor, exact
from meganeura_runtime.export.onnx.patterns import find_all
from meganeura_runtime.io.tensors.stored_tensor import NUMPY


def _scan(into: Lowering, value: Value) -> tuple[OnnxTensor, ...]:
    """Lowers a loop.

    Captured values are read from the outer graph; the index is a slice of a range.
    """
    op = value.op
    assert isinstance(op, Scan)
    carries, slices, captured = op.parts(value.operands)
    within, leaves = into.inside(), op.body.inputs
    inputs: dict[str, TensorType] = {}

    def given(leaf: str) -> None:
        of = leaves[leaf]
        name = within.emitter.fresh(leaf)
        within.tensors[of.id] = exact(name, of)
        inputs[name] = of.type

    for number in range(len(carries)):
        given(f"{CARRY}{number}")
    for number in range(len(slices)):
        given(f"{SLICE}{number}")
    for number, each in enumerate(captured):
        within.tensors[leaves[f"{CAPTURED}{number}"].id] = into.tensors[each.id]
    sources, axes = [into.whole(each) for each in slices], list(op.sliced)
    results = (*op.next, *op.given)
    if not slices or _is_read(leaves[ITERATION], op):
        given(ITERATION)
        sources.append(into.indices(op.iterations))
        axes.append(0)
    within.run(op.body.graph, find_all(op.body.graph, into.emitter.opset))
    within.emitter.scope = into.emitter.scope
    body = within.emitter.body(inputs, [(within.whole(each), each.type) for each in results])
    starts = [into.whole(each) for each in carries]
    names = _iterations(into, body, starts, sources, axes, op.collected, backward=op.backward)
    ranks = [*[each.type.rank for each in op.next], *[each.type.rank + 1 for each in op.given]]
    return tuple(OnnxTensor(name, rank) for name, rank in zip(names, ranks, strict=True))


def _is_read(leaf: Value, op: Scan) -> bool:
    reads = (each for value in op.body.graph.values for each in value.operands)
    return any(each is leaf for each in (*reads, *op.next, *op.given))


def _iterations(
    into: Lowering, body: GraphProto, starts: Sequence[str], sources: Sequence[str],
    axes: Sequence[int], collected: Sequence[int], *, backward: bool,
) -> tuple[str, ...]:  # fmt: skip
    """A `Scan`: what is carried from these starts, then what is collected along these axes."""
    return into.emitter.add_all(
        "Scan",
        len(starts) + len(collected),
        *starts,
        *sources,
        body=body,
        num_scan_inputs=len(sources),
        scan_input_axes=tuple(axes),
        scan_input_directions=(int(backward),) * len(sources),
        scan_output_axes=tuple(collected),
        scan_output_directions=(int(backward),) * len(collected),
    )


# --- what accumulates ----------------------------------------------------------------------------


def _accumulated(
    into: Lowering, value: Value, start: float, steps: Sequence[str], axis: int, *, backward: bool
) -> tuple[OnnxTensor, ...]:
    """Returns one carry after each iteration, along the axis of the operands that is scanned.

    An iteration applies each step to what there is and to a slice of the next operand.
    """
    of = value.type
    each = of.with_shape((*of.shape[:axis], *of.shape[axis + 1 :]))
    within = into.emitter.inner()
    after = carry = within.fresh("carry")
    inputs = {carry: each}
    for step in steps:
        piece = within.fresh("slice")
        inputs[piece] = each
        after = within.add(step, after, piece)
    body = within.body(inputs, [(after, each), (after, each)])
    number = into.emitter.constant(np.array(start, NUMPY[of.dtype]))
    first = into.emitter.add("Expand", number, into.sizes.shape(each.shape))
    sources = [into.whole(operand) for operand in value.operands]
    axes = [axis] * len(sources)
    found = _iterations(into, body, [first], sources, axes, [axis], backward=backward)
    return (exact(found[1], value),)


def _linear_recurrence(into: Lowering, value: Value) -> tuple[OnnxTensor, ...]:
    op = value.op
    assert isinstance(op, LinearRecurrence)
    return _accumulated(into, value, 0, ["Mul", "Add"], op.axis, backward=op.backward)


def _cumulative(into: Lowering, value: Value) -> tuple[OnnxTensor, ...]:
    op, (x,) = value.op, value.operands
    assert isinstance(op, Cumulative)
    match op.kind:
        case "sum":
            total = _cumulative_sum(into, into.whole(x), value.type.dtype, op)
            return (exact(total, value),)
        case "prod":
            return _accumulated(into, value, 1, ["Mul"], op.axis, backward=op.backward)
        case "max" | "min":
            start = combination(op.kind, np.zeros((), NUMPY[value.type.dtype]))[1]
            steps = ["Max" if op.kind == "max" else "Min"]
            return _accumulated(into, value, start, steps, op.axis, backward=op.backward)
        case _:
            assert_never(op.kind)


def _cumulative_sum(into: Lowering, x: str, of: DType, op: Cumulative) -> str:
    add = into.emitter.add
    wide = add("Cast", x, to=INT64) if of is DType.U32 else x  # as for sums
    axis = into.emitter.constant(np.array(op.axis, np.int64))
    total = add("CumSum", wide, axis, reverse=int(op.backward))
    return add("Cast", total, to=ELEMENT[of]) if of is DType.U32 else total


OPS: Mapping[type[Op], Lower] = {
    Cumulative: _cumulative,
    LinearRecurrence: _linear_recurrence,
    Scan: _scan,
}
