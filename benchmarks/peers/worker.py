"""One process of the comparison: it loads and compiles its cases, and times them on command.

    python -m benchmarks.peers.worker NAME ... --cases CASE ... --folder FOLDER [...]

A framework that crashes so takes only itself along, several may compile side by side, and memory is
no common good. It says `ready` on its output, waits for a line on its input, gives the numbers as
lines of JSON, and says `done`.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from benchmarks.peers.case import Material, cases, material, read_prepared
from benchmarks.peers.contender import (
    QUICK,
    Absent,
    Contender,
    Effort,
    Running,
    difference,
    host_ms,
    median_ms,
)
from benchmarks.peers.ours import Ours

MARK = "@"
"""Begins a line that is meant for the parent, as libraries print too."""


def ours(options: argparse.Namespace) -> Contender:
    """The contender of this repository."""
    return Ours(options.device, read_prepared(options.prepared) if options.prepared else None)


def torch(name: str, arithmetic: str, *, compiled: bool) -> Callable[..., Contender]:
    """PyTorch in one of its modes."""

    def make(_: argparse.Namespace) -> Contender:
        from benchmarks.peers.with_torch import WithTorch  # noqa: PLC0415  may be missing

        return WithTorch(name, arithmetic, compiled)

    return make


def jax(_: argparse.Namespace) -> Contender:
    """JAX."""
    # Else it takes three quarters of the GPU's memory at once.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    from benchmarks.peers.with_jax import WithJax  # noqa: PLC0415  may be missing

    return WithJax()


def onnx(_: argparse.Namespace) -> Contender:
    """ONNX Runtime."""
    from benchmarks.peers.with_onnx import WithOnnx  # noqa: PLC0415  may be missing

    return WithOnnx()


CONTENDERS: Mapping[str, Callable[[argparse.Namespace], Contender]] = {
    "ours": ours,
    "eager": torch("eager", "strict", compiled=False),
    "compiled": torch("compiled", "strict", compiled=True),
    "JAX": jax,
    "ORT WebGPU": onnx,
    "TF32 compiled": torch("TF32 compiled", "TF32", compiled=True),
    "bf16 compiled": torch("bf16 compiled", "bf16", compiled=True),
}
"""By the name of their first column."""


def tell(**message: object) -> None:
    """Say something to the parent."""
    print(MARK + json.dumps(message), flush=True)


def reason(error: Exception) -> str:
    """Why there is no number, in a line."""
    if isinstance(error, Absent):
        return str(error)
    if isinstance(error, ImportError):
        return f"cannot be imported: {error}"
    first = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {first[:200]}"


class Worker:
    """The cases of a process."""

    def __init__(self, options: argparse.Namespace, stack: ExitStack) -> None:
        self._options = options
        self._stack = stack
        self._running: list[tuple[str, str, Running]] = []

    def prepare(self) -> None:
        """Start every contender on every case; say which cannot."""
        wanted = [
            one for one in cases(small=self._options.small) if one.name in self._options.cases
        ]
        materials = [material(case) for case in wanted]
        for name in self._options.contenders:
            try:
                contender = CONTENDERS[name](self._options)
                tell(machine={name: str(contender)})
            except Exception as error:  # noqa: BLE001  whatever it is, the others go on
                for one in materials:
                    tell(case=one.case.name, contender=name, reason=reason(error))
                continue
            for one in materials:
                self._start(contender, one)

    def _start(self, contender: Contender, one: Material) -> None:
        name = one.case.name
        if not contender.columns(trains=one.case.trains):
            return
        try:
            running = self._stack.enter_context(contender.run(one))
        except Exception as error:  # noqa: BLE001  whatever it is, the others go on
            tell(case=name, contender=contender.name, reason=reason(error))
            return
        self._running.append((name, contender.name, running))
        if contender.name == "ours":
            np.save(self._reference(name), running.outputs)

    def _reference(self, case: str) -> Path:
        return Path(self._options.folder) / f"{case}.npy"

    def measure(self) -> None:
        """Compare outputs, and time the cases one after the other."""
        for case, contender, running in self._running:
            try:
                for column, value in self._numbers(case, contender, running):
                    tell(case=case, contender=contender, column=column, value=value)
            except Exception as error:  # noqa: BLE001  whatever it is, the others go on
                tell(case=case, contender=contender, reason=reason(error))

    def _numbers(self, case: str, contender: str, running: Running) -> Iterator[tuple[str, float]]:
        reference = self._reference(case)
        if contender != "ours" and reference.exists():
            yield f"{contender}: difference", difference(np.load(reference), running.outputs)
        running.settle()
        effort = QUICK if self._options.small else Effort()
        for column, step in running.steps.items():
            yield column, median_ms(step, running.wait, effort)
        first = next(iter(running.steps.values()))
        yield f"{contender}: host", host_ms(first, running.wait, effort)
        for column, figure in running.figures.items():
            yield column, figure()


def arguments() -> argparse.ArgumentParser:
    """What the parent says; it takes most of this on its own command line."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--device", default="wgpu", help="the adapter of ours")
    parser.add_argument("--small", action="store_true", help="small sizes and one round")
    parser.add_argument("--prepared", type=Path, help="read optimized graphs")
    return parser


def main() -> None:
    """Prepare, wait, measure."""
    parser = argparse.ArgumentParser(parents=[arguments()])
    parser.add_argument("contenders", nargs="+", choices=CONTENDERS)
    parser.add_argument("--cases", nargs="+", required=True)
    parser.add_argument("--folder", required=True)
    with ExitStack() as stack:
        worker = Worker(parser.parse_args(), stack)
        worker.prepare()
        tell(ready=True)
        if sys.stdin.readline():
            worker.measure()
            tell(done=True)


if __name__ == "__main__":
    main()
