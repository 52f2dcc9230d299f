"""Adds statements, with the broadcasting and the reshaping of ONNX written out."""

from collections.abc import Sequence

import numpy as np

from meganeura_dsl.ir.types import DType, Shape
from meganeura_dsl.symbolic.size import Dim, Size, product, show
from meganeura_runtime.importing.onnx.code import (
    Code,
    Count,
    Declared,
    Level,
    Piece,
    Ref,
    Tensor,
    bracketed,
    listed,
    size_piece,
)
from meganeura_runtime.importing.onnx.import_problems import UnsupportedNodeError
from meganeura_runtime.importing.onnx.moves import Move, Pattern, split_and_joined
from meganeura_runtime.importing.onnx.number_text import number_text
from meganeura_runtime.importing.onnx.statements import Statements, Stored

BINARY: dict[str, Level] = {
    "+": Level.SUM, "-": Level.SUM, "*": Level.PRODUCT, "/": Level.PRODUCT, "%": Level.PRODUCT,
    "//": Level.PRODUCT, "@": Level.PRODUCT, "==": Level.COMPARE, "!=": Level.COMPARE,
    "<": Level.COMPARE, "<=": Level.COMPARE, ">": Level.COMPARE, ">=": Level.COMPARE,
    "and": Level.AND, "or": Level.OR,
}  # fmt: skip
LETTERS = "abcdefghijklmnopqrstuvwxyz"

Operand = Tensor | float | Size


class Builder(Statements):
    """Adds statements, with the broadcasting and the reshaping of ONNX written out."""

    # --- numbers ---------------------------------------------------------------------------------

    def number(self, value: float | Size, dtype: DType) -> tuple[Piece, Level]:
        """A number as it is written beside a tensor of an element type."""
        if isinstance(value, Dim):
            return Count(value, Level.ATOM), Level.ATOM
        if dtype is DType.BOOL:
            return ("true" if value else "false"), Level.ATOM
        if dtype.is_integer:
            limits = np.iinfo(np.uint32 if dtype is DType.U32 else np.int32)
            if not limits.min <= value <= limits.max:
                raise UnsupportedNodeError("a whole number has more than 32 bits")
            return str(int(value)), Level.ATOM if value >= 0 else Level.SIGN
        if not np.isfinite(value):
            raise UnsupportedNodeError(f"there is no number {value} in the language")
        text = number_text(float(value))
        return text, Level.SIGN if text.startswith("-") else Level.ATOM

    def filled(self, value: float | Size, dtype: DType, shape: Sequence[Size] = ()) -> Tensor:
        """A tensor of one number."""
        if dtype is DType.BOOL:
            zero = self.filled(0, DType.F32, shape)
            return self.binary("==" if value else "!=", zero, 0.0)
        if not isinstance(value, Dim) and not np.isfinite(value):
            return self.cast(self._unusual(float(value), shape), dtype)
        if not isinstance(value, Dim) and value == 0:
            built = self.add(Code(("zeros(", *bracketed(shape), ")"), Level.ATOM), DType.F32, shape)
        else:
            written = self.number(value, DType.F32)[0]
            pieces = ("full(", *bracketed(shape), ", ", written, ")")
            if dtype.is_integer and not isinstance(value, Dim) and abs(value) >= 1 << 24:
                raise UnsupportedNodeError(f"{value} is too large a whole number to be filled in")
            built = self.add(Code(pieces, Level.ATOM), DType.F32, shape)
        return self.cast(built, dtype)

    def _unusual(self, value: float, shape: Sequence[Size]) -> Tensor:
        """An infinity or NaN, which have no literal: log(0), -log(0) and 0 / 0."""
        zero = self.filled(0, DType.F32, shape)
        if np.isnan(value):
            return self.binary("/", zero, 0.0)
        infinity = self.elementwise("log", zero)
        return infinity if value < 0 else self.negative(infinity)

    def iota(self, size: Size) -> Tensor:
        """i32[size], counting from 0."""
        pieces = ("iota(", size_piece(size), ")")
        return self.add(Code(pieces, Level.ATOM), DType.I32, (size,))

    def triangle(self, shape: Shape, operator: str, diagonal: int) -> Tensor:
        """A bool for each row i and column j: true where j - i compares so with a diagonal."""
        rows, columns = shape
        row = self.along(self.iota(rows), 0, shape)
        column = self.expand(self.iota(columns), shape)
        return self.binary(operator, self.binary("-", column, row), diagonal)

    def cast(self, x: Tensor, dtype: DType) -> Tensor:
        """The value in another element type."""
        return x if x.dtype is dtype else self.call(dtype.value, x, shape=x.shape, dtype=dtype)

    def parameter(self, stored: Stored) -> Tensor:
        """A parameter on its own line."""
        self.stored[".".join(map(str, stored.words))] = stored
        code = Declared(stored.words, stored.kind)
        return self.add(code, stored.type.dtype, stored.type.shape)

    # --- elementwise -----------------------------------------------------------------------------

    def binary(self, operator: str, a: Operand, b: Operand) -> Tensor:
        """`a operator b`, broadcast as NumPy does; one of them is a tensor."""
        level = BINARY[operator]
        left, right = self._sides(a, b)
        dtype, shape = _common(left, right)
        is_relation = level is Level.COMPARE
        needed = (Level.SUM, Level.SUM) if is_relation else (level, Level(level + 1))
        pieces = (
            self._side(left, dtype, needed[0]), f" {operator} ", self._side(right, dtype, needed[1])
        )  # fmt: skip
        result = DType.BOOL if level in (Level.COMPARE, Level.AND, Level.OR) else dtype
        return self.add(Code(pieces, level), result, shape)

    def _sides(self, a: Operand, b: Operand) -> tuple[Operand, Operand]:
        if isinstance(a, Tensor) and isinstance(b, Tensor):
            return self.aligned(a, b)
        return a, b

    def _side(self, side: Operand, dtype: DType, needed: Level) -> Piece:
        if isinstance(side, Tensor):
            return Ref(side.id, needed)
        text, level = self.number(side, dtype)
        return text if level >= needed or not isinstance(text, str) else f"({text})"

    def pair(self, callee: str, a: Operand, b: Operand) -> Tensor:
        """A function of two operands, broadcast as NumPy does."""
        left, right = self._sides(a, b)
        dtype, shape = _common(left, right)
        parts = [(self._side(each, dtype, Level.PIPE),) for each in (left, right)]
        return self.add(Code((callee, "(", *listed(parts), ")"), Level.ATOM), dtype, shape)

    def where(self, condition: Tensor, then: Operand, otherwise: Operand) -> Tensor:
        """`then` where the condition holds, broadcast as NumPy does."""
        tensors = [each for each in (condition, then, otherwise) if isinstance(each, Tensor)]
        shape = self.broadcast_shape([each.shape for each in tensors])
        if not any(isinstance(each, Tensor) for each in (then, otherwise)):
            then = self.filled(then, DType.F32, shape)  # pyright: ignore[reportArgumentType] - no tensor
        dtype = next(each.dtype for each in (then, otherwise) if isinstance(each, Tensor))
        condition = self.fitted(condition, shape)
        sides = [
            self.fitted(each, shape) if isinstance(each, Tensor) else each
            for each in (then, otherwise)
        ]
        highest = max(each.rank for each in (condition, *sides) if isinstance(each, Tensor))
        if highest < len(shape):
            condition = self.expand(condition, shape)
        parts = [(self._side(each, dtype, Level.PIPE),) for each in (condition, *sides)]
        return self.add(Code(("where(", *listed(parts), ")"), Level.ATOM), dtype, shape)

    def negative(self, x: Tensor) -> Tensor:
        """-x."""
        return self.add(Code(("-", Ref(x.id, Level.SIGN)), Level.SIGN), x.dtype, x.shape)

    def inverted(self, x: Tensor) -> Tensor:
        """`not x` for truth values."""
        return self.add(Code(("not ", Ref(x.id, Level.NOT)), Level.NOT), x.dtype, x.shape)

    def power(self, x: Tensor, exponent: float) -> Tensor:
        """X ** k for a whole number, 0.5 or -0.5."""
        text = number_text(exponent) if exponent % 1 else str(int(exponent))
        pieces = (Ref(x.id, Level.ATOM), f" ** {text}")
        return self.add(Code(pieces, Level.POWER), x.dtype, x.shape)

    # --- broadcasting ----------------------------------------------------------------------------

    def broadcast_shape(self, shapes: Sequence[Shape]) -> Shape:
        """The common shape of NumPy's rules."""
        rank = max(map(len, shapes))
        padded = [(1,) * (rank - len(each)) + tuple(each) for each in shapes]
        return tuple(self._common_size(sizes) for sizes in zip(*padded, strict=True))

    def _common_size(self, sizes: Sequence[Size]) -> Size:
        others = [each for each in sizes if each != 1]
        if not others:
            return 1
        best = next((each for each in others if isinstance(each, int)), others[0])
        for each in others:
            if not self.same(each, best):
                self.need("==", each, best, "sizes do not broadcast")
        return best

    def aligned(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """Two tensors that meet as the language has them meet."""
        shape = self.broadcast_shape([a.shape, b.shape])
        a, b = self.fitted(a, shape), self.fitted(b, shape)
        if max(a.rank, b.rank) < len(shape):
            a = self.expand(a, shape)
        return a, b

    def fitted(self, x: Tensor, shape: Shape) -> Tensor:
        """`x` where the language broadcasts it to a shape: to the last axes, unstretched."""
        tail = shape[len(shape) - x.rank :]
        if all(size != 1 or wanted == 1 for size, wanted in zip(x.shape, tail, strict=True)):
            return x
        ones = 0
        while ones < x.rank and x.shape[ones] == 1:
            ones += 1
        rest = x.shape[ones:]
        if all(size != 1 or wanted == 1 for size, wanted in zip(rest, tail[ones:], strict=True)):
            return self.reshape(x, rest)
        return self.expand(x, shape)

    def expand(self, x: Tensor, shape: Shape) -> Tensor:
        """`x` repeated to a shape, aligned at the last axis."""
        offset = len(shape) - x.rank
        kept = [axis for axis in range(x.rank) if x.shape[axis] != 1 or (shape[axis + offset] == 1)]
        if offset == 0 and len(kept) == x.rank:
            return x
        squeezed = self.reshape(x, tuple(x.shape[axis] for axis in kept))
        names = self.letters(len(kept))
        source = ["[", *listed([(each,) for each in names]), "]"]
        target: list[tuple[Piece, ...]] = []
        given = iter(names)
        for axis, size in enumerate(shape):
            is_kept = axis - offset in kept
            target.append((next(given),) if is_kept else (size_piece(size),))
        pattern = (*source, " -> [", *listed(target), "]")
        return self.call("expand", squeezed, pattern, shape=shape)

    def along(self, vector: Tensor, axis: int, shape: Shape) -> Tensor:
        """A vector repeated to a shape of which it is one axis."""
        if axis == len(shape) - 1:
            return vector
        (name,) = self.letters(1)
        target = [(name,) if at == axis else (size_piece(size),) for at, size in enumerate(shape)]
        pattern = (f"[{name}] -> [", *listed(target), "]")
        return self.call("expand", vector, pattern, shape=shape)

    def letters(self, count: int) -> list[str]:
        """Names of axes that are not names of sizes."""
        known = [each for each in LETTERS if each not in self.size_names]
        known += [f"a{number}" for number in range(count)]
        return known[:count]

    # --- movement --------------------------------------------------------------------------------

    def transpose(self, x: Tensor, order: Sequence[int]) -> Tensor:
        """`x` with its axes in another order."""
        if list(order) == list(range(x.rank)):
            return x
        source: Pattern = tuple(() if size == 1 else (axis,) for axis, size in enumerate(x.shape))
        return self._moved(x, Move(source, tuple(source[axis] for axis in order)))

    def reshape(self, x: Tensor, shape: Shape) -> Tensor:
        """`x` in another shape of as many elements."""
        if self.same_shape(x.shape, shape):
            return x
        groups = self._groups(x.shape, shape)
        uneven = [len(left) > 1 and len(right) > 1 for left, right in groups]
        if any(uneven):
            flat = tuple(
                size
                for (left, _), joins in zip(groups, uneven, strict=True)
                for size in ((product(left),) if joins else left)
            )
            x = self.reshape(x, flat)
            groups = self._groups(x.shape, shape)
        return self._moved(x, split_and_joined(groups))

    def _moved(self, x: Tensor, move: Move) -> Tensor:
        """`x` rearranged; with the rearrangement that made it, as one."""
        before = self.moves.get(x.id)
        both = before[1].then(move) if before is not None else None
        if before is not None and both is not None:
            x, move = before[0], both
        shape = move.shape(x.shape)
        if move.is_nothing and self.same_shape(x.shape, shape):
            return x
        letters = self.letters(move.axes)
        built = self.call("rearrange", x, move.pieces(letters), shape=shape)
        self.moves[built.id] = (x, move)
        return built

    def _swapped_last(self, x: Tensor) -> Tensor:
        """`x`, of which the last two axes are swapped at last where a rearrangement turned them.

        A product reads matrices either way, and attention is found by keys that are turned alone.
        """
        found = self.moves.get(x.id)
        whole = found[1].before_swap if found is not None else None
        if found is None or whole is None or whole.is_nothing:
            return x
        apart = self._moved(found[0], whole)
        *rest, row, column = ((axis,) for axis in range(x.rank))
        swap = Move((*rest, row, column), (*rest, column, row))
        return self.call("rearrange", apart, swap.pieces(self.letters(x.rank)), shape=x.shape)

    def _groups(self, left: Shape, right: Shape) -> list[tuple[Shape, Shape]]:
        """Runs of axes of both shapes that have the same number of elements, as short as can be."""
        groups: list[tuple[Shape, Shape]] = []
        i = j = 0
        while i < len(left) or j < len(right):
            start, begin = i, j
            if i < len(left) and left[i] == 1:
                i += 1
            elif j < len(right) and right[j] == 1:
                j += 1
            else:
                i, j = self._matched(left, right, i, j)
            groups.append((left[start:i], right[begin:j]))
        return groups

    def _matched(self, left: Shape, right: Shape, i: int, j: int) -> tuple[int, int]:
        """The ends of the shortest runs from `i` and `j` that have as many elements."""
        ends = [(a, b) for a in range(i + 1, len(left) + 1) for b in range(j + 1, len(right) + 1)]
        for a, b in sorted(ends, key=sum):
            if product(left[i:a]) == product(right[j:b]):
                return a, b
        if i == len(left) or j == len(right):
            raise UnsupportedNodeError(f"{_shown(left)} has other elements than {_shown(right)}")
        self.need("==", product(left[i:]), product(right[j:]), "a reshape needs as many elements")
        return len(left), len(right)

    def between(self, x: Tensor, axis: int, start: Size, stop: Size) -> Tensor:
        """x[:, start:stop] along an axis."""
        size = x.shape[axis]
        if start == 0 and self.same(stop, size):
            return x
        before = () if start == 0 else (size_piece(start),)
        after = () if self.same(stop, size) else (size_piece(stop),)
        self.need(">=", stop - start, 1, "a slice has no elements")
        self.need(">=", size, stop, "a slice ends behind its axis")
        pieces = (Ref(x.id, Level.ATOM), "[", ":, " * axis, *before, ":", *after, "]")
        shape = (*x.shape[:axis], stop - start, *x.shape[axis + 1 :])
        return self.add(Code(pieces, Level.ATOM), x.dtype, shape)

    def entry(self, x: Tensor, axis: int, at: Size) -> Tensor:
        """x[:, at], without the axis."""
        pieces = (Ref(x.id, Level.ATOM), "[", ":, " * axis, size_piece(at), "]")
        shape = (*x.shape[:axis], *x.shape[axis + 1 :])
        return self.add(Code(pieces, Level.ATOM), x.dtype, shape)

    def strided(self, x: Tensor, axis: int, start: Size, count: Size, step: int) -> Tensor:
        """Every `step`-th entry along an axis, from `start` on; backwards for a negative step."""
        if step == -1:
            stop = start + 1
            part = self.between(x, axis, stop - count, stop)
            return self.call("reverse", part, (str(axis),), shape=part.shape)
        if step == 1:
            return self.between(x, axis, start, start + count)
        positions = self.binary("*", self.iota(count), step)
        if start != 0:
            positions = self.binary("+", positions, start)
        return self.gather(x, positions, axis)

    def gather(self, table: Tensor, ids: Tensor, axis: int, batch: int = 0) -> Tensor:
        """The slices that ids pick along an axis."""
        shape = (*table.shape[:axis], *ids.shape[batch:], *table.shape[axis + 1 :])
        config: list[tuple[Piece, ...]] = [(Ref(ids.id),)]
        if axis:
            config.append((f"axis={axis}",))
        if batch:
            config.append((f"batch={batch}",))
        return self.call("gather", table, *config, shape=shape)

    def concat(self, parts: Sequence[Tensor], axis: int) -> Tensor:
        """Tensors joined along an axis."""
        if len(parts) == 1:
            return parts[0]
        first = parts[0]
        for each in parts[1:]:
            for at, (left, right) in enumerate(zip(first.shape, each.shape, strict=True)):
                if at != axis:
                    self.need("==", left, right, "parts of a concatenation differ")
        total: Size = 0
        for each in parts:
            total = total + each.shape[axis]
        shape = (*first.shape[:axis], total, *first.shape[axis + 1 :])
        named = listed([*[(Ref(each.id),) for each in parts], (f"axis={axis}",)])
        return self.add(Code(("concat(", *named, ")"), Level.ATOM), first.dtype, shape)

    def pad(self, x: Tensor, axis: int, before: Size, after: Size, value: float = 0.0) -> Tensor:
        """`x` with one number before and after it along an axis; a negative amount cuts off."""
        if isinstance(before, int) and before < 0:
            x, before = self.between(x, axis, -before, x.shape[axis]), 0
        if isinstance(after, int) and after < 0:
            x, after = self.between(x, axis, 0, x.shape[axis] + after), 0
        if before == 0 and after == 0:
            return x
        shape = (*x.shape[:axis], x.shape[axis] + before + after, *x.shape[axis + 1 :])
        if value == 0 and x.dtype.is_float:
            parts: list[tuple[Piece, ...]] = [(str(axis),), (size_piece(before),)]
            parts += [(size_piece(after),)] if after != 0 else []
            return self.call("pad", x, *parts, shape=shape)
        ends = [
            [] if size == 0 else [
                self.filled(value, x.dtype, (*x.shape[:axis], size, *x.shape[axis + 1 :]))
            ]
            for size in (before, after)
        ]  # fmt: skip
        return self.concat([*ends[0], x, *ends[1]], axis)

    # --- reductions ------------------------------------------------------------------------------

    def reduce(self, callee: str, x: Tensor, axes: Sequence[int], *, keep: bool) -> Tensor:
        """A reduction along axes, which stay as axes of size 1 if they are kept."""
        axes = sorted(axes)
        shape = tuple(size for axis, size in enumerate(x.shape) if axis not in axes)
        built = x
        if axes:
            named = [] if len(axes) == x.rank else [(str(axis),) for axis in axes]
            built = self.call(callee, x, *named, shape=shape)
        if not keep:
            return built
        return self.reshape(
            built, tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))
        )

    def matmul(self, a: Tensor, b: Tensor) -> Tensor:
        """The product of matrices, whose other axes are equal."""
        b = self._swapped_last(b)
        pieces = (Ref(a.id, Level.PRODUCT), " @ ", Ref(b.id, Level.SIGN))
        shape = (*a.shape[:-1], b.shape[-1])
        return self.add(Code(pieces, Level.PRODUCT), a.dtype, shape)


def _common(left: Operand, right: Operand) -> tuple[DType, Shape]:
    tensors = [each for each in (left, right) if isinstance(each, Tensor)]
    if len({each.dtype for each in tensors}) > 1:
        raise UnsupportedNodeError(f"{tensors[0].type} meets {tensors[1].type}")
    larger = max(tensors, key=lambda each: each.rank)
    return larger.dtype, larger.shape


def _shown(shape: Shape) -> str:
    return f"[{', '.join(map(show, shape))}]"
