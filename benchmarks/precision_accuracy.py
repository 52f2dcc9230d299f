"""The cost in accuracy of training in bfloat16: five models in f32 and bf16, over several seeds.

    python -m benchmarks.precision_accuracy [--device xla] [--seeds 5] [--precisions f32,bf16]
        [--only NAME] [--epochs N] [--jobs 4] [-o FILE]

The models and their `train` blocks are those of the standard library: a residual network on the
embedded digits, Whisper's encoder on nine words of synthetic speech, a decoder on the text of the
documentation, a vision transformer on the digits, and a U-Net on their noise. A seed decides the
initial values, the order of the examples and the noise. The table has the mean and the standard
deviation over the seeds of what is measured on held-out examples at the end, and the difference of
the means in units of its standard error; values of up to about 2 are what chance gives. Each
process of `--jobs` trains one model with one seed.
"""

import argparse
import os
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from math import sqrt
from multiprocessing import get_context
from pathlib import Path
from subprocess import run
from tempfile import TemporaryDirectory

import meganeura

ROOT = Path(__file__).parents[1]
TEXT_BYTES = 1 << 16
"""Of the documentation."""


def embedded(folder: Path) -> Mapping[str, object]:
    """The digits need nothing."""
    del folder
    return {}


def spoken(folder: Path) -> Mapping[str, object]:
    """The words, spoken by a script."""
    file = folder / "words.safetensors"
    if not file.exists():
        _script("synthetic_speech.py", file)
    return {"data": str(file)}


def written(folder: Path) -> Mapping[str, object]:
    """Windows of the documentation; the last tenth is held out."""
    file = folder / "text.safetensors"
    if not file.exists():
        texts = [path.read_text() for path in sorted((ROOT / "docs").glob("*.md"))]
        text = folder / "text.txt"
        text.write_bytes("\n".join(texts).encode()[:TEXT_BYTES])
        _script("text_bytes.py", text, file)
    return {"data": str(file), "validation": 0.1}


def _script(name: str, *arguments: Path) -> None:
    run([sys.executable, ROOT / "scripts" / name, *arguments], check=True, capture_output=True)


@dataclass(frozen=True)
class Workload:
    """A `train` block of a standard model."""

    name: str
    program: str
    train: str
    metric: str
    epochs: int
    data: Callable[[Path], Mapping[str, object]]


WORKLOADS = (
    Workload("digits, residual network", "digits_cnn", "", "accuracy", 12, embedded),
    Workload("nine spoken words, Whisper's encoder", "whisper", "words", "accuracy", 12, spoken),
    Workload("text, decoder of the Llama family", "lm", "text", "loss", 4, written),
    Workload("digits, vision transformer", "vit", "digits", "accuracy", 12, embedded),
    Workload("noise of digits, U-Net", "unet", "denoise", "loss", 12, embedded),
)


@dataclass(frozen=True)
class Run:
    """One training run."""

    workload: int
    precision: str
    seed: int
    device: str
    epochs: int
    folder: str

    def result(self) -> float:
        """Returns the measurement on the held-out examples at the end."""
        workload = WORKLOADS[self.workload]
        program = meganeura.load(workload.program)
        settings = {
            **workload.data(Path(self.folder)),
            "epochs": self.epochs or workload.epochs,
            "precision": self.precision,
            "seed": self.seed,
        }
        name = f"{workload.program}-{self.precision}-{self.seed}"
        found = program.train(
            workload.train or None,
            device=self.device,
            settings=settings,
            out=Path(self.folder) / name,
        )
        return float(found.held_out[-1][workload.metric])


def result_of(one: Run) -> float:
    """That of a run, in its own process."""
    return one.result()


Results = Mapping[tuple[int, str], Sequence[float]]
"""The measurements, by workload and precision."""


def table(results: Results, chosen: Sequence[int], precisions: Sequence[str]) -> Iterator[str]:
    """Means and standard deviations, and how far means are apart."""
    first, *others = precisions
    apart = [f"{other} - {first}" for other in others]
    errors = ["in standard errors" for _ in others]
    head = ["held out at the end", "seeds", *precisions, *apart, *errors]
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for number in chosen:
        workload = WORKLOADS[number]
        base = results[number, first]
        shown = [_spread(results[number, each]) for each in precisions]
        differences = [
            statistics.mean(results[number, each]) - statistics.mean(base) for each in others
        ]
        standard = [_standard_error(base, results[number, each]) for each in others]
        row = [
            f"{workload.name}: {workload.metric}",
            str(len(base)),
            *shown,
            *(f"{each:+.4f}" for each in differences),
            *(
                f"{difference / error:+.1f}" if error else "-"
                for difference, error in zip(differences, standard, strict=True)
            ),
        ]
        yield f"| {' | '.join(row)} |"


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.mean(values):.4f} ± {_deviation(values):.4f}"


def _deviation(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


def _standard_error(first: Sequence[float], other: Sequence[float]) -> float:
    """That of the difference of two means (B. L. Welch, 1947)."""
    return sqrt(_deviation(first) ** 2 / len(first) + _deviation(other) ** 2 / len(other))


def main(words: Sequence[str] | None = None) -> None:
    """Train all, and print the table."""
    options = _parsed(words)
    # Else the first process takes three quarters of the GPU's memory.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    chosen = [at for at, each in enumerate(WORKLOADS) if options.only in each.program]
    precisions = options.precisions.split(",")
    with TemporaryDirectory() as folder:
        for number in chosen:
            WORKLOADS[number].data(Path(folder))
        runs = [
            Run(number, precision, seed, options.device, options.epochs, folder)
            for seed, number, precision in product(range(options.seeds), chosen, precisions)
        ]
        # A fork of a process that has a GPU open has none.
        context = get_context("spawn")
        with ProcessPoolExecutor(options.jobs, mp_context=context) as processes:
            found: dict[tuple[int, str], list[float]] = {}
            for one, value in zip(runs, processes.map(result_of, runs), strict=True):
                found.setdefault((one.workload, one.precision), []).append(value)
                program = WORKLOADS[one.workload].program
                print(f"{program} {one.precision} seed {one.seed}: {value:.4f}", flush=True)
    lines = "\n".join(table(found, chosen, precisions))
    print(f"\n{lines}")
    if options.output:
        options.output.write_text(f"{lines}\n")


def _parsed(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What training in bfloat16 costs in accuracy.")
    parser.add_argument("--device", default="xla")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--precisions", default="f32,bf16")
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--epochs", type=int, default=0, help="instead of each workload's own")
    parser.add_argument("--jobs", type=int, default=4, help="processes side by side")
    parser.add_argument("-o", "--output", type=Path, help="write the table here")
    return parser.parse_args(words)


if __name__ == "__main__":
    main()
