"""Makes statements, with the broadcasting and the reshaping of ONNX written out.

Shapes are computed as the statements are made, over symbolic sizes. What has to be true of sizes is
assumed once and becomes a condition of the program; the checker proves all of it again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.types import DType, Shape, TensorType
from meganeura_dsl.symbolic.assumptions import Facts
from meganeura_dsl.symbolic.conditions import Compare, Operator
from meganeura_dsl.symbolic.size import Dim, Size, product, show
from meganeura_runtime.importing.onnx.code import (
    Applied,
    Code,
    Count,
    Declared,
    Expression,
    Level,
    Limits,
    Piece,
    Ref,
    Rounding,
    Statement,
    Tensor,
    Words,
    bracketed,
    listed,
    size_piece,
)
from meganeura_runtime.importing.onnx.levels import Levels
from meganeura_runtime.importing.onnx.moves import Move, Pattern, split_and_joined

BINARY: dict[str, Level] = {
    "+": Level.SUM, "-": Level.SUM, "*": Level.PRODUCT, "/": Level.PRODUCT, "%": Level.PRODUCT,
    "//": Level.PRODUCT, "@": Level.PRODUCT, "==": Level.COMPARE, "!=": Level.COMPARE,
    "<": Level.COMPARE, "<=": Level.COMPARE, ">": Level.COMPARE, ">=": Level.COMPARE,
    "and": Level.AND, "or": Level.OR,
}  # fmt: skip
LETTERS = "abcdefghijklmnopqrstuvwxyz"

Operand = Tensor | float | Size


class UnsayableError(Exception):
    """A node cannot be said in the language; the text says why."""


@dataclass
class Stored:
    """A parameter of the program, and where its values come from."""

    words: Words
    kind: str
    type: TensorType
    values: Array
    origin: str
    """The initializer, or empty for what the importer made."""
    levels: Levels | None = None
    """The levels that the values are in the file, if they are."""
    is_constant: bool = False
    """True if the layer that declares it is frozen."""

    @property
    def is_trained(self) -> bool:
        """True if training moves it."""
        return self.kind == "param" and not self.is_constant


@dataclass(frozen=True)
class Kept:
    """The place of an initializer in the program."""

    words: Words
    type: TensorType
    is_turned: bool = False
    """True if it is kept transposed."""


@dataclass
class Builder:
    """The statements so far."""

    size_names: frozenset[str] = frozenset()
    """The names of sizes that the inputs have."""
    facts: Facts = field(default_factory=Facts)
    statements: list[Statement] = field(default_factory=list[Statement])
    stored: dict[str, Stored] = field(default_factory=dict[str, Stored])
    kept: dict[str, Kept] = field(default_factory=dict[str, Kept])
    """The initializers that are parameters already."""
    constants: dict[object, Tensor] = field(default_factory=dict[object, Tensor])
    """The constants without a name, by what they hold."""
    layers: dict[object, Words] = field(default_factory=dict[object, Words])
    """The labels of the layers: by what they are and the initializers they keep."""
    helpers: dict[str, str] = field(default_factory=dict[str, str])
    """Blocks that statements apply and the library lacks: their texts, by name."""
    moves: dict[int, tuple[Tensor, Move]] = field(default_factory=dict[int, tuple[Tensor, Move]])
    """The values that are rearranged, and of what."""
    counters: set[int] = field(default_factory=set[int])
    """The values that random numbers are drawn from, which no statement gives."""
    sizes: dict[int, Size] = field(default_factory=dict[int, Size])
    """The values that are sizes written as numbers of another type."""
    limits: dict[int, Limits] = field(default_factory=dict[int, Limits])
    """The values that have fewer than 32 bits in the file."""
    floats: dict[int, Tensor] = field(default_factory=dict[int, Tensor])
    """The f32 values that such values are made of."""
    quantized: dict[int, Rounding] = field(default_factory=dict[int, Rounding])
    """The floats of which some of these are levels."""
    dequantized: dict[str, object] = field(default_factory=dict[str, object])
    """The scales and zero points of initializers that stand for what they are dequantized to."""
    _count: int = 0
    _codes: dict[int, Expression] = field(default_factory=dict[int, Expression])
    stated: list[Compare] = field(default_factory=list[Compare])
    """The conditions on sizes that the program states."""
    _needs: list[Compare] = field(default_factory=list[Compare])

    # --- statements ------------------------------------------------------------------------------

    def fresh(self, dtype: DType, shape: Sequence[Size]) -> Tensor:
        """A value that no statement has yet."""
        self._count += 1
        return Tensor(self._count, TensorType(dtype, tuple(shape)))

    def add(self, code: Expression, dtype: DType, shape: Sequence[Size]) -> Tensor:
        """The value of an expression."""
        return self.add_all(code, [(dtype, shape)])[0]

    def add_all(
        self, code: Expression, types: Sequence[tuple[DType, Sequence[Size]]]
    ) -> tuple[Tensor, ...]:
        """The values of an expression that has several."""
        results = tuple(self.fresh(*each) for each in types)
        for each in results:
            for size in each.shape:
                self.need(">=", size, 1, "an axis has no elements")
        self.statements.append(Statement(results, code, tuple(self._needs)))
        self._codes[results[0].id] = code
        self._needs.clear()
        return results

    def drop_from(self, before: int) -> None:
        """Take back the statements from one on, and the constants that they declare."""
        dropped = {each.id for one in self.statements[before:] for each in one.results}
        del self.statements[before:]
        self.constants = {
            key: value for key, value in self.constants.items() if value.id not in dropped
        }

    def applied(self, value: Tensor) -> Applied | None:
        """The function or layer that gives a value, if it is the result of one."""
        code = self._codes.get(value.id)
        return code if isinstance(code, Applied) else None

    def one_more_than(self, value: Tensor) -> Tensor | None:
        """The tensor that a value is one more than, if it is written so."""
        code = self._codes.get(value.id)
        if not isinstance(code, Code):
            return None
        match code.pieces:
            case (Ref(value=source), " + ", str(number)) | (str(number), " + ", Ref(value=source)):
                return Tensor(source, value.type) if number in ("1", "1.0") else None
            case _:
                return None

    def is_iota(self, value: Tensor) -> bool:
        """True if a vector counts from 0."""
        code = self._codes.get(value.id)
        return isinstance(code, Code) and code.pieces[0] == "iota("

    def is_zero(self, value: Tensor) -> bool:
        """True if a value is seen to be 0 everywhere."""
        code = self._codes.get(value.id)
        if isinstance(code, Applied) and code.callee in ("expand", "rearrange"):
            code = self._codes.get(code.source)
        return isinstance(code, Code) and code.pieces[0] == "zeros("

    def call(
        self,
        callee: str,
        x: Tensor,
        *config: tuple[Piece, ...],
        shape: Sequence[Size],
        dtype: DType | None = None,
    ) -> Tensor:
        """A built-in function of a tensor."""
        return self.add(Applied(x.id, callee, listed(config)), dtype or x.dtype, shape)

    def block(
        self,
        callee: str,
        x: Tensor,
        *config: tuple[Piece, ...],
        shape: Sequence[Size] | None = None,
        label: Words | None = None,
        dtype: DType | None = None,
    ) -> Tensor:
        """A layer of the library applied to a tensor."""
        code = Applied(x.id, callee, listed(config), (), label, is_block=True)
        return self.add(code, dtype or x.dtype, x.shape if shape is None else shape)

    def elementwise(self, callee: str, x: Tensor) -> Tensor:
        """A function that keeps the shape."""
        return self.call(callee, x, shape=x.shape)

    def need(self, operator: Operator, left: Size, right: Size, otherwise: str) -> None:
        """See to it that sizes are related so: known, or assumed, or refused."""
        condition = Compare(operator, left, right)
        if isinstance(left, int) and isinstance(right, int):
            holds = {"==": left == right, ">=": left >= right}.get(operator)
            if not holds:
                raise UnsayableError(f"{otherwise}: {left} {operator} {right} does not hold")
            return
        if self.facts.proves(condition):
            return
        if self.facts.example(condition) is None:
            raise UnsayableError(f"{otherwise}: {condition} never holds")
        self.state(condition)
        self._needs.append(condition)

    def state(self, condition: Compare) -> None:
        """Assume a condition, and state it in the program."""
        self.facts = self.facts.assume(condition)
        self.stated.append(condition)

    def same(self, left: Size, right: Size) -> bool:
        """True if two sizes are known to be equal."""
        if left == right:
            return True
        if isinstance(left, int) and isinstance(right, int):
            return False
        return self.facts.proves(Compare("==", left, right))

    def same_shape(self, left: Sequence[Size], right: Sequence[Size]) -> bool:
        """True if two shapes are known to be equal."""
        return len(left) == len(right) and all(map(self.same, left, right))

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
                raise UnsayableError("a whole number has more than 32 bits")
            return str(int(value)), Level.ATOM if value >= 0 else Level.SIGN
        if not np.isfinite(value):
            raise UnsayableError(f"there is no number {value} in the language")
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
                raise UnsayableError(f"{value} is too large a whole number to be filled in")
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
            raise UnsayableError(f"{_shown(left)} has other elements than {_shown(right)}")
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
        pieces = (Ref(a.id, Level.PRODUCT), " @ ", Ref(b.id, Level.SIGN))
        shape = (*a.shape[:-1], b.shape[-1])
        return self.add(Code(pieces, Level.PRODUCT), a.dtype, shape)


def _common(left: Operand, right: Operand) -> tuple[DType, Shape]:
    tensors = [each for each in (left, right) if isinstance(each, Tensor)]
    if len({each.dtype for each in tensors}) > 1:
        raise UnsayableError(f"{tensors[0].type} meets {tensors[1].type}")
    larger = max(tensors, key=lambda each: each.rank)
    return larger.dtype, larger.shape


def number_text(value: float) -> str:
    """The shortest text of a 32-bit number."""
    if value.is_integer() and abs(value) < 1 << 24:
        return f"{value:.1f}"
    single = np.float32(value)
    if np.isfinite(single) and float(single) == value:
        return _short(str(single))
    return _short(repr(value))


def _short(text: str) -> str:
    """A number without the zeros that Python writes in exponents."""
    digits, _, exponent = text.partition("e")
    return f"{digits}e{int(exponent)}" if exponent else text


def _shown(shape: Shape) -> str:
    return f"[{', '.join(map(show, shape))}]"
