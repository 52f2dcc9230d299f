"""Costs of the host: a cold start, compiling, and each step.

    python benchmarks/host.py [--batch 32] [--device wgpu] [--only cold|compile|steps]

Trains ResNet-18 on random pictures. Cold starts are processes of `meganeura train`, timed from
their start to the line of the first loss, and to those before it; the driver's own cache of kernels
is switched off but for the last ones, as far as a variable can (NVIDIA). Python may keep what it
compiled of modules, whatever PYTHONDONTWRITEBYTECODE says.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter, thread_time

import numpy as np
from safetensors.numpy import save_file

from meganeura_dsl import pipeline
from meganeura_runtime.backends.webgpu.device import device as devices
from meganeura_runtime.backends.webgpu.device.device import Device, open_device
from meganeura_runtime.backends.webgpu.plan import Plan
from meganeura_runtime.backends.webgpu.plan_cache import cached_plan
from meganeura_runtime.backends.webgpu.session import WebGpuSession
from meganeura_runtime.train.loop.feeder import Feeder
from meganeura_runtime.train.spec.train_job import TrainJob, prepare

PROGRAM = """\
from resnet import resnet18

train fit(image: [batch, 3, {size}, {size}], label: i32[batch])
    where batch >= 2:
  logits = image |> resnet18(width={width})
  minimize cross_entropy(logits, label)
  run:
    data      = "pictures.safetensors"
    batch     = {batch}
    epochs    = 1
    optimizer = sgd(lr=0.01, momentum=0.9)
"""
RUNS = 3
STEPS = 50
THREADS = (1, 4, 16)
COMMAND = "from meganeura.cli.main import main; main()"
FIRST_LOSS = "first loss"
PARTS = {
    "device: ": "program read, device open",
    "training ": "values drawn and uploaded",
    "compiling ": "kernels compiled",
    "epoch 1/1  step 1/": FIRST_LOSS,
}
"""Lines that a run prints, by how they begin, and what is done by then."""


def write_program(folder: Path, batch: int, size: int, width: int) -> Path:
    """A program and random data for two steps."""
    generator = np.random.default_rng(0)
    pictures = generator.standard_normal((2 * batch, 3, size, size), dtype=np.float32)
    labels = generator.integers(0, 1000, 2 * batch).astype(np.int32)
    save_file({"image": pictures, "label": labels}, folder / "pictures.safetensors")
    path = folder / "fit.mgn"
    path.write_text(PROGRAM.format(batch=batch, size=size, width=width))
    return path


def cold_start(
    program: Path, device: str, variables: Mapping[str, str], run: Path
) -> dict[str, float]:
    """Seconds from the start of a process that trains until each part of it is done."""
    environment = {**os.environ, **variables}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    start = perf_counter()
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND, "train", str(program), "--device", device, "--out", run],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        assert process.stdout is not None
        return {
            PARTS[part]: perf_counter() - start
            for line in process.stdout
            for part in PARTS
            if line.startswith(part)
        }


def print_cold_starts(program: Path, device: str) -> None:
    """Without caches, with ours, and with the driver's too."""
    folder = program.parent
    ours = {"MEGANEURA_CACHE": str(folder / "cache")}
    none = {"MEGANEURA_CACHE": "off", "__GL_SHADER_DISK_CACHE": "0"}
    driver = {"__GL_SHADER_DISK_CACHE_PATH": str(folder)}
    parts = list(PARTS.values())
    print("Seconds until each part is done, in the fastest start; the slowest to its first loss\n")
    print(f"| caches | {' | '.join(parts)} | slowest |\n|{'---|' * (len(parts) + 2)}")
    for name, variables in {
        "none": none,
        "graphs and plans": {**none, **ours},
        "and the driver's": {**driver, **ours},
    }.items():
        runs = [folder / f"{name}-{number}" for number in range(RUNS + 1)]
        starts = [cold_start(program, device, variables, run) for run in runs][1:]
        starts.sort(key=lambda start: start[FIRST_LOSS])
        shown = [f"{starts[0].get(part, 0):.2f}" for part in parts]
        print(f"| {name} | {' | '.join(shown)} | {starts[-1][FIRST_LOSS]:.2f} |", flush=True)


def print_compiling(plan: Plan) -> None:
    """The time to compile all kernels by so many threads, each time by a new device."""
    print(f"\n| threads | seconds to compile {len(plan.kernels)} kernels |\n|---|---|")
    for threads in THREADS:
        devices.MOST_COMPILERS = threads
        device = open_device("wgpu")
        start = perf_counter()
        with WebGpuSession(plan, device) as session:
            session.ready()
            print(f"| {threads} | {perf_counter() - start:.2f} |", flush=True)
        device.close()


def steps_of(session: WebGpuSession, job: TrainJob) -> Iterator[tuple[str, Callable[[], object]]]:
    """The ways to feed a step."""
    fed = Feeder(job).feeds(0)
    uploaded = session.upload(fed)
    yield "uploaded once", lambda: session.step(uploaded)
    yield "fed", lambda: session.step(fed)
    with ThreadPoolExecutor(1) as thread:
        staged = [thread.submit(session.stage, fed)]

        def next_staged() -> None:
            inputs = staged.pop().result()
            staged.append(thread.submit(session.stage, fed))
            session.step(inputs)

        yield "staged by a thread", next_staged
    yield "uploaded, its loss read at once", lambda: float(session.step(uploaded)["loss"])


def print_steps(device: Device, plan: Plan, job: TrainJob) -> None:
    """Prints the time of a step in its thread, and the time from one end to the next."""
    print("\n| inputs | host, ms | processor of the host's thread, ms | a step, ms |")
    print("|---|---|---|---|")
    with WebGpuSession(plan, device) as session:
        session.load(job.spec.initial_values())
        for name, step in steps_of(session, job):
            step()
            calls = [_alone(session, step) for _ in range(STEPS)]
            start, busy = perf_counter(), thread_time()
            for _ in range(STEPS):
                step()
            busy = thread_time() - busy
            session.fetch(plan.outputs[0])
            times = (statistics.median(calls), busy / STEPS, (perf_counter() - start) / STEPS)
            print(f"| {name} | {' | '.join(f'{1e3 * time:.2f}' for time in times)} |", flush=True)


def _alone(session: WebGpuSession, step: Callable[[], object]) -> float:
    """The seconds in which an idle device is handed a step."""
    start = perf_counter()
    step()
    seconds = perf_counter() - start
    session.fetch(session.plan.outputs[0])
    return seconds


def main(arguments: list[str] | None = None) -> None:
    """Measure and print tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--device", default="wgpu")
    parser.add_argument("--only", choices=["cold", "compile", "steps"])
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        program = write_program(Path(folder), options.batch, options.size, options.width)
        if options.only in (None, "cold"):
            print_cold_starts(program, options.device)
        job = prepare(pipeline.load(str(program)), "fit", Path(folder))
        device = open_device(options.device)
        plan = cached_plan(job.spec.compiled, device)
        if options.only in (None, "compile"):
            print_compiling(plan)
        if options.only in (None, "steps"):
            print_steps(device, plan, job)


if __name__ == "__main__":
    main()
