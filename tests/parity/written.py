"""A model of a program, and what `meganeura export --to torch` writes of it, side by side."""

import runpy
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn

from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.ir.graph import Array, Leaf
from meganeura_dsl.ir.interpreter import Interpreter, Precision, evaluate
from meganeura_dsl.ir.ops import Input, RandomBits
from meganeura_dsl.pipeline import Program, elaborate_model
from meganeura_runtime.export.source.write import written as source_of
from meganeura_runtime.io.weights import write_weights
from tests.beside import assert_near, differentiated, drawn, weighted
from tests.parity.models import randomized, tensors

OUTPUT, GRADIENT = 1e-6, 1e-5
"""Of the largest element of a tensor, in double precision."""


@dataclass(frozen=True)
class Written:
    """A model, its source, and the function of the source that makes it."""

    program: Program
    text: str
    make: Callable[[], nn.Module]


def written(program: Program, name: str = "net") -> Written:
    """The source of a model, executed. Raises `ProblemError`."""
    text = source_of(program.module, program.module.models[name], {}, {}, "torch")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.py"
        path.write_text(text)
        names = runpy.run_path(str(path))
    return Written(program, text, names[name])


@contextmanager
def double_precision() -> Iterator[None]:
    """Makes the default type of PyTorch `float64`."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def assert_agrees(case: Written, sizes: Mapping[str, int], name: str = "net") -> None:
    """Outputs, gradients and states agree in evaluation and, unless it draws, in training."""
    plain = elaborate_model(case.program, name, sizes=sizes)
    torch.manual_seed(0)
    values = _through_a_file(case.make, plain)
    for training in (False, True):
        elaboration = elaborate_model(case.program, name, sizes=sizes, training=training)
        if not any(isinstance(each.op, RandomBits) for each in elaboration.graph.values):
            _assert_agree(case, elaboration, values, training=training)


def _through_a_file(make: Callable[[], nn.Module], elaboration: Elaboration) -> dict[str, Array]:
    """Random weights by name, which our file of them gives the module, and it alone."""
    kept = {
        name: each.float().numpy() if each.is_floating_point() else each.numpy().astype(np.int32)
        for name, each in randomized(make()).state_dict().items()
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "weights.safetensors"
        write_weights(path, elaboration.parameters, kept, {"format": "pt"})
        make().load_state_dict(load_file(path), strict=True)
    return kept


def _assert_agree(
    case: Written, elaboration: Elaboration, values: Mapping[str, Array], *, training: bool
) -> None:
    """One random linear function of all outputs, and its gradients, on both sides."""
    summed = weighted(elaboration.graph)
    ours = Interpreter(differentiated(summed), Precision.DOUBLE)
    fed = {
        **values,
        **drawn({n: e.type for n, e in ours.leaves.items() if isinstance(e.op, Input)}, 1),
    }
    found = ours.run({name: each for name, each in fed.items() if name in ours.leaves}).outputs
    outputs = evaluate(elaboration.graph, {n: fed[n] for n in _fed(elaboration)}, Precision.DOUBLE)

    module = case.make().double().train(training)
    module.load_state_dict(tensors(values, torch.float64), strict=True)
    given = tensors({name: fed[name] for name in elaboration.inputs}, torch.float64)
    for each in given.values():
        each.requires_grad_(each.is_floating_point())
    results = module(*given.values())
    theirs = dict(zip(outputs.outputs, _several(results), strict=True))
    floats = [each for each in theirs.values() if each.is_floating_point()]
    terms = [(each * torch.tensor(fed[f"coefficient{at}"])).sum() for at, each in enumerate(floats)]
    torch.stack(terms).sum().backward()
    assert_near(outputs.outputs, {n: e.detach().numpy() for n, e in theirs.items()}, OUTPUT)
    leaves = {**given, **dict(module.named_parameters())}
    slopes = {
        name: torch.zeros_like(each) if each.grad is None else each.grad
        for name, each in leaves.items()
        if f"d {name}" in found
    }
    assert {f"d {name}" for name in slopes} == {n for n in found if n.startswith("d ")}
    assert_near(
        {name: found[f"d {name}"] for name in slopes},
        {name: each.numpy() for name, each in slopes.items()},
        GRADIENT,
    )
    states = {name: each.numpy() for name, each in module.named_buffers()}
    if outputs.updates:
        assert_near(outputs.updates, {name: states[name] for name in outputs.updates}, OUTPUT)


def _fed(elaboration: Elaboration) -> set[str]:
    return {each.op.name for each in elaboration.graph.values if isinstance(each.op, Leaf)}


def _several(results: object) -> Sequence[torch.Tensor]:
    is_one = isinstance(results, torch.Tensor)
    return (results,) if is_one else cast("Sequence[torch.Tensor]", results)
