"""Dynamic scaling of a loss, so that its gradients do not vanish in float16.

Micikevicius et al., "Mixed Precision Training" (2018), section 3.2: a loss is multiplied by a power
of two before it is differentiated, and its gradients are divided by it before an optimizer sees
them. Both are exact. Gradients that overflow leave the update out and halve the scale, which is
doubled after so many updates without one.
"""

from collections.abc import MutableMapping, Sequence

from meganeura_dsl.ir.graph import Builder, Value
from meganeura_dsl.ir.ops import (
    Add,
    Compare,
    Constant,
    Div,
    Maximum,
    Minimum,
    Mul,
    Parameter,
    Where,
)
from meganeura_dsl.ir.reserved_names import STATES
from meganeura_dsl.ir.types import DType
from meganeura_dsl.transforms.autodiff import gradients
from meganeura_dsl.transforms.optimizers.update import as_f32, number, scaled

FIRST, LEAST, LARGEST = 2.0**16, 1.0, 2.0**24
GROWTH_INTERVAL = 2000
"""Updates without an overflow after which the scale is doubled, as by PyTorch's `GradScaler`."""
SCALE = f"{STATES}loss_scale"
"""The state that holds the scale less its first value, as states begin with 0; an f32 scalar."""
GROWTH = f"{STATES}loss_scale_growth"
"""The state that counts updates since the scale last changed, an i32 scalar."""
SCALES = frozenset({SCALE, GROWTH})
"""The states that a step has in f16 alone."""


class LossScale:
    """The scale of the losses of one training step."""

    def __init__(self, build: Builder) -> None:
        self._build = build
        state = build.add(Parameter(SCALE, DType.F32, (), "state"))
        self._count = build.add(Parameter(GROWTH, DType.I32, (), "state"))
        self.value = build.add(Add(), state, number(build, FIRST))
        """The scale of this step, a power of two from `LEAST` to `LARGEST`; an f32 scalar."""

    def gradients(self, loss: Value, wrt: Sequence[Value]) -> tuple[Value | None, ...]:
        """The gradients of a loss in f32, computed with the scale and divided by it."""
        build = self._build
        found = gradients(build, as_f32(build, loss), wrt, self.value)
        inverse = build.add(Div(), number(build, 1.0), self.value)
        return tuple(
            None if each is None else scaled(build, inverse, as_f32(build, each)) for each in found
        )

    def store_next(self, finite: Value, updates: MutableMapping[str, Value]) -> None:
        """Set the scale of the next step; `finite` is whether this one's gradients are, a bool."""
        build = self._build
        one, none = (build.add(Constant(each, DType.I32)) for each in (1, 0))
        interval = build.add(Constant(GROWTH_INTERVAL, DType.I32))
        count = build.add(Add(), self._count, one)
        due = build.add(Compare("eq"), count, interval)
        double = build.add(
            Minimum(), build.add(Mul(), self.value, number(build, 2.0)), number(build, LARGEST)
        )
        half = build.add(
            Maximum(), build.add(Mul(), self.value, number(build, 0.5)), number(build, LEAST)
        )
        grown = build.add(Where(), due, double, self.value)
        scale = build.add(Where(), finite, grown, half)
        updates[SCALE] = build.add(Add(), scale, number(build, -FIRST))
        goes_on = build.add(Where(), due, none, count)
        updates[GROWTH] = build.add(Where(), finite, goes_on, none)
