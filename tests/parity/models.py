"""A model and its PyTorch reference with the same weights, and what both compute from them."""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from textwrap import dedent

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.elaborate.scope.parameter_info import ParameterInfo
from meganeura_dsl.ir.graph import Array, Graph, continued
from meganeura_dsl.ir.interpreter import Interpreter, Precision
from meganeura_dsl.ir.reserved_names import STATES
from meganeura_dsl.ir.types import DType
from meganeura_dsl.pipeline import Program, elaborate_model, elaborate_train, loader_beside
from meganeura_dsl.transforms.autodiff import differentiate
from meganeura_dsl.transforms.optimizers.optimizers import Adam, Optimizer, Sgd
from meganeura_dsl.transforms.training_step import TrainingSettings, trained, training_step
from meganeura_runtime.io.weights import compare, write_weights
from tests.beside import assert_near, drawn


@dataclass(frozen=True)
class Case:
    """A program with a model `net` and a `train` block `fit`, and a module with its weights.

    `fit` takes the model's inputs and a `target` for the mean squared error.
    """

    name: str
    text: str
    module: Callable[[], nn.Module]
    sizes: Mapping[str, int] = field(hash=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Computed:
    """One training step of either side, by name."""

    loss: float
    gradients: Mapping[str, Array]
    states: Mapping[str, Array]


# --- the two sides -------------------------------------------------------------------------------


@cache
def program(case: Case) -> Program:
    """The program, linked with the standard models."""
    sink = Sink()
    module = Linker(loader_beside(Path("case.mgn")), sink).link(
        Source("case.mgn", dedent(case.text))
    )
    assert not sink.has_errors, sink.reports
    return Program(module)


@cache
def inference(case: Case, *, training: bool = False) -> Elaboration:
    """The graph of `net`."""
    return elaborate_model(program(case), "net", sizes=case.sizes, training=training)


@cache
def training(case: Case) -> Elaboration:
    """The graph of `fit`."""
    return elaborate_train(program(case), "fit", sizes=case.sizes, training=True)


def reference(case: Case) -> nn.Module:
    """The module of a case with random weights."""
    torch.manual_seed(0)
    return randomized(case.module())


def randomized(module: nn.Module) -> nn.Module:
    """The module with random weights, every one of them of consequence."""
    with torch.no_grad():
        for name, tensor in module.state_dict().items():
            if name.endswith("num_batches_tracked"):
                tensor.fill_(3)
            elif name.endswith("running_var"):
                tensor.uniform_(0.5, 1.5)
            elif tensor.ndim < 2:
                tensor.normal_(1.0 if name.endswith("weight") else 0.0, 0.1)
            elif not tensor.any() or tensor.std() > 0.5:
                tensor.normal_(0.0, 0.2)
    return module


def weights(case: Case, module: nn.Module) -> dict[str, Array]:
    """A module's weights as this side reads them from the file that PyTorch wrote."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        save_file(module.state_dict(), path)
        return compare([path], inference(case).parameters).read()


def loaded(case: Case, values: Mapping[str, Array]) -> nn.Module:
    """A new module with the weights that this side wrote to a file, loaded strictly."""
    parameters = inference(case).parameters
    stored = {name: np.asarray(value, np.float32) for name, value in values.items()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "weights.safetensors"
        write_weights(path, parameters, stored, {"format": "pt"})
        module = case.module()
        module.load_state_dict(load_file(path), strict=True)
    return module


def tensors(arrays: Mapping[str, Array], dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Arrays as tensors of PyTorch, floats in one precision."""
    kinds = {"f": dtype, "b": torch.bool}
    return {
        name: torch.tensor(array).to(kinds.get(array.dtype.kind, torch.long))
        for name, array in arrays.items()
    }


# --- what they compute ---------------------------------------------------------------------------


def forward(case: Case, values: Mapping[str, Array], data: Mapping[str, Array],
            precision: Precision, *, training: bool = False) -> Array:  # fmt: skip
    """Our output for some weights and data."""
    graph = inference(case, training=training).graph
    return Interpreter(graph, precision).run({**values, **data}).outputs["output"]


def their_forward(module: nn.Module, data: Mapping[str, Array], *, training: bool = False) -> Array:
    """PyTorch's output in double precision; a module that trains also updates its states."""
    module = module.double().train(training)
    with torch.no_grad():
        return module(*tensors(data, torch.float64).values()).numpy()


def gradient_graph(forward: Graph) -> Graph:
    """The loss, and the gradient of every trained parameter under its name."""
    build, graph = continued(forward)
    wanted = {op.name: value for value in graph.values if (op := trained(value)) is not None}
    found = differentiate(build, graph.outputs["loss"], tuple(wanted.values()))
    return build.graph({**graph.outputs, **dict(zip(wanted, found, strict=True))}, graph.updates)


def step(
    case: Case, values: Mapping[str, Array], data: Mapping[str, Array], precision: Precision
) -> Computed:
    """Our loss, gradients and new states."""
    results = Interpreter(gradient_graph(training(case).graph), precision).run({**values, **data})
    gradients = dict(results.outputs)
    return Computed(float(gradients.pop("loss")), gradients, results.updates)


def their_loss(
    module: nn.Module, data: Mapping[str, Array], dtype: torch.dtype = torch.float64
) -> torch.Tensor:
    """The mean squared error."""
    fed = tensors(data, dtype)
    target = fed.pop("target")
    return ((module(*fed.values()) - target) ** 2).mean()


def their_step(
    module: nn.Module, data: Mapping[str, Array], dtype: torch.dtype = torch.float64
) -> Computed:
    """PyTorch's loss, gradients and new states."""
    module = module.to(dtype).train()
    loss = their_loss(module, data, dtype)
    loss.backward()
    gradients = {
        name: parameter.grad.numpy()
        for name, parameter in module.named_parameters()
        if parameter.grad is not None
    }
    states = {name: buffer.numpy() for name, buffer in module.named_buffers()}
    return Computed(loss.item(), gradients, states)


STEPS = 5
# A bias before a norm has no gradient but rounding, which Adam would divide by itself, so eps is
# larger here.
OPTIMIZERS: dict[str, tuple[Optimizer, Callable[..., torch.optim.Optimizer]]] = {
    "sgd": (Sgd(0.01, momentum=0.9), lambda each: torch.optim.SGD(each, 0.01, 0.9)),
    "adam": (Adam(1e-3, eps=1e-5), lambda each: torch.optim.Adam(each, 1e-3, eps=1e-5)),
}


def trained_weights(
    case: Case, values: Mapping[str, Array], optimizer: Optimizer, precision: Precision
) -> dict[str, Array]:
    """Our parameters and states after some steps, on new data in each."""
    elaboration = training(case)
    interpreter = Interpreter(
        training_step(elaboration.graph, TrainingSettings(optimizer)), precision
    )
    kept = dict(values)
    for name, leaf in interpreter.leaves.items():
        if name.startswith(STATES):
            shape = tuple(size for size in leaf.type.shape if isinstance(size, int))
            kept[name] = np.zeros(shape, np.int32 if leaf.type.dtype is DType.I32 else np.float32)
    for seed in range(STEPS):
        data = drawn(elaboration.inputs, seed)
        kept |= interpreter.run({**kept, **data}).updates
    return {name: kept[name] for name in values}


def their_trained_weights(
    case: Case, module: nn.Module, optimizer: Callable[..., torch.optim.Optimizer]
) -> dict[str, Array]:
    """The same of PyTorch, in double precision."""
    module = module.double().train()
    moves = optimizer([each for each in module.parameters() if each.requires_grad])
    for seed in range(STEPS):
        moves.zero_grad()
        their_loss(module, drawn(training(case).inputs, seed)).backward()
        moves.step()
    return {name: tensor.numpy() for name, tensor in module.state_dict().items()}


def assert_same_weights_after_steps(case: Case, optimizer: str) -> None:
    """Both sides reach the same weights, and moved on the way."""
    ours, theirs = OPTIMIZERS[optimizer]
    module = reference(case)
    values = weights(case, module)
    expected = their_trained_weights(case, module, theirs)
    assert_near(trained_weights(case, values, ours, Precision.DOUBLE), expected, 1e-9)
    names = trainable(inference(case).parameters)
    assert any(np.abs(expected[name] - values[name]).max() > 1e-5 for name in names)


def trainable(parameters: tuple[ParameterInfo, ...]) -> set[str]:
    """The names of the parameters that have gradients."""
    return {info.name for info in parameters if info.kind == "param"}
