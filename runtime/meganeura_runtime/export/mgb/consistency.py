"""Whether a graph, a plan and tensors are those of one model."""

from collections.abc import Mapping, Sequence

from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.transforms.training_step import LEARNING_RATE, LOSS
from meganeura_runtime.backends.base import leaf_types
from meganeura_runtime.backends.webgpu.plan import Plan, Tensor
from meganeura_runtime.export.mgb.training_form import TrainingForm
from meganeura_runtime.io.tensors.stored_tensor import StoredTensor

NOT_DATA = ("counter", LEARNING_RATE)
"""Inputs of a training step that its loop feeds: seed and step, and the rate."""


class MismatchError(Exception):
    """A graph, a plan and tensors are not of one model; the text says how."""


def require_one_model(
    graph: Graph,
    plan: Plan,
    tensors: Mapping[str, StoredTensor],
    training: TrainingForm | None = None,
) -> None:
    """Raise `MismatchError` unless all have the same names, types and shapes."""
    kept, inputs = leaf_types(graph)
    names = {each.name for each in plan.parameters}
    if kept.keys() != tensors.keys() or kept.keys() != names:
        raise MismatchError("its tensors are not the parameters of its graph and of its plan")
    if training is None and (graph.updates or plan.copies):
        raise MismatchError("it changes its parameters, which a compiled model does not")
    outputs = {name: value.type for name, value in graph.outputs.items()}
    for what, wanted, planned in (
        ("parameters", kept, plan.parameters),
        ("inputs", inputs, plan.inputs),
        ("outputs", outputs, plan.outputs),
    ):
        if wanted != _types(planned):
            raise MismatchError(f"the {what} of its graph and of its plan are not the same")
    for name, wanted in kept.items():
        found = tensors[name]
        if (found.stored, found.shape) != (wanted.dtype.value, wanted.shape):
            raise MismatchError(f"its tensor `{name}` is {found}, and its graph wants {wanted}")
    _require_slots(graph, plan)
    if training is not None:
        _require_training(kept, inputs, outputs, training)


def _require_training(
    kept: Mapping[str, TensorType],
    inputs: Mapping[str, TensorType],
    outputs: Mapping[str, TensorType],
    training: TrainingForm,
) -> None:
    """Require that a step and the run that it is of speak of the same tensors."""
    fed = {each.name for each in training.inputs}
    if inputs.keys() - {*NOT_DATA} != fed:
        raise MismatchError("its data is not what its graph is fed")
    if not {each.name for each in training.parameters} <= kept.keys():
        raise MismatchError("its parameters are not those of its graph")
    if LOSS not in outputs or not training.rates:
        raise MismatchError("it has no loss or no learning rate")
    for evaluation in training.evaluations:
        found = _types(evaluation.plan.parameters)
        if any(kept.get(name) != of for name, of in found.items()):
            raise MismatchError("its evaluation is of another model")


def _require_slots(graph: Graph, plan: Plan) -> None:
    """Require disjoint slots of parameters and inputs, and of outputs unless they are one value."""
    outputs = {graph.outputs[each.name].id: each for each in plan.outputs}
    for tensors in (plan.parameters, plan.inputs, tuple(outputs.values())):
        places = [tensor.slot for tensor in tensors if tensor.slot.bytes]
        if len(set(places)) < len(places):
            raise MismatchError("two of its tensors lie in the same place")


def _types(tensors: Sequence[Tensor]) -> dict[str, TensorType]:
    return {each.name: TensorType(each.dtype, each.shape) for each in tensors}
