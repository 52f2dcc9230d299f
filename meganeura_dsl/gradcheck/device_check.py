"""A device compared with the reference in double precision."""

from collections.abc import Callable, Mapping

import numpy as np

from meganeura_dsl.gradcheck.probe import DECISION, Probe, fitting
from meganeura_dsl.gradcheck.verdicts import Deviation, WrongOnDevice
from meganeura_dsl.ir.graph import Array, Graph, Leaf
from meganeura_dsl.ir.interpreter import Precision, evaluate, storage_type

RunGraph = Callable[[Graph, Mapping[str, Array]], Mapping[str, Array]]
"""Runs a graph once on a device: feeds for all its leaves in, its outputs out."""

RELATIVE = 1e-4
"""The tolerance relative to a tensor's largest number, beyond the error of single precision."""
ROUNDINGS = 16
"""The tolerance for a device, in errors of the reference in single precision."""


def compare(
    probe: Probe, feeds: Mapping[str, Array], run: RunGraph
) -> WrongOnDevice | Deviation | None:
    """The first output or gradient that a device gives wrongly, or where it is farthest off.

    None where single and double precision fall on different sides of a kink, and where a number is
    too large or too small for single precision: the program is as wrong there on any device.
    """
    graph = probe.graph
    single = _single(graph, fitting(graph, feeds))
    double = {name: _widened(array) for name, array in single.items()}
    exact = evaluate(graph, double, Precision.DOUBLE).outputs
    rounded = evaluate(graph, single).outputs
    if not _same_side(probe, double):
        return None
    if any(not np.all(np.isfinite(each)) for each in rounded.values()):
        return None
    worst: Deviation | None = None
    for name, found in run(graph, single).items():
        apart = np.abs(_apart(found, exact[name]))
        largest = _largest(exact[name])
        difference = _largest(apart)
        allowed = RELATIVE * largest + ROUNDINGS * _largest(_apart(rounded[name], exact[name]))
        allowed += float(np.finfo(np.float32).tiny)
        place = f"{name}{_place(apart)}"
        if not difference <= allowed:
            return WrongOnDevice(place, difference, allowed)
        if worst is None or difference / allowed > worst.difference / worst.allowed:
            worst = Deviation(place, difference, allowed, largest)
    return worst


def _place(apart: Array) -> str:
    """Returns the index of the largest number of an array, NaN before all others."""
    if not apart.ndim or not apart.size:
        return ""
    return f"[{', '.join(map(str, np.unravel_index(int(np.argmax(apart)), apart.shape)))}]"


def _single(graph: Graph, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """The feeds as devices store them."""
    leaves = {leaf.name: leaf for value in graph.values if isinstance(leaf := value.op, Leaf)}
    return {name: array.astype(storage_type(leaves[name].dtype)) for name, array in feeds.items()}


def _widened(array: Array) -> Array:
    return array.astype(np.float64) if np.issubdtype(array.dtype, np.floating) else array


def _same_side(probe: Probe, feeds: Mapping[str, Array]) -> bool:
    fed = fitting(probe.forward, feeds)
    double = evaluate(probe.forward, fed, Precision.DOUBLE).outputs
    single = _single(probe.forward, fed)
    rounded = evaluate(probe.forward, single).outputs
    return all(
        np.array_equal(double[name], rounded[name]) for name in double if name.startswith(DECISION)
    )


def _apart(left: Array, right: Array) -> Array:
    return np.asarray(left, np.float64) - np.asarray(right, np.float64)


def _largest(array: Array) -> float:
    return float(np.max(np.abs(np.asarray(array, np.float64)), initial=0))
