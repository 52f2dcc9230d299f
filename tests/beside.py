"""A graph beside another program that computes the same: data, a loss, its gradients."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from meganeura_dsl.gradcheck.probe import NoGradientError
from meganeura_dsl.ir.graph import Array, Graph, Leaf, Value, continued
from meganeura_dsl.ir.ops import Add, Input, Mul, Parameter, Sum
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.transforms.autodiff import differentiate

VOCABULARY = 11
"""Numbers of tokens are drawn below this."""


def drawn(inputs: Mapping[str, TensorType], seed: int) -> dict[str, Array]:
    """Random data for inputs."""
    generator = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for name, wanted in inputs.items():
        shape = tuple(size for size in wanted.shape if isinstance(size, int))
        if wanted.dtype is DType.I32:
            found[name] = generator.integers(0, VOCABULARY, shape).astype(np.int32)
        else:
            found[name] = generator.uniform(-1, 1, shape).astype(np.float32)
    return found


@dataclass(frozen=True)
class Differences:
    """The largest differences of two models, in units of the largest element of a tensor."""

    outputs: float = 0.0
    gradients: float = 0.0
    modes: int = 1
    """The modes, evaluation and training, in which they were compared."""


def largest(found: Iterable[Differences]) -> Differences:
    """The largest of several differences, of outputs and of gradients."""
    listed = list(found)
    return Differences(
        max((each.outputs for each in listed), default=0.0),
        max((each.gradients for each in listed), default=0.0),
        sum(each.modes for each in listed),
    )


def assert_near(ours: Mapping[str, Array], theirs: Mapping[str, Array], tolerance: float) -> float:
    """Every tensor agrees, measured by its own largest element; returns the largest difference.

    A tensor whose elements are all far below those of the others, such as a gradient that is zero
    but for rounding, is measured by a thousandth of the largest element there is.
    """
    assert ours.keys() == theirs.keys()
    furthest = 0.0
    highest = max(float(np.abs(array).max()) for array in theirs.values())
    for name, expected in theirs.items():
        assert ours[name].shape == expected.shape
        scale = max(float(np.abs(expected).max()), highest / 1000)
        worst = float(np.abs(ours[name] - expected).max()) / scale
        assert worst <= tolerance, f"{name}: {worst:.2e} of its largest element"
        furthest = max(furthest, worst)
    return furthest


def weighted(graph: Graph) -> Graph:
    """The graph with a loss: all float outputs, times coefficients of their own, summed."""
    build, kept = continued(graph)
    outputs = {**kept.outputs, **{f"next.{name}": each for name, each in kept.updates.items()}}
    floats = [value for value in kept.outputs.values() if value.type.dtype.is_float]
    if not floats:
        raise NoGradientError("none of its results is a float")
    loss: Value | None = None
    for number, value in enumerate(dict.fromkeys(floats)):
        weight = build.add(Input(f"coefficient{number}", value.type.dtype, value.type.shape))
        term = build.add(Sum(tuple(range(value.type.rank))), build.add(Mul(), weight, value))
        loss = term if loss is None else build.add(Add(), loss, term)
    assert loss is not None
    return build.graph({"loss": loss, **outputs})


def differentiated(graph: Graph) -> Graph:
    """A graph with the gradient of its loss in every leaf that could be trained."""
    build, kept = continued(graph)
    moved = {
        op.name: value
        for value in kept.values
        if isinstance(op := value.op, Leaf) and value.type.dtype.is_float and _moves(op)
    }
    found = differentiate(build, kept.outputs["loss"], tuple(moved.values()))
    named = {f"d {name}": each for name, each in zip(moved, found, strict=True)}
    return build.graph({**kept.outputs, **named})


def _moves(leaf: Leaf) -> bool:
    is_state = isinstance(leaf, Parameter) and leaf.kind != "param"
    return not is_state and not leaf.name.startswith("coefficient")
