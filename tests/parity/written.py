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
from meganeura_dsl.elaborate.values import StaticValue
from meganeura_dsl.ir.graph import Array, Leaf
from meganeura_dsl.ir.interpreter import Interpreter, Precision, evaluate
from meganeura_dsl.ir.ops import RandomBits
from meganeura_dsl.pipeline import Program, elaborate_model, load
from meganeura_runtime.export.reference_run import random_inputs
from meganeura_runtime.export.source.write import written as source_of
from meganeura_runtime.importing.torch_program import import_torch
from meganeura_runtime.io.weights import write_weights
from tests.beside import Differences, assert_near, differentiated, largest, weighted
from tests.parity.models import randomized, tensors
from tests.same_graph import first_difference

OUTPUT, GRADIENT = 1e-6, 1e-5
"""Of the largest element of a tensor, in double precision."""


@dataclass(frozen=True)
class Written:
    """A model, its source, and the function of the source that makes it."""

    program: Program
    text: str
    make: Callable[[], nn.Module]


def written(program: Program, name: str = "net", config: Mapping[str, StaticValue] = {}) -> Written:
    """The source of a model, executed. Raises `ProblemError`."""
    text = source_of(program.module, program.module.models[name], config, {}, "torch")
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


def assert_agrees(
    case: Written,
    sizes: Mapping[str, int],
    name: str = "net",
    config: Mapping[str, StaticValue] = {},
) -> Differences:
    """Outputs, gradients and states agree in evaluation and, unless it draws, in training."""
    plain = elaborate_model(case.program, name, config=config, sizes=sizes)
    torch.manual_seed(0)
    values = _through_a_file(case.make, plain)
    found: list[Differences] = []
    for training in (False, True):
        elaboration = elaborate_model(
            case.program, name, config=config, sizes=sizes, training=training
        )
        if not any(isinstance(each.op, RandomBits) for each in elaboration.graph.values):
            found.append(_assert_agree(case, elaboration, values, training=training))
    return largest(found)


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
) -> Differences:
    """One random linear function of all outputs, and its gradients, on both sides."""
    summed = weighted(elaboration.graph)
    ours = Interpreter(differentiated(summed), Precision.DOUBLE)
    fed = {**values, **random_inputs(summed, 1)}
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
    away = assert_near(outputs.outputs, {n: e.detach().numpy() for n, e in theirs.items()}, OUTPUT)
    leaves = {**given, **dict(module.named_parameters())}
    slopes = {
        name: torch.zeros_like(each) if each.grad is None else each.grad
        for name, each in leaves.items()
        if f"d {name}" in found
    }
    assert {f"d {name}" for name in slopes} == {n for n in found if n.startswith("d ")}
    slope = assert_near(
        {name: found[f"d {name}"] for name in slopes},
        {name: each.numpy() for name, each in slopes.items()},
        GRADIENT,
    )
    states = {name: each.numpy() for name, each in module.named_buffers()}
    if outputs.updates:
        held = {name: states[name] for name in outputs.updates}
        away = max(away, assert_near(outputs.updates, held, OUTPUT))
    return Differences(away, slope)


@dataclass(frozen=True)
class ReadAgain:
    """A model that went through PyTorch and back."""

    difference: float
    """The difference of its outputs from those of the ONNX that PyTorch wrote."""
    other: str | None
    """The first place where its graph is another one."""


def read_again(
    case: Written, sizes: Mapping[str, int], name: str, config: Mapping[str, StaticValue]
) -> ReadAgain:
    """The source exported by `torch.export` and imported, beside the model it was written of."""
    model = elaborate_model(case.program, name, config=config, sizes=sizes)
    fed = random_inputs(model.graph, 1)
    given = [torch.tensor(fed[each]) for each in model.inputs if each in fed]
    with tempfile.TemporaryDirectory() as folder:
        exported = torch.export.export(case.make().eval(), (*given,))
        made = import_torch(exported, Path(folder) / "back.mgn")
        again = elaborate_model(load(str(made.program)))
    return ReadAgain(made.difference, first_difference(model.graph, again.graph))


def _fed(elaboration: Elaboration) -> set[str]:
    return {each.op.name for each in elaboration.graph.values if isinstance(each.op, Leaf)}


def _several(results: object) -> Sequence[torch.Tensor]:
    is_one = isinstance(results, torch.Tensor)
    return (results,) if is_one else cast("Sequence[torch.Tensor]", results)
