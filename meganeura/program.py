"""A program in Python's hands: its models, and its training."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np

from meganeura_dsl import pipeline
from meganeura_dsl.check.frame import ParameterInfo
from meganeura_dsl.graph.core import Array
from meganeura_dsl.initialize import sample
from meganeura_dsl.optimize.rewriting import Rewriting
from meganeura_dsl.shapes.tensor import TensorType
from meganeura_runtime.session import Session, choose_device, open_inference
from meganeura_runtime.tensors.stored import NUMPY
from meganeura_runtime.train.events import Evaluated, Event, Logged
from meganeura_runtime.train.folder import named_folder, new_folder
from meganeura_runtime.train.job import concrete, prepare
from meganeura_runtime.train.loop import train
from meganeura_runtime.weights import read_weights, write_weights

RUNS = Path("runs")
"""Where run folders are made when none is named."""

OPTIMIZED = Rewriting()
"""All rules of the optimizer."""


@dataclass(frozen=True)
class Run:
    """A finished training run: its folder, and what was measured."""

    folder: Path
    steps: int
    losses: tuple[tuple[int, float], ...]
    """The loss at each step that was logged."""
    held_out: tuple[Mapping[str, float], ...]
    """The loss and metrics on the held-out examples after each epoch."""

    @property
    def weights(self) -> Path:
        """The trained weights."""
        return self.folder / "weights.safetensors"


class Program:
    """A parsed and linked .mgn file."""

    def __init__(self, target: str, program: pipeline.Program) -> None:
        self._target = target
        self._program = program

    @classmethod
    def load(cls, target: str) -> Self:
        """See `meganeura.load`."""
        return cls(target, pipeline.load(target))

    @property
    def models(self) -> tuple[str, ...]:
        """The names of its models."""
        return self._program.models

    def model(
        self, name: str | None = None, *, weights: Path | str | None = None, seed: int = 0
    ) -> "Model":
        """One of its models, with the weights of a file, or those a seed gives."""
        return Model(self._program, name, None if weights is None else Path(weights), seed)

    def train(
        self,
        *,
        device: str = "auto",
        out: Path | str | None = None,
        settings: Mapping[str, object] | None = None,
        watch: Callable[[Event], None] | None = None,
    ) -> Run:
        """Train as its `train` block says, with some settings replaced.

        A setting is a number, a text, or for a choice the text of a call: `"adam(lr=1e-3)"`.
        Raises `ProblemError` for everything that is wrong with settings or data.
        """
        name = self._program.train()
        overrides = [f"{key}={_written(value)}" for key, value in (settings or {}).items()]
        folder = pipeline.find(self._target).path.parent
        job = prepare(self._program, name, folder, [*overrides, f"device={device}"])
        place = new_folder(RUNS, name) if out is None else named_folder(Path(out))
        record = _Record(watch)
        finished = train(job, place, choose_device(job.settings.device).open, record, lambda: False)
        return Run(place.path, finished.steps, tuple(record.losses), tuple(record.held_out))


class Model:
    """A model with its weights. Sizes that the program leaves open are those of the inputs."""

    def __init__(
        self, program: pipeline.Program, name: str | None, weights: Path | None, seed: int
    ) -> None:
        self._program = program
        self._name = name
        symbolic = pipeline.elaborate_model(program, name)
        self.parameters: tuple[ParameterInfo, ...] = symbolic.parameters
        """What a checkpoint of it holds, in order."""
        self.inputs: Mapping[str, TensorType] = symbolic.inputs
        """The tensors it takes."""
        self.values: dict[str, Array] = (
            _initial(self.parameters, seed)
            if weights is None
            else read_weights(weights, self.parameters)
        )
        """The value of every parameter and state, by name."""

    def session(
        self, *, device: str = "auto", rewriting: Rewriting = OPTIMIZED, **sizes: int
    ) -> Session:
        """The model on a device, for inputs of these sizes."""
        elaboration = pipeline.elaborate_model(self._program, self._name, sizes=sizes)
        session = open_inference(elaboration.graph, choose_device(device).open, rewriting)
        session.load(self.values)
        return session

    def run(self, device: str = "cpu", **inputs: Array) -> dict[str, Array]:
        """The outputs for some inputs. To run many, keep a `session`."""
        with self.session(device=device, rewriting=OPTIMIZED, **self._sizes(inputs)) as session:
            return {name: np.asarray(value) for name, value in session.step(inputs).items()}

    def save(self, path: Path | str) -> None:
        """Write the weights as safetensors, with the names and types of the checkpoint."""
        write_weights(Path(path), self.parameters, self.values, {"format": "pt"})

    def _sizes(self, inputs: Mapping[str, Array]) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for name, type_ in self.inputs.items():
            if name in inputs:
                for size, given in zip(type_.shape, inputs[name].shape, strict=False):
                    if not isinstance(size, int) and str(size) in size.variables():
                        sizes[str(size)] = given
        return sizes


@dataclass
class _Record:
    """Keeps what was measured, and passes every event on."""

    watch: Callable[[Event], None] | None
    losses: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])
    held_out: list[Mapping[str, float]] = field(default_factory=list[Mapping[str, float]])

    def __call__(self, event: Event) -> None:
        match event:
            case Logged():
                self.losses.append((event.step, event.loss))
            case Evaluated():
                self.held_out.append({"loss": event.loss, **event.metrics})
            case _:
                pass
        if self.watch is not None:
            self.watch(event)


def _initial(parameters: Sequence[ParameterInfo], seed: int) -> dict[str, Array]:
    return {
        info.name: sample(info.initializer, seed, info.name, concrete(info.type.shape)).astype(
            NUMPY[info.type.dtype]
        )
        for info in parameters
    }


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
