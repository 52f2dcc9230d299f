"""The time that a device waits for its inputs, and the memory of feeding.

    python -m benchmarks.feeding write FOLDER [--count 2000] [--processes 16]
    python -m benchmarks.feeding pictures [--folder FOLDER] [--workers 2] [--batch 32] [--step 60]
    python -m benchmarks.feeding shards [--gigabytes 4] [--checksums] [--no-shuffle]
    python -m benchmarks.feeding iterator [--steps 300] [--step 10]

`write` makes JPEGs of 256 x 256 in folders of classes. `pictures` feeds them (or `--count` of its
own), cut to 224 x 224, to a device that takes `--step` milliseconds for each batch and no
processor. It prints how long that device waits, what memory the processes have after each tenth of
an epoch, and whether each picture came once an epoch: its number is drawn in it, in squares of
black and white. `shards` writes safetensors files and goes through all of their rows once, in the
order of an epoch; after each tenth of it the memory of the process is printed, and how long a batch
took. `iterator` feeds what a generator of Python yields, checked batch by batch, to a device that
takes `--step` milliseconds: it prints how much longer a step takes than that.
"""

import argparse
import gc
import os
import resource
import statistics
import tempfile
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter, process_time, sleep

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from safetensors.numpy import save_file

from meganeura_dsl import pipeline
from meganeura_runtime.backends.base import Uploaded
from meganeura_runtime.io.tensors.safetensors_file import write_tensors
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.data.run_data import FROM_FILES, PythonData
from meganeura_runtime.train.loop.feeder import Feeder
from meganeura_runtime.train.loop.prefetcher import Prefetcher, is_worthwhile
from meganeura_runtime.train.spec.train_job import TrainJob, prepare

PICTURES = """\
train fit(image: [batch, 3, 224, 224], label: i32[batch]):
  minimize cross_entropy(image |> mean(2, 3) |> fc: linear(10), label)
  run:
    data      = images("pictures", crop=0.875)
    batch     = {batch}
    drop_last = false
"""
IMAGES = """\
train fit(image: [batch, 3, {side}, {side}], label: i32[batch]):
  minimize cross_entropy(image |> mean(2, 3) |> fc: linear(10), label)
  run:
    batch           = 32
    steps_per_epoch = {steps}
"""
SHARDS = """\
train fit(x: [batch, 4096]):
  minimize mean((x |> fc: linear(1)) ** 2)
  run:
    data  = "shard-*.safetensors"
    batch = 64
"""
CLASSES = 10
NUMBER_ROWS, NUMBER_COLUMNS = slice(6, 10), slice(5, 10)
"""Cells of 16 x 16 pixels of a picture, each a bit of its number."""
NUMBER_BITS = 20
ROW_BYTES = 4096 * 4
SHARD_ROWS = 16_384
WARM_UP = 5
"""Steps that are not counted, while processes start."""


class Device:
    """A device that keeps nothing of what it is fed."""

    ahead = 4

    def stage(self, fed: dict[str, Array]) -> Uploaded:
        """Take a batch."""
        return Taken(fed)


class Taken(Uploaded):
    """A batch that was taken."""

    def __init__(self, fed: dict[str, Array]) -> None:
        self.bytes = sum(array.nbytes for array in fed.values())
        self.fed = fed

    def close(self) -> None:
        """There is nothing to give back."""


def write_pictures(folder: Path, count: int, processes: int) -> None:
    """JPEGs as photographs are: smooth, with some noise, and each with its number in the middle."""
    if count > 1 << NUMBER_BITS:
        raise SystemExit(f"at most {1 << NUMBER_BITS:,} pictures")
    for number in range(min(count, CLASSES)):
        (folder / "pictures" / str(number)).mkdir(parents=True)
    parts = [range(first, count, processes) for first in range(processes)]
    if processes == 1:
        write_some(folder, parts[0])
        return
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        list(pool.map(partial(write_some, folder), parts))


def write_some(folder: Path, numbers: range) -> None:
    """The pictures that one process writes."""
    noise = np.random.default_rng(0).normal(0, 12, (256 + 64, 256 + 64, 3)).astype(np.float32)
    for number in numbers:
        generator = np.random.default_rng(number)
        cells = generator.integers(0, 255, (16, 16, 3)).astype(np.float32)
        bits = number >> np.arange(NUMBER_BITS) & 1
        cells[NUMBER_ROWS, NUMBER_COLUMNS] = 255 * bits.reshape(4, 5, 1)
        x, y = generator.integers(0, 64, 2)
        noisy = cells.repeat(16, 0).repeat(16, 1) + noise[x : x + 256, y : y + 256]
        path = folder / "pictures" / str(number % CLASSES) / f"{number}.jpg"
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(path, quality=90)


def numbers_of(images: Array) -> NDArray[np.int64]:
    """The numbers that are drawn in a batch of pictures, cut to 224 x 224 from their middle."""
    middles = images.mean(axis=1)[:, 8::16, 8::16]  # a cell of 16 x 16 was cut from each side
    rows, columns = (slice(each.start - 1, each.stop - 1) for each in (NUMBER_ROWS, NUMBER_COLUMNS))
    bits = middles[:, rows, columns].reshape(len(images), NUMBER_BITS) > 0
    return (bits << np.arange(NUMBER_BITS)).sum(axis=1)


def write_shards(folder: Path, gigabytes: float, *, checksums: bool) -> None:
    """Files of random rows, with checksums or as other programs write them."""
    generator = np.random.default_rng(0)
    rows = generator.standard_normal((SHARD_ROWS, 4096), np.float32)
    for number in range(max(2, round(gigabytes * 1e9 / (SHARD_ROWS * ROW_BYTES)))):
        path, tensors = folder / f"shard-{number:03}.safetensors", {"x": rows + np.float32(number)}
        if checksums:
            write_tensors(path, tensors, {})
        else:
            save_file(tensors, path)


def job_of(folder: Path, text: str, *settings: str, given: PythonData = FROM_FILES) -> TrainJob:
    """The job of a program."""
    (folder / "fit.mgn").write_text(text)
    program = pipeline.load(str(folder / "fit.mgn"))
    return prepare(program, "fit", folder, [*settings, "device=cpu"], data=given)


@dataclass
class Fed:
    """The results of feeding a device."""

    waits: list[float]
    """Seconds of each step after the first few."""
    lasted: float
    numbers: list[NDArray[np.int64]]
    """Of the pictures of each step."""
    memory: list[tuple[float, float]]
    """Mebibytes of this process and of its workers after each tenth."""


def nothing() -> None:
    """Does nothing, in place of other work of a waiting loop."""


def fed(job: TrainJob, step: float) -> Fed:
    """Feed all steps of a job to a device that takes `step` seconds for each."""
    device = Device()
    ahead = Prefetcher(Feeder(job), device, job.steps)
    found = Fed([], 0.0, [], [])
    began = perf_counter()
    for number in range(job.steps):
        if number == WARM_UP:
            began = perf_counter()
        asked = perf_counter()
        taken = ahead.take(number, nothing)
        arrived = perf_counter()
        assert isinstance(taken, Taken)
        found.waits.append(arrived - asked)
        found.numbers.append(numbers_of(taken.fed["image"]))
        if (number + 1) % max(1, job.steps // 10) == 0:
            found.memory.append((memory(), sum(map(memory, children()))))
        sleep(max(0.0, arrived + step - perf_counter()))
    found.lasted = perf_counter() - began
    found.waits = found.waits[WARM_UP:]
    ahead.close()
    return found


def memory(process: str = "self") -> float:
    """Mebibytes that a process has, on Linux."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / (1 << 20)


def children() -> list[str]:
    """The processes that this one started."""
    own = Path("/proc/self/task")
    return [each for task in own.iterdir() for each in (task / "children").read_text().split()]


def pictures(options: argparse.Namespace) -> None:
    """Print how long the device waits, the memory, and how often each picture came."""
    with tempfile.TemporaryDirectory() as place:
        folder = options.folder or Path(place)
        if not options.folder:
            write_pictures(folder, options.count, options.processes)
        text = PICTURES.format(batch=options.batch)
        job = job_of(folder, text, f"workers={options.workers}", f"epochs={options.epochs}")
        before = os.times()
        found = fed(job, options.step / 1000)
        used = os.times().user - before.user + os.times().system - before.system
        examples = job.dataset.train.examples
        earlier = os.times()
        del job
        gc.collect()  # the processes end, and what they took is known
        of_workers = os.times().children_user + os.times().children_system
        of_workers -= earlier.children_user + earlier.children_system
    steps = len(found.waits) + WARM_UP
    print("| workers | steps | waits | median wait | processor per batch: workers | this process |")
    print("|---|---|---|---|---|---|")
    median = statistics.median(found.waits) * 1000
    print(
        f"| {options.workers} | {len(found.waits)} | {sum(found.waits) / found.lasted:.1%} "
        f"| {median:.1f} ms | {of_workers / steps * 1000:.1f} ms | {used / steps * 1000:.1f} ms |"
    )
    longest = ", ".join(f"{each * 1000:.0f}" for each in sorted(found.waits)[:-6:-1])
    print(f"\nlongest waits: {longest} ms; {found.lasted:.1f} s in all")
    own, others = (
        ", ".join(f"{each:.0f}" for each in row) for row in zip(*found.memory, strict=True)
    )
    print(f"memory of this process after each tenth: {own} MiB; of its workers: {others} MiB")
    times = np.bincount(np.concatenate(found.numbers), minlength=examples)
    wrong = int((times != options.epochs).sum())
    print(f"of {examples:,} pictures, {wrong} came more or less than {options.epochs} times")


def shards(options: argparse.Namespace) -> None:
    """Print how memory grows over an epoch."""
    with tempfile.TemporaryDirectory(dir=options.folder) as place:
        folder = Path(place)
        write_shards(folder, options.gigabytes, checksums=options.checksums)
        began = perf_counter()
        settings = [] if options.shuffle else ["shuffle=false"]
        job = job_of(folder, SHARDS, *settings)
        feeder = Feeder(job)
        print(f"opened in {perf_counter() - began:.2f} s")
        print(f"| of {job.steps * 64 * ROW_BYTES / 1e9:.2f} GB fed | memory | a batch |")
        print("|---|---|---|")
        tenth = max(1, job.steps // 10)
        began = perf_counter()
        for step in range(job.steps):
            feeder.feeds(step)
            if (step + 1) % tenth == 0:
                batch = (perf_counter() - began) / tenth
                share = f"{(step + 1) / job.steps:.0%}"
                print(f"| {share} | {memory():.0f} MiB | {batch * 1000:.1f} ms |", flush=True)
                began = perf_counter()
        print(f"{bytes_read() / 1e9:.2f} GB were read in all")


def bytes_read() -> int:
    """Bytes that this process has read since it began, of files and of whatever else, on Linux."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("rchar")).split()[1])


def iterator(options: argparse.Namespace) -> None:
    """Print what feeding from a generator adds to a step."""
    print("| a batch | a step | longer by | processor |")
    print("|---|---|---|---|")
    for side in (8, 32, 96, 224):
        generator = np.random.default_rng(0)
        image = generator.standard_normal((32, 3, side, side), np.float32)
        label = generator.integers(0, 10, 32)
        batches = ({"image": image, "label": label} for _ in range(options.steps))
        with tempfile.TemporaryDirectory() as place:
            text = IMAGES.format(side=side, steps=options.steps)
            job = job_of(Path(place), text, given=PythonData(train=batches))
        step, used = longer(job, options.step / 1000)
        size = f"{image.nbytes / 1e6:.2g} MB"
        share = step / (options.step / 1000) - 1
        print(f"| {size} | {step * 1000:.2f} ms | {share:.1%} | {used * 1000:.2f} ms |", flush=True)


def longer(job: TrainJob, step: float) -> tuple[float, float]:
    """Seconds of a step of a job on a device that takes `step` seconds, and of the processor."""
    device, feeder = Device(), Feeder(job)
    fed = feeder.feeds(0)
    ahead = Prefetcher(feeder, device, job.steps) if is_worthwhile(feeder, device, fed) else None
    ends = deque([perf_counter()] * device.ahead, device.ahead)  # of the steps that were submitted
    for number in range(1, job.steps):
        if number == WARM_UP:
            began, before = ends[-1], process_time()
        taken = device.stage(feeder.feeds(number)) if ahead is None else ahead.take(number, nothing)
        sleep(max(0.0, ends[0] - perf_counter()))
        ends.append(max(ends[-1], perf_counter()) + step)
        taken.close()
    used = process_time() - before
    if ahead is not None:
        ahead.close()
    return (ends[-1] - began) / (job.steps - WARM_UP), used / (job.steps - WARM_UP)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    kinds = parser.add_subparsers(required=True)
    of_writing = kinds.add_parser("write")
    of_writing.set_defaults(run=lambda o: write_pictures(o.folder, o.count, o.processes))
    of_writing.add_argument("folder", type=Path)
    of_pictures = kinds.add_parser("pictures")
    of_pictures.set_defaults(run=pictures)
    of_pictures.add_argument("--folder", type=Path, default=None)
    for each in (of_writing, of_pictures):
        each.add_argument("--count", type=int, default=2000)
        each.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    of_pictures.add_argument("--workers", type=int, default=2)
    of_pictures.add_argument("--batch", type=int, default=32)
    of_pictures.add_argument("--step", type=float, default=60.0)
    of_pictures.add_argument("--epochs", type=int, default=2)
    of_shards = kinds.add_parser("shards")
    of_shards.set_defaults(run=shards)
    of_shards.add_argument("--gigabytes", type=float, default=4.0)
    of_shards.add_argument("--folder", type=Path, default=None)
    of_shards.add_argument("--checksums", action="store_true")
    of_shards.add_argument("--shuffle", action=argparse.BooleanOptionalAction, default=True)
    of_iterator = kinds.add_parser("iterator")
    of_iterator.set_defaults(run=iterator)
    of_iterator.add_argument("--steps", type=int, default=300)
    of_iterator.add_argument("--step", type=float, default=10.0)
    options = parser.parse_args(arguments)
    options.run(options)


if __name__ == "__main__":
    main()
