"""How long a device waits for its inputs, and how much memory feeding takes.

    python -m benchmarks.feeding pictures [--count 2000] [--workers 2] [--batch 32] [--step 60]
    python -m benchmarks.feeding shards [--gigabytes 4]

`pictures` writes JPEGs of 256 x 256 in folders of classes and feeds them, cut to 224 x 224, to a
device that takes `--step` milliseconds for each batch and no processor. `shards` writes safetensors
files and goes through all of their rows once, in the order of an epoch; the memory of the process
is printed after each tenth of it.
"""

import argparse
import gc
import os
import resource
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter, sleep

import numpy as np
from PIL import Image
from safetensors.numpy import save_file

from meganeura_dsl import pipeline
from meganeura_runtime.backends.base import Uploaded
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.feeder import Feeder
from meganeura_runtime.train.job import Job, prepare
from meganeura_runtime.train.prefetcher import Prefetcher

PICTURES = """\
train fit(image: [batch, 3, 224, 224], label: i32[batch]):
  minimize cross_entropy(image |> mean(2, 3) |> fc: linear(10), label)
  run:
    data  = images("pictures", crop=0.875)
    batch = {batch}
"""
SHARDS = """\
train fit(x: [batch, 4096]):
  minimize mean((x |> fc: linear(1)) ** 2)
  run:
    data  = "shard-*.safetensors"
    batch = 64
"""
CLASSES = 10
ROW_BYTES = 4096 * 4
SHARD_ROWS = 16_384
WARM_UP = 5
"""Steps that are not counted, while processes start."""


class Device:
    """A device that keeps nothing of what it is fed."""

    ahead = 4

    def stage(self, fed: dict[str, Array]) -> Uploaded:
        """Take a batch."""
        return Taken(sum(array.nbytes for array in fed.values()))


class Taken(Uploaded):
    """A batch that was taken."""

    def __init__(self, size: int) -> None:
        self.bytes = size

    def close(self) -> None:
        """There is nothing to give back."""


def write_pictures(folder: Path, count: int) -> None:
    """JPEGs as photographs are: smooth, with some noise."""
    generator = np.random.default_rng(0)
    for number in range(count):
        path = folder / "pictures" / str(number % CLASSES) / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        smooth = np.kron(generator.integers(0, 255, (16, 16, 3)), np.ones((16, 16, 1)))
        noisy = smooth + generator.normal(0, 12, (256, 256, 3))
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(path, quality=90)


def write_shards(folder: Path, gigabytes: float) -> None:
    """Files of random rows."""
    generator = np.random.default_rng(0)
    rows = generator.standard_normal((SHARD_ROWS, 4096), np.float32)
    for number in range(max(2, round(gigabytes * 1e9 / (SHARD_ROWS * ROW_BYTES)))):
        save_file({"x": rows + np.float32(number)}, folder / f"shard-{number:03}.safetensors")


def job_of(folder: Path, text: str, *settings: str) -> Job:
    """The job of a program."""
    (folder / "fit.mgn").write_text(text)
    program = pipeline.load(str(folder / "fit.mgn"))
    return prepare(program, "fit", folder, [*settings, "device=cpu"])


def waits(job: Job, step: float) -> tuple[float, list[float]]:
    """The share of the time that the device waits, and the seconds of each wait."""
    ahead = Prefetcher(Feeder(job), Device(), job.steps)
    found: list[float] = []
    for number in range(job.steps):
        if number == WARM_UP:
            began = perf_counter()
        asked = perf_counter()
        ahead.take(number, lambda: None)
        found.append(perf_counter() - asked)
        sleep(step)
    lasted = perf_counter() - began
    ahead.close()
    return sum(found[WARM_UP:]) / lasted, found[WARM_UP:]


def memory() -> float:
    """Mebibytes that this process has, on Linux."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / (1 << 20)


def pictures(options: argparse.Namespace) -> None:
    """Print how long the device waits."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_pictures(folder, options.count)
        text = PICTURES.format(batch=options.batch)
        job = job_of(folder, text, f"workers={options.workers}", f"epochs={options.epochs}")
        before = os.times()
        share, found = waits(job, options.step / 1000)
        used = os.times().user - before.user + os.times().system - before.system
        del job
        gc.collect()  # the processes end, and what they took is known
        of_workers = os.times().children_user + os.times().children_system
    steps = len(found) + WARM_UP
    print("| workers | steps | waits | median wait | processor per batch: workers | this process |")
    print("|---|---|---|---|---|---|")
    median = statistics.median(found) * 1000
    print(
        f"| {options.workers} | {len(found)} | {share:.1%} | {median:.1f} ms "
        f"| {of_workers / steps * 1000:.1f} ms | {used / steps * 1000:.1f} ms |"
    )


def shards(options: argparse.Namespace) -> None:
    """Print how memory grows over an epoch."""
    with tempfile.TemporaryDirectory(dir=options.folder) as place:
        folder = Path(place)
        write_shards(folder, options.gigabytes)
        job = job_of(folder, SHARDS)
        feeder = Feeder(job)
        print(f"| of {job.steps * 64 * ROW_BYTES / 1e9:.2f} GB fed | memory |")
        print("|---|---|")
        for step in range(job.steps):
            feeder.feeds(step)
            if (step + 1) % max(1, job.steps // 10) == 0:
                print(f"| {(step + 1) / job.steps:.0%} | {memory():.0f} MiB |", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    kinds = parser.add_subparsers(required=True)
    of_pictures = kinds.add_parser("pictures")
    of_pictures.set_defaults(run=pictures)
    of_pictures.add_argument("--count", type=int, default=2000)
    of_pictures.add_argument("--workers", type=int, default=2)
    of_pictures.add_argument("--batch", type=int, default=32)
    of_pictures.add_argument("--step", type=float, default=60.0)
    of_pictures.add_argument("--epochs", type=int, default=2)
    of_shards = kinds.add_parser("shards")
    of_shards.set_defaults(run=shards)
    of_shards.add_argument("--gigabytes", type=float, default=4.0)
    of_shards.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args(arguments)
    options.run(options)


if __name__ == "__main__":
    main()
