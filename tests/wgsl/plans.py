"""Kernels of the plans of standard models: for inference and of their trainings."""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.ir.types import example_sizes
from meganeura_dsl.resources import standard_model_names
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_runtime.backends.webgpu.config.limits import PORTABLE, DeviceLimits, Style
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from tests.standard import declared
from tests.stdlib_models.first_step import TRAININGS, job

MODELS = [
    (file, name) for file in sorted(standard_model_names()) for name in declared(file, "model")
]
"""All standard models, as published."""
BUFFER = BINDING = 1 << 40
"""Bytes for the largest standard models, of which no device here runs all."""
PLANNED = (
    (replace(PORTABLE, buffer_bytes=BUFFER, binding_bytes=BINDING), Style.GPU),
    (DeviceLimits(BUFFER, BINDING), Style.SOFTWARE_VULKAN),
    (DeviceLimits(BUFFER, BINDING, lanes=8), Style.SOFTWARE_VULKAN),
)
"""Adapters that plans are made for: a GPU, software, and software whose shuffles work."""


def kernels(graph: Graph) -> frozenset[str]:
    """The texts of the kernels of a graph's plans."""
    return frozenset(
        text for limits, style in PLANNED for text in plan_graph(graph, limits, style).kernels
    )


def of_model(file: str, name: str) -> frozenset[str]:
    """Kernels of inference, optimized, at small sizes of what stays open."""
    graph = elaborated(file, name).graph
    return kernels(RewriteOptions().optimize(graph, "infer").graph)


def of_training(file: str, train: str) -> frozenset[str]:
    """Kernels of a training step, optimized."""
    with tempfile.TemporaryDirectory() as folder:
        return kernels(job(file, train, Path(folder)).spec.compiled)


def elaborated(file: str, name: str) -> Elaboration:
    """A model as published, at the largest sizes that it takes of 32 and its halves."""
    program = pipeline.load(f"{file}:{name}")
    sizes = example_sizes(pipeline.elaborate_model(program, name).inputs.values())
    while True:
        try:
            return pipeline.elaborate_model(program, name, sizes=sizes)
        except ProblemError:
            if max(sizes.values(), default=1) == 1:
                raise
            sizes = {each: max(1, size // 2) for each, size in sizes.items()}


def everything(part: str = "") -> Iterator[tuple[str, frozenset[str]]]:
    """The kernels of standard models and trainings whose name has a part, by what they are of."""
    for file, name in MODELS:
        if part in f"model {name}":
            yield f"model {name}", of_model(file, name)
    for file, train in TRAININGS:
        if part in f"training {file}:{train}":
            yield f"training {file}:{train}", of_training(file, train)
