"""Built-in functions of positions: gathers and scatters, orders, what accumulates along axes."""

from collections.abc import Callable

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.builtins.builtin_call import BuiltinCall
from meganeura_dsl.elaborate.problems.argument_cures import conversion, ids_order
from meganeura_dsl.elaborate.problems.name_problems import WrongKind
from meganeura_dsl.elaborate.problems.shape_problems import TypeRuleBroken
from meganeura_dsl.elaborate.typecheck import tensor_arithmetic, tensor_values
from meganeura_dsl.elaborate.typecheck.index_ranges import check_index
from meganeura_dsl.elaborate.typecheck.single_choices import note_choice
from meganeura_dsl.elaborate.values import (
    ElabValue,
    Tensor,
    describe,
    is_number,
    is_size,
    is_tensor,
    show_shape,
)
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.ops.primitive.cumulative import Accumulation
from meganeura_dsl.ir.ops.primitive.gather_scatter import Extreme
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.assumptions import Compare
from meganeura_dsl.symbolic.size import Size

# --- gathers and scatters ------------------------------------------------------------------------


def iota(call: BuiltinCall) -> ElabValue:
    """The whole numbers from 0 on."""
    return call.add(ops.Iota(call.size(0, "size")))


def one_hot(call: BuiltinCall) -> ElabValue:
    """1 at the position each id gives along a new last axis, and 0 elsewhere."""
    ids, classes = call.tensor(0), call.size(1, "classes")
    if not ids.type.dtype.is_integer:
        location = call.frame.location(call.span)
        cure = conversion(call.span, "ids", 0, DType.I32.value, show_shape(ids.type.shape))
        wanted = "a tensor of whole numbers"
        raise ProblemError(WrongKind(location, wanted, describe(ids), cure))
    check_index(call.frame, call.span, ids, classes, is_compared=True)
    shape, rank = (*ids.type.shape, classes), ids.type.rank
    numbers = tensor_values.cast(call.frame, call.span, call.add(ops.Iota(classes)), ids.type.dtype)
    spread = tensor_values.broadcast(call.frame, call.span, numbers, shape, (rank,))
    repeated = tensor_values.broadcast(call.frame, call.span, ids, shape, tuple(range(rank)))
    same = call.add(ops.Compare("eq"), repeated, spread)
    return tensor_values.cast(call.frame, call.span, same, DType.F32)


def gather(call: BuiltinCall) -> ElabValue:
    """The slices of a table at the given ids."""
    table, ids = call.tensor(0), call.tensor(1)
    _require_ids(call, (table, ids), 1)
    axis = call.axis(call.option(2, "axis", 0), table.type.rank)
    found = call.add(ops.Gather(axis, _batch(call, 3)), table, ids)
    check_index(call.frame, call.span, ids, table.type.shape[axis])
    return found


def scatter_add(call: BuiltinCall) -> ElabValue:
    """The updates added up in the rows that ids give."""
    ids, updates = call.tensor(0), call.tensor(1)
    _require_ids(call, (ids, updates), 0)
    axis = call.axis(call.option(3, "axis", 0), updates.type.rank)
    size = call.size(2, "size")
    found = call.add(ops.ScatterAdd(axis, size, _batch(call, 4)), ids, updates)
    check_index(call.frame, call.span, ids, size)
    return found


def scatter_extreme(kind: Extreme) -> Callable[[BuiltinCall], ElabValue]:
    """The largest or smallest update in each row, and `empty` in one that no id names."""

    def apply(call: BuiltinCall) -> ElabValue:
        ids, updates = call.tensor(0), call.tensor(1)
        _require_ids(call, (ids, updates), 0)
        size, empty = call.size(2, "size"), call.option(3, "empty")
        if not is_number(empty):
            raise call.wrong("a number as `empty`", empty)
        axis = call.axis(call.option(4, "axis", 0), updates.type.rank)
        batch = _batch(call, 5)
        found = call.add(ops.ScatterExtreme(kind, axis, size, batch), ids, updates)
        check_index(call.frame, call.span, ids, size)
        shape = found.type.shape
        ones = call.add(ops.Constant(1, DType.I32))
        each = tensor_values.broadcast(call.frame, call.span, ones, ids.type.shape, ())
        counts = call.add(ops.ScatterAdd(batch, size, batch), ids, each)
        nowhere = tensor_values.scalar(call.frame, call.span, 0, DType.I32, counts.type.shape)
        is_empty = call.add(ops.Compare("eq"), counts, nowhere)
        axes = (*range(batch), axis)
        spread = tensor_values.broadcast(call.frame, call.span, is_empty, shape, axes)
        none, _ = tensor_arithmetic.lift(call.frame, call.span, empty, found)
        return call.add(ops.Where(), spread, none, found)

    return apply


def _require_ids(call: BuiltinCall, given: tuple[Tensor, Tensor], place: int) -> None:
    """Raises `ProblemError` if one of two tensors, at `place`, is no tensor of whole numbers."""
    ids, other = given[place], given[1 - place]
    if ids.type.dtype.is_integer:
        return
    fault = f"`{call.name}` takes i32 or u32, not {ids.type.dtype.value}"
    found = "\n".join(str(each.type) for each in given)
    cure = ids_order(call.span, ids, other, place)
    raise ProblemError(TypeRuleBroken(call.frame.location(call.span), fault, found, cure))


def _batch(call: BuiltinCall, index: int) -> int:
    """Returns the number of axes that ids and tables have in common."""
    value = call.option(index, "batch", 0)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise call.wrong("a number of axes as `batch`", value)
    return value


def roll(call: BuiltinCall) -> ElabValue:
    """`x` moved along an axis, round its end: element i of it becomes element i + by."""
    x = call.tensor(0)
    axis, by = call.axis(call.option(1, "axis"), x.type.rank), call.option(2, "by")
    size = x.type.shape[axis]
    if is_size(by):
        start = _first_moved(call, size, by)
        if start == 0:
            return x
        if start is not None:
            last, first = _between(call, x, axis, start, size), _between(call, x, axis, 0, start)
            return call.add(ops.Concat(axis), last, first)
        by = tensor_values.scalar(call.frame, call.span, by, DType.I32)
    if not is_tensor(by) or by.type != TensorType(DType.I32, ()):
        raise call.wrong("a size or a tensor i32[] as `by`", by)
    positions = call.add(ops.Iota(size))
    pair = tensor_arithmetic.apply_pair(
        call.frame, call.span, ops.Sub(), "-", positions, by, ("the positions", "`by`")
    )
    return call.add(ops.Gather(axis), x, call.add(ops.Remainder(size), pair))


def _first_moved(call: BuiltinCall, size: Size, by: Size) -> Size | None:
    """The element that a move brings to the front; nothing if no size is known to be it."""
    if isinstance(size, int) and isinstance(by, int):
        return -by % size
    if by == 0:
        return 0
    if call.frame.state.differs_by_iteration(by):
        return None
    for start in (size - by, -by):
        inside = (Compare(">", start, 0), Compare("<", start, size))
        if all(map(call.frame.facts.proves, inside)):
            return start
    return None


def _between(call: BuiltinCall, x: Tensor, axis: int, start: Size, stop: Size) -> Tensor:
    starts = tuple(start if at == axis else 0 for at in range(x.type.rank))
    stops = tuple(stop if at == axis else size for at, size in enumerate(x.type.shape))
    return call.add(ops.Slice(starts, stops, (1,) * x.type.rank), x)


# --- order ---------------------------------------------------------------------------------------


def argmax(call: BuiltinCall) -> ElabValue:
    """The index of the largest element along an axis, the first of equals."""
    value = call.tensor(0)
    return call.add(ops.ArgMax(_chosen_axis(call, value)), value)


def argmin(call: BuiltinCall) -> ElabValue:
    """The index of the smallest element along an axis, the first of equals."""
    value = call.tensor(0)
    axis, of = _chosen_axis(call, value), value.type
    if of.dtype.is_float:
        turned = call.add(ops.Neg(), value)
    else:  # the least i32 has no opposite, and u32 no sign
        last = (1 << 32) - 1 if of.dtype is DType.U32 else -1
        top = tensor_values.scalar(call.frame, call.span, last, of.dtype, of.shape)
        turned = call.add(ops.Sub(), top, value)
    return call.add(ops.ArgMax(axis), turned)


def _chosen_axis(call: BuiltinCall, value: Tensor) -> int:
    """Returns the axis along which an element is chosen, and notes one of size 1."""
    axis = call.axis(call.option(1, "axis", -1), value.type.rank)
    note_choice(call.frame, call.span, call.name, value, axis)
    return axis


def sort(call: BuiltinCall) -> ElabValue:
    """The elements along an axis in order, and the position of each before."""
    x = call.tensor(0)
    axis = call.axis(call.option(1, "axis", -1), x.type.rank)
    descending = call.option(2, "descending", default=False)
    if not isinstance(descending, bool):
        raise call.wrong("true or false as `descending`", descending)
    return call.add_all(ops.Sort(axis, descending), x)


def argsort(call: BuiltinCall) -> ElabValue:
    """The position of each element in order."""
    match sort(call):
        case (_, positions):
            return positions
        case found:
            raise AssertionError(f"a sort gives two results, not {found}")


def top_k(call: BuiltinCall) -> ElabValue:
    """The k largest elements along an axis, the largest first, and their positions."""
    x, k = call.tensor(0), call.size(1, "k")
    axis = call.axis(call.option(2, "axis", -1), x.type.rank)
    found = call.add_all(ops.Sort(axis, descending=True), x)
    return tuple(_between(call, each, axis, 0, k) for each in found)


# --- along an axis -------------------------------------------------------------------------------


def cumulative(kind: Accumulation) -> Callable[[BuiltinCall], ElabValue]:
    """Returns the built-in function that accumulates elements along an axis."""

    def apply(call: BuiltinCall) -> ElabValue:
        x = call.tensor(0)
        return call.add(ops.Cumulative(kind, call.axis(call.option(1, "axis"), x.type.rank)), x)

    return apply


def linear_recurrence(call: BuiltinCall) -> ElabValue:
    """h[t] = a[t] h[t - 1] + b[t]."""
    a, b = call.tensor(0), call.tensor(1)
    return call.add(ops.LinearRecurrence(call.axis(call.option(2, "axis"), a.type.rank)), a, b)
