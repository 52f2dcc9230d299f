"""Names that a `grad` is taken with respect to: each binding of one is a separate value.

A builder makes equal computations once, so that `a = relu(x)` and `b = relu(x)` are one value. What
is differentiated with respect to `a` must not count the uses of `b`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from meganeura_dsl.elaborate.values import NamedTensors, is_tensor
from meganeura_dsl.ir.graph import Origin
from meganeura_dsl.ir.ops import Reshape
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.walk import walk

if TYPE_CHECKING:
    from meganeura_dsl.diagnostics.source import Span
    from meganeura_dsl.elaborate.scope.scope import Frame
    from meganeura_dsl.elaborate.values import ElabValue, Tensor

GRAD = "grad"
"""The function that gives a gradient."""


@lru_cache(maxsize=1024)
def gradient_names(declaration: ast.Node | None) -> frozenset[str]:
    """Returns the names that a declaration takes gradients with respect to."""
    if declaration is None or GRAD not in declaration.span.text:
        return frozenset()
    written = (each for node in walk(declaration) if (each := with_respect_to(node)) is not None)
    return frozenset(each.text for each in written if isinstance(each, ast.Name))


def with_respect_to(node: ast.Node) -> ast.Node | None:
    """Returns the last argument of a `grad`; None of a call without one, and of other nodes."""
    if not isinstance(node, ast.Call) or node.callee != GRAD:
        return None
    given = [each.value for each in (*node.arguments, *node.inputs) if each.name is None]
    return given[-1] if given else None


def bound_value(frame: Frame, span: Span, name: str, value: ElabValue) -> ElabValue:
    """Returns what a name is bound to: a separate value where a `grad` is taken by the name."""
    if name not in gradient_names(frame.declaration):
        return value
    if isinstance(value, NamedTensors):
        return value.changed([_separate(frame, span, each) for each in value.tensors])
    if not is_tensor(value) or not value.type.dtype.is_float:
        return value
    return _separate(frame, span, value)


def _separate(frame: Frame, span: Span, value: Tensor) -> Tensor:
    build, filled = frame.build, frame.state.values.fill_values
    with build.at(Origin(frame.user_span(span), frame.path)):
        own = build.add_new(Reshape(value.type.shape), value.type, value)
    if value.id in filled:
        filled[own.id] = filled[value.id]
    return own
