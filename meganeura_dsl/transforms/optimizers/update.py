"""Tools with which an optimizer builds the update of a parameter."""

from collections.abc import MutableMapping

from meganeura_dsl.ir.graph import Builder, Op, Value
from meganeura_dsl.ir.ops import (
    Add,
    Broadcast,
    Cast,
    Compare,
    Constant,
    Div,
    FloorDivide,
    Mul,
    Parameter,
    Remainder,
    Sub,
    Where,
)
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.reserved_names import STATES
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.transforms.optimizers.norms import SCALAR, norm_of

STEP = f"{STATES}step"
"""The state that counts steps, an i32 scalar that all parameters of an objective share."""
AVERAGE = "average"
"""The state of a parameter that is its exponential moving average."""


def average_of(name: str) -> str:
    """The name of the average of a parameter."""
    return f"{STATES}{name}.{AVERAGE}"


def sum_of(name: str) -> str:
    """The name of the sum of the gradients of a parameter, over several batches."""
    return f"{STATES}{name}.gradient_sum"


class Update:
    """The update of one parameter; `updates` receives the next value of each state.

    The parameter and its states change at steps `every`, 2 `every`, ... alone, by the state
    `counter`.
    """

    def __init__(
        self,
        build: Builder,
        name: str,
        updates: MutableMapping[str, Value],
        every: int = 1,
        counter: str = STEP,
    ) -> None:
        self.build = build
        self._counter = counter
        self._every = every
        self._name = name
        self._updates = updates

    def op(self, op: Op, *operands: Value) -> Value:
        """Add an op to the graph."""
        return self.build.add(op, *operands)

    def number(self, value: float) -> Value:
        """A scalar f32 constant."""
        return number(self.build, value)

    def times(self, factor: float, x: Value) -> Value:
        """`factor * x` for a number."""
        return self.op(Mul(), full(self.build, x.type, factor), x)

    def scaled(self, factor: Value, x: Value) -> Value:
        """`factor * x` for a scalar value."""
        return scaled(self.build, factor, x)

    def decayed(self, decay: float, p: Value, g: Value) -> Value:
        """`g + decay * p`: weight decay as the gradient of a penalty."""
        return self.op(Add(), g, self.times(decay, p)) if decay else g

    def shrunk(self, decay: float, rate: Value, p: Value) -> Value:
        """`(1 - rate decay) p`: weight decay apart from the gradient."""
        if not decay:
            return p
        shrinkage = self.op(Mul(), rate, self.number(decay))
        return self.scaled(self.op(Sub(), self.number(1.0), shrinkage), p)

    def over(self, x: Value, divisor: Value) -> Value:
        """`x / divisor` for a scalar value."""
        return self.op(Div(), x, spread(self.build, divisor, x.type))

    def mixed(self, old: Value, new: Value, weight: Value) -> Value:
        """`old + weight (new - old)` for a scalar value: a step of a moving mean."""
        return self.op(Add(), old, self.scaled(weight, self.op(Sub(), new, old)))

    def sign(self, x: Value) -> Value:
        """-1, 0 or 1."""
        zero, one, minus = (full(self.build, x.type, each) for each in (0.0, 1.0, -1.0))
        below = self.op(Where(), self.op(Compare("lt"), x, zero), minus, zero)
        return self.op(Where(), self.op(Compare("gt"), x, zero), one, below)

    def norm(self, x: Value) -> Value:
        """The square root of the sum of squares, a scalar."""
        return norm_of(self.build, [x])

    def state(self, moment: str, of: TensorType) -> Value:
        """A state of this parameter; zeros before the first step."""
        path = f"{STATES}{self._name}.{moment}"
        return self.op(Parameter(path, of.dtype, of.shape, "state"))

    def store(self, state: Value, new: Value) -> None:
        """Set the value of a state for the next step."""
        assert isinstance(state.op, Parameter)
        self._updates[state.op.name] = self.when_due(new, state)

    def when_due(self, new: Value, old: Value) -> Value:
        """The new value at the steps at which the parameter moves, and the old one at others."""
        if self._every == 1:
            return new
        rest = self.op(Remainder(self._every), self._count())
        due = self.op(Compare("eq"), rest, self.op(Constant(0, DType.I32)))
        return self.op(Where(), spread(self.build, due, new.type), new, old)

    def step(self) -> Value:
        """The number of the parameter's updates after this step, an i32 scalar from 1.

        It is right at the steps at which the parameter moves, and of no consequence at others.
        """
        count = self._count()
        if self._every == 1:
            return count
        rounded = self.op(Add(), count, self.op(Constant(self._every - 1, DType.I32)))
        return self.op(FloorDivide(self._every), rounded)

    def _count(self) -> Value:
        """The number of this step, an i32 scalar: 1 for the first one."""
        old = self.op(Parameter(self._counter, DType.I32, (), "state"))
        new = self.op(Add(), old, self.op(Constant(1, DType.I32)))
        self._updates[self._counter] = new
        return new


def number(build: Builder, value: float) -> Value:
    """A scalar f32 constant."""
    return full(build, SCALAR, value)


def spread(build: Builder, scalar: Value, like: TensorType) -> Value:
    """A scalar broadcast to the shape of `like`."""
    return build.add(Broadcast(like.shape, ()), scalar) if like.shape else scalar


def scaled(build: Builder, factor: Value, x: Value) -> Value:
    """`factor * x` for a scalar value."""
    return build.add(Mul(), spread(build, factor, x.type), x)


def as_f32(build: Builder, x: Value) -> Value:
    """A value converted to f32."""
    return x if x.type.dtype is DType.F32 else build.add(Cast(DType.F32), x)
