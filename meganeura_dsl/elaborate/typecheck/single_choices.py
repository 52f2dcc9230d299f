"""Choices along an axis of size 1, which are the same whatever is given."""

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.training_problems import ChoiceOfOne
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.values import Tensor
from meganeura_dsl.syntax import ast

_LIBRARY = ("softmax", "log_softmax", "cross_entropy", "masked_cross_entropy")
"""Blocks of the library that choose along `axis`, or along the last one."""


def note_applied(inner: Frame, block: ast.Block, value: Tensor, span: Span) -> None:
    """Note a block of the library that chooses along an axis of size 1 of its first input."""
    if block.name.text not in _LIBRARY or not inner.module.is_library or inner.parent is None:
        return
    axis = inner.names.get("axis", -1)
    if isinstance(axis, int):
        note_choice(inner.parent, span, block.name.text, value, axis)


def note_choice(frame: Frame, span: Span, function: str, value: Tensor, axis: int) -> None:
    """Note a function that chooses along an axis of size 1.

    Only what the text of a block or of a `train` says counts: a number of the configuration may
    be 1.
    """
    is_written = frame.state.proof is not None or isinstance(frame.declaration, ast.Train)
    rank = value.type.rank
    if not is_written or frame.parent is not None or frame.module.is_library:
        return
    if -rank <= axis < rank and value.type.shape[axis] == 1:
        problem = ChoiceOfOne(frame.location(span), function, axis % rank, rank)
        frame.state.body.notes.append(ProblemError(problem))
