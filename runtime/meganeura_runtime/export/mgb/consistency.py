"""Verifies that a graph, a plan and tensors are those of one model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.ir.index_checks import checks_of
from meganeura_dsl.ir.reserved_names import COUNTER, LEARNING_RATE
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.transforms.training_step import LOSS
from meganeura_runtime.backends.base import caches_of, leaf_types
from meganeura_runtime.backends.webgpu.plan import Plan, PlanTensor, Role
from meganeura_runtime.export.mgb.generation_form import DRAWN, STEPPED, GenerationForm
from meganeura_runtime.export.mgb.training_form import TrainingForm
from meganeura_runtime.io.tensors.stored_tensor import StoredTensor

NOT_DATA = (COUNTER, LEARNING_RATE)
"""Inputs of a training step that its loop feeds: seed and step, and the rate."""


class MismatchError(Exception):
    """A graph, a plan and tensors are not of one model; the text says how."""


@dataclass(frozen=True)
class Forms:
    """The forms of a graph: at most one of training and generation; none for a model alone."""

    training: TrainingForm | None = None
    generation: GenerationForm | None = None

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plans beside that of the graph."""
        evaluations = () if self.training is None else self.training.evaluations
        generated = () if self.generation is None else self.generation.plans
        return (*(each.plan for each in evaluations), *generated)


def require_one_model(
    graph: Graph,
    plan: Plan,
    tensors: Mapping[str, StoredTensor],
    forms: Forms,
) -> None:
    """Raise `MismatchError` unless all have the same names, types and shapes."""
    persistent, inputs = leaf_types(graph)
    names = {each.name for each in plan.parameters}
    caches = caches_of(graph)
    if {*persistent} - {*caches} != {*tensors} or persistent.keys() != names:
        raise MismatchError("its tensors are not the parameters of its graph and of its plan")
    changed = {*names} if forms.training is not None else {*caches}
    if (plan.copies and not changed) or not {*graph.updates} <= changed:
        raise MismatchError("it changes its parameters, which a compiled model does not")
    if forms.generation is None and caches:
        raise MismatchError("it has caches, which only a model that generates has")
    outputs = {name: value.type for name, value in graph.outputs.items()}
    for what, wanted, planned in (
        ("parameters", persistent, plan.parameters),
        ("inputs", inputs, plan.inputs),
        ("outputs", outputs, plan.outputs),
    ):
        if wanted != _types(planned):
            raise MismatchError(f"the {what} of its graph and of its plan are not the same")
    checks = {name: (name.dtype, name.below, name.location) for name in checks_of(graph)}
    if checks != {
        each.name: (each.check.dtype, each.check.count, each.check.location)
        for each in plan.outputs
        if each.check is not None
    }:
        raise MismatchError("the indices that its graph and its plan check are not the same")
    for name, found in tensors.items():
        wanted = persistent[name]
        if (found.stored, found.shape) != (wanted.dtype.value, wanted.shape):
            raise MismatchError(f"its tensor `{name}` is {found}, and its graph wants {wanted}")
    _require_slots(graph, plan)
    if forms.training is not None:
        _require_training(persistent, inputs, outputs, forms.training)
    if forms.generation is not None:
        if forms.training is not None:
            raise MismatchError("it is a step of a training run and of a generation")
        _require_generation(plan, caches, forms.generation)


def _require_generation(plan: Plan, caches: Sequence[str], form: GenerationForm) -> None:
    """Require that the steps of a generation keep the same, and give and draw what they should."""
    if {*form.caches} != {*caches}:
        raise MismatchError("its caches are not those of its graph")
    slots = [each for each in plan.buffers if each.role is Role.PARAMETERS]
    steps = [(1, plan), *((each.tokens, each.plan) for each in form.prompts)]
    logits = TensorType(DType.F32, (1, form.vocabulary))
    for tokens, step in steps:
        same = step.parameters == plan.parameters and slots == [
            each for each in step.buffers if each.role is Role.PARAMETERS
        ]
        if not same or tokens > form.capacity:
            raise MismatchError(f"its step of {tokens} tokens is of another model")
        ids = TensorType(DType.I32, (1, tokens))
        if not _is_fed(step, {**STEPPED, "ids": ids}, "ids") or _logits(step) != logits:
            raise MismatchError(f"its step of {tokens} tokens takes or gives something else")
    for draw in form.draws.each:
        fits = _is_fed(draw, {**DRAWN, "logits": logits}, "logits")
        token = TensorType(DType.I32, (1, 1))
        if draw.parameters or draw.copies or not fits or _types(draw.outputs).get("token") != token:
            raise MismatchError("what draws its tokens takes or gives something else")


def _is_fed(plan: Plan, known: Mapping[str, TensorType], needed: str) -> bool:
    """True if the inputs of a plan are among those that are known, and one of them is there."""
    inputs = _types(plan.inputs)
    return needed in inputs and inputs.items() <= known.items()


def _logits(plan: Plan) -> TensorType | None:
    return _types(plan.outputs).get("logits")


def _require_training(
    persistent: Mapping[str, TensorType],
    inputs: Mapping[str, TensorType],
    outputs: Mapping[str, TensorType],
    training: TrainingForm,
) -> None:
    """Require that a step and the run that it is of speak of the same tensors."""
    fed = {each.name for each in training.inputs}
    if inputs.keys() - {*NOT_DATA} != fed:
        raise MismatchError("its data is not what its graph is fed")
    if not {each.name for each in training.parameters} <= persistent.keys():
        raise MismatchError("its parameters are not those of its graph")
    if LOSS not in outputs or not training.rates:
        raise MismatchError("it has no loss or no learning rate")
    for evaluation in training.evaluations:
        found = _types(evaluation.plan.parameters)
        if any(persistent.get(name) != of for name, of in found.items()):
            raise MismatchError("its evaluation is of another model")


def _require_slots(graph: Graph, plan: Plan) -> None:
    """Require disjoint slots of parameters and inputs, and of outputs unless they are one value."""
    outputs = {graph.outputs[each.name].id: each for each in plan.outputs}
    for tensors in (plan.parameters, plan.inputs, tuple(outputs.values())):
        slots = [tensor.slot for tensor in tensors if tensor.slot.bytes]
        if len(set(slots)) < len(slots):
            raise MismatchError("two of its tensors lie in the same place")


def _types(tensors: Sequence[PlanTensor]) -> dict[str, TensorType]:
    return {each.name: TensorType(each.dtype, each.shape) for each in tensors}
