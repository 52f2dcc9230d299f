"""A terse way to write graphs in tests."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from meganeura_dsl.ir.graph import Builder, Graph, Op, Value
from meganeura_dsl.ir.ops import (
    Add,
    Broadcast,
    Compare,
    Concat,
    Conv,
    Cos,
    Div,
    Exp,
    Input,
    Iota,
    Log,
    Log1p,
    Logistic,
    MatMul,
    Mul,
    Neg,
    Parameter,
    ReduceMax,
    Reshape,
    Sin,
    Slice,
    Sqrt,
    StopGradient,
    Sub,
    Sum,
    Transpose,
    Where,
)
from meganeura_dsl.ir.ops.primitive.broadcast import full, others
from meganeura_dsl.ir.ops.primitive.leaf import Kind
from meganeura_dsl.ir.types import DType


@dataclass
class Net:
    """A builder whose leaves are named as they come: x0, x1, ... and w0, w1, ..."""

    build: Builder = field(default_factory=Builder)
    leaves: int = 0

    def do(self, op: Op, *operands: Value) -> Value:
        """One op."""
        return self.build.add(op, *operands)

    def x(self, *shape: int, dtype: DType = DType.F32, name: str = "x") -> Value:
        """Data."""
        self.leaves += 1
        return self.do(Input(f"{name}{self.leaves}", dtype, shape))

    def w(self, *shape: int, kind: Kind = "param", name: str = "w") -> Value:
        """A parameter."""
        self.leaves += 1
        return self.do(Parameter(f"{name}{self.leaves}", DType.F32, shape, kind))

    def full(self, value: float, like: Value) -> Value:
        """One number everywhere."""
        return full(self.build, like.type, value)

    def spread(self, x: Value, like: Value, *axes: int) -> Value:
        """Copies of x, whose axes become these."""
        return self.do(Broadcast(like.type.shape, axes), x)

    def over(self, x: Value, like: Value, axis: int) -> Value:
        """Copies of x along one new axis."""
        return self.spread(x, like, *others((axis,), like.type.rank))

    def graph(self, *outputs: Value, updates: dict[str, Value] | None = None) -> Graph:
        """The graph of these outputs."""
        return self.build.graph({f"y{place}": y for place, y in enumerate(outputs)}, updates)

    # --- what the standard library writes ---------------------------------------------------------

    def relu(self, x: Value) -> Value:
        """where(x <= 0, 0, x)."""
        zero = self.full(0, x)
        return self.do(Where(), self.do(Compare("le"), x, zero), zero, x)

    def sigmoid(self, x: Value) -> Value:
        """logistic(x)."""
        return self.do(Logistic(), x)

    def softplus(self, x: Value, bound: float = 0.0) -> Value:
        """log1p(exp(where(x <= 0, x, -x))) + relu(x)."""
        below = self.do(Compare("le"), x, self.full(bound, x))
        size = self.do(Where(), below, x, self.do(Neg(), x))
        return self.do(Add(), self.do(Log1p(), self.do(Exp(), size)), self.relu(x))

    def halved(self, x: Value, curve: Value) -> Value:
        """0.5 x (1 + curve)."""
        half = self.do(Mul(), self.full(0.5, x), x)
        return self.do(Mul(), half, self.do(Add(), self.full(1, x), curve))

    def mean(self, x: Value, *axes: int, count: int | None = None) -> Value:
        """The sum over axes by the count."""
        total = self.do(Sum(axes), x)
        sizes = [size for axis, size in enumerate(x.type.shape) if axis in axes]
        found = 1
        for size in sizes:
            assert isinstance(size, int)
            found *= size
        return self.do(Div(), total, self.full(count or found, total))

    def centred(self, x: Value, *axes: int) -> Value:
        """The difference to the mean."""
        mean = self.mean(x, *axes)
        return self.do(Sub(), x, self.spread(mean, x, *others(axes, x.type.rank)))

    def root(self, x: Value, *axes: int, eps: float = 1e-5) -> Value:
        """sqrt(mean(x**2) + eps), spread back."""
        square = self.mean(self.do(Mul(), x, x), *axes)
        root = self.do(Sqrt(), self.do(Add(), square, self.full(eps, square)))
        return self.spread(root, x, *others(axes, x.type.rank))

    def standardized(self, x: Value, *axes: int) -> Value:
        """Centred, and divided by the deviation."""
        centred = self.centred(x, *axes)
        return self.do(Div(), centred, self.root(centred, *axes))

    def group_standardized(self, x: Value, groups: int, split: int | None = None) -> Value:
        """Standardized in groups of channels; the deviation may wrongly be of other groups."""
        batch, channels, *rest = (size for size in x.type.shape if isinstance(size, int))

        def grouped(count: int) -> Value:
            return self.do(Reshape((batch, count, channels // count, *rest)), x)

        def back(inner: Value) -> Value:
            return self.do(Reshape(x.type.shape), inner)

        inner = grouped(groups)
        axes = tuple(range(2, inner.type.rank))
        mean = self.spread(self.mean(inner, *axes), inner, 0, 1)
        centred = self.do(Sub(), x, back(mean))
        other = inner if split is None else grouped(split)
        root = self.root(self.centred(other, *axes), *axes)
        return self.do(Div(), centred, back(root))

    def affine(self, x: Value, scale: Value, shift: Value, *axes: int) -> Value:
        """X scale + shift, which lie along axes."""
        scaled = self.do(Mul(), x, self.spread(scale, x, *axes))
        return self.do(Add(), scaled, self.spread(shift, x, *axes))

    def shifted(self, x: Value, axis: int, largest_over: int | None = None) -> Value:
        """X - max(x)."""
        over = axis if largest_over is None else largest_over
        largest = self.do(StopGradient(), self.do(ReduceMax((over,)), x))
        return self.do(Sub(), x, self.over(largest, x, over))

    def softmax(self, x: Value, axis: int) -> Value:
        """exp(x - max(x)) / sum."""
        powers = self.do(Exp(), self.shifted(x, axis))
        return self.do(Div(), powers, self.over(self.do(Sum((axis,)), powers), x, axis))

    def log_softmax(self, x: Value, axis: int) -> Value:
        """X - max(x) - log(sum)."""
        shifted = self.shifted(x, axis)
        total = self.do(Log(), self.do(Sum((axis,)), self.do(Exp(), shifted)))
        return self.do(Sub(), shifted, self.over(total, x, axis))

    def scores(self, q: Value, k: Value, scale: float) -> Value:
        """Scale q k^T."""
        product = self.do(MatMul(transpose_right=True), q, k)
        return self.do(Mul(), product, self.full(scale, product))

    def causal(
        self, scores: Value, kind: str = "gt", fill: float = -1e30, window: int | None = None
    ) -> Value:
        """where(column > row or row - column >= window, -1e30, scores), or another comparison."""
        rank = scores.type.rank
        size = scores.type.shape[-1]
        square = (size, size)
        index = self.do(Iota(size))
        down, along = (self.do(Broadcast(square, (axis,)), index) for axis in (0, 1))
        back = self.do(Sub(), down, along)
        if kind == "difference":
            hidden = self.do(Compare("lt"), back, self.full(0, back))
        else:
            hidden = self.do(Compare("gt" if kind == "gt" else "ge"), along, down)
        if window is not None:
            behind = self.do(Compare("ge"), back, self.full(window, back))
            pair = (hidden, behind) if kind == "difference" else (behind, hidden)
            hidden = self.do(Where(), pair[0], self.full(value=True, like=hidden), pair[1])
        return self.do(
            Where(),
            self.spread(hidden, scores, rank - 2, rank - 1),
            self.full(fill, scores),
            scores,
        )

    def repeated(self, x: Value, axis: int, count: int) -> Value:
        """X with every row along an axis `count` times in a row."""
        shape = tuple(size for size in x.type.shape if isinstance(size, int))
        parts = (*shape[: axis + 1], count, *shape[axis + 1 :])
        copies = self.do(Broadcast(parts, others((axis + 1,), len(parts))), x)
        whole = (*shape[:axis], shape[axis] * count, *shape[axis + 1 :])
        return self.do(Reshape(whole), copies)

    def projected(
        self, x: Value, outputs: int, *, transposed: bool = True, biased: bool = False
    ) -> Value:
        """X times a parameter that may be stored transposed, plus perhaps a bias."""
        width = x.type.shape[-1]
        assert isinstance(width, int)
        if transposed:
            y = self.do(MatMul(transpose_right=True), x, self.w(outputs, width))
        else:
            y = self.do(MatMul(), x, self.w(width, outputs))
        if not biased:
            return y
        return self.do(Add(), y, self.spread(self.w(outputs), y, y.type.rank - 1))

    def headed(self, x: Value, heads: int) -> Value:
        """[n, s, heads * d] as [n, heads, s, d]."""
        batch, rows, width = (size for size in x.type.shape if isinstance(size, int))
        split = self.do(Reshape((batch, rows, heads, width // heads)), x)
        return self.do(Transpose((0, 2, 1, 3)), split)

    def halves(self, x: Value, middle: int | None = None) -> tuple[Value, Value]:
        """The two parts of the last axis."""
        *rest, width = (size for size in x.type.shape if isinstance(size, int))
        at = width // 2 if middle is None else middle
        zeros, ones = (0,) * x.type.rank, (1,) * x.type.rank
        left = self.do(Slice(zeros, (*rest, at), ones), x)
        return left, self.do(Slice((*zeros[:-1], at), (*rest, width), ones), x)

    def rotated(self, x: Value, left: Value, right: Value, angle: Value) -> Value:
        """[left cos - right sin, right cos + left sin], by angles of the last two axes."""
        rank = x.type.rank
        c, s = (self.spread(self.do(op, angle), left, rank - 2, rank - 1) for op in (Cos(), Sin()))
        one = self.do(Sub(), self.do(Mul(), left, c), self.do(Mul(), right, s))
        other = self.do(Add(), self.do(Mul(), right, c), self.do(Mul(), left, s))
        return self.do(Concat(rank - 1), one, other)

    def conv(
        self,
        x: Value,
        w: Value,
        padding: int | Sequence[int] = 0,
        stride: int = 1,
        dilation: int = 1,
        groups: int = 1,
    ) -> Value:
        """A convolution with equal stride and dilation along all axes."""
        rank = x.type.rank - 2
        around = (padding,) * rank if isinstance(padding, int) else tuple(padding)
        return self.do(Conv((stride,) * rank, around, (dilation,) * rank, groups), x, w)

    def batch_norm(self, x: Value) -> Value:
        """(x - mean) (weight / sqrt(var + eps)) + bias, of running statistics."""
        size = x.type.shape[1]
        assert isinstance(size, int)
        weight, bias = self.w(size), self.w(size)
        mean, var = self.w(size, kind="state"), self.w(size, kind="state", name="var")
        root = self.do(Sqrt(), self.do(Add(), var, self.full(1e-5, var)))
        centred = self.do(Sub(), x, self.spread(mean, x, 1))
        return self.affine(centred, self.do(Div(), weight, root), bias, 1)

    def negative(self, x: Value) -> Value:
        """The negative of x."""
        return self.do(Neg(), x)
