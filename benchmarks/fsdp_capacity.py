"""A model whose parameters and optimizer states are too large for one device, held by several.

    python -m benchmarks.fsdp_capacity [--device xla:gpu] [--devices 2] [--gib 12]
        [--precision bf16] [--steps 5] [--small] [--json FILE]

Under each sharding a process of its own loads a GPT-2 of 870 million parameters with the moments of
AdamW, 10.4 GB together, and trains it for a few steps. It says what each device holds of them by
the shards that lie there, what XLA has laid out for a step, what the devices communicate in it, and
how long it takes, or that the memory does not suffice. `--gib` is what JAX may take of a GPU's
memory; 0 leaves it all.

`--small` is a model that simulated devices can compute: JAX_NUM_CPU_DEVICES=8 and
`--device xla:cpu --devices 8 --gib 0 --small --precision f32`.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import cast

import numpy as np

from benchmarks.collectives import collectives
from benchmarks.scaling import Workload, step_graph
from meganeura_dsl.ir.graph import Array, Graph
from meganeura_dsl.ir.interpreter import storage_type
from meganeura_dsl.ir.ops import Parameter
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import TensorType, size_in_bytes
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_dsl.settings.device_sharding import DeviceSharding
from meganeura_runtime.backends.backend import Spread
from meganeura_runtime.backends.base import leaf_types
from meganeura_runtime.backends.errors import DeviceError
from meganeura_runtime.backends.registry import choose_device
from meganeura_runtime.backends.xla.session import XlaSession

LARGE = Workload("gpt2", "gpt2", "(d=1536, layers=28, heads=24)", (256,), 2)
SMALL = Workload("gpt2", "gpt2", "(vocabulary=60, positions=16, d=32, layers=1, heads=2)", (16,), 8)
SHARDINGS = tuple(each.value for each in DeviceSharding)
Cell = dict[str, object]


def measured(sharding: str, options: argparse.Namespace) -> Cell:
    """Returns the memory of a sharding on each device, and the time of a step."""
    workload = SMALL if options.small else LARGE
    device = choose_device(options.device).at(ComputePrecision(options.precision))
    spread = Spread(options.devices, DeviceSharding(sharding), {"ids": 1})
    graph = step_graph(workload, workload.batch, options.device)
    kept, _ = leaf_types(graph)
    together = device.spread(spread)
    whole = together.replicated(graph) if sharding == DeviceSharding.FSDP else tuple(kept)
    cell: Cell = {
        "sharding": sharding,
        "devices": options.devices,
        "device": device.short_name,
        "precision": options.precision,
        "state_bytes": sum(map(size_in_bytes, kept.values())),
        "whole_bytes": sum(size_in_bytes(kept[name]) for name in whole),
        "whole": list(whole) if sharding == DeviceSharding.FSDP else [],
    }
    try:
        with together.open(graph) as session:
            assert isinstance(session, XlaSession)
            found = run(session, graph, options.steps)
            sent = collectives(session.compiled.as_text(), options.devices)
            return cell | found | {"shared_bytes": {kind: sent[kind].bytes for kind in sent}}
    except DeviceError as error:
        return cell | {"failed": str(error).splitlines()[0][:200]}


def run(
    session: XlaSession,
    graph: Graph,
    steps: int,
) -> Cell:
    """Load everything, look where it lies, and make some steps."""
    kept, fed = leaf_types(graph)
    trained = {
        each.op.name
        for each in graph.values
        if isinstance(each.op, Parameter) and each.op.kind == "param"
    }
    for name, of in kept.items():
        session.write(name, first_value(name, of) if name in trained else zeros(of))
    held: dict[str, int] = {}
    for array in session.arrays.values():
        for shard in array.addressable_shards:
            held[str(shard.device)] = held.get(str(shard.device), 0) + shard.data.nbytes
    memory = session.compiled.memory_analysis()
    feeds = {name: numbers(of) for name, of in fed.items()}
    with session.upload(feeds) as inputs:
        losses = [float(session.step(inputs)["loss"])]
        session.wait()
        start = perf_counter()
        losses += [float(session.step(inputs)["loss"]) for _ in range(steps)]
        session.wait()
    return {
        "held_bytes": held,
        "temporary_bytes": memory.temp_size_in_bytes,
        "argument_bytes": memory.argument_size_in_bytes,
        "ms": 1000 * (perf_counter() - start) / steps,
        "losses": losses,
    }


def first_value(name: str, of: TensorType) -> Array:
    """Of norms ones, of biases zeros, of other parameters small numbers."""
    if len(of.shape) > 1:
        return numbers(of)
    return np.ones_like(zeros(of)) if name.endswith("weight") else zeros(of)


def zeros(of: TensorType) -> Array:
    """Returns the initial moments."""
    return np.zeros(concrete_shape(of.shape), storage_type(of.dtype))


def numbers(of: TensorType) -> Array:
    """Small numbers and small indices, quickly made."""
    generator = np.random.default_rng(0)
    shape, dtype = concrete_shape(of.shape), storage_type(of.dtype)
    if of.dtype.is_float:
        return np.resize(0.02 * generator.standard_normal(1 << 16), shape).astype(dtype)
    return generator.integers(0, 60, shape).astype(dtype)


def table(cells: Sequence[Cell]) -> str:
    """Returns the results of each sharding as a table."""
    head = ["sharding", "devices", "parameters and moments, GB", "on each device, GB"]
    head += ["temporaries, GB", "ms a step", "first and last loss"]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for cell in cells:
        row = [cell["sharding"], cell["devices"], _gigabytes(cell["state_bytes"])]
        if "failed" in cell:
            row += [cell["failed"], "-", "-", "-"]
        else:
            held = cast("dict[str, int]", cell["held_bytes"])
            losses = cast("list[float]", cell["losses"])
            row += [", ".join(map(_gigabytes, held.values())), _gigabytes(cell["temporary_bytes"])]
            row += [f"{cell['ms']:.1f}", f"{losses[0]:.4f}, {losses[-1]:.4f}"]
        lines.append(f"| {' | '.join(map(str, row))} |")
    return "\n".join(lines)


def _gigabytes(size: object) -> str:
    return f"{cast('int', size) / 1e9:.4g}"


def main() -> None:
    """Try each sharding in its own process, and print the table."""
    options = _parsed()
    if options.sharding:
        print(json.dumps(measured(options.sharding, options)), flush=True)
        return
    environment = dict(os.environ)
    if options.gib:
        share = options.gib * 1024 / _mebibytes_of_gpu()
        environment["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{share:.4f}"
    cells = [_in_process(each, environment) for each in SHARDINGS]
    if options.json:
        options.json.write_text(json.dumps(cells, indent=1))
    print(f"\n{table(cells)}")


def _in_process(sharding: str, environment: Mapping[str, str]) -> Cell:
    command = [sys.executable, "-m", "benchmarks.fsdp_capacity", "--sharding", sharding]
    found = subprocess.run(
        [*command, *sys.argv[1:]], env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    lines = found.stdout.splitlines()
    if found.returncode or not lines:
        raise SystemExit(f"{sharding}: its process ended with {found.returncode}")
    print(lines[-1], flush=True)
    return cast("Cell", json.loads(lines[-1]))


def _mebibytes_of_gpu() -> int:
    query = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    return int(subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()[0])


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A model that only several devices can hold.")
    parser.add_argument("--device", default="xla:gpu")
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--gib", type=float, default=12.0, help="of a GPU's memory; 0 is all")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--json", type=Path, help="write what was measured here")
    parser.add_argument("--sharding", choices=SHARDINGS, help="this one alone, as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    main()
