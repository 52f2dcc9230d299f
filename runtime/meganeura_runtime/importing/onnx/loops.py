"""`Scan` and `Loop` as scans: what they carry, what they slice, what they collect.

A `Loop` is one if its iterations are counted before it begins; what an iteration decides is
refused.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from onnx import GraphProto

from meganeura_dsl.ir.types import DType
from meganeura_dsl.symbolic.size import Size
from meganeura_runtime.importing.onnx.builder import Builder
from meganeura_runtime.importing.onnx.code import (
    Applied,
    Code,
    Collected,
    Declared,
    Level,
    Ref,
    Scanned,
    Statement,
    Tensor,
)
from meganeura_runtime.importing.onnx.import_problems import UnsupportedNodeError
from meganeura_runtime.importing.onnx.node import Known, Node, Value

OLDEST_SCAN = 9
"""The opset before which a `Scan` has a batch axis of all inputs."""
MULTIPLY, ADD = "Mul", "Add"

Body = Callable[[Sequence[Value]], Sequence[Tensor]]
"""A function that writes the graph of an iteration into the program and returns its results."""


@dataclass(frozen=True)
class Sliced:
    """A tensor of which each iteration is given one slice."""

    tensor: Tensor
    axis: int
    is_backward: bool


@dataclass(frozen=True)
class Iterations:
    """A loop of a file."""

    count: Size
    starts: Sequence[Tensor]
    sliced: Sequence[Sliced]
    collected: Sequence[tuple[int, bool]]
    """The axis of each collected result, from the end if negative, and True if backwards."""


def scan_iterations(node: Node, results: int) -> Iterations:
    """Returns the iterations of a `Scan`. Raises `UnsupportedNodeError`."""
    if node.opset < OLDEST_SCAN:
        raise UnsupportedNodeError("it has a batch axis, as before opset 9")
    count = len(node.inputs) - node.attribute("num_scan_inputs", 0)
    given = node.tensors()
    if not 0 <= count < len(given) or results < count:
        raise UnsupportedNodeError("it has other operands than it says")
    starts, sources = given[:count], given[count:]
    axes = _one_each(node, "scan_input_axes", len(sources))
    turns = _one_each(node, "scan_input_directions", len(sources))
    sliced = [
        Sliced(each, node.checked_axis(axis, each.rank), bool(turn))
        for each, axis, turn in zip(sources, axes, turns, strict=True)
    ]
    ends = _one_each(node, "scan_output_axes", results - count)
    ways = _one_each(node, "scan_output_directions", results - count)
    iterations = sliced[0].tensor.shape[sliced[0].axis]
    for each in sliced:
        size = each.tensor.shape[each.axis]
        node.build.need("==", size, iterations, "its operands have other numbers of slices")
    return Iterations(iterations, starts, sliced, list(zip(ends, map(bool, ways), strict=True)))


def _one_each(node: Node, name: str, count: int) -> list[int]:
    found: list[int] = node.attribute(name, [0] * count)
    if len(found) != count:
        raise UnsupportedNodeError(f"it has {len(found)} `{name}`, not {count}")
    return found


def loop_iterations(node: Node, results: int) -> Iterations:
    """Returns the iterations of a `Loop`. Raises `UnsupportedNodeError`."""
    condition = node.value(1) if node.has(1) else None
    is_open = isinstance(condition, Tensor) or (
        condition is not None and not (condition.array.size == 1 and condition.array.all())
    )
    if is_open:
        raise UnsupportedNodeError("whether it begins depends on data")
    if not node.has(0):
        raise UnsupportedNodeError("when it ends depends on data")
    counts = node.sizes(0, "iterations")
    if len(counts) != 1:
        raise UnsupportedNodeError("its iterations are not one number")
    starts = [node.tensor(index) for index in range(2, len(node.inputs))]
    if results < len(starts):
        raise UnsupportedNodeError("it has other results than it says")
    return Iterations(counts[0], starts, [], [(0, False)] * (results - len(starts)))


def scanned(
    build: Builder, iterations: Iterations, body: Body, *, counts: bool
) -> list[Value | None]:
    """The results of a loop; `counts` says that a body begins with the iteration's number.

    Raises `UnsupportedNodeError`.
    """
    build.need(">=", iterations.count, 1, "a loop has no iterations")
    backward = bool(iterations.sliced) and all(each.is_backward for each in iterations.sliced)
    sources = [_towards(build, each, backward=backward) for each in iterations.sliced]
    before = len(build.statements)
    iteration = build.fresh(DType.I32, ())
    carries = [build.fresh(each.dtype, each.shape) for each in iterations.starts]
    slices = [_slice(build, each, iteration) for each in sources]
    found = list(body([*([iteration] if counts else []), *carries, *slices]))
    following, gathered = found[: len(carries)], found[len(carries) :]
    for carry, after in zip(carries, following, strict=True):
        if after.dtype is not carry.dtype or not build.same_shape(after.shape, carry.shape):
            raise UnsupportedNodeError(f"what it carries becomes {after.type} of {carry.type}")
    inner = _taken_out(build, before)
    read = {each for one in inner for each in one.operands} | {each.id for each in found}
    carried, last = list[_Carry](), list[_Carry]()
    for each in map(_Carry, iterations.starts, carries, following):
        (carried if each.inside.id in read else last).append(each)
    # Of a carry that no iteration reads, the last of all that it is.
    collected = [*zip(gathered, _axes(gathered, iterations.collected), strict=True)]
    collected += [(each.after, (0, backward)) for each in last]
    code = Scanned(
        iterations.count, backward, iteration, tuple(each.start.id for each in carried),
        tuple(each.inside for each in carried), inner, tuple(each.after.id for each in carried),
        tuple(Collected(each.id, axis) for each, (axis, _) in collected),
    )  # fmt: skip
    results = build.add_all(code, [*((each.start.dtype, each.start.shape) for each in carried), *(
        (each.dtype, (*each.shape[:axis], iterations.count, *each.shape[axis:]))
        for each, (axis, _) in collected
    )])  # fmt: skip
    stacks = [
        each if turn == backward else build.call("reverse", each, (str(axis),), shape=each.shape)
        for each, (_, (axis, turn)) in zip(results[len(carried) :], collected, strict=True)
    ]
    ends = dict(zip((each.inside.id for each in carried), results, strict=False))
    for each, stack in zip(last, stacks[len(gathered) :], strict=True):
        ends[each.inside.id] = build.entry(stack, 0, 0 if backward else iterations.count - 1)
    return [*(ends[each.id] for each in carries), *stacks[: len(gathered)]]


@dataclass(frozen=True)
class _Carry:
    """A carried value: before the first iteration, in one, and after the loop."""

    start: Tensor
    inside: Tensor
    after: Tensor


def _taken_out(build: Builder, before: int) -> tuple[Statement, ...]:
    """The statements from one on, which are no longer the program's; parameters stay there."""
    inner = build.statements[before:]
    del build.statements[before:]
    build.statements += [each for each in inner if isinstance(each.code, Declared)]
    return tuple(each for each in inner if not isinstance(each.code, Declared))


def _axes(
    gathered: Sequence[Tensor], collected: Sequence[tuple[int, bool]]
) -> list[tuple[int, bool]]:
    """Returns the axes of the iterations in collected tensors, counted from the front."""
    found: list[tuple[int, bool]] = []
    for each, (axis, turn) in zip(gathered, collected, strict=True):
        if not -each.rank - 1 <= axis <= each.rank:
            raise UnsupportedNodeError("it collects along an axis that is not there")
        found.append((axis + each.rank + 1 if axis < 0 else axis, turn))
    return found


def _towards(build: Builder, sliced: Sliced, *, backward: bool) -> Sliced:
    """A tensor whose slices are read in the direction of the loop."""
    if sliced.is_backward == backward:
        return sliced
    x = sliced.tensor
    turned = build.call("reverse", x, (str(sliced.axis),), shape=x.shape)
    return replace(sliced, tensor=turned, is_backward=backward)


def _slice(build: Builder, sliced: Sliced, iteration: Tensor) -> Tensor:
    """The slice of an iteration: its place itself, where that is what is sliced."""
    x, axis = sliced.tensor, sliced.axis
    if x.id in build.counters:
        counter = build.fresh(x.dtype, x.shape[:axis] + x.shape[axis + 1 :])
        build.counters.add(counter.id)
        return counter
    if build.is_iota(x):
        return iteration
    pieces = (Ref(x.id, Level.ATOM), "[", ":, " * axis, Ref(iteration.id), "]")
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    return build.add(Code(pieces, Level.ATOM), x.dtype, shape)


# --- recurrences ---------------------------------------------------------------------------------


def linear_recurrence(
    build: Builder, iterations: Iterations, body: GraphProto
) -> list[Value] | None:
    """`linear_recurrence`, if an iteration is h = a h + b, from 0 on; None otherwise."""
    if len(iterations.starts) != 1 or len(iterations.sliced) != 2 or len(iterations.collected) != 1:
        return None
    (a, b), (start,) = iterations.sliced, iterations.starts
    ways = {(a.axis, a.is_backward), (b.axis, b.is_backward), iterations.collected[0]}
    if len(ways) != 1 or not build.is_zero(start) or not _is_recurrence(body):
        return None
    if not build.same_shape(a.tensor.shape, b.tensor.shape) or not a.tensor.dtype.is_float:
        return None
    axis, x, y = a.axis, a.tensor, b.tensor
    if a.is_backward:
        x, y = (build.call("reverse", each, (str(axis),), shape=each.shape) for each in (x, y))
    code = Applied(x.id, "linear_recurrence", (Ref(y.id), f", {axis}"))
    found = build.add(code, x.dtype, x.shape)
    last = build.entry(found, axis, iterations.count - 1)
    if a.is_backward:
        found = build.call("reverse", found, (str(axis),), shape=x.shape)
    return [last, found]


def _is_recurrence(body: GraphProto) -> bool:
    """True if a body gives a h + b, of (h, a, b), as its carry and as what it collects."""
    if len(body.input) != 3 or len(body.output) != 2 or body.initializer:
        return False
    same = {each.name: each.name for each in body.input}
    for node in body.node:
        if node.op_type == "Identity" and len(node.input) == 1 and len(node.output) == 1:
            same[node.output[0]] = same.get(node.input[0], node.input[0])
    steps = [each for each in body.node if each.op_type != "Identity"]
    if [each.op_type for each in steps] != [MULTIPLY, ADD]:
        return False
    product, total = steps
    if len(product.output) != 1 or len(total.output) != 1:
        return False
    h, a, b = (each.name for each in body.input)
    is_product = sorted(same.get(each, each) for each in product.input) == sorted([h, a])
    is_sum = sorted(same.get(each, each) for each in total.input) == sorted([product.output[0], b])
    ends = {same.get(each.name, each.name) for each in body.output}
    return is_product and is_sum and ends == {total.output[0]}


def is_true(value: Value) -> bool:
    """True if a condition is known to hold."""
    return isinstance(value, Known) and value.array.size == 1 and bool(value.array.all())
