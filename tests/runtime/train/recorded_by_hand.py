"""Results and files of runs that are trained by hand, by their settings.

`recorded_by_hand.txt` has of each run what its steps and evaluations give, and what is in its
folder, as `recorded_runs` has it. Each is closed after some steps and goes on in the same folder.

`python -m tests.runtime.train.recorded_by_hand` writes the file anew; read the difference before
you keep it.
"""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

import meganeura
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.records.run_folder import RunFolder
from tests.runtime.train.recorded_runs import EVERY, shown, written

FILE = Path(__file__).with_suffix(".txt")
PROGRAM = """\
train fit(x: [n, 1, 4, 4], pair: [2 * n, 3], y: i32[n], scale: whole [3], on: bool[n]):
  h = x |> rearrange([n, 1, a, b] -> [n, a * b]) |> fc1: linear(6) |> norm: batch_norm |> tanh
  two = sum(rearrange(pair, [n * 2, c] -> [n, 2, c]), 1)
  logits = h |> dropout(0.25) |> fc2: linear(3)
  logits = logits + scale * two + where(insert_axis(on, 1, 3), 0.5, 0)
  minimize cross_entropy(logits, y)
  metric accuracy = mean(argmax(logits, 1) == y)
  show picture = sigmoid(x)
  show confusion = confusion_matrix(logits, y)
  run:
    n         = 4
    optimizer = adam(lr=0.01)
    log_every = 2
"""
SETTINGS: Mapping[str, Mapping[str, object]] = {
    "a plateau": {
        "log_every": 1,
        "schedule": "plateau(patience=0, factor=0.5)",
        "best": "highest accuracy",
    },
    "a plateau of accuracy": {
        "schedule": 'plateau(metric="accuracy", mode="max", patience=0, factor=0.5)',
        "stop_after": 2,
    },
    "so many steps": {"steps": 7, "steps_per_epoch": 3, "schedule": "cosine(warmup=2)"},
    "without a log": {"log_every": 0, "steps": 6},
    "several to an update": {"accumulate": 2, "log_every": 1, "ema": 0.5},
    "groups": {'optimizer["*.bias"]': "sgd(lr=0.1)", 'optimizer["fc2.*"]': "none"},
    "schedules": {'schedule["fc2.*"]': "linear()", "steps": 6, "gradient_norm": True},
}


def described(which: slice = EVERY) -> Iterator[str]:
    """The lines of the file, or of some of its runs."""
    for name, settings in [*SETTINGS.items()][which]:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            (place / "fit.mgn").write_text(PROGRAM)
            yield f"# {name}"
            for line in _run(meganeura.load(str(place / "fit.mgn")), place / "run", settings):
                yield line.replace(folder, "")
            yield ""


def _run(program: meganeura.Program, out: Path, settings: Mapping[str, object]) -> Iterator[str]:
    with program.trainer(device="cpu", out=out, settings=settings) as trainer:
        yield from steps(trainer, range(3))
        trainer.save()
        yield from steps(trainer, range(3, 4))  # which is forgotten
    with program.trainer(device="cpu", out=out, resume=out) as trainer:
        yield from steps(trainer, range(3, 5))
        rates = trainer.learning_rate
        trainer.learning_rate = 0.25
        yield from steps(trainer, range(5, 7))
        yield f"rate {shown(rates)}, then {trainer.learning_rate:g}"
        trainer.save()
    with program.trainer(device="cpu", resume=out) as trainer:
        yield from steps(trainer, range(7, 8))
    yield from written(RunFolder(out))


def steps(trainer: meganeura.Trainer, seeds: range) -> Iterator[str]:
    """Yields the results of each step, and an evaluation after it.

    That of seed 1 does not count.
    """
    for seed in seeds:
        result = trainer.step(batch(4, seed))
        values = {name: float(each) for name, each in result.metrics.items()}
        yield f"step {result.step}: {shown([result.learning_rate, result.loss, values])}"
        try:
            measured = trainer.evaluate(batch(10, 100 + seed), counts=seed != 1)
        except ProblemError as error:
            yield f"refused: {error.problem.report().headline}"
            continue
        yield f"evaluated {shown(measured)}, {trainer.should_stop}"


def batch(examples: int, seed: int) -> dict[str, Array]:
    """Examples of a seed, in types that are converted."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(examples, 4, 4, 1)).transpose(0, 3, 2, 1)
    return {
        "x": x.astype(np.float32),
        "pair": generator.normal(size=(2 * examples, 3)),
        "y": generator.integers(0, 3, examples).astype(np.int64),
        "scale": np.asarray([0.5, 1.0, 1.5], np.float16),
        "on": generator.integers(0, 2, examples).astype(np.bool_),
    }


if __name__ == "__main__":
    FILE.write_text("\n".join(described()) + "\n")
