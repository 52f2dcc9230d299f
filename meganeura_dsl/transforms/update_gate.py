"""Gates of a batch's gradients: move the parameters, add to a sum, or do nothing.

Gradients that are not finite leave the parameters, the states of optimizers and the averages as
they were. Of a batch that is added to a sum the sum decides, so that what one batch of an update
spoils stays spoilt for those after it.
"""

from collections.abc import Mapping, MutableMapping
from functools import reduce

from meganeura_dsl.ir.graph import Builder, Value
from meganeura_dsl.ir.ops import Add, Cast, Compare, Constant, Div, Mul, Parameter, Sqrt, Sum, Where
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.transforms.optimizers.norms import LEAST, norm_of
from meganeura_dsl.transforms.optimizers.update import as_f32, number, spread, sum_of
from meganeura_dsl.transforms.step_part import StepPart

LARGEST_NORM = 1e19
"""A norm that no gradient has whose square, of which optimizers keep means, is finite in f32."""


class Gate:
    """Decides what a batch moves."""

    def __init__(
        self,
        build: Builder,
        accumulate: int,
        part: StepPart = StepPart.WHOLE,
        *,
        skips: bool,
        bounds: bool = False,
    ) -> None:
        """`bounds` says that optimizers see no gradient before its norm or elements are bounded."""
        self._build = build
        self._accumulate = accumulate
        self._part = part
        self._skips = skips
        self._bounds = bounds
        self._finite: list[Value] = []
        """A bool for each objective: true if its gradients, or their sums, are finite."""

    def mean(
        self, gradients: Mapping[str, Value], updates: MutableMapping[str, Value]
    ) -> dict[str, Value]:
        """The gradients of an update: their means over the batches it is made of.

        The sums over those before the last of them are states of the optimizer.
        """
        if self._accumulate == 1:
            self.decide(gradients)
            return dict(gradients)
        sums: dict[str, Value] = {}
        means: dict[str, Value] = {}
        for name, gradient in gradients.items():
            g = as_f32(self._build, gradient)
            path = sum_of(name)
            old = self._build.add(Parameter(path, DType.F32, g.type.shape, "state"))
            sums[name] = total = self._build.add(Add(), old, g)
            updates[path] = full(self._build, g.type, 0.0) if self._part.moves else total
            part = full(self._build, g.type, 1 / self._accumulate)
            means[name] = self._build.add(Mul(), part, total)
        self.decide(sums)
        return means

    def admitted(self, new: Mapping[str, Value], old: Mapping[str, Value]) -> dict[str, Value]:
        """The next values where the gradients of `mean` are finite, and the old ones elsewhere.

        `old` has the parameters; what is not among them is a state of the optimizer.
        """
        if not self._part.moves:
            return {}
        if not self._skips or not new:
            return dict(new)
        finite = self._finite[-1]
        return {
            name: self._chosen(finite, value, old.get(name) or self._state(name, value.type))
            for name, value in new.items()
        }

    @property
    def verdict(self) -> Value | None:
        """A bool scalar: the gradients decided last are finite; None if none were."""
        return self._finite[-1] if self._finite else None

    def kept(self, finite: Value | None, new: Value, old: Value) -> Value:
        """The new value where this verdict is true, and the old one elsewhere."""
        return new if finite is None else self._chosen(finite, new, old)

    def states(
        self, finite: Value, new: Mapping[str, Value], old: Mapping[str, Value]
    ) -> dict[str, Value]:
        """The next states of the program: the old ones where a gradient is not finite."""
        return {name: self._chosen(finite, value, old[name]) for name, value in new.items()}

    def is_finite(self) -> Value:
        """A scalar bool: true if the gradients of all objectives are finite; true without any."""
        if not self._finite:
            return self._build.add(Constant(value=True, dtype=DType.BOOL))
        return reduce(self._both, self._finite)

    def decide(self, gradients: Mapping[str, Value]) -> None:
        """Take in the gradients of an objective, or their sums, that it depends on."""
        if self._skips and gradients:
            self._finite.append(self._all_finite([*gradients.values()]))

    def take(self, finite: Value) -> None:
        """Take in a verdict on gradients that were decided elsewhere, a bool scalar."""
        self._finite.append(finite)

    def _state(self, name: str, of: TensorType) -> Value:
        return self._build.add(Parameter(name, of.dtype, of.shape, "state"))

    def _chosen(self, condition: Value, new: Value, old: Value) -> Value:
        return self._build.add(Where(), spread(self._build, condition, new.type), new, old)

    def _both(self, a: Value, b: Value) -> Value:
        return self._build.add(
            Where(), a, b, self._build.add(Constant(value=False, dtype=DType.BOOL))
        )

    def _all_finite(self, gradients: list[Value]) -> Value:
        """Returns a scalar bool: true if the norm of all gradients is finite.

        Where gradients are bounded afterwards any number will do; elsewhere it is below
        `LARGEST_NORM`. The cast of NaN is 0 on every device, where a comparison of floats with NaN
        may not be trusted: compilers of shaders may assume that there is none.
        """
        build = self._build
        if self._bounds:
            norm = norm_of(build, [as_f32(build, each) for each in gradients])
            larger = build.add(
                Add(), number(build, 1.0), build.add(Mul(), norm, number(build, LEAST))
            )
            ratio = build.add(Div(), number(build, 8.0), larger)
        else:
            squares = reduce(lambda a, b: build.add(Add(), a, b), map(self._squares, gradients))
            larger = build.add(Add(), build.add(Sqrt(), squares), number(build, 1.0))
            ratio = build.add(Div(), number(build, LARGEST_NORM), larger)
        whole = build.add(Cast(DType.I32), ratio)
        return build.add(Compare("gt"), whole, build.add(Constant(0, DType.I32)))

    def _squares(self, gradient: Value) -> Value:
        g = as_f32(self._build, gradient)
        square = self._build.add(Mul(), g, g)
        return self._build.add(Sum(tuple(range(g.type.rank))), square) if g.type.rank else square
