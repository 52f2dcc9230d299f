"""The gradients of a loss over several batches that is a function of sums over their examples."""

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from functools import reduce

from meganeura_dsl.ir.graph import Builder, Graph, Value
from meganeura_dsl.ir.objectives import reached
from meganeura_dsl.ir.ops import Add, Parameter
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.outputs import LossPart
from meganeura_dsl.ir.types import DType
from meganeura_dsl.transforms.joined_loss import EARLIER
from meganeura_dsl.transforms.optimizers.update import as_f32, scaled, sum_of
from meganeura_dsl.transforms.step_part import StepPart

LOSS = "loss"
Differentiate = Callable[[Value, Sequence[Value]], Sequence[Value | None]]
"""The gradients of a scalar with respect to values, `None` for what no gradient flows to."""


class JoinedGradients:
    """Adds the gradients of a batch to those of the batches before it."""

    def __init__(
        self,
        build: Builder,
        whole: Value,
        own: Value,
        parts: Mapping[int, Value],
        earlier: Mapping[int, Value],
        differentiate: Differentiate,
    ) -> None:
        self.own = own
        """The loss of the batch alone."""
        self.decisive: dict[str, Value] = {}
        """Values that are not finite if the update has to be left out."""
        self._build = build
        self._whole = whole
        """The loss of the batch and of those before it."""
        self._parts = parts
        """The sums over the batch whose gradients are added up, by their numbers."""
        self._earlier = earlier
        """The same over the batches before, which the loss of all of them reads."""
        self._differentiate = differentiate

    @staticmethod
    def of(
        forward: Graph,
        loss: Value,
        copy: Callable[[Value], Value],
        leaves: Mapping[str, Value],
        build: Builder,
        differentiate: Differentiate,
    ) -> "JoinedGradients | None":
        """That of a forward graph and its copy; `None` where gradients of batches are averaged."""
        parts = {
            name.number: copy(value)
            for name, value in forward.outputs.items()
            if isinstance(name, LossPart)
        }
        if not parts:
            return None
        earlier = {index: leaves[f"{EARLIER}{index}"] for index in parts}
        own = copy(forward.outputs[LOSS])
        return JoinedGradients(build, loss, own, parts, earlier, differentiate)

    def means(
        self,
        parameters: Mapping[str, Value],
        part: StepPart,
        updates: MutableMapping[str, Value],
    ) -> dict[str, Value]:
        """The gradients of an update, which in a step that makes none nothing reads.

        The next sums are put into `updates`.
        """
        wanted = (*parameters.values(), *self._earlier.values())
        found = self._differentiate(self._whole, wanted)
        terms = {
            name: [] if each is None else [as_f32(self._build, each)]
            for name, each in zip(parameters, found, strict=False)
        }
        slopes = zip(self._earlier, found[len(parameters) :], strict=True)
        for index, slope in slopes:
            below = reached(self._parts[index])
            names = [name for name in parameters if name in below]
            olds = {name: self._sum(name, index, parameters[name]) for name in names}
            for name, old in olds.items():
                if slope is not None:
                    terms[name].append(scaled(self._build, as_f32(self._build, slope), old))
                updates[f"{sum_of(name)}.{index}"] = full(self._build, old.type, 0.0)
            if not part.moves:
                of_names = tuple(parameters[name] for name in names)
                new = self._differentiate(self._parts[index], of_names)
                for (name, old), own in zip(olds.items(), new, strict=True):
                    total = old if own is None else self._added(old, as_f32(self._build, own))
                    path = f"{sum_of(name)}.{index}"
                    updates[path] = self.decisive[path] = total
        means = {name: reduce(self._added, each) for name, each in terms.items() if each}
        if part.moves:
            self.decisive = dict(means)
        return means

    def _added(self, a: Value, b: Value) -> Value:
        return self._build.add(Add(), a, b)

    def _sum(self, name: str, index: int, parameter: Value) -> Value:
        """Returns a part's summed gradient of a parameter over the batches before."""
        path = f"{sum_of(name)}.{index}"
        return self._build.add(Parameter(path, DType.F32, parameter.type.shape, "state"))


def next_sum(build: Builder, total: Value, *, moves: bool) -> Value:
    """A sum over the batches of an update, which begins anew after it."""
    return full(build, total.type, 0) if moves else total
