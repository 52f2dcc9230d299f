"""What is trained, on a device: the one place where steps are made, measured and saved."""

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path

from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.ir.index_checks import Bound
from meganeura_dsl.ir.reserved_names import LEARNING_RATE
from meganeura_dsl.transforms.optimizers.update import average_of
from meganeura_dsl.transforms.step_part import StepPart
from meganeura_dsl.transforms.training_step import GRADIENT
from meganeura_runtime.backends.base import (
    Closing,
    OpenSession,
    Outputs,
    Session,
    Uploaded,
    persistent_first,
)
from meganeura_runtime.backends.index_checks import with_indices_checked
from meganeura_runtime.backends.sized_session import SizedSession
from meganeura_runtime.infer.size_binding import bind_sizes
from meganeura_runtime.io.checkpoint import Origin
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.io.weights import write_weights
from meganeura_runtime.train.loop.evaluation import Evaluator, HeldBatch
from meganeura_runtime.train.records.visual_log import Shown
from meganeura_runtime.train.spec.train_spec import Recipe, SizedStep, require_shares


class TrainingSession(Closing):
    """A recipe's parameters, states and moments on a device, and the steps that move them."""

    def __init__(
        self,
        recipe: Recipe,
        open_session: OpenSession,
        others: Iterable[SizedStep] = (),
        *,
        any_size: bool = False,
    ) -> None:
        """Open the step of a recipe, those of `others`, and with `any_size` more when they come."""
        self.recipe = recipe
        self.steps = 0
        """Those made, of all runs together."""
        self.origins: tuple[Origin, ...] = ()
        """What the first run started from instead of initial values."""
        self.learning_rate: float | None = None
        """The rate that was set by hand; `None` follows the schedule."""
        self._open = open_session
        with ExitStack() as opened:
            others = tuple(others)
            is_one = not (any_size or others)
            graph = recipe.compiled if is_one else persistent_first(recipe.compiled)
            first = opened.enter_context(self._checked(graph, recipe.bounds))
            self.session = first
            if not is_one:
                self.session = sized = SizedSession(first, self._open_for)
                for each in others:
                    sized.add(opened.enter_context(self._shared(each, each.bounds)))
            self.evaluator = Evaluator(recipe, open_session)
            opened.pop_all()

    def step(self, inputs: Mapping[str, Array] | Uploaded) -> Outputs:
        """Make one step on these inputs; raises as `Session.step`."""
        outputs = self.session.step(inputs)
        self.steps += 1
        return outputs

    def measure(
        self,
        batches: Iterable[HeldBatch],
        persistent: Mapping[str, Array],
        shown: Shown | None = None,
    ) -> dict[str, float]:
        """The mean loss and metrics over examples; `shown` takes what the program shows of them.

        Where there is an average of a parameter, it takes the place of it.
        """
        return self.evaluator.measure(batches, self.averaged(persistent), shown)

    def averaged(self, persistent: Mapping[str, Array]) -> dict[str, Array]:
        """The parameters and states of the program, by their averages where there are some."""
        found: dict[str, Array] = {}
        for each in self.recipe.parameters:
            now = persistent[each.name]
            found[each.name] = persistent.get(average_of(each.name), now).astype(
                now.dtype, copy=False
            )
        return found

    def write_weights(self, path: Path, persistent: Mapping[str, Array]) -> None:
        """Save the parameters and states of the program, averaged where they are.

        Raises `ProblemError`.
        """
        ema = self.recipe.settings.ema
        which = {} if ema is None else {"weights": f"exponential moving average, decay {ema}"}
        which |= self.recipe.preparation.entries
        metadata = {"format": "pt", "train": self.recipe.name, "step": str(self.steps), **which}
        write_weights(path, self.recipe.parameters, self.averaged(persistent), metadata)

    def close(self) -> None:
        """Give the memory of all sessions back."""
        self.session.close()
        self.evaluator.close()

    def _checked(self, graph: Graph, bounds: Mapping[str, Bound]) -> Session:
        return with_indices_checked(graph, self._open(graph), bounds)

    def _shared(self, step: SizedStep, bounds: Mapping[str, Bound]) -> Session:
        """A session of another step, which keeps what the first one does, in the same order."""
        return self._checked(persistent_first(step.optimized), bounds)

    def _open_for(self, shapes: Mapping[str, tuple[int, ...]]) -> Session:
        """The session of a step that is fed otherwise: of another size, or another part."""
        recipe, inputs = self.recipe, self.recipe.demand.inputs
        part = self._part_fed(shapes)
        if part is StepPart.UPDATE:
            return self._shared(recipe.sized({}, part), {})
        step = recipe.sized(bind_sizes(inputs, {name: shapes[name] for name in inputs}), part)
        require_shares(recipe.demand.counter, step.examples, recipe.settings)
        return self._shared(step, step.bounds)

    def _part_fed(self, names: Iterable[str]) -> StepPart:
        """The part of a step that takes inputs of these names."""
        if any(name.startswith(GRADIENT) for name in names):
            return StepPart.UPDATE
        if LEARNING_RATE in names:
            return StepPart.WHOLE
        return StepPart.SUM if self.recipe.settings.accumulate > 1 else StepPart.GRADIENTS
