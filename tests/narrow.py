"""The standard models, so narrow that the reference runs them in a moment."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from meganeura_dsl import pipeline
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.elaborate.scope.parameter_info import ParameterInfo
from meganeura_dsl.elaborate.values import StaticValue
from meganeura_dsl.ir.graph import Array
from meganeura_runtime.io.weights import initial_values


@dataclass(frozen=True)
class Narrow:
    """A model, what it is configured as, and sizes of its inputs."""

    target: str
    sizes: Mapping[str, int]
    config: Mapping[str, StaticValue] = field(default_factory=dict[str, StaticValue])

    def elaborate(self) -> Elaboration:
        """Its graph for inference."""
        program = pipeline.load(self.target)
        return pipeline.elaborate_model(program, config=self.config, sizes=self.sizes)

    @property
    def options(self) -> list[str]:
        """The same on the command line."""
        settings = {**self.config, **self.sizes}
        return [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]


PICTURE = {"n": 2, "h": 32, "w": 32}
SHALLOW: Mapping[str, StaticValue] = {"depths": [2, 1, 2, 1], "classes": 3}


def repvgg(variant: str) -> Narrow:
    """A RepVGG of a variant's groups, with blocks of every kind."""
    return Narrow(f"repvgg_{variant}", PICTURE, {**SHALLOW, "a": 0.125, "b": 0.03125})


NARROW: Mapping[str, Narrow] = {
    "digits_cnn": Narrow("digits_cnn", {"n": 2, "h": 8, "w": 8}),
    "resnet18": Narrow("resnet18", PICTURE, {**SHALLOW, "width": 4}),
    "resnet50": Narrow("resnet50", PICTURE, {**SHALLOW, "width": 4}),
    "repvgg_a0": repvgg("a0"),
    "repvgg_b1g4": repvgg("b1g4"),
    "whisper_tiny": Narrow(
        "whisper_tiny",
        {"n": 2, "t": 20},
        {"d": 12, "heads": 3, "layers": 2, "ffn": 8, "mels": 5, "positions": 10},
    ),
    "lm_tiny": Narrow("lm_tiny", {"n": 1, "s": 6}),
}


def trained(model: Elaboration) -> dict[str, Array]:
    """Weights as they start, with statistics as if something had been learned."""
    return trained_values(model.parameters)


def trained_values(parameters: Sequence[ParameterInfo]) -> dict[str, Array]:
    """The same for the parameters of any model."""
    generator = np.random.default_rng(0)
    values = dict(initial_values(parameters, seed=0))
    for name, array in values.items():
        if array.ndim == 1 and re.search(r"running_|bn|identity|downsample.1", name):
            values[name] = generator.uniform(0.5, 1.5, array.shape).astype(np.float32)
    return values
