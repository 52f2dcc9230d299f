"""How long the compiler takes, and that it grows with the program and no faster.

    python benchmarks/compile_time.py

Prints two tables: the time to check standard models, and the time to elaborate and differentiate
networks of about 1,000, 4,000 and 16,000 values. Every figure is the median of several runs.
"""

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from meganeura_dsl.pipeline import check_file, elaborate_train, load
from meganeura_dsl.training import Sgd, TrainingSettings, training_step

RUNS = 7
CHAIN = """\
block Layer()(x: [n, 16]) -> [n, 16]:
  return x + (x |> fc: linear(16) |> silu)

block Chain(depth)(x: [n, 16]) -> [n, 16]:
  for i in 0..depth:
    x = x |> layers[i]: Layer()
  return x

model chain = Chain(depth={depth})

train fit(x: [batch, 16], y: [batch, 16]):
  minimize mse(x |> chain, y)
"""


def milliseconds(action: Callable[[], object]) -> float:
    """The median time of an action, after one run to warm up."""
    action()
    times: list[float] = []
    for _ in range(RUNS):
        start = perf_counter()
        action()
        times.append(1e3 * (perf_counter() - start))
    return statistics.median(times)


def print_checks() -> None:
    """The time to prove standard models, in this process and as a command."""
    print("| check | in process, ms | as a process, ms |\n|---|---|---|")
    for model in ("digits_cnn", "resnet18", "repvgg_b3g4", "whisper_tiny"):
        command = [sys.executable, "-m", "meganeura_dsl.cli", "check", model]
        inside = milliseconds(lambda name=model: check_file(name))
        outside = milliseconds(
            lambda words=command: subprocess.run(words, capture_output=True, check=True)
        )
        print(f"| {model} | {inside:.0f} | {outside:.0f} |")


def print_growth() -> None:
    """The time to elaborate and differentiate deeper and deeper networks."""
    print("\n| values | elaborate, ms | differentiate and update, ms | microseconds a value |")
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for depth in (35, 140, 560):
            path = Path(folder) / f"chain_{depth}.mgn"
            path.write_text(CHAIN.replace("{depth}", str(depth)))
            program = load(str(path))
            forward = elaborate_train(program, sizes={"batch": 4}, training=True).graph
            settings = TrainingSettings(Sgd(lr=0.1))
            step = training_step(forward, settings)
            first = milliseconds(
                lambda p=program: elaborate_train(p, sizes={"batch": 4}, training=True)
            )
            second = milliseconds(lambda g=forward, s=settings: training_step(g, s))
            count = len(step.values)
            each = 1e3 * (first + second) / count
            print(f"| {count:,} | {first:.0f} | {second:.0f} | {each:.1f} |")


if __name__ == "__main__":
    print_checks()
    print_growth()
