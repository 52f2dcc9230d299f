"""A training on a device: the one place where steps are made, measured and saved."""

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path

from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.ir.index_checks import Bound
from meganeura_dsl.ir.outputs import Gradient
from meganeura_dsl.ir.reserved_names import LEARNING_RATE
from meganeura_dsl.transforms.optimizers.update import average_of
from meganeura_dsl.transforms.step_part import StepPart
from meganeura_runtime.backends.base import (
    Closing,
    OpenSession,
    Outputs,
    Session,
    Uploaded,
    persistent_first,
)
from meganeura_runtime.backends.index_checks import with_indices_checked
from meganeura_runtime.backends.sized_session import MOST, SizedSession
from meganeura_runtime.infer.size_binding import bind_sizes
from meganeura_runtime.io.checkpoint import Origin
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.io.weights import write_weights
from meganeura_runtime.train.loop.evaluation import Evaluator, HeldBatch
from meganeura_runtime.train.loop.text_sampler import TextSampler
from meganeura_runtime.train.records.visual_log import VisualLog
from meganeura_runtime.train.spec.resume import Resumption, origins_of
from meganeura_runtime.train.spec.step_graphs import SizedStep, rewriting_of
from meganeura_runtime.train.spec.text_sample import TextSample
from meganeura_runtime.train.spec.train_spec import TrainSpec, require_shares

MOST_RAGGED = 32
"""Steps of ragged batches that stay compiled: those of a short pass that is not shuffled, say."""


class TrainingSession(Closing):
    """Parameters, states and moments on a device, and the steps that move them."""

    def __init__(
        self,
        spec: TrainSpec,
        open_session: OpenSession,
        others: Iterable[SizedStep] = (),
        resumption: Resumption | None = None,
        *,
        any_size: bool = False,
    ) -> None:
        """Open the step of a specification and `others`; `any_size` opens more when they come.

        `resumption` is the progress of the run so far; its values are for the caller to load.
        """
        self.spec = spec
        self.steps = 0 if resumption is None else resumption.progress.step
        """The steps made so far, of all parts of a resumed run."""
        self.origins: tuple[Origin, ...] = origins_of(spec, resumption)
        """The files of weights that the run started from."""
        self.learning_rate = None if resumption is None else resumption.progress.learning_rate
        """The rate that a manual loop has set; `None` follows the schedule."""
        self._open = open_session
        self._sampler: TextSampler | None = None
        with ExitStack() as opened:
            others = tuple(others)
            is_ragged = bool(spec.input_spec.ragged.names)
            is_one = not (any_size or is_ragged or others)
            graph = spec.compiled if is_one else persistent_first(spec.compiled)
            first = opened.enter_context(self._checked(graph, spec.whole_step.bounds))
            self.session = first
            if not is_one:
                most = MOST_RAGGED if is_ragged else MOST
                self.session = sized = SizedSession(first, self._open_for, most)
                for each in others:
                    sized.add(opened.enter_context(self._shared(each, each.bounds)))
            self.evaluator = Evaluator(spec, open_session)
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
        shown: VisualLog | None = None,
    ) -> dict[str, float]:
        """The mean loss and metrics over examples; `shown` takes what the program shows of them.

        Where there is an average of a parameter, it takes the place of it.
        """
        return self.evaluator.measure(batches, self.averaged(persistent), shown)

    def averaged(self, persistent: Mapping[str, Array]) -> dict[str, Array]:
        """The parameters and states of the program, by their averages where there are some."""
        found: dict[str, Array] = {}
        for each in self.spec.parameters:
            now = persistent[each.name]
            found[each.name] = persistent.get(average_of(each.name), now).astype(
                now.dtype, copy=False
            )
        return found

    def write_weights(self, path: Path, persistent: Mapping[str, Array]) -> None:
        """Save the parameters and states of the program, averaged where they are.

        Raises `ProblemError`.
        """
        ema = self.spec.settings.ema
        which = {} if ema is None else {"weights": f"exponential moving average, decay {ema}"}
        which |= self.spec.preparation.entries
        metadata = {"format": "pt", "train": self.spec.name, "step": str(self.steps), **which}
        write_weights(path, self.spec.parameters, self.averaged(persistent), metadata)

    def sampler(self, sample: TextSample | None) -> TextSampler | None:
        """Returns what writes samples on the device until this is closed; None where none are."""
        if sample is not None:
            rewriting = rewriting_of(self.spec.settings, self.spec.device)
            self._sampler = TextSampler(sample, self._open, rewriting)
        return self._sampler

    def close(self) -> None:
        """Give the memory of all sessions back."""
        self.session.close()
        self.evaluator.close()
        if self._sampler is not None:
            self._sampler.close()

    def _checked(self, graph: Graph, bounds: Mapping[str, Bound]) -> Session:
        return with_indices_checked(graph, self._open(graph), bounds)

    def _shared(self, step: SizedStep, bounds: Mapping[str, Bound]) -> Session:
        """A session of another step, which keeps what the first one does, in the same order."""
        return self._checked(persistent_first(step.optimized), bounds)

    def _open_for(self, shapes: Mapping[str, tuple[int, ...]]) -> Session:
        """The session of a step that is fed otherwise: of another size, or another part."""
        spec, inputs = self.spec, self.spec.input_spec.inputs
        part = self._part_fed(shapes)
        if part is StepPart.UPDATE:
            return self._shared(spec.graphs.sized({}, part), {})
        step = spec.graphs.sized(bind_sizes(inputs, {name: shapes[name] for name in inputs}), part)
        require_shares(spec.input_spec.counter, step.examples, spec.settings)
        return self._shared(step, step.bounds)

    def _part_fed(self, names: Iterable[str]) -> StepPart:
        """The part of a step that takes inputs of these names."""
        if not {Gradient(each.name) for each in self.spec.parameters}.isdisjoint(names):
            return StepPart.UPDATE
        if LEARNING_RATE in names:
            return StepPart.WHOLE
        return StepPart.SUM if self.spec.settings.accumulate > 1 else StepPart.GRADIENTS
