"""Lookup of the layer or block value that the name of a call stands for."""

from meganeura_dsl.diagnostics.problem import Help, ProblemError
from meganeura_dsl.elaborate.body.expressions.labels import path_text
from meganeura_dsl.elaborate.body.layers.inner_layers import layer_inside
from meganeura_dsl.elaborate.problems.layer_problems import NoSuchLabel
from meganeura_dsl.elaborate.problems.name_problems import WrongKind
from meganeura_dsl.elaborate.scope.bound_block import BoundBlock
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.undecided import UndecidableError
from meganeura_dsl.elaborate.scope.unused_values import labels_like, layer_text
from meganeura_dsl.elaborate.values import OpenText
from meganeura_dsl.symbolic.size import Dim
from meganeura_dsl.syntax import ast


def layer_in_scope(call: ast.Call, frame: Frame) -> BoundBlock | None:
    """The layer of this name, or the block that configuration of this name is."""
    if call.path is not None:
        return _numbered(call, call.path, frame)
    layer = frame.layers.get(call.callee) if call.label is None else None
    if layer is not None:
        return layer
    value = frame.names.get(call.callee)
    if isinstance(value, BoundBlock):
        return value
    inside = layer_inside(call.callee, call, frame) if "." in call.callee else None
    if inside is not None and call.label is not None:
        found = f"the layer `{call.callee}`, which has its weights"
        cure = Help("apply it without a label", f"x |> {call.callee}")
        location = frame.location(call.callee_span)
        raise ProblemError(WrongKind(location, "a block, whose weights are new", found, cure))
    return inside


def _numbered(call: ast.Call, path: ast.Path, frame: Frame) -> BoundBlock:
    """The layer whose label has these numbers, `layers[i]`.

    In a proof for all numbers, which of the layers that a loop labelled is left to each model.
    """
    label = path_text(path, frame)
    layer = frame.layers.get(label)
    layer = layer or layer_inside(label, call, frame)
    if layer is not None:
        return layer
    numbers = [part for part in path.parts if not isinstance(part, str)]
    values = [
        frame.evaluate(each.value if isinstance(each, ast.Splice) else each) for each in numbers
    ]
    is_open = bool(frame.loop_labels) or any(isinstance(n, Dim | OpenText) for n in values)
    if frame.state.proof is not None and is_open and labels_like(path, frame.declaration):
        raise UndecidableError(f"which layer `{layer_text(call)}` is depends on numbers")
    raise ProblemError(NoSuchLabel(frame.location(path.span), label))
