"""The speed of single contractions on an adapter, in TFLOP/s, by tile.

    python benchmarks/kernels.py [--tiles | --winograd | --attention] [--device dawn [--f16]]
        [--json FILE]

Times come from the adapter's own clock, the median of several runs after it has been kept busy.
Without `--tiles` only the tile that the planner chooses is timed. With `--winograd` 3 x 3
convolutions are timed as they are, and in Winograd's form of 2 x 2 and of 4 x 4 outputs: all count
as many operations as the direct one, and errors are against it, in units of the largest element.
With `--attention` attention is timed as its expansion and in kernels that store no scores, alone
and with its gradients, which count the operations of the expansion; milliseconds stand beside.
With `--f16` contractions are computed by the matrix units of the adapter.
"""

import argparse
import json
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from unittest.mock import patch

import numpy as np

from meganeura_dsl.ir.graph import Array, Builder, Graph, Op, Value
from meganeura_dsl.ir.ops import Conv, ConvInputGradient, ConvWeightGradient, Input, MatMul
from meganeura_dsl.ir.ops.fused import Attention
from meganeura_dsl.ir.ops.fused.winograd import in_tiles
from meganeura_dsl.ir.ops.fused.winograd_matrices import POINTS
from meganeura_dsl.ir.ops.primitive.contraction import Convolution
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.codegen.matmul import tile_sizes as tile
from meganeura_runtime.backends.webgpu.codegen.matmul.contraction_kernel import CONTRACTIONS
from meganeura_runtime.backends.webgpu.codegen.matmul.tile_sizes import Tile, tile_of
from meganeura_runtime.backends.webgpu.config.limits import Target
from meganeura_runtime.backends.webgpu.device.device import Device, open_device
from meganeura_runtime.backends.webgpu.passes import fuse_attention
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.backends.webgpu.session import WebGpuSession

RUNS = 5
WARM_SECONDS = 0.03


@dataclass(frozen=True)
class Case:
    """A contraction and the shapes of its factors."""

    name: str
    op: Op
    left: tuple[int, ...]
    right: tuple[int, ...]

    def graph(self) -> Graph:
        """The contraction alone, of two inputs."""
        build, factors = self._factors()
        return build.graph({"product": build.add(self.op, *factors)})

    def in_tiles(self, outputs: int) -> Graph:
        """The same in Winograd's form."""
        build, factors = self._factors()
        assert isinstance(self.op, Convolution)
        return build.graph({"product": in_tiles(build, self.op, factors, outputs)})

    def _factors(self) -> tuple[Builder, list[Value]]:
        build = Builder()
        shapes = {"left": self.left, "right": self.right}
        return build, [build.add(Input(n, DType.F32, shape)) for n, shape in shapes.items()]

    @property
    def is_winograd(self) -> bool:
        """True if Winograd's form is another way to compute it."""
        return isinstance(self.op, Convolution) and "3^2 / 1" in self.name


def matrices(rows: int, columns: int, terms: int, batch: tuple[int, ...] = ()) -> Case:
    """A product with a right factor that lies as the weights of a linear layer do."""
    name = " x ".join(map(str, (*batch, rows, columns, terms)))
    op = MatMul(transpose_right=True)
    return Case(f"matmul {name}", op, (*batch, rows, terms), (*batch, columns, terms))


def convolutions(
    samples: int, channels: int, outputs: int, size: int, kernel: int = 3, stride: int = 1
) -> Iterator[Case]:
    """A convolution of squares and its two gradients."""
    geometry = ((stride, stride), (kernel // 2,) * 2, (1, 1), 1)
    x, w = (samples, channels, size, size), (outputs, channels, kernel, kernel)
    y = (samples, outputs, -(-size // stride), -(-size // stride))
    name = f"{samples} x {channels} -> {outputs}, {size}^2, {kernel}^2 / {stride}"
    yield Case(f"conv {name}", Conv(*geometry), x, w)
    yield Case(f"to input {name}", ConvInputGradient(*geometry, (size, size)), w, y)
    yield Case(f"to weight {name}", ConvWeightGradient(*geometry, (kernel, kernel)), x, y)


def cases() -> Iterator[Case]:
    """Square matrices, and the layers of ResNet-18 and of Whisper's encoder."""
    yield Case("matmul 4096^3", MatMul(), (4096, 4096), (4096, 4096))
    yield matrices(12000, 384, 1536)
    yield matrices(12000, 1536, 384)
    yield matrices(12000, 384, 384)
    yield matrices(1500, 384, 384)
    yield matrices(1500, 1500, 64, (48,))
    yield Case("matmul 48 x 1500 x 64 x 1500", MatMul(), (48, 1500, 1500), (48, 1500, 64))
    yield Case(
        "matmul 384 x 1536 x 12000", MatMul(transpose_left=True), (12000, 384), (12000, 1536)
    )
    for samples in (32, 1):
        yield from convolutions(samples, 3, 64, 224, 7, 2)
        for channels, size in ((64, 56), (128, 28), (256, 14), (512, 7)):
            yield from convolutions(samples, channels, channels, size)


def operations(case: Case) -> float:
    """Multiplications and additions, those with padding counted in."""
    value = case.graph().outputs["product"]
    found = CONTRACTIONS[type(case.op)](case.op, *value.operands)
    return 2.0 * prod(found.batch) * prod(found.rows) * prod(found.columns) * found.count


def speed(case: Case, device: Device) -> float:
    """Operations a second, in units of 10^12."""
    return operations(case) / sum(timed(case.graph(), device).seconds) / 1e12


@dataclass(frozen=True)
class Timed:
    """The results of a graph, and the time of each of its kernels."""

    result: Array
    names: tuple[str, ...]
    seconds: tuple[float, ...]


def timed(graph: Graph, device: Device) -> Timed:
    """The median of several runs, kernel by kernel."""
    generator = np.random.default_rng(0)
    feeds = {
        value.op.name: generator.standard_normal(concrete_shape(value.type.shape), np.float32)
        for value in graph.values
        if isinstance(value.op, Input)
    }
    plan = plan_graph(graph, device.limits, device.style)
    with WebGpuSession(plan, device) as session:
        result = np.array(next(iter(session.step(feeds).values())))
        before = 3
        # The first time is that of an adapter that was idle while kernels were compiled.
        for _ in range(2):
            before = max(1, int(WARM_SECONDS / sum(session.profile(before))))
        runs = [session.profile(before) for _ in range(RUNS)]
    medians = tuple(statistics.median(times) for times in zip(*runs, strict=True))
    return Timed(result, tuple(each.name for each in plan.dispatches), medians)


def compared(case: Case, device: Device) -> Mapping[str, object]:
    """A convolution as it is and in both of Winograd's forms."""
    direct = timed(case.graph(), device)
    count = operations(case) / 1e12
    row: dict[str, object] = {"direct": count / sum(direct.seconds)}
    for outputs in POINTS:
        found = timed(case.in_tiles(outputs), device)
        name = f"F({outputs})"
        row[name] = count / sum(found.seconds)
        difference = np.abs(found.result - direct.result).max() / np.abs(direct.result).max()
        row[f"{name} error"] = float(difference)
        parts = zip(found.names, found.seconds, strict=True)
        row[f"{name} us"] = ", ".join(f"{part} {1e6 * seconds:.1f}" for part, seconds in parts)
    return row


@dataclass(frozen=True)
class Heads:
    """An attention of so many heads, and the sizes of each."""

    count: int
    queries: int
    keys: int
    width: int
    causal: bool = False

    @property
    def name(self) -> str:
        """The name in the table."""
        sizes = f"{self.count} x {self.queries} x {self.keys} x {self.width}"
        return f"attention {sizes}{' causal' if self.causal else ''}"

    def graph(self, *, trains: bool) -> Graph:
        """The attention alone, or with its gradients."""
        build, op = Builder(), Attention(self.width**-0.5, self.causal)
        shapes = {"q": self.queries, "k": self.keys, "v": self.keys, "dy": self.queries}
        q, k, v, dy = (
            build.add(Input(name, DType.F32, (1, self.count, rows, self.width)))
            for name, rows in shapes.items()
        )
        results = build.add_all(op, q, k, v)
        outputs = {"y": results[0]}
        if trains:
            found = op.pullback(build, results, (dy, None))
            outputs |= {f"d{n}": each for n, each in zip("qkv", found, strict=True) if each}
        return build.graph(outputs)

    def row(self, device: Device, *, trains: bool) -> Mapping[str, object]:
        """Both ways to make it."""
        products = (6 if trains else 2) * 2 * self.queries * self.keys * self.width
        count = self.count * products / 1e12
        row: dict[str, object] = {}
        results: list[Array] = []
        for name, fused in (("expansion", False), ("kernels", True)):
            with patch.object(fuse_attention, "is_fused", lambda *_, fused=fused, **__: fused):
                found = timed(self.graph(trains=trains), device)
            row[name] = count / sum(found.seconds)
            row[f"{name} ms"] = f"{1e3 * sum(found.seconds):.3f}"
            results.append(found.result)
        difference = np.abs(results[1] - results[0]).max() / np.abs(results[0]).max()
        return {**row, "difference": float(difference)}


ATTENTIONS = (
    Heads(48, 1500, 1500, 64),
    Heads(6, 1500, 1500, 64),
    Heads(24, 512, 512, 64, causal=True),
    Heads(96, 197, 197, 64),
    Heads(144, 128, 128, 64),
    Heads(32, 1024, 1024, 32),
    Heads(16, 1024, 1024, 128),
)
"""Whisper's encoder at batch 8 and 1, language models, pictures in patches, and other widths."""


def chosen(case: Case, device: Device) -> Tile | None:
    """The tile that the planner takes for the whole of a contraction."""
    value = case.graph().outputs["product"]
    contraction = CONTRACTIONS[type(case.op)](case.op, *value.operands)
    return tile_of(contraction, Target(device.limits, device.style))


def measured(case: Case, device: Device, *, tiles: bool) -> Mapping[str, float]:
    """The speed of the planner's choice, and of every tile if asked for."""
    speeds = {"chosen": speed(case, device)}
    name = "SPEEDS" if device.limits.matrix_units is None else "MATRIX_SPEEDS"
    for one in getattr(tile, name) if tiles else ():
        with patch.object(tile, name, {one: 1.0}), patch.object(tile, "ENOUGH_WORKGROUPS", 0):
            speeds[_shown(one)] = speed(case, device)
    return speeds


def _shown(one: Tile) -> str:
    return f"{one.rows} x {one.columns} x {one.terms}, {one.rows_each} x {one.columns_each}"


def _text(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.1f}" if value > 0.01 else f"{value:.1e}"


def rows(options: argparse.Namespace, device: Device) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yields the measurements that are asked for."""
    if options.attention:
        for heads in ATTENTIONS:
            for trains in (False, True):
                name = f"{heads.name}{' and gradients' if trains else ''}"
                yield name, heads.row(device, trains=trains)
        return
    for case in cases():
        if not options.winograd:
            yield case.name, measured(case, device, tiles=options.tiles)
        elif case.is_winograd:
            yield case.name, compared(case, device)


def main() -> None:
    """Time all cases and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiles", action="store_true", help="time every tile")
    parser.add_argument("--winograd", action="store_true", help="time 3 x 3 layers, in three forms")
    parser.add_argument("--attention", action="store_true", help="time attention, in two forms")
    parser.add_argument("--device", default="wgpu", help="an adapter, such as dawn:0")
    parser.add_argument("--f16", action="store_true", help="by the matrix units of the adapter")
    parser.add_argument("--json", type=Path, help="also write the table here")
    options = parser.parse_args()
    device = open_device(options.device)
    if options.f16:
        if device.matrix_units is None:
            parser.error(f"{device.info} has no matrix units that WebGPU reaches")
        device.limits = replace(device.limits, matrix_units=device.matrix_units)
    print(device)
    table: dict[str, Mapping[str, object]] = {}
    for name, row in rows(options, device):
        table[name] = row
        if len(table) == 1:
            print(f"| TFLOP/s | {' | '.join(row)} |")
            print(f"|{'---|' * (1 + len(row))}")
        print(f"| {name} | {' | '.join(map(_text, row.values()))} |", flush=True)
    if options.json:
        options.json.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
