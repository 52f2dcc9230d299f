"""The distance of each family of models from PyTorch: `python -m benchmarks.parity.compare [wgpu]`.

Each line is a small model of a family or a published one at full size, with the same random weights
on both sides. PyTorch computes in double precision on its CPU. The columns are the largest
difference of any element, relative to the largest element of its tensor: of the output, of the
gradients, and of the running statistics. `exact` is the reference interpreter in double precision,
`f32` the same in single precision or, where one is named, the adapter. The last column is how far
the gradients of PyTorch's own single precision are from its double precision: rounding that turns a
relu the other way moves them by more than rounding.
"""

import sys

import numpy as np
import torch

from meganeura_dsl.ir.graph import Array, Graph, Leaf
from meganeura_dsl.ir.interpreter import Interpreter, Precision
from meganeura_runtime.backends.registry import choose_device
from tests.parity import models
from tests.parity.cases import FAMILIES
from tests.parity.models import Case
from tests.parity.test_full_size import FULL


def worst(ours: dict[str, Array], theirs: dict[str, Array]) -> float:
    """The largest relative difference of all tensors, measured as the tests measure it."""
    largest = max((float(np.abs(each).max()) for each in theirs.values()), default=0.0)
    return max(
        (
            float(np.abs(ours[name] - expected).max())
            / max(float(np.abs(expected).max()), largest / 1000)
            for name, expected in theirs.items()
        ),
        default=0.0,
    )


def run(graph: Graph, feeds: dict[str, Array], how: Precision | str) -> dict[str, Array]:
    """The outputs and updates of a graph, by the reference or on an adapter."""
    if isinstance(how, Precision):
        results = Interpreter(graph, how).run(feeds)
        return {**results.outputs, **results.updates}
    kept = {
        each.op.name for each in graph.values if isinstance(each.op, Leaf) and each.op.is_persistent
    }
    with choose_device(how).open(graph) as session:
        session.load({name: feeds[name] for name in kept})
        outputs = dict(session.step({name: feeds[name] for name in feeds.keys() - kept}))
        return {**outputs, **{name: session.read(name) for name in graph.updates}}


def differences(case: Case, how: Precision | str) -> tuple[float, float, float]:
    """Of the output, the gradients and the running statistics."""
    module = models.reference(case)
    values = models.weights(case, module)
    data = models.drawn(models.training(case).inputs, 1)
    fed = {name: data[name] for name in models.inference(case).inputs}
    output = models.their_forward(module, fed)
    theirs = models.their_step(module, data)
    inference = models.inference(case).graph
    leaves = {each.op.name for each in inference.values if isinstance(each.op, Leaf)}
    known = {name: each for name, each in {**values, **fed}.items() if name in leaves}
    found = run(inference, known, how)
    step = run(models.gradient_graph(models.training(case)), {**values, **data}, how)
    states = {name: each for name, each in theirs.states.items() if each.ndim}
    return (
        worst(found, {"output": output}),
        worst(step, dict(theirs.gradients)),
        worst(step, states),
    )


def of_pytorch_itself(case: Case) -> float:
    """Of the gradients in PyTorch's single precision."""
    data = models.drawn(models.training(case).inputs, 1)
    exact = models.their_step(models.reference(case), data)
    single = models.their_step(models.reference(case), data, torch.float32)
    return worst(dict(single.gradients), dict(exact.gradients))


def main() -> None:
    """Print the table."""
    device = sys.argv[1] if len(sys.argv) > 1 else None
    single = Precision.SINGLE if device is None else device
    print(f"{'model':14}{'exact: output':>14}{'gradients':>11}{'states':>9}", end="")
    print(f"{'f32: output':>14}{'gradients':>11}{'states':>9}{'PyTorch f32':>14}")
    for case in (*FAMILIES, *FULL):
        ours = (*differences(case, Precision.DOUBLE), *differences(case, single))
        numbers = (*ours, of_pytorch_itself(case))
        widths = (14, 11, 9, 14, 11, 9, 14)
        cells = [f"{number:>{width}.0e}" for number, width in zip(numbers, widths, strict=True)]
        print(f"{case.name:14}{''.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
