"""The first step of every `train` block of the standard files, on a few random examples.

`first_step.json` has what each measures there, the loss and the metrics, and checksums of the step
as it is written and as it is optimized. Whatever changes what a standard layer or model computes,
or how, is seen there, whether or not it was meant.

`python -m tests.stdlib_models.first_step` writes the file anew; read the difference before you keep
it.
"""

import json
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from zlib import crc32

import numpy as np
from safetensors.numpy import save_file

from meganeura_dsl import pipeline
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.ir.interpreter import Interpreter, Results
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.text import format_graph
from meganeura_dsl.ir.types import DType
from meganeura_dsl.pipeline import load
from meganeura_dsl.resources import standard_model_names
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.spec.session_inputs import feeds
from meganeura_runtime.train.spec.train_job import TrainJob, prepare
from tests.standard import declared

FILE = Path(__file__).with_suffix(".json")
TRAININGS = [
    (file, train) for file in sorted(standard_model_names()) for train in declared(file, "train")
]
EXAMPLES = 2
OWN_DATA = frozenset({"sage"})
"""Files whose training takes its own examples: a graph's edges and its nodes belong together."""

BELOW = {"ppo": 2}
"""The bound of the random whole numbers, where it is not 9: that of the actions of a game."""
STORED = {DType.I32: np.int32, DType.BOOL: np.bool_}
"""The types of stored inputs that are no floats."""


def job(file: str, train: str, folder: Path, *overrides: str, examples: int = EXAMPLES) -> TrainJob:
    """The training on a few random examples of what it asks for; on `EXAMPLES` of its own."""
    batch = EXAMPLES if file in OWN_DATA else examples
    settings = [f"batch={batch}", "epochs=1", "schedule=constant", "device=cpu"]
    program = load(file)
    if file in OWN_DATA:
        return prepare(program, train, folder, [*settings, *overrides])
    sizes = {"batch": examples}
    inputs = pipeline.elaborate_train(program, train, sizes=sizes, training=True).inputs
    generator = np.random.default_rng(0)
    data: dict[str, Array] = {}
    for name, wanted in inputs.items():
        if wanted.shape[:1] == (examples,):
            shape = concrete_shape(wanted.shape)
            number = generator.integers(0, BELOW.get(file, 9), shape)
            data[name] = number.astype(STORED.get(wanted.dtype, np.float32))
    path = folder / "data.safetensors"
    save_file(data, path)
    return prepare(program, train, folder, [f"data={path}", *settings, *overrides])


def first_step(made: TrainJob, kept: dict[str, Array]) -> Results:
    """Returns the results of the first step by the reference."""
    data = made.dataset.train.take(slice(0, EXAMPLES))
    return Interpreter(made.spec.step).run({**kept, **feeds(made.spec.step, data, 0, 0, 0.01)})


@dataclass(frozen=True)
class FirstStep:
    """The entry of one training in the file."""

    measured: dict[str, float]
    step: str
    optimized: str

    @staticmethod
    def of(made: TrainJob, results: Results) -> "FirstStep":
        """The numbers of a step, with as many digits as rounding leaves alone, and its graphs."""
        numbers = {name: each for name, each in results.outputs.items() if each.ndim == 0}
        measured = {name: float(f"{float(each):.5g}") for name, each in numbers.items()}
        return FirstStep(measured, _sum(made.spec.step), _sum(made.spec.compiled))


def _sum(graph: Graph) -> str:
    return f"{crc32(format_graph(graph, origins=False).encode()):08x}"


def written() -> dict[str, FirstStep]:
    """Returns the content of the file, by file and training."""
    return {name: FirstStep(**each) for name, each in json.loads(FILE.read_text()).items()}


def update() -> None:
    """Write the file."""
    found: dict[str, dict[str, object]] = {}
    for file, train in TRAININGS:
        with tempfile.TemporaryDirectory() as folder:
            made = job(file, train, Path(folder))
            results = first_step(made, made.spec.initial_values())
            found[f"{file} {train}"] = asdict(FirstStep.of(made, results))
    FILE.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    update()
