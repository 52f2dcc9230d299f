"""Arithmetic on tensors. The one place where a smaller operand is broadcast, and how."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from meganeura_dsl.diagnostics.problem import Help, ProblemError, Remark
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems import habits, origin_cures, resolution_cures
from meganeura_dsl.elaborate.problems.argument_cures import one_hot_cure
from meganeura_dsl.elaborate.problems.location import Location
from meganeura_dsl.elaborate.problems.name_problems import WrongKind
from meganeura_dsl.elaborate.problems.proof_failures import example_of, helpful_fact
from meganeura_dsl.elaborate.problems.shape_cures import elementwise_cure, product_cure, side_of
from meganeura_dsl.elaborate.problems.shape_problems import (
    ElementTypeMismatch,
    MissingFact,
    RankMismatch,
    ResultMismatch,
    ShapeMismatch,
    TypeRuleBroken,
)
from meganeura_dsl.elaborate.problems.window_cures import meeting_cure
from meganeura_dsl.elaborate.problems.written_numbers import numbers_cure
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.typecheck.index_ranges import check_chosen
from meganeura_dsl.elaborate.typecheck.round_numbers import lifted
from meganeura_dsl.elaborate.typecheck.round_numbers import number as round_number
from meganeura_dsl.elaborate.values import (
    ElabValue,
    Opaque,
    Tensor,
    describe,
    is_number,
    is_size,
    is_tensor,
    show_shape,
)
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.graph import Op
from meganeura_dsl.ir.interval_analysis import EXACT
from meganeura_dsl.ir.types import DType, Shape, TensorType
from meganeura_dsl.symbolic.assumptions import Compare, Proved, Verdict, show_condition
from meganeura_dsl.symbolic.size import Dim, Size, product, show
from meganeura_dsl.syntax import ast

ELEMENTWISE: dict[str, Op] = {
    "+": ops.Add(),
    "-": ops.Sub(),
    "*": ops.Mul(),
    "/": ops.Div(),
    "==": ops.Compare("eq"),
    "!=": ops.Compare("ne"),
    "<": ops.Compare("lt"),
    "<=": ops.Compare("le"),
    ">": ops.Compare("gt"),
    ">=": ops.Compare("ge"),
}

WHOLE: dict[str, type[ops.FloorDivide | ops.Remainder]] = {
    "//": ops.FloorDivide,
    "%": ops.Remainder,
}

LARGEST_POWER = 64


def scalar(
    frame: Frame, span: Span, value: float | Dim | Opaque, dtype: DType, shape: Shape = ()
) -> Tensor:
    """A number as a tensor of some shape, the same everywhere."""
    if isinstance(value, Dim) and frame.state.differs_by_round(value):
        number = cast(frame, span, round_number(frame, span, value), dtype)
        return broadcast(frame, span, number, shape, ())
    number = float("nan") if isinstance(value, Opaque) else value
    if dtype.is_float and isinstance(number, int):
        number = float(number)
    constant = frame.add(span, ops.Constant(number, dtype))
    return broadcast(frame, span, constant, shape, ())


def broadcast(
    frame: Frame, span: Span, value: Tensor, shape: Shape, axes: tuple[int, ...]
) -> Tensor:
    """The value repeated along every axis of `shape` that `axes` does not name."""
    if len(axes) == len(shape):
        return value
    return frame.add(span, ops.Broadcast(shape, axes), value)


def cast(frame: Frame, span: Span, value: Tensor, dtype: DType) -> Tensor:
    """The value converted to an element type, unless it has it already.

    A whole number that was written as a float, as `full` writes it, is the number that it was.
    """
    if value.type.dtype is dtype:
        return value
    number = _whole_number(value) if dtype is DType.I32 else None
    if number is not None:
        return scalar(frame, span, number, dtype, value.type.shape)
    return frame.add(span, ops.Cast(dtype), value)


def _whole_number(value: Tensor) -> Size | None:
    """The whole number that each element of a constant tensor is, if it is one."""
    source = value.operands[0] if isinstance(value.op, ops.Broadcast) else value
    match source.op:
        case ops.Constant(value=Dim() as number, dtype=DType.F32):
            return number
        case ops.Constant(value=float() as number, dtype=DType.F32) if abs(
            number
        ) < EXACT and number == int(number):
            return int(number)
        case _:
            return None


def promoted(frame: Frame, span: Span, *values: Tensor) -> tuple[Tensor, ...]:
    """The values, floats of the widest of their types where they are of several: f16 meets f32.

    That is exact. Nothing else is converted, as it may lose something.
    """
    floats = {value.type.dtype for value in values if value.type.dtype.is_float}
    if len(floats) < 2:
        return values
    return tuple(
        cast(frame, span, value, DType.F32) if value.type.dtype.is_float else value
        for value in values
    )


def elementwise(
    frame: Frame,
    span: Span,
    operator: str,
    left: ElabValue,
    right: ElabValue,
    names: tuple[str, str],
) -> Tensor:
    """`left operator right` where at least one side is a tensor."""
    if operator == "@":
        return matmul(frame, span, left, right, names)
    if operator == "**":
        return power(frame, span, left, right)
    if operator in ("and", "or"):
        return connect(frame, span, operator, left, right)
    if operator in WHOLE:
        return divide_whole(frame, span, operator, left, right, names)
    return apply_pair(frame, span, ELEMENTWISE[operator], operator, left, right, names)


def divide_whole(
    frame: Frame,
    span: Span,
    operator: str,
    left: ElabValue,
    right: ElabValue,
    names: tuple[str, str],
) -> Tensor:
    """`x // k` and `x % k` for a tensor of whole numbers and a size that is at least 1."""
    if is_tensor(left) and left.type.dtype.is_integer and is_size(right):
        return frame.add(span, WHOLE[operator](right), left)
    raise ProblemError(
        ElementTypeMismatch(
            frame.location(span),
            f"`{operator}` divides sizes, and tensors of whole numbers by sizes",
            f"{describe(left)} and {describe(right)}",
            _whole_division(operator, (left, right), names),
        )
    )


def _whole_division(
    operator: str, sides: tuple[ElabValue, ElabValue], names: tuple[str, str]
) -> str:
    """How `//` or `%` is written for tensors, as advice.

    For whole numbers a half is added, so that a quotient that is a little too small, as a GPU's
    division may be, is not rounded down to the number below: floor(x / y) = floor((x + 1/2) / y).
    """
    is_float = all(not is_tensor(side) or side.type.dtype.is_float for side in sides)
    x, y = (name if name.isalnum() else f"({name})" for name in names)
    if is_float:
        quotient = f"floor({x} / {y})"
    else:
        x_float, y_float = (
            f"f32({name})" if is_tensor(side) else text
            for name, side, text in zip(names, sides, (x, y), strict=True)
        )
        quotient = f"i32(floor(({x_float} + 0.5) / {y_float}))"
    written = quotient if operator == "//" else f"{x} - {y} * {quotient}"
    return f"write `{written}`" + ("" if is_float else ", if the numbers are below 2 ** 22")


def apply_pair(
    frame: Frame,
    span: Span,
    op: Op,
    operator: str,
    left: ElabValue,
    right: ElabValue,
    names: tuple[str, str],
) -> Tensor:
    """A binary op after both sides were brought to one shape."""
    a, b = promoted(frame, span, *lift(frame, span, left, right))
    if a.type.dtype is not b.type.dtype:
        what = f"the two sides of `{operator}` have different element types"
        found = f"{names[0]}: {a.type}\n{names[1]}: {b.type}"
        problem = ElementTypeMismatch(frame.location(span), what, found)
        whole = [
            name
            for name, side in zip(names, (a, b), strict=True)
            if side.type.dtype in (DType.I32, DType.U32, DType.BOOL)
        ]
        if len(whole) == 1 and "\n" not in whole[0]:
            of_classes = one_hot_cure(whole[0], *((a, b) if whole[0] == names[0] else (b, a)))
            cure = of_classes or Help("convert it", f"f32({whole[0]})")
            problem = replace(problem, cure=cure)
        raise ProblemError(problem)
    kept = _without_zero(frame, op, a, b)
    a, b = align(frame, span, operator, (a, b), names)
    return frame.add(span, op, a, b) if kept is None else kept


def _without_zero(frame: Frame, op: Op, a: Tensor, b: Tensor) -> Tensor | None:
    """The side of a sum whose other side is an optional tensor that was not given, and is 0."""
    neutral = frame.state.values.fill_values
    if isinstance(op, ops.Add | ops.Sub) and neutral.get(b.id) == 0 and a.type.rank >= b.type.rank:
        return a
    if isinstance(op, ops.Add) and neutral.get(a.id) == 0 and b.type.rank >= a.type.rank:
        return b
    return None


def lift(frame: Frame, span: Span, left: ElabValue, right: ElabValue) -> tuple[Tensor, Tensor]:
    """Both sides as tensors: a number takes the element type and shape of the other side."""
    left, right = (
        side if isinstance(side, Dim) else lifted(frame, span, side) for side in (left, right)
    )
    if is_tensor(left) and is_tensor(right):
        return left, right
    if is_tensor(left):
        return left, _like(frame, span, right, left)
    assert is_tensor(right)
    return _like(frame, span, left, right), right


def _like(frame: Frame, span: Span, value: ElabValue, other: Tensor) -> Tensor:
    dtype, shape = other.type.dtype, other.type.shape
    if (is_number(value) and dtype.is_float) or (is_size(value) and dtype.is_integer):
        return scalar(frame, span, value, dtype, shape)
    if isinstance(value, bool) and dtype is DType.BOOL:
        return scalar(frame, span, value, dtype, shape)
    fault = f"a tensor of {dtype.value} cannot meet {describe(value)}"
    raise ProblemError(ElementTypeMismatch(frame.location(span), fault, str(other.type)))


def align(
    frame: Frame, span: Span, operator: str, pair: tuple[Tensor, Tensor], names: tuple[str, str]
) -> tuple[Tensor, Tensor]:
    """Two tensors brought to one shape: the one of fewer axes meets the other's trailing axes."""
    left, right = pair
    larger, smaller = (left, right) if left.type.rank >= right.type.rank else (right, left)
    offset = larger.type.rank - smaller.type.rank
    for axis, size in enumerate(smaller.type.shape):
        verdict = equal(frame, larger.type.shape[offset + axis], size)
        if not isinstance(verdict, Proved):
            raise ProblemError(
                _mismatch(frame, span, operator, pair, names, (axis + offset, axis, verdict))
            )
    shape = larger.type.shape
    axes = tuple(range(offset, larger.type.rank))
    if offset == 0:
        return left, right
    repeated = broadcast(frame, span, smaller, shape, axes)
    return (left, repeated) if larger is left else (repeated, right)


def equal(frame: Frame, left: Size, right: Size) -> Verdict:
    """Whether two sizes are equal for all sizes the facts admit."""
    if left is right or left == right:
        return Proved()
    return frame.facts.decide(Compare("==", left, right))


def require_fit(frame: Frame, span: Span, what: str, wanted: TensorType, value: Tensor) -> None:
    """Refuse a value of another type than that of the place it is written to."""
    found = value.type
    pairs = zip(found.shape, wanted.shape, strict=False)
    same = found.dtype is wanted.dtype and found.rank == wanted.rank
    if not same or not all(isinstance(equal(frame, a, b), Proved) for a, b in pairs):
        raise ProblemError(
            ResultMismatch(frame.location(span), what, str(wanted), str(found), None)
        )


def _mismatch(
    frame: Frame,
    span: Span,
    operator: str,
    pair: tuple[Tensor, Tensor],
    names: tuple[str, str],
    found: tuple[int, int, Verdict],
) -> ShapeMismatch | MissingFact:
    left, right = pair
    large_axis, small_axis, verdict = found
    left_axis, right_axis = (
        (large_axis, small_axis) if left.type.rank >= right.type.rank else (small_axis, large_axis)
    )
    shapes = [(names[0], left.type.shape), (names[1], right.type.shape)]
    called = _arguments_of(span) if operator == "where" else {}
    written = (
        side_of(called.get(names[0], names[0]), left.type.shape),
        side_of(called.get(names[1], names[1]), right.type.shape),
    )
    example = example_of(verdict, shapes)
    sizes = left.type.shape[left_axis], right.type.shape[right_axis]
    fact = helpful_fact(frame.facts, Compare("==", *sizes))
    location = frame.location(span)
    if fact is not None and not frame.choices.words:
        texts = tuple(
            (f"axis {axis} of {name} is", show(size))
            for axis, name, size in zip((left_axis, right_axis), names, sizes, strict=True)
        )
        what = f"the two sides of `{operator}` agree"
        return MissingFact(location, what, texts[0], texts[1], example, show_condition(fact))
    changed = _changes(
        frame, ((names[0], left, left_axis, sizes[1]), (names[1], right, right_axis, sizes[0]))
    )
    axes = tuple(
        f"axis {axis} of {name} is {show(size)}"
        for axis, name, size in zip((left_axis, right_axis), names, sizes, strict=True)
    )
    shown = [(name, show_shape(shape)) for name, shape in shapes]
    cure = elementwise_cure(*written, frame.names) or _window_cure(frame, left, right)
    cure = cure or _cure_by_origin(frame, span, pair, names, (left_axis, right_axis), changed)
    cure = cure or numbers_cure(pair, (left_axis, right_axis), frame.state.values.source_of)
    cure = cure or _general_cure(shown, changed, sizes, on_a_path=bool(frame.choices.words))
    return ShapeMismatch(
        location, operator, shown[0], shown[1], example, changed, ", ".join(axes), cure
    )


def _arguments_of(span: Span) -> dict[str, str]:
    """How the arguments of a `where` are written, by what they are called in messages."""
    inside = " ".join(span.text.split()).partition("(")[2].removesuffix(")")
    names = ("the condition", "then", "otherwise")
    return dict(zip(names, habits.top_level(inside), strict=False))


def _window_cure(frame: Frame, left: Tensor, right: Tensor) -> Help | None:
    """The padding of the windows of one side by which both have one size."""

    def same(one: Size, other: Size) -> bool:
        return isinstance(equal(frame, one, other), Proved)

    return meeting_cure((left, right), same, frame.state.values.source_of)


def _cure_by_origin(
    frame: Frame,
    span: Span,
    pair: tuple[Tensor, Tensor],
    names: tuple[str, str],
    axes: tuple[int, int],
    changed: Sequence[tuple[str, Location]],
) -> Help | None:
    """Advice by what computed the sides, where no axes of one are those of the other."""

    def same(left: Size, right: Size) -> bool:
        return isinstance(equal(frame, left, right), Proved)

    left, right = pair
    sizes = left.type.shape[axes[0]], right.type.shape[axes[1]]
    block = frame.declaration
    config = (
        {each.name for each in block.parameters} if isinstance(block, ast.Block) else set[str]()
    )
    cure = origin_cures.filled_cure(pair, sizes)
    cure = cure or origin_cures.other_reduction(left, right.type.shape, same)
    cure = cure or origin_cures.other_reduction(right, left.type.shape, same)
    written = block.span.text if block is not None else ""
    for size in sizes:
        cure = cure or origin_cures.patches_cure(written, show(size))
    for place in (0, 1):
        size, at = sizes[1 - place], axes[place]
        cure = cure or origin_cures.parameter_cure(
            names[place], at, size, span, frame.names, config
        )
    if cure is None and not frame.choices.words:
        cure = _other_resolution(frame, pair, names, same)
    if changed and cure is None and not frame.choices.words:
        (name, _), *_ = changed
        sides = [(names[at], pair[at].type.shape) for at in (0, 1)]
        if axes[0] == axes[1]:
            sides.sort(key=lambda side: side[0] == name)
            cure = origin_cures.projection_cure(
                sides[0], sides[1], axes[0], config | _given_to_layers(frame)
            )
    return cure


def _other_resolution(
    frame: Frame,
    pair: tuple[Tensor, Tensor],
    names: tuple[str, str],
    same: Callable[[Size, Size], bool],
) -> Help | None:
    """Advice for two sides of which one has other rows and columns."""
    left, right = ((names[at], pair[at]) for at in (0, 1))
    source_of = frame.state.values.source_of
    cure = None
    for kept, changed in ((left, right), (right, left)):
        cure = cure or resolution_cures.shortcut_cure(kept, changed, same, source_of)
    return cure or resolution_cures.rescaled_cure(left, right, same)


def _given_to_layers(frame: Frame) -> set[str]:
    """The names by which the block says how many channels a layer makes, as `4 * d` has."""
    text = frame.declaration.span.text if frame.declaration is not None else ""
    calls = re.findall(r"\b(?:linear|conv[123]d|conv_transpose[123]d)\(([^,()]*)", text)
    return {name for each in calls for name in re.findall(r"[A-Za-z_]\w*", each)}


def _general_cure(
    sides: Sequence[tuple[str, str]],
    changed: Sequence[tuple[str, Location]],
    sizes: tuple[Size, Size],
    *,
    on_a_path: bool,
) -> Help:
    """Advice where no axes of one side are those of the other."""
    first, second = map(show, sizes)
    if 1 in sizes:
        return Help("an axis of size 1 is never stretched: repeat it with expand")
    if on_a_path:
        return Help(
            f"nothing makes {first} and {second} equal on this path: bring one side to the shape\n"
            "of the other here as well, or change the condition that leads here"
        )
    if changed:
        (name, _), *_ = changed
        other = next((each for each, _ in sides if each != name), name)
        return Help(
            f"`{name}` had this size before: keep it there, or bring `{other}` to the new one\n"
            "as well, as a projection on a shortcut does"
        )
    text = f"nothing makes {first} and {second} equal: move, repeat or project the axes of one side"
    if first.isidentifier() and second.isidentifier():
        text += ";\nif both are one size, write it with one name where they come from"
    return Help(text)


def _changes(
    frame: Frame, sides: Sequence[tuple[str, Tensor, int, Size]]
) -> tuple[tuple[str, Location], ...]:
    """Where each side got its size on the axis in question, if it once had the other's."""

    def same(left: Size, right: Size) -> bool:
        return isinstance(equal(frame, left, right), Proved)

    found = (
        (name, origin_cures.changed_at(side, axis, to, same)) for name, side, axis, to in sides
    )
    return tuple(
        (name, Location(value.origin.span, value.origin.path))
        for name, value in found
        if value is not None and value.origin.span is not None
    )


def matmul(
    frame: Frame, span: Span, left: ElabValue, right: ElabValue, names: tuple[str, str]
) -> Tensor:
    """`left @ right`: the last axis of the left meets the last but one of the right."""
    for side in (left, right):
        location = frame.location(span)
        if not is_tensor(side):
            raise ProblemError(WrongKind(location, "tensors around `@`", describe(side)))
        if side.type.rank < 1:
            wanted = "two tensors with axes"
            raise ProblemError(RankMismatch(location, "`@`", wanted, describe(side)))
    assert is_tensor(left)
    assert is_tensor(right)
    try:
        return frame.add(span, ops.MatMul(), *promoted(frame, span, left, right))
    except ProblemError as error:
        if not isinstance(error.problem, TypeRuleBroken | MissingFact):
            raise
        raise ProblemError(_product_problem(frame, span, (left, right), names)) from error


def _product_problem(
    frame: Frame, span: Span, pair: tuple[Tensor, Tensor], names: tuple[str, str]
) -> TypeRuleBroken:
    """What is wrong with a product of matrices, in the notation of the program."""
    left, right = (value.type for value in pair)
    found = "\n".join(f"{name}: {value.type}" for name, value in zip(names, pair, strict=True))
    location = frame.location(span)
    if left.dtype is not right.dtype or not left.dtype.is_float:
        what = "`@` multiplies floats of one type"
        return TypeRuleBroken(location, what, found, Help("convert with f32(...)"))
    sides = side_of(names[0], left.shape), side_of(names[1], right.shape)
    cure = product_cure(*sides, frame.names, _declared_rank(frame, span, names))
    if right.rank < 2 or right.rank not in (left.rank, 2):
        what = "`@` has the same leading axes on both sides, or one matrix on its right"
        return TypeRuleBroken(location, what, found, cure)
    inner, depth = left.shape[-1], right.shape[-2]
    if isinstance(equal(frame, inner, depth), Proved):
        what = "the two sides of `@` have other leading axes"
        return TypeRuleBroken(location, what, found, cure)
    axes = (
        f"axis {left.rank - 1} of {names[0]} is {show(inner)}, "
        f"axis {right.rank - 2} of {names[1]} is {show(depth)}"
    )
    what = "the two sides of `@` do not meet"
    return TypeRuleBroken(location, what, found, cure, (Remark("summed over", axes),))


def _declared_rank(frame: Frame, span: Span, names: tuple[str, str]) -> int | None:
    """How many axes the block declares for a product that it returns as it is."""
    block = frame.declaration
    line = span.source.line(span.line).strip()
    results = (block.results or ()) if isinstance(block, ast.Block) else ()
    if len(results) != 1 or not line.startswith(("return ", "block ")):
        return None
    if not re.search(rf"(?:^return|=) {re.escape(names[0])} @ {re.escape(names[1])}$", line):
        return None
    return len(results[0].shape.entries)


def power(frame: Frame, span: Span, left: ElabValue, right: ElabValue) -> Tensor:
    """`x ** k` for a whole number k of either sign, 0.5 or -0.5."""
    exponents = f"a whole exponent from -{LARGEST_POWER} to {LARGEST_POWER}, 0.5 or -0.5"
    location = frame.location(span)
    if not is_tensor(left):
        cure = habits.of_power(span) if is_tensor(right) and right.type.dtype.is_float else ""
        raise ProblemError(WrongKind(location, "a tensor left of `**`", describe(left), cure))
    if not left.type.dtype.is_float:
        what = "`**` takes floats on its left"
        raise ProblemError(ElementTypeMismatch(location, what, str(left.type)))
    if isinstance(right, float) and abs(right) == 0.5:
        root = frame.add(span, ops.Sqrt(), left)
        return root if right > 0 else _reciprocal(frame, span, root)
    if isinstance(right, float) and right.is_integer():
        right = int(right)
    if not isinstance(right, int) or isinstance(right, bool) or abs(right) > LARGEST_POWER:
        raise ProblemError(WrongKind(location, exponents, describe(right), habits.of_power(span)))
    if right == 0:
        return scalar(frame, span, 1.0, left.type.dtype, left.type.shape)
    result = _repeated_square(frame, span, left, abs(right))
    return result if right > 0 else _reciprocal(frame, span, result)


def _repeated_square(frame: Frame, span: Span, base: Tensor, exponent: int) -> Tensor:
    result: Tensor | None = None
    while True:
        if exponent & 1:
            result = base if result is None else frame.add(span, ops.Mul(), result, base)
        exponent >>= 1
        if not exponent:
            assert result is not None
            return result
        base = frame.add(span, ops.Mul(), base, base)


def _reciprocal(frame: Frame, span: Span, value: Tensor) -> Tensor:
    one = scalar(frame, span, 1.0, value.type.dtype, value.type.shape)
    return frame.add(span, ops.Div(), one, value)


def connect(frame: Frame, span: Span, operator: str, left: ElabValue, right: ElabValue) -> Tensor:
    """`p and q`, `p or q` on bool tensors: where(p, q, false) and where(p, true, q)."""
    a, b = lift(frame, span, left, right)
    a, b = align(frame, span, operator, (a, b), ("left", "right"))
    absorbing = scalar(frame, span, operator == "or", DType.BOOL, a.type.shape)
    branches = (b, absorbing) if operator == "and" else (absorbing, b)
    return frame.add(span, ops.Where(), a, *branches)


def invert_tensor(frame: Frame, span: Span, value: Tensor) -> Tensor:
    """`not p` on a bool tensor."""
    no = scalar(frame, span, 0, DType.BOOL, value.type.shape)
    yes = scalar(frame, span, 1, DType.BOOL, value.type.shape)
    return frame.add(span, ops.Where(), value, no, yes)


def reduce_sum(frame: Frame, span: Span, value: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The sum over some axes, which disappear."""
    if not axes:
        return value
    check_chosen(frame, span, value)
    return frame.add(span, ops.Sum(axes), value)


def reduce_mean(frame: Frame, span: Span, value: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The mean over some axes; of a bool tensor, the fraction that is true."""
    value = value if value.type.dtype.is_float else cast(frame, span, value, DType.F32)
    count = product(value.type.shape[axis] for axis in axes)
    total = reduce_sum(frame, span, value, axes)
    divisor = scalar(frame, span, count, value.type.dtype, total.type.shape)
    return frame.add(span, ops.Div(), total, divisor)
