"""What is compared: models, batches, and the same weights and inputs for everybody."""

import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from meganeura_dsl.ir.cost_model import GPU
from meganeura_dsl.ir.graph import Array, Graph
from meganeura_dsl.ir.ops import Input
from meganeura_dsl.pipeline import elaborate_model, elaborate_train, load
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_dsl.transforms.optimizers.optimizers import Sgd
from meganeura_dsl.transforms.training_step import TrainingSettings, optimized_training_step
from meganeura_runtime.io.weights import initial_values

LEARNING_RATE = 0.001
MOMENTUM = 0.9
LOSSES = 3
"""So many first losses of a training are compared: they depend on gradients and updates too."""

Values = Mapping[str, Array]
Prepared = Mapping[str, tuple[Graph, Graph]]
"""By the name of a case: the graph that runs, and how the parameters it adds are computed."""


@dataclass(frozen=True)
class Model:
    """A model of the standard library, and a program that trains it."""

    name: str
    file: str
    program: str
    sizes: Mapping[str, int]
    batches: tuple[int, ...]


IMAGES = """(x: [batch, 3, {size}, {size}], label: i32[batch]):
  logits = x |> {name}
  minimize cross_entropy(logits, label)
"""
SOUNDS = """(x: [batch, 80, 3000], y: [batch, 1500, 384]):
  z = x |> {name}
  minimize mean((z - y) ** 2)
"""


def models(*, small: bool) -> Iterator[Model]:
    """The models of the table; small ones only show that all of it works."""
    size = 64 if small else 224
    for name, file in (("resnet18", "resnet"), ("repvgg_a0", "repvgg")):
        program = IMAGES.format(size=size, name=name)
        yield Model(name, file, program, {"h": size, "w": size}, (2,) if small else (1, 32))
    program = SOUNDS.format(name="whisper_tiny")
    yield Model("whisper_tiny", "whisper", program, {"t": 3000}, (1,) if small else (1, 8))


@dataclass(frozen=True)
class Case:
    """A model at a batch size, to infer or to be trained."""

    model: Model
    batch: int
    trains: bool

    @property
    def name(self) -> str:
        """What the table calls it."""
        return f"{self.model.name}, {self.batch}, {'train' if self.trains else 'infer'}"


def cases(*, small: bool, only: str = "") -> tuple[Case, ...]:
    """All of them whose name contains a text, the cheap ones first."""
    found = (
        Case(model, batch, trains)
        for model in models(small=small)
        for batch in model.batches
        for trains in (False, True)
    )
    return tuple(case for case in found if only in case.name)


@dataclass(frozen=True)
class Material:
    """What every contender gets: the program as a graph, its weights and inputs."""

    case: Case
    graph: Graph
    weights: Values
    inputs: Values
    """In the order in which the program declares them: what goes in, and what should come out."""


def material(case: Case) -> Material:
    """Random, and the same in every process."""
    if case.trains:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "benchmark.mgn"
            source = f"from {case.model.file} import {case.model.name}\n\ntrain fit"
            path.write_text(source + case.model.program)
            found = elaborate_train(
                load(str(path)), "fit", sizes={"batch": case.batch}, training=True
            )
    else:
        sizes = {"n": case.batch, **case.model.sizes}
        found = elaborate_model(load(case.model.file), case.model.name, sizes=sizes)
    return Material(
        case, found.graph, initial_values(found.parameters, 0), random_inputs(found.graph)
    )


def random_inputs(graph: Graph) -> Values:
    """Numbers for pictures and sounds, and classes for labels."""
    generator = np.random.default_rng(0)
    found: dict[str, Array] = {}
    for value in graph.values:
        if isinstance(value.op, Input):
            shape = tuple(int(str(size)) for size in value.type.shape)
            if value.type.dtype.is_float:
                found[value.op.name] = generator.standard_normal(shape, np.float32)
            else:
                found[value.op.name] = generator.integers(0, 1000, shape).astype(np.int32)
    return found


def optimized(one: Material) -> tuple[Graph, Graph]:
    """The graph that runs, and how the parameters that the optimizer added are computed."""
    if one.case.trains:
        settings = TrainingSettings(Sgd(lr=LEARNING_RATE, momentum=MOMENTUM))
        step = optimized_training_step(one.graph, settings, RewriteOptions(device=GPU))
        return step.graph, Graph((), {}, {})
    found = RewriteOptions(device=GPU).optimize(one.graph, "infer")
    return found.graph, found.load


def prepare(path: Path, chosen: tuple[Case, ...]) -> None:
    """Write the optimized graphs of cases."""
    path.write_bytes(pickle.dumps({case.name: optimized(material(case)) for case in chosen}))


def read_prepared(path: Path) -> Prepared:
    """What `prepare` wrote."""
    return pickle.loads(path.read_bytes())  # noqa: S301  our own file
