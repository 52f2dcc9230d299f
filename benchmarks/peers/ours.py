"""Ours: a session on a device of one of the backends."""

import statistics
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, cast

import numpy as np

from benchmarks.peers.case import LOSSES, Material, Values, optimized
from benchmarks.peers.contender import (
    RESIDENT,
    Absent,
    Figure,
    Kernel,
    Precision,
    Running,
    Step,
)
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Array, Graph, Leaf
from meganeura_dsl.ir.interpreter import storage_type
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_runtime.backends.base import Session
from meganeura_runtime.backends.errors import DeviceError
from meganeura_runtime.backends.inference_session import Derivation
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.backends.registry import choose_device, model_of
from meganeura_runtime.backends.webgpu.plan import Role
from meganeura_runtime.backends.webgpu.session import WebGpuSession

if TYPE_CHECKING:
    from meganeura_runtime.backends.xla.session import XlaSession

FED, ROUND_TRIP = "fed", "there and back"


class Ours:
    """A session whose inputs stay on the device, or are fed in every step.

    An inference is also timed there and back: fed, run, and its output read.
    """

    def __init__(self, selector: str, precision: Precision) -> None:
        self._selector = selector
        self._scales_loss = precision == "f16"
        try:
            self._device = choose_device(selector, precision=ComputePrecision(precision))
        except DeviceError as error:
            raise Absent(str(error)) from error
        except ProblemError as error:
            raise Absent(str(error)) from error

    @contextmanager
    def run(self, one: Material) -> Generator[Running]:
        """Compile a case, and open a session."""
        model = model_of(self._selector)
        graph, derived = optimized(one, model, scale_loss=self._scales_loss)
        with ExitStack() as stack:
            session = stack.enter_context(self._device.open(graph))
            session.load(loaded(graph, derived, one.weights))
            first = next(iter(graph.outputs))
            count = LOSSES if one.case.trains else 1
            found = [np.asarray(session.step(one.inputs)[first]) for _ in range(count)]
            uploaded = stack.enter_context(session.upload(one.inputs))
            steps: dict[str, Step] = {
                RESIDENT: lambda: session.step(uploaded),
                FED: lambda: session.step(one.inputs),
            }
            if not one.case.trains:
                steps[ROUND_TRIP] = lambda: session.step(one.inputs)[first]
            yield Running(
                np.stack(found) if one.case.trains else found[0],
                steps,
                session.wait,
                _figures(session),
                _profiler(session),
            )

    def __str__(self) -> str:
        return str(self._device.description)


def _figures(session: Session) -> Mapping[str, Figure]:
    if isinstance(session, WebGpuSession):
        plan = session.plan
        return {
            "MiB": lambda: sum(map(plan.bytes_for, Role)) / 2**20,
            "dispatches": lambda: float(len(plan.dispatches)),
            "kernels, ms": lambda: 1e3 * statistics.median(_kernels(session)),
        }
    if isinstance(session, ReferenceSession):
        return {}
    from benchmarks.peers.jax_tools import (  # noqa: PLC0415  JAX may be missing
        finished_products,
        mebibytes,
    )

    found = cast("XlaSession", session)
    compiled, asked = found.compiled, products_to_finish(found.program.graph)
    if not asked:
        return {"MiB": lambda: mebibytes(compiled)}
    return {
        "MiB": lambda: mebibytes(compiled),
        "products with a gelu": lambda: float(asked),
        "these by cuBLASLt": lambda: float(finished_products(compiled.as_text())),
    }


def products_to_finish(graph: Graph) -> int:
    """Returns the number of a graph's products that XLA should give with their gelu."""
    from meganeura_runtime.backends.xla.ops.matmul import (  # noqa: PLC0415  JAX may be missing
        LibraryMatMul,
    )

    return sum(isinstance(value.op, LibraryMatMul) for value in graph.values)


def _kernels(session: WebGpuSession) -> list[float]:
    """The sum of the kernels' times by the adapter's clock, in some steps."""
    return [sum(session.profile(before=3)) for _ in range(5)]


def _profiler(session: Session) -> Callable[[Step], Sequence[Kernel]] | None:
    if isinstance(session, WebGpuSession | ReferenceSession):
        return None
    from benchmarks.peers.jax_tools import kernels  # noqa: PLC0415  JAX may be missing

    return kernels


def loaded(graph: Graph, derived: Graph, weights: Values) -> Values:
    """Returns the values that a session is loaded with: weights, derived ones, and zeros."""
    everything = {**weights, **Derivation(derived)(weights)}
    return {
        leaf.name: everything.get(leaf.name, _zeros(leaf))
        for value in graph.values
        if isinstance(leaf := value.op, Leaf) and leaf.is_persistent
    }


def _zeros(leaf: Leaf) -> Array:
    return np.zeros(concrete_shape(leaf.shape), storage_type(leaf.dtype))
