"""The compared cases: models at batch sizes, with the same weights and inputs for everybody."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.peers.models import BATCHES, LARGE, SMALL, Model
from meganeura_dsl.ir.cost_model import DeviceModel
from meganeura_dsl.ir.graph import Array, Graph
from meganeura_dsl.ir.index_checks import leaf_bounds
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


@dataclass(frozen=True)
class Case:
    """A model at a batch size, to infer or to be trained."""

    model: Model
    batch: int
    trains: bool

    @property
    def name(self) -> str:
        """The name in the table and on the command line."""
        return f"{self.model.name}-b{self.batch}-{'train' if self.trains else 'infer'}"


def cases(*, small: bool, wanted: Sequence[str] = ("*",)) -> tuple[Case, ...]:
    """Those whose name one of some patterns of the shell matches, large batches first."""
    found: list[Case] = []
    for batch_of in (lambda model: BATCHES[model.name], lambda _: 1):
        for model in SMALL if small else LARGE:
            batch = min(4, batch_of(model)) if small else batch_of(model)
            found += [Case(model, batch, trains=trains) for trains in (True, False)]
    return tuple(case for case in found if any(fnmatch(case.name, each) for each in wanted))


@dataclass(frozen=True)
class Material:
    """The material of every contender: the program as a graph, its weights and inputs."""

    case: Case
    graph: Graph
    weights: Values
    inputs: Values
    """In the order in which the program declares them: what goes in, and what should come out."""


def material(case: Case) -> Material:
    """Random, and the same in every process."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "benchmark.mgn"
        path.write_text(case.model.program)
        program = load(str(path))
        if case.trains:
            found = elaborate_train(program, "fit", sizes={"batch": case.batch}, training=True)
        else:
            sizes = {"n": case.batch, **case.model.sizes}
            found = elaborate_model(program, "subject", sizes=sizes)
    return Material(
        case, found.graph, initial_values(found.parameters, 0), random_inputs(found.graph)
    )


def random_inputs(graph: Graph) -> Values:
    """Numbers for pictures and sounds; for what picks something, what there is to pick."""
    generator = np.random.default_rng(0)
    bounds = leaf_bounds(graph)
    found: dict[str, Array] = {}
    for value in graph.values:
        if isinstance(value.op, Input):
            shape = tuple(int(str(size)) for size in value.type.shape)
            if value.type.dtype.is_float:
                found[value.op.name] = generator.standard_normal(shape, np.float32)
            else:
                count = bounds[value.op.name].count
                found[value.op.name] = generator.integers(0, count, shape).astype(np.int32)
    return found


def optimized(
    one: Material, device: DeviceModel, *, scale_loss: bool = False
) -> tuple[Graph, Graph]:
    """The graph that runs, and how the parameters that the optimizer added are computed."""
    options = RewriteOptions(device=device)
    if one.case.trains:
        optimizer = Sgd(lr=LEARNING_RATE, momentum=MOMENTUM)
        settings = TrainingSettings(optimizer, scale_loss=scale_loss)
        return optimized_training_step(one.graph, settings, options).graph, Graph((), {}, {})
    found = options.optimize(one.graph, "infer")
    return found.graph, found.load
