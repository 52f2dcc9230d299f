"""Times steps of the device `xla` with and without each choice that was made by measuring.

    python -m benchmarks.xla_choices [NAME ...] [--device xla:gpu] [--small]
        [--processes 3] [--seconds 1]

The choices and their recorded figures are those of `xla/config/measured_choices.py`. Each process
compiles one step and runs it for some seconds; processes with and without a choice take turns. The
table has medians over the processes, in milliseconds a step, with what is recorded beside them.
`same program` marks choices that do not change the compiled program here, as those of GPUs on a
CPU. A workload for more devices than there are is listed with the reason. `--small` takes models
that a CPU computes at once, which shows that the command works and measures nothing of interest.
"""

import argparse
import json
import re
import statistics
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from hashlib import sha256
from subprocess import run
from time import perf_counter

from benchmarks.peers.case import Case, material, optimized
from benchmarks.peers.contender import Step
from benchmarks.peers.models import LARGE, SMALL
from benchmarks.peers.ours import loaded
from meganeura_dsl.settings.device_sharding import DeviceSharding
from meganeura_runtime.backends.backend import Spread
from meganeura_runtime.backends.base import Session
from meganeura_runtime.backends.errors import DeviceError
from meganeura_runtime.backends.registry import choose_device, model_of
from meganeura_runtime.backends.xla.config.measured_choices import (
    CHOICES,
    AnyChoice,
    Figure,
    Workload,
    disabled,
)
from meganeura_runtime.backends.xla.session import XlaSession

NAMES = {choice.name: choice for choice in CHOICES}
ROWS = {"x": 1, "y": 1}
"""Inputs whose first axis counts examples."""
SMALL_BATCH = 2
WARM_UP = 3
"""Steps before the clock starts."""


@dataclass(frozen=True)
class Sample:
    """The measurement of one process."""

    milliseconds: float
    program: str
    """A digest of the compiled program."""


@dataclass(frozen=True)
class Row:
    """A choice measured by one workload, or the reason why it was not."""

    choice: str
    workload: Workload
    without: float = 0
    chosen: float = 0
    is_same_program: bool = False
    reason: str = ""


def case_of(workload: Workload, *, small: bool) -> Case:
    """The model, batch and mode of a workload; raises `ValueError` for a name of no case."""
    name = re.fullmatch(r"(\w+)-b(\d+)-(train|infer)", workload.case)
    models = {model.name: model for model in (SMALL if small else LARGE)}
    if name is None or name[1] not in models:
        raise ValueError(f"`{workload.case}` names no model of benchmarks.peers")
    batch = SMALL_BATCH if small else int(name[2])
    return Case(models[name[1]], batch * workload.devices, trains=name[3] == "train")


@contextmanager
def opened(workload: Workload, selector: str, *, small: bool) -> Generator[tuple[Session, Step]]:
    """Compiles a workload and uploads its inputs; raises `DeviceError`."""
    one = material(case_of(workload, small=small))
    graph, derived = optimized(one, model_of(selector))
    device = choose_device(selector, precision=workload.precision)
    if workload.devices > 1:
        device = device.spread(Spread(workload.devices, DeviceSharding.DATA, ROWS))
    with device.open(graph) as session:
        session.load(loaded(graph, derived, one.weights))
        with session.upload(one.inputs) as inputs:
            yield session, lambda: session.step(inputs)


def measure(workload: Workload, selector: str, seconds: float, *, small: bool) -> Sample:
    """Runs steps for some seconds, with the choices as they are in this process."""
    with opened(workload, selector, small=small) as (session, step):
        assert isinstance(session, XlaSession)
        for _ in range(WARM_UP):
            step()
        session.wait()
        count, begin = 0, perf_counter()
        while perf_counter() - begin < seconds:
            step()
            count += 1
        session.wait()
        taken = perf_counter() - begin
        program = sha256(session.compiled.as_text().encode()).hexdigest()
    return Sample(1e3 * taken / count, program)


def compared(choice: AnyChoice, workload: Workload, options: argparse.Namespace) -> Row:
    """Measures a choice in processes with and without it that take turns."""
    samples: dict[bool, list[Sample]] = {True: [], False: []}
    for _ in range(options.processes):
        for is_on, found in samples.items():
            answer = _in_a_process(choice, workload, options, is_on=is_on)
            if isinstance(answer, str):
                return Row(choice.name, workload, reason=answer)
            found.append(answer)
    programs = {sample.program for found in samples.values() for sample in found}
    chosen, without = (
        statistics.median(sample.milliseconds for sample in samples[is_on])
        for is_on in (True, False)
    )
    return Row(choice.name, workload, without, chosen, len(programs) == 1)


def _in_a_process(
    choice: AnyChoice, workload: Workload, options: argparse.Namespace, *, is_on: bool
) -> Sample | str:
    """Returns the measurement of another process, or the reason why there is none."""
    words = [sys.executable, "-m", "benchmarks.xla_choices", choice.name]
    words += ["--device", options.device, "--seconds", str(options.seconds)]
    words += ["--one", json.dumps({**asdict(workload), "is_on": is_on})]
    words += ["--small"] if options.small else []
    done = run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} failed:\n{done.stderr}")
    answer = json.loads(done.stdout.splitlines()[-1])
    return answer["reason"] if "reason" in answer else Sample(**answer)


def _measure_one(choice: AnyChoice, options: argparse.Namespace) -> None:
    """Prints the sample of this process, or the reason why there is none, as JSON."""
    asked = json.loads(options.one)
    is_on = asked.pop("is_on")
    workload = next(each for each in choice.workloads if asdict(each) == asked)
    try:
        with nullcontext() if is_on else disabled(choice):
            sample = measure(workload, options.device, options.seconds, small=options.small)
    except DeviceError as error:
        print(json.dumps({"reason": str(error)}))
    else:
        print(json.dumps(asdict(sample)))


def shown(rows: Sequence[Row]) -> str:
    """The table."""
    head = ("choice", "workload", "without", "with", "ratio", "recorded")
    cells = [head, *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in cells)
    return "\n".join(lines)


def _cells(row: Row) -> tuple[str, ...]:
    workload = row.workload
    devices = f", {workload.devices} devices" if workload.devices > 1 else ""
    where = f"{workload.case}, {workload.precision}{devices}"
    recorded = "; ".join(
        map(_recorded, (each for each in NAMES[row.choice].figures if each.workload == workload))
    )
    if row.reason:
        return (row.choice, where, "", "", row.reason, recorded)
    ratio = "same program" if row.is_same_program else f"{row.chosen / row.without:.3f}"
    return (row.choice, where, f"{row.without:.3f}", f"{row.chosen:.3f}", ratio, recorded)


def _recorded(figure: Figure) -> str:
    chosen = "not recorded" if figure.chosen is None else f"{figure.chosen:g}"
    note = f", {figure.note}" if figure.note else ""
    return f"{figure.without:.4g} to {chosen} {figure.unit}, {figure.card}, {figure.date}{note}"


def main(words: Sequence[str] | None = None) -> None:
    """Measures the choices that are named, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--device", default="xla:gpu")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    unknown = [name for name in options.names if name not in NAMES]
    if unknown:
        parser.error(f"there is no choice {', '.join(unknown)}; there are {', '.join(NAMES)}")
    chosen = [NAMES[name] for name in options.names or NAMES]
    if options.one:
        _measure_one(chosen[0], options)
        return
    rows = [
        compared(choice, workload, options)
        for choice in chosen
        for workload in dict.fromkeys(choice.workloads)
    ]
    print(shown(rows))


if __name__ == "__main__":
    main()
