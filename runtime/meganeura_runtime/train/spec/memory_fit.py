"""The memory of a training run by role, and the largest batch that fits into it.

Nothing runs: each backend says from the graph of a step what it will allocate.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import chain

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.declarations.example_axis import counting_size
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.ir.index_checks import with_checks
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.pipeline import Program
from meganeura_dsl.settings.run_settings import RunSettings
from meganeura_dsl.symbolic.size import evaluate
from meganeura_runtime.backends.backend import Backend, OpenDevice
from meganeura_runtime.backends.errors import LimitError
from meganeura_runtime.backends.registry import device_or_any, model_of
from meganeura_runtime.train.spec.session_inputs import NOT_DATA
from meganeura_runtime.train.spec.step_graphs import (
    require_trainable,
    rewriting_of,
    training_settings,
)
from meganeura_runtime.train.spec.step_planning import (
    PlannedStep,
    RunMemory,
    StepPlanner,
    device_of_run,
)
from meganeura_runtime.train.training_problems import IndivisibleBatch

MOST = 1 << 20
"""The largest batch that is tried."""
NEAR = 128
"""Largest distance from a batch that a program refuses to the one that is tried instead."""
QUICK = 8
"""Measurements after which a search stops guessing and halves."""


@dataclass(frozen=True)
class Fit:
    """The memory of a run on a device."""

    device: str
    """The name that was asked for, such as `wgpu`, and how several share a step."""
    description: str
    """The device it was planned for."""
    batch: int
    """Examples of a step, as the settings have it."""
    memory: RunMemory | None
    """The memory of that batch; `None` where it exceeds a limit of the device."""
    recomputes: bool = False
    """True if iterations of scans are recomputed to stay within the memory."""
    available: int | None = None
    """The bytes it was to fit into."""
    largest: int | None = None
    """The largest batch that fits; `None` if none fits, or if no size was asked for."""
    limit: str = ""
    """The reason that a larger batch is refused, if it is not memory."""

    @property
    def fits(self) -> bool:
        """Returns True if the batch of the settings fits."""
        available = self.available
        return self.memory is not None and (available is None or self.memory.bytes <= available)


@dataclass(frozen=True, eq=False)
class MemoryProbe:
    """Says what a run takes on a device, for any batch."""

    program: Program
    train: str
    settings: RunSettings
    selector: str
    """The name of a device, or of a backend that has none here."""
    backend: Backend
    device: OpenDevice | None
    """`None` for any device of the backend."""

    @staticmethod
    def of(
        program: Program, train: str, settings: RunSettings, selector: str, *, tuned: bool = True
    ) -> "MemoryProbe":
        """One for the device of that name, or the several that the settings ask for.

        Raises `DeviceError`, and `ProblemError` for a precision that it has not.
        """
        precision = settings.precision
        backend, device = device_or_any(selector, tuned=tuned, precision=precision)
        probe = MemoryProbe(program, train, settings, selector, backend, device)
        if device is None:
            return probe
        return replace(probe, device=device_of_run(device, settings, probe.rows))

    @property
    def name(self) -> str:
        """The device, and how several of them share a step."""
        settings = self.settings
        several = f" x{settings.devices} {settings.sharding}" if settings.devices > 1 else ""
        return f"{self.selector}{several}"

    @property
    def description(self) -> str:
        """The device, for people."""
        return f"any {self.backend.title}" if self.device is None else self.device.short_name

    @property
    def counter(self) -> str | None:
        """The size that counts examples."""
        return counting_size(self._inputs, self._whole)

    @property
    def rows(self) -> dict[str, int]:
        """The rows of one example, for inputs that have rows for each example."""
        counter = self.counter
        if counter is None:
            return {}
        sizes = {**self.settings.sizes, counter: 1}
        named = {name: each for name, each in self._inputs.items() if name not in self._whole}
        return {name: evaluate(each.shape[0], sizes) for name, each in named.items() if each.shape}

    @cached_property
    def _inputs(self) -> dict[str, TensorType]:
        """The inputs that the data feeds, their sizes still free."""
        symbolic = pipeline.elaborate_train(self.program, self.train, sizes={}, training=True)
        return {name: each for name, each in symbolic.inputs.items() if name not in NOT_DATA}

    @cached_property
    def _whole(self) -> frozenset[str]:
        return pipeline.whole_inputs(self.program, self.train)

    def accepts(self, batch: int) -> bool:
        """Returns True if the devices can share such a batch and the program accepts it."""
        if self.counter is None or batch % self.settings.devices:
            return False
        try:
            self._elaborated({**self.settings.sizes, self.counter: batch}, training=True)
        except ProblemError:
            return False
        return True

    def planned(self, sizes: dict[str, int], available: int | None) -> PlannedStep:
        """The step of a run that is to take no more than is available, and what the run takes.

        Raises `LimitError` where a value exceeds a limit of the device, `DeviceError` where the
        backend does not say what a step takes, and `ProblemError`.
        """
        elaborated = self._elaborated(sizes, training=True)
        written = pipeline.train_settings(self.program, self.train)
        require_trainable(self.settings, written, elaborated)
        forward = with_checks(elaborated.graph)
        evaluation = with_checks(self._elaborated(sizes, training=False).graph)
        device = model_of(self.selector, self.settings.precision)
        rewriting = rewriting_of(self.settings, device)
        planner = StepPlanner(self.backend, self.device, rewriting)
        return planner.plan(forward, training_settings(self.settings), evaluation, available)

    def _elaborated(self, sizes: dict[str, int], *, training: bool) -> Elaboration:
        return pipeline.elaborate_train(self.program, self.train, sizes=sizes, training=training)


def fit(probe: MemoryProbe, available: int | None = None) -> Fit:
    """Returns the memory of a run, and the largest batch within these bytes, if any are given.

    The run is one with the setting `memory`, which is what is available where it is not set:
    iterations of scans are recomputed as far as that is needed. Where it is set, no more is
    available. Raises `ProblemError` for sizes that the program refuses, and `DeviceError` where the
    backend does not say what a step takes.
    """
    sizes = dict(probe.settings.sizes)
    counter = probe.counter
    batch = 1 if counter is None else sizes[counter]
    limits: dict[int, str] = {}
    found: dict[int, PlannedStep | None] = {}
    stated = probe.settings.memory_bytes
    if stated is None:
        allowed = available
    else:
        allowed, available = stated, min(stated, available or stated)

    @cache
    def measured(examples: int) -> int | None:
        given = sizes if counter is None else {**sizes, counter: examples}
        try:
            planned = probe.planned(given, allowed)
        except LimitError as error:
            limits[examples] = str(error)
            found[examples] = None
            return None
        found[examples] = planned
        return planned.memory.bytes

    if batch % probe.settings.devices:
        raise ProblemError(IndivisibleBatch(counter or "", batch, probe.settings.devices))
    measured(batch)
    planned = found[batch]
    fitted = Fit(
        probe.name,
        probe.description,
        batch,
        None if planned is None else planned.memory,
        planned is not None and planned.recomputes,
        limit=limits.get(batch, ""),
    )
    if available is None:
        return fitted
    largest = largest_batch(measured, probe.accepts, batch, available)
    refused = min((each for each in found if each > (largest or 0)), default=batch)
    limit = limits.get(refused, "")
    return replace(fitted, available=available, largest=largest, limit=limit)


def largest_batch(
    measure: Callable[[int], int | None],
    allowed: Callable[[int], bool],
    start: int,
    available: int,
) -> int | None:
    """The largest allowed batch whose bytes are available, of which the next larger one's are not.

    `measure` gives the bytes of a batch, or `None` where it is refused whatever is available.
    Bytes are nearly linear in the batch, so batches are guessed by a straight line through those
    that were measured (regula falsi), and found by halving where that takes long. `None` if even
    the smallest batch does not fit.
    """
    low: tuple[int, int] | None = None
    below: tuple[int, int] = (0, 0)
    high: tuple[int, int | None] = (MOST + 1, None)
    guess: int | None = start
    count = 0
    while guess is not None:
        size = measure(guess)
        count += 1
        if size is not None and size <= available:
            below, low = low or below, (guess, size)
        else:
            high = (guess, size)
        wanted = _guess(below, low or (0, 0), high, available, count)
        floor = 0 if low is None else low[0]
        guess = _nearest(wanted, range(floor + 1, high[0]), allowed)
    return None if low is None else low[0]


def _guess(
    below: tuple[int, int],
    low: tuple[int, int],
    high: tuple[int, int | None],
    available: int,
    count: int,
) -> int:
    """A batch between one that fits and one that does not, or beyond the largest that was tried."""
    top, top_size = high
    if top_size is None and top <= MOST:  # refused for a limit
        return (low[0] + top) // 2
    if top_size is not None and count > QUICK:
        return (low[0] + top) // 2
    first, last = (low, (top, top_size)) if top_size is not None else (below, low)
    slope = (last[1] - first[1]) / (last[0] - first[0])
    if slope <= 0:
        return 2 * low[0]
    return int(low[0] + (available - low[1]) / slope)


def _nearest(wanted: int, within: range, allowed: Callable[[int], bool]) -> int | None:
    """The allowed batch nearest to one that is wanted, smaller ones first."""
    if not within:
        return None
    start = min(max(wanted, within[0]), within[-1])
    smaller: Iterable[int] = range(start, max(within[0], start - NEAR) - 1, -1)
    larger: Iterable[int] = range(start + 1, min(within[-1], start + NEAR) + 1)
    return next((each for each in chain(smaller, larger) if allowed(each)), None)
