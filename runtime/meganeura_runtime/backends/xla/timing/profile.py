"""Profile of a step: the time of each instruction, beside the peaks of the device."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import jax
import jax.numpy as jnp
from jax import lax, profiler

from meganeura_dsl.ir.graph import Graph, Leaf, Value
from meganeura_dsl.ir.types import size_in_bytes
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_runtime.backends.base import leaf_types
from meganeura_runtime.backends.timing.example_inputs import example_of
from meganeura_runtime.backends.timing.op_names import kind_of, op_name
from meganeura_runtime.backends.timing.profile import RUNS, Peaks, Piece, Profile, rows_of
from meganeura_runtime.backends.timing.step_timer import host_seconds, step_seconds
from meganeura_runtime.backends.xla.compile import Program
from meganeura_runtime.backends.xla.session import XlaSession
from meganeura_runtime.backends.xla.timing.device_events import DeviceEvent, device_events, options
from meganeura_runtime.backends.xla.timing.hlo_text import Instruction, instructions

CLOCK = "JAX's profiler, each instruction of the compiled step"
ROWS = {True: 1024, False: 8192}
"""Rows of the square matrices by which a CPU, or any other device, is measured."""
PEAK_RUNS = 7
"""Number of runs, of which the fastest counts."""


def profile_of(device: jax.Device, program: Program, graph: Graph) -> Profile:
    """Returns the profile of a step of a graph on generated inputs."""
    example = example_of(graph)
    with XlaSession(program) as session:
        session.load(example.persistent)
        step, host = step_seconds(session, example), host_seconds(session, example)
        with session.upload(example.feeds) as fed, TemporaryDirectory() as folder:
            with profiler.trace(folder, profiler_options=options()):
                for _ in range(RUNS):
                    session.step(fed)
                session.wait()
            events = device_events(Path(folder))
        known = instructions(session.compiled.as_text())
        memory = _memory(graph, session)
    rows = rows_of(_pieces(program.graph, events, known))
    return Profile(CLOCK, _peaks(device, program.precision), rows, step, host, memory, None)


def _pieces(
    graph: Graph, events: Iterable[DeviceEvent], known: Mapping[str, Instruction]
) -> Iterator[Piece]:
    """Yields the mean time of each instruction, with the arithmetic of the values it computes."""
    values = {value.id: value for value in graph.values}
    times: defaultdict[str, float] = defaultdict(float)
    for event in events:
        times[event.name] += (event.end - event.start) / RUNS
    for name, seconds in times.items():
        instruction = known.get(name, Instruction(name, "kernel", 0, ()))
        sources = [values[each] for each in instruction.sources if each in values]
        main = max(sources, key=_flops, default=None)
        shown, kind = (name, instruction.kind) if main is None else (_name(main), kind_of(main.op))
        others = f" and {len(sources) - 1} more" if len(sources) > 1 else ""
        location = "" if main is None else str(main.origin)
        flops = sum(map(_flops, sources))
        yield Piece(
            f"{shown}{others}", kind, location, (shown, others), seconds, flops, instruction.bytes
        )


def _name(value: Value) -> str:
    return op_name(value.op, [each.type for each in value.operands], value.type)


def _flops(value: Value) -> int:
    """Returns the number of operations of a value; several results are counted with the first."""
    if isinstance(value.op, Leaf) or value.index:
        return 0
    return value.op.flops([each.type for each in value.operands], value.type)


def _memory(graph: Graph, session: XlaSession) -> dict[str, int]:
    persistent, inputs = (sum(map(size_in_bytes, each.values())) for each in leaf_types(graph))
    found = session.compiled.memory_analysis()
    temporaries = 0 if found is None else found.temp_size_in_bytes
    outputs = sum(size_in_bytes(value.type) for value in graph.outputs.values())
    return {
        "parameters": persistent,
        "inputs": inputs,
        "outputs": outputs,
        "temporaries": temporaries,
    }


def _peaks(device: jax.Device, precision: ComputePrecision) -> Peaks:
    """Measures a matrix product in a precision, and a copy, by XLA."""
    rows = ROWS[device.platform == "cpu"]
    is_narrow = precision is ComputePrecision.BF16
    is_exact = precision is ComputePrecision.F32
    exactly = lax.Precision.HIGHEST if is_exact else lax.Precision.DEFAULT
    square = jnp.full((rows, rows), 0.5, jnp.bfloat16 if is_narrow else jnp.float32)

    def product(x: jax.Array) -> jax.Array:
        contracted = (((1,), (0,)), ((), ()))
        return lax.dot(
            x,
            x,
            dimension_numbers=contracted,
            precision=exactly,
            preferred_element_type=jnp.float32,
        )

    placed = jax.device_put(square, device)
    multiplied = _fastest(product, placed)
    copied = _fastest(lax.neg, placed)
    how = f"a product of {rows} x {rows} matrices in {precision}, and a copy, by XLA"
    return Peaks(2 * rows**3 / multiplied, 2 * square.nbytes / copied, how)


def _fastest(function: Callable[[jax.Array], jax.Array], x: jax.Array) -> float:
    """Returns the time of the fastest of some runs in seconds."""
    compiled = jax.jit(function)
    times: list[float] = []
    for _ in range(PEAK_RUNS):
        start = perf_counter()
        jax.block_until_ready(compiled(x))
        times.append(perf_counter() - start)
    return min(times)
