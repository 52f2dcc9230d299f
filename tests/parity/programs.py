"""Random programs against PyTorch: outputs and gradients, on every device, optimized or not."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random

import numpy as np

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError, Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.elaborate.scope.undecided import UndecidableError
from meganeura_dsl.gradcheck.cases import choose_case
from meganeura_dsl.gradcheck.device_check import compare
from meganeura_dsl.gradcheck.probe import NoGradientError, probe
from meganeura_dsl.gradcheck.random_inputs import RandomInputs
from meganeura_dsl.gradcheck.random_sizes import DeadEndError
from meganeura_dsl.gradcheck.subjects import block_subject
from meganeura_dsl.ir.graph import Array, Graph, Leaf
from meganeura_dsl.ir.interpreter import Precision, evaluate, storage_type
from meganeura_dsl.transforms.egraph.optimize import optimize
from meganeura_dsl.transforms.unroll_loops import unroll_loops
from tests.beside import differentiated, weighted
from tests.parity.torch_graph import gradients, run
from tests.properties.programs import program

RunGraph = Callable[[Graph, Mapping[str, Array]], Mapping[str, Array]]
DOUBLE = 1e-9
"""Of the largest number of a tensor, in double precision."""
SINGLE, ROUNDINGS = 1e-4, 32
"""The same in single precision, beside so many times the error of the reference in it."""
CANCELLED = 1e-6
"""Of the largest number of all tensors: what is left where larger ones cancel, such as a gradient
in the weight of a batch norm that another one follows, which is 0."""
LARGEST = 1e30
"""Beyond this a sum may overflow in single precision."""


@dataclass
class Tally:
    """The numbers of comparisons, and the differences."""

    seen: Counter[str] = field(default_factory=Counter[str])
    wrong: list[str] = field(default_factory=list[str])


def examine(seed: int, devices: Mapping[str, RunGraph], tally: Tally) -> None:
    """Hold one block of a random program to PyTorch."""
    source = Source("random.mgn", program(Random(seed)))
    result = pipeline.check(source, lambda _: None)
    if not result.fine:
        tally.seen["refused"] += 1
        return
    module = Linker(lambda _: None, Sink()).link(source)
    random = Random(seed)
    block = module.blocks[random.choice(result.proved)]
    try:
        case = choose_case(random.choice, block_subject(module, block))
        graph = case.elaborate().graph
        plain = differentiated(weighted(graph))
    except (DeadEndError, UndecidableError, NoGradientError, ProblemError):
        tally.seen["without a case"] += 1
        return
    for fault in _faults(graph, plain, seed, devices, tally):
        tally.wrong.append(f"seed {seed}, {fault}\n{source.text}\n{case.snippet}")


def _faults(
    graph: Graph, plain: Graph, seed: int, devices: Mapping[str, RunGraph], tally: Tally
) -> Iterator[str]:
    feeds = _single(plain, RandomInputs(seed).feeds(plain))
    exact = _theirs(unroll_loops(weighted(graph)), plain, feeds)
    if not all(np.isfinite(each).all() and _largest(each) < LARGEST for each in exact.values()):
        tally.seen["overflowing"] += 1
        return
    forward = optimize(weighted(graph), mode="forward").graph
    with_rules = optimize(differentiated(forward), mode="train")
    forms = {"": plain, " optimized": with_rules.graph}
    rounded = evaluate(plain, feeds).outputs
    tally.seen["programs"] += 1
    cancelled = CANCELLED * max(map(_largest, exact.values()))
    for form, made in forms.items():
        fed = {name: feeds[name] for name in _leaves(made)}
        wide = {name: _widened(array) for name, array in fed.items()}
        double = evaluate(made, wide, Precision.DOUBLE).outputs
        for name in made.outputs:
            tally.seen["tensors"] += 1
            if not _apart(double[name], exact[name]) <= DOUBLE * max(1, _largest(exact[name])):
                yield f"cpu{form}, double precision: {name}"
        for device, run_graph in devices.items():
            found = run_graph(made, fed)
            bad = [
                name
                for name in made.outputs
                if not _apart(found[name], exact[name])
                <= SINGLE * _largest(exact[name])
                + ROUNDINGS * _apart(rounded[name], exact[name])
                + max(cancelled, np.finfo(np.float32).tiny)
            ]
            if bad and _is_on_one_side(graph, feeds):
                yield f"{device}{form}: {', '.join(bad)}"
            elif bad:
                tally.seen["kinks"] += 1


def _theirs(graph: Graph, whole: Graph, feeds: Mapping[str, Array]) -> dict[str, Array]:
    outputs, leaves = run(graph, {name: feeds[name] for name in _leaves(graph)})
    found = {name: each.detach().numpy() for name, each in outputs.items()}
    slopes = gradients(outputs["loss"], leaves)
    return found | {
        f"d {name}": each for name, each in slopes.items() if f"d {name}" in whole.outputs
    }


def _is_on_one_side(graph: Graph, feeds: Mapping[str, Array]) -> bool:
    """True if single precision takes the same branches as double: no run says otherwise."""
    probed = probe(graph)
    fed = {**RandomInputs(0).feeds(probed.graph), **feeds}
    fed = {name: fed[name] for name in _leaves(probed.graph)}
    wrong = compare(probed, fed, lambda made, _: {n: np.array(np.nan) for n in made.outputs})
    return wrong is not None


def _leaves(graph: Graph) -> dict[str, Leaf]:
    return {value.op.name: value.op for value in graph.values if isinstance(value.op, Leaf)}


def _single(graph: Graph, feeds: Mapping[str, Array]) -> dict[str, Array]:
    leaves = _leaves(graph)
    return {name: each.astype(storage_type(leaves[name].dtype)) for name, each in feeds.items()}


def _widened(array: Array) -> Array:
    return array.astype(np.float64) if np.issubdtype(array.dtype, np.floating) else array


def _apart(left: Array, right: Array) -> float:
    return _largest(np.asarray(left, np.float64) - np.asarray(right, np.float64))


def _largest(array: Array) -> float:
    return float(np.max(np.abs(np.asarray(array, np.float64)), initial=0))
