"""Probabilities where a loss of the library takes logits."""

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.problems.location import Location
from meganeura_dsl.elaborate.problems.training_problems import ProbabilitiesAsLogits
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.summary import Summarized
from meganeura_dsl.elaborate.values import Tensor
from meganeura_dsl.ir import ops
from meganeura_dsl.syntax import ast

_FUNCTIONS = {"cross_entropy": "softmax", "masked_cross_entropy": "softmax", "bce": "sigmoid"}
"""Losses of the library, and what each makes of its logits."""


def normalised_by(value: Tensor) -> str:
    """`softmax` or `sigmoid`, if that gave the value, its axes moved at most; else empty."""
    while isinstance(value.op, ops.Reshape | ops.Transpose):
        value = value.operands[0]
    match value.op:
        case Summarized(normalised_by=function):
            return function
        case ops.Logistic():
            return "sigmoid"
        case ops.Div() if _is_share(*value.operands):
            return "softmax"
        case _:
            return ""


def _is_share(part: Tensor, whole: Tensor) -> bool:
    """True if a value is divided by its own sum, repeated."""
    while isinstance(whole.op, ops.Reshape | ops.Broadcast):
        whole = whole.operands[0]
    return (
        isinstance(part.op, ops.Exp) and isinstance(whole.op, ops.Sum) and whole.operands[0] is part
    )


def note_probabilities(inner: Frame, block: ast.Block, logits: Tensor, called: Location) -> None:
    """Note that the logits of a loss of the library are probabilities already."""
    if not inner.module.is_library or inner.parent is None or inner.parent.module.is_library:
        return
    function = _FUNCTIONS.get(block.name.text)
    given = "" if function is None else normalised_by(logits)
    if function is not None and given:
        problem = ProbabilitiesAsLogits(called, block.name.text, function, given)
        inner.state.body.notes.append(ProblemError(problem))
