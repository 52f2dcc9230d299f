"""A program of one parameter on watched reference sessions: what tests of the loop train."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.elaborate.problems.location import Location
from meganeura_dsl.elaborate.scope.parameter_info import ParameterInfo
from meganeura_dsl.ir.graph import Builder, Graph
from meganeura_dsl.ir.index_checks import Bound
from meganeura_dsl.ir.initializers import Ones
from meganeura_dsl.ir.ops import Broadcast, Constant, Input, Mul, Parameter, Sub, Sum
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.settings.run_settings import RunSettings
from meganeura_dsl.symbolic.size import dim
from meganeura_dsl.transforms.step_part import StepPart
from meganeura_dsl.transforms.training_step import training_step
from meganeura_runtime.backends.base import Outputs, Uploaded
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.io.data.dataset import InputSpec, match_data
from meganeura_runtime.io.tensors.stored_tensor import Array, StoredTensor
from meganeura_runtime.train.events import (
    Event,
)
from meganeura_runtime.train.loop.training_loop import train
from meganeura_runtime.train.records.run_folder import RunFolder, new_folder
from meganeura_runtime.train.spec.step_graphs import SizedStep, training_settings
from meganeura_runtime.train.spec.train_job import TrainJob
from meganeura_runtime.train.spec.train_spec import TrainSpec

EXAMPLES = 10
X = np.arange(1, EXAMPLES + 1, dtype=np.float32).reshape(EXAMPLES, 1) / EXAMPLES
PLACE = Location(Span(Source("fit.mgn", "param w: [1] = ones"), 0, 5))


class Read(Outputs):
    """Outputs that count how often they are looked at."""

    def __init__(self, outputs: Outputs, session: "WatchedSession") -> None:
        self.outputs = outputs
        self.session = session

    def request(self) -> None:
        self.outputs.request()

    def __getitem__(self, name: str) -> Array:
        return self.outputs[name]

    def __iter__(self) -> Iterator[str]:
        self.session.reads += 1
        return iter(self.outputs)

    def __len__(self) -> int:
        return len(self.outputs)


class WatchedSession(ReferenceSession):
    """A session that remembers what it was fed and how often its outputs were looked at."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.fed: list[Mapping[str, Array]] = []
        self.reads = 0
        self.closed = False

    def step(self, feeds: Mapping[str, Array] | Uploaded) -> Outputs:
        assert not isinstance(feeds, Uploaded)
        self.fed.append(feeds)
        return Read(super().step(feeds), self)

    def close(self) -> None:
        self.closed = True
        super().close()


class Sessions:
    """Opens reference sessions and remembers them."""

    def __init__(self) -> None:
        self.opened: list[WatchedSession] = []

    def __call__(self, graph: Graph) -> WatchedSession:
        self.opened.append(WatchedSession(graph))
        return self.opened[-1]


def forward(examples: int) -> Graph:
    """Loss = mean((x (w - 2))**2), error = mean(x)."""
    build = Builder()
    x = build.add(Input("x", DType.F32, (examples, 1)))
    w = build.add(Parameter("w", DType.F32, (1,), "param"))
    two = build.add(Broadcast((1,), ()), build.add(Constant(2.0, DType.F32)))
    off = build.add(Broadcast((examples, 1), (1,)), build.add(Sub(), w, two))
    scaled = build.add(Mul(), x, off)
    square = build.add(Mul(), scaled, scaled)
    part = build.add(Constant(1 / examples, DType.F32))
    loss = build.add(Mul(), part, build.add(Sum((0, 1)), square))
    mean = build.add(Mul(), part, build.add(Sum((0, 1)), x))
    return build.graph({"loss": loss, "size": mean})


def job(*, held_out: bool = True, test: Array = X, **changes: object) -> TrainJob:
    settings = RunSettings.model_validate(
        {
            "data": "x",
            "sizes": {"batch": 4},
            "epochs": 3,
            "optimizer": {"kind": "sgd", "lr": 0.5},
            "schedule": {"kind": "constant"},
            "log_every": 2,
            **changes,
        }
    )
    batch = settings.sizes["batch"]
    demand = InputSpec({"x": TensorType(DType.F32, (dim("batch"), 1))}, settings.sizes)
    splits = ("train.x", "test.x") if held_out else ("x",)
    path = Path("x.safetensors")
    data = {"train.x": X, "x": X, "test.x": test}
    tensors = {name: StoredTensor(path, name, "f32", data[name]) for name in splits}
    parameter = ParameterInfo("w", TensorType(DType.F32, (1,)), "param", "f32", Ones(), PLACE)
    wanted = training_settings(settings)
    step = training_step(forward(batch), wanted)
    spec = TrainSpec(
        name="fit",
        settings=settings,
        input_spec=demand,
        parameters=(parameter,),
        whole_step=SizedStep(batch, forward(batch), wanted, step),
        graphs=OneParameter(),
    )
    return TrainJob(spec=spec, dataset=match_data(tensors, demand, path))


class OneParameter:
    """The graphs of `forward`, of which steps have one size."""

    def evaluation(self, sizes: Mapping[str, int]) -> Graph:
        return forward(sizes["batch"])

    def symbolic_evaluation(self) -> Graph | None:
        return None

    def sized(self, sizes: Mapping[str, int], part: StepPart) -> SizedStep:
        raise AssertionError(sizes, part)

    def bounds(self, sizes: Mapping[str, int]) -> Mapping[str, Bound]:
        del sizes
        return {}


def run(
    folder: Path, wanted: TrainJob, stop_after: int | None = None
) -> tuple[list[Event], RunFolder, Sessions]:
    events: list[Event] = []
    sessions = Sessions()

    def stop() -> bool:
        return stop_after is not None and len(sessions.opened[0].fed) >= stop_after

    with new_folder(folder, wanted.spec.name) as kept:
        train(wanted, kept, sessions, events.append, stop)
    return events, kept, sessions


def metrics(folder: RunFolder) -> list[dict[str, float | str | None]]:
    return [json.loads(line) for line in folder.metrics.read_text().splitlines()]
