"""Runs of a case on backends, as it stands and optimized, and what is wrong with them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import numpy as np

from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.ir.graph import Array, Graph, Leaf, continued
from meganeura_dsl.ir.interpreter import Precision, evaluate, storage_type
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.pipeline import Program, elaborate_model, loader_beside
from meganeura_dsl.transforms.egraph.optimize import optimize
from meganeura_runtime.backends.registry import choose_device
from meganeura_runtime.infer.size_binding import bind_sizes
from tests.silent_bugs.case import Case

COUNTER = "counter"
"""The input of whatever draws random numbers: the seed and the step."""
Step = Callable[[Mapping[str, Array]], Sequence[Array]]
Open = Callable[[Graph], AbstractContextManager[Step]]
"""Opens a graph, for several steps."""


def graph_of(case: Case) -> Graph:
    """The graph of a case at the sizes of what it is fed; updates are results behind the others."""
    sink = Sink()
    module = Linker(loader_beside(Path()), sink).link(Source(f"{case}.mgn", case.program))
    assert not sink.has_errors, f"{case}: {sink.reports}"
    program = Program(module)
    declared = elaborate_model(program, training=case.training).inputs
    declared = {name: each for name, each in declared.items() if name != COUNTER}
    given = {name: each.shape for name, each in case.fed.items() if name in declared}
    sizes = bind_sizes(declared, given)
    build, kept = continued(elaborate_model(program, sizes=sizes, training=case.training).graph)
    updates = {f"next.{name}": each for name, each in kept.updates.items()}
    return build.graph({**kept.outputs, **updates})


def faults(case: Case, devices: Mapping[str, Open]) -> Iterator[str]:
    """Differences from what is right: in double precision, and on devices.

    Each is given two sets of data in turn, so that nothing of the first may be left.
    """
    plain = graph_of(case)
    mode = "train" if case.training else "forward"
    fed = [case.fed, {name: np.flip(each).copy() for name, each in case.fed.items()}]
    fed = fed[: 1 + case.turns]
    for form, graph in (("", plain), (" optimized", optimize(plain, mode=mode).graph)):
        for device, opened in {"double": _double, **devices}.items():
            if not {device, form.strip()}.isdisjoint(case.not_promised):
                continue
            with opened(graph) as step:
                for data in fed:
                    with np.errstate(all="ignore"):
                        right = case.right(**{name: _wide(each) for name, each in data.items()})
                        found = step(data)
                    close = case.close if device == "double" else case.single
                    for place, (mine, wanted) in enumerate(zip(found, right, strict=True)):
                        fault = _fault(mine, np.asarray(wanted), close)
                        if fault:
                            yield f"{case}, {device}{form}, result {place}: {fault}"


def _wide(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype == np.float32 else array


def _fault(found: Array, wanted: Array, close: float) -> str:
    if found.shape != wanted.shape:
        return f"the shape is {found.shape}, not {wanted.shape}"
    mine, right = np.asarray(found, np.float64), np.asarray(wanted, np.float64)
    is_finite = np.isfinite(right)
    if not np.array_equal(mine[~is_finite], right[~is_finite], equal_nan=True):
        return f"{mine.ravel()[:9]} is not {right.ravel()[:9]}"
    largest = np.max(np.abs(right[is_finite]), initial=1.0)
    apart = np.max(np.abs(mine[is_finite] - right[is_finite]), initial=0.0)
    limit = close * largest if np.issubdtype(wanted.dtype, np.floating) else 0
    return "" if apart <= limit else f"off by {apart:.3g}: {mine.ravel()[:9]}, {right.ravel()[:9]}"


@contextmanager
def _double(graph: Graph) -> Iterator[Step]:
    def step(fed: Mapping[str, Array]) -> Sequence[Array]:
        typed = {name: _wide(_fed(leaf, fed)) for name, leaf in _leaves(graph).items()}
        found = evaluate(graph, typed, Precision.DOUBLE).outputs
        return [*found.values()]

    yield step


def opened_on(name: str) -> Open:
    """Sessions of a device."""
    device = choose_device(name)

    @contextmanager
    def opened(graph: Graph) -> Iterator[Step]:
        leaves = _leaves(graph)
        with device.open(graph) as session:

            def step(fed: Mapping[str, Array]) -> Sequence[Array]:
                typed = {name: _fed(leaf, fed) for name, leaf in leaves.items()}
                session.load({n: each for n, each in typed.items() if leaves[n].is_persistent})
                found = session.step(
                    {n: each for n, each in typed.items() if not leaves[n].is_persistent}
                )
                return [*found.values()]

            yield step

    return opened


def _fed(leaf: Leaf, fed: Mapping[str, Array]) -> Array:
    """The value of a leaf; a state that no case speaks of is 0, as is the seed."""
    array = fed.get(leaf.name)
    shape = concrete_shape(leaf.shape)
    return (np.zeros(shape) if array is None else array).astype(storage_type(leaf.dtype))


def _leaves(graph: Graph) -> dict[str, Leaf]:
    return {value.op.name: value.op for value in graph.values if isinstance(value.op, Leaf)}
