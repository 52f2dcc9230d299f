"""The primitive ops as formulas of elements, written from the reference of the language.

Each takes the scope, its operands and its fields, and gives the result for all sizes.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction

from meganeura_dsl.symbolic.size import Size, product
from tests.proofs.reals import (
    NOTHING,
    ONE,
    Condition,
    Function,
    Index,
    Power,
    Real,
    Whole,
    Zero,
    compare,
    over,
    total,
    where,
    within,
)
from tests.proofs.tensors import (
    Field,
    Scope,
    Shape,
    Tensor,
    constant,
    others,
    require,
    with_axes,
)

FLOATS = ("f32", "f16")


def each(x: Tensor, f: Callable[[Real], Real]) -> Tensor:
    """A function of every element."""
    return x.with_elements(lambda i: f(x.at(i)))


def both(scope: Scope, a: Tensor, b: Tensor, f: Callable[[Real, Real], Real]) -> Tensor:
    """A function of the elements of two tensors at one index."""
    scope.same_type(a, b)
    return a.with_elements(lambda i: f(a.at(i), b.at(i)))


def add(scope: Scope, a: Tensor, b: Tensor) -> Tensor:
    return both(scope, a, b, lambda x, y: x + y)


def subtract(scope: Scope, a: Tensor, b: Tensor) -> Tensor:
    return both(scope, a, b, lambda x, y: x - y)


def multiply(scope: Scope, a: Tensor, b: Tensor) -> Tensor:
    return both(scope, a, b, lambda x, y: x * y)


def divide_by(scope: Scope, a: Tensor, b: Tensor) -> Tensor:
    return both(scope, a, b, lambda x, y: x / y)


def function(name: str) -> Callable[[Scope, Tensor], Tensor]:
    """The meaning of an op that is a function of each element."""

    def meaning(scope: Scope, x: Tensor) -> Tensor:
        require(x.dtype in FLOATS or name == "abs", f"{name} of {x.dtype}")
        return each(x, lambda e: Function(name, e))

    return meaning


def extreme(kind: str) -> Callable[[Scope, Tensor, Tensor], Tensor]:
    """The larger or the smaller of two."""
    return lambda scope, a, b: both(scope, a, b, lambda x, y: where(compare(kind, x, y), x, y))


def choose(scope: Scope, c: Tensor, a: Tensor, b: Tensor) -> Tensor:
    require(c.dtype == "bool", f"a choice by {c.dtype}")
    scope.same_type(a, b)
    scope.same_shape(c.shape, a.shape)
    return a.with_elements(lambda i: where(c.at(i), a.at(i), b.at(i)))


def relation(scope: Scope, a: Tensor, b: Tensor, kind: str) -> Tensor:
    scope.same_type(a, b)
    return a.with_elements(lambda i: compare(kind, a.at(i), b.at(i)), "bool")


def cast(scope: Scope, x: Tensor, dtype: str) -> Tensor:
    if x.dtype in (dtype, "bool") or (x.dtype == "i32" and dtype in FLOATS):
        return x.with_elements(x.at, dtype)
    if x.dtype in FLOATS and dtype in FLOATS:  # over the reals nothing is rounded
        return x.with_elements(x.at, dtype)
    return x.with_elements(lambda i: Function(f"as {dtype}", x.at(i)), dtype)


def sum_over(scope: Scope, x: Tensor, axes: tuple[int, ...]) -> Tensor:
    _require_axes(axes, x.rank)
    summed = tuple(x.shape[axis] for axis in axes)
    kept = tuple(x.shape[axis] for axis in others(axes, x.rank))
    return Tensor(x.dtype, kept, lambda i: total(summed, lambda k: x.at(with_axes(i, axes, k))))


def largest(scope: Scope, x: Tensor, axes: tuple[int, ...]) -> Tensor:
    _require_axes(axes, x.rank)
    kept = tuple(x.shape[axis] for axis in others(axes, x.rank))

    def at(index: Index) -> Real:
        def largest_of(rest: tuple[int, ...], places: Index) -> Real:
            if not rest:
                return x.at(with_axes(index, axes, places))
            return over("max", x.shape[rest[0]], lambda k: largest_of(rest[1:], (*places, k)))

        return largest_of(axes, ())

    return Tensor(x.dtype, kept, at)


def broadcast(scope: Scope, x: Tensor, shape: Shape, axes: tuple[int, ...]) -> Tensor:
    _require_axes(axes, len(shape))
    scope.same_shape(tuple(shape[axis] for axis in axes), x.shape)
    return Tensor(x.dtype, shape, lambda i: x.at(tuple(i[axis] for axis in axes)))


def reshape(scope: Scope, x: Tensor, shape: Shape) -> Tensor:
    """The same elements in row-major order; axes that both shapes share are left alone."""
    scope.same(product(x.shape), product(shape))
    old, new = _normal(scope, x.shape), _normal(scope, shape)
    parts = _matched(old, new)

    def at(index: Index) -> Real:
        found: list[Size] = []
        for (start, stop), (first, last) in parts:
            flat: Size = 0
            for place, size in zip(index[first:last], new[first:last], strict=True):
                flat = flat * size + place
            if stop - start == 1:
                found.append(flat)
                continue
            for axis in range(start, stop):
                inner = product(old[axis + 1 : stop])
                outer = product(old[axis:stop])
                rest = flat // inner
                found.append(rest if axis == start else rest - old[axis] * (flat // outer))
        return x.at(tuple(found))

    return Tensor(x.dtype, shape, at)


def transpose(scope: Scope, x: Tensor, permutation: tuple[int, ...]) -> Tensor:
    require(sorted(permutation) == list(range(x.rank)), f"{permutation} of {x.rank} axes")
    shape = tuple(x.shape[axis] for axis in permutation)
    places = sorted(range(x.rank), key=permutation.__getitem__)
    return Tensor(x.dtype, shape, lambda i: x.at(tuple(i[place] for place in places)))


def cut(scope: Scope, x: Tensor, start: Shape, stop: Shape, step: Shape) -> Tensor:
    require(len(start) == len(stop) == len(step) == x.rank, "a slice of other axes")
    for first, last, by, size in zip(start, stop, step, x.shape, strict=True):
        scope.at_least(first, 0)
        scope.at_least(by, 1)
        scope.at_least(last, first + 1)
        scope.at_least(size, last)
    sizes = zip(start, stop, step, strict=True)
    shape = tuple((last - first - 1) // by + 1 for first, last, by in sizes)
    return Tensor(
        x.dtype,
        shape,
        lambda i: x.at(tuple(f + k * by for f, k, by in zip(start, i, step, strict=True))),
    )


def pad(scope: Scope, x: Tensor, low: Shape, high: Shape, interior: Shape) -> Tensor:
    require(len(low) == len(high) == len(interior) == x.rank, "zeros around other axes")
    for size in (*low, *high, *interior):
        scope.at_least(size, 0)
    axes = tuple(zip(low, x.shape, interior, high, strict=True))
    shape = tuple(first + n + (n - 1) * gap + last for first, n, gap, last in axes)

    def at(index: Index) -> Real:
        if all(gap == 0 for gap in interior):
            places = tuple(i - first for i, first in zip(index, low, strict=True))
            inside = x.at(places)
            for place, size in zip(places, x.shape, strict=True):
                inside = inside * within(place, size)
            return inside
        return total(
            x.shape,
            lambda k: product_of(
                x.at(k),
                *(
                    Condition("==", first + place * (gap + 1) - i)
                    for (first, _, gap, _), place, i in zip(axes, k, index, strict=True)
                ),
            ),
        )

    return Tensor(x.dtype, shape, at)


def concat(scope: Scope, *parts_and_axis: Field) -> Tensor:
    *parts, axis = parts_and_axis
    require(bool(parts) and axis < parts[0].rank, "nothing to join")
    first = parts[0]
    whole: Size = 0
    starts: list[Size] = []
    for part in parts:
        require(part.dtype == first.dtype and part.rank == first.rank, "parts of other types")
        rest = others((axis,), first.rank)
        scope.same_shape([part.shape[a] for a in rest], [first.shape[a] for a in rest])
        starts.append(whole)
        whole = whole + part.shape[axis]

    def at(index: Index) -> Real:
        result: Real = NOTHING
        for part, start in zip(parts, starts, strict=True):
            place = index[axis] - start
            inside = part.at((*index[:axis], place, *index[axis + 1 :]))
            result = result + inside * within(place, part.shape[axis])
        return result

    return Tensor(first.dtype, (*first.shape[:axis], whole, *first.shape[axis + 1 :]), at)


def reverse(scope: Scope, x: Tensor, axes: tuple[int, ...]) -> Tensor:
    _require_axes(axes, x.rank)
    return x.with_elements(
        lambda i: x.at(
            tuple(
                x.shape[axis] - 1 - place if axis in axes else place for axis, place in enumerate(i)
            )
        )
    )


def matmul(scope: Scope, a: Tensor, b: Tensor, left: bool, right: bool) -> Tensor:
    shared = b.rank == 2 and a.rank != 2
    require(a.dtype == b.dtype and a.dtype in FLOATS, "a product of other types")
    require(a.rank >= 1 and b.rank >= 2 and (shared or a.rank == b.rank), "ranks of a product")
    require(not (shared and left), "the left of a shared product is no matrix")
    depth, columns = (b.shape[-1], b.shape[-2]) if right else (b.shape[-2], b.shape[-1])
    inner, rows = (a.shape[-2], a.shape[-1:]) if left else (a.shape[-1], a.shape[-2:-1])
    scope.same(inner, depth)
    if not shared:
        scope.same_shape(a.shape[:-2], b.shape[:-2])
    batch = 0 if shared else a.rank - 2
    leading = a.shape[:-1] if shared else (*a.shape[:-2], *rows)

    def at(index: Index) -> Real:
        *rest, column = index

        def term(k: Size) -> Real:
            one = (*rest[:-1], k, rest[-1]) if left else (*rest, k)
            other = (column, k) if right else (k, column)
            return a.at(tuple(one)) * b.at((*rest[:batch], *other))

        return over("sum", inner, term)

    return Tensor(a.dtype, (*leading, columns), at)


def gather(scope: Scope, table: Tensor, ids: Tensor, axis: int, batch: int) -> Tensor:
    """The element of a table whose place along an axis is what `ids` says."""
    scope.same_shape(table.shape[:batch], ids.shape[:batch])
    kept = table.shape[:axis], table.shape[axis + 1 :]
    end = axis + ids.rank - batch

    def at(index: Index) -> Real:
        at_ids = (*index[:batch], *index[axis:end])
        before, behind = index[:axis], index[end:]
        return over(
            "sum",
            table.shape[axis],
            lambda r: table.at((*before, r, *behind)) * Zero(ids.at(at_ids) - Whole(r)),
        )

    return Tensor(table.dtype, (*kept[0], *ids.shape[batch:], *kept[1]), at)


def scatter_add(
    scope: Scope, ids: Tensor, updates: Tensor, axis: int, size: Size, batch: int
) -> Tensor:
    """The sum of updates whose place is said to be this one."""
    end = axis + ids.rank - batch
    scope.same_shape(updates.shape[:batch], ids.shape[:batch])
    scope.same_shape(updates.shape[axis:end], ids.shape[batch:])

    def at(index: Index) -> Real:
        before, behind = index[:axis], index[axis + 1 :]
        return total(
            ids.shape[batch:],
            lambda k: (
                updates.at((*before, *k, *behind))
                * Zero(ids.at((*index[:batch], *k)) - Whole(index[axis]))
            ),
        )

    return Tensor(updates.dtype, (*updates.shape[:axis], size, *updates.shape[end:]), at)


def dynamic_slice(scope: Scope, x: Tensor, *starts_and_sizes: Field) -> Tensor:
    *starts, sizes = starts_and_sizes
    require(len(starts) == len(sizes) == x.rank, "a start for each axis")
    return Tensor(
        x.dtype, sizes, lambda i: total(x.shape, lambda r: x.at(r) * _meets(starts, i, r))
    )


def dynamic_update(scope: Scope, x: Tensor, part: Tensor, *starts: Tensor) -> Tensor:
    require(len(starts) == part.rank == x.rank, "a start for each axis")

    def at(r: Index) -> Real:
        inside = total(part.shape, lambda i: _meets(starts, i, r))
        replaced = total(part.shape, lambda i: part.at(i) * _meets(starts, i, r))
        return x.at(r) * (ONE - inside) + replaced

    return x.with_elements(at)


def _meets(starts: Sequence[Tensor], inner: Index, outer: Index) -> Real:
    """1 where an index of the part is one of the whole."""
    axes = zip(starts, inner, outer, strict=True)
    return product_of(*(Zero(start.at(()) + Whole(i - r)) for start, i, r in axes))


def cumulative(scope: Scope, x: Tensor, kind: str, axis: int, backward: bool) -> Tensor:
    require(kind == "sum", f"a running {kind}")
    sign = -1 if backward else 1
    return x.with_elements(
        lambda i: over(
            "sum",
            x.shape[axis],
            lambda k: x.at((*i[:axis], k, *i[axis + 1 :])) * Condition(">=", sign * (i[axis] - k)),
        )
    )


def _require_axes(axes: tuple[int, ...], rank: int) -> None:
    is_right = list(axes) == sorted(set(axes)) and all(axis in range(rank) for axis in axes)
    require(is_right, f"axes {axes} of {rank}")


def product_of(*factors: Real) -> Real:
    """The product of numbers."""
    result: Real = ONE
    for factor in factors:
        result = result * factor
    return result


def _normal(scope: Scope, shape: Shape) -> Shape:
    return tuple(map(scope.world.normal, shape))


def _matched(old: Shape, new: Shape) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """The shortest runs of axes of both shapes that have as many elements; all, at worst."""
    parts: list[tuple[tuple[int, int], tuple[int, int]]] = []
    start = first = 0
    while start < len(old) or first < len(new):
        ends = (
            (stop, last)
            for length in range(1, len(old) + len(new) - start - first + 1)
            for stop in range(start, min(start + length, len(old)) + 1)
            if (last := first + length - (stop - start)) in range(first, len(new) + 1)
            if product(old[start:stop]) == product(new[first:last])
        )
        stop, last = next(ends, (len(old), len(new)))
        parts.append(((start, stop), (first, last)))
        start, first = stop, last
    return parts


Meaning = Callable[..., Tensor]
_FUNCTIONS = (
    *("Abs", "Exp", "Expm1", "Log", "Log1p", "Logistic", "Sqrt"),
    *("Sin", "Cos", "Tanh", "Erf", "Floor", "Round"),
)

MEANINGS: dict[str, Meaning] = {
    **{name: function(name.lower()) for name in _FUNCTIONS},
    "Neg": lambda scope, x: each(x, lambda e: -e),
    "StopGradient": lambda scope, x: x,
    "Constant": lambda scope, value, dtype: constant(value, dtype, ()),
    "Iota": lambda scope, size: Tensor("i32", (size,), lambda i: Whole(i[0])),
    "Add": add,
    "Sub": subtract,
    "Mul": multiply,
    "Div": divide_by,
    "Maximum": extreme("gt"),
    "Minimum": extreme("lt"),
    "Compare": relation,
    "Where": choose,
    "Cast": cast,
    "Sum": sum_over,
    "ReduceMax": largest,
    "Broadcast": broadcast,
    "Reshape": reshape,
    "Transpose": transpose,
    "Slice": cut,
    "Pad": pad,
    "Concat": concat,
    "Reverse": reverse,
    "MatMul": matmul,
    "Gather": gather,
    "ScatterAdd": scatter_add,
    "DynamicSlice": dynamic_slice,
    "DynamicUpdate": dynamic_update,
    "Cumulative": cumulative,
}


def root(x: Real) -> Real:
    """The square root."""
    return Power(x, Fraction(1, 2))
