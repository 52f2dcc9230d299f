"""The run that a compiled training step is a part of, as data."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from meganeura_runtime.backends.webgpu.plan import Plan

Count = Annotated[int, Field(ge=0, lt=1 << 53)]
"""A count that every program can hold exactly."""
Some = Annotated[int, Field(ge=1, lt=1 << 53)]


@dataclass(frozen=True)
class DataInput:
    """An input that data feeds."""

    name: str
    tensor: str
    """The name of its tensor in the data."""
    rows: Count
    """Rows of the tensor that make one example; 0 where the tensor is fed whole."""


@dataclass(frozen=True)
class WeightsTensor:
    """A parameter or state of the program, as a file of weights has it."""

    name: str
    stored: str
    """Its type there, such as `f32` or `bf16`."""


@dataclass(frozen=True)
class Evaluation:
    """The step that measures the loss and the metrics of so many held-out examples at once."""

    examples: Some
    plan: Plan


@dataclass(frozen=True)
class TrainingForm:
    """All that a training loop needs beside its step and its data."""

    name: str
    """The name of the `train` block."""
    program: str
    """Hash of what a step means; a checkpoint is of one program."""
    batch: Some
    epochs: Count
    seed: Count
    shuffle: bool
    inputs: tuple[DataInput, ...]
    parameters: tuple[WeightsTensor, ...]
    rates: tuple[float, ...]
    """The learning rate of each step, or one where it never changes."""
    evaluations: tuple[Evaluation, ...] = ()
    """The largest first."""
