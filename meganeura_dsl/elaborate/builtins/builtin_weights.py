"""`weights(label)`: the trained parameters of a layer as one value, and what is computed of it.

Operators and functions of one element apply tensor by tensor. A sum is that of all elements.
"""

from collections.abc import Callable, Sequence

from meganeura_dsl.diagnostics.problem import Help, ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.builtins.builtin_call import BuiltinCall
from meganeura_dsl.elaborate.problems.gradient_problems import NoWeights
from meganeura_dsl.elaborate.problems.layer_problems import UnlikeLayers
from meganeura_dsl.elaborate.problems.name_problems import WrongKind
from meganeura_dsl.elaborate.scope.bound_block import BoundBlock
from meganeura_dsl.elaborate.scope.layer_weights import is_known, names_below
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.undecided import NeedsInliningError, UndecidableError
from meganeura_dsl.elaborate.typecheck import tensor_arithmetic
from meganeura_dsl.elaborate.typecheck.tensor_values import equal
from meganeura_dsl.elaborate.values import (
    ElabValue,
    LayerWeights,
    Tensor,
    describe,
    is_number,
    is_tensor,
)
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.symbolic.assumptions import Proved
from meganeura_dsl.syntax import ast

WEIGHTS = "weights"
"""The function that gives the weights of a layer, and the argument that gives a layer others."""
OPERATORS = ("+", "-", "*", "/", "**")
"""The operators of weights."""


def weights(call: BuiltinCall) -> LayerWeights:
    """The trained parameters below a label, as they are now."""
    if isinstance(call.frame.declaration, ast.Def):
        raise call.frame.refuse(
            call.span, "`weights`", "stands in a block or a `train`, not in `def`"
        )
    value = call.option(0, "layer")
    node = call.node.arguments[0].value if call.node.arguments else call.node
    written = " ".join(node.span.text.split())
    if not isinstance(value, BoundBlock):
        cure = "weights are those of a layer: `weights(fc)` of what `x |> fc: linear(8)` labels"
        raise _wrong(call, "the label of a layer", describe(value), cure)
    is_model = value.path is None and isinstance(value.declaration, ast.Model)
    if value.path is None and not is_model:
        cure = Help("label it where it is applied", f"x |> net: {written}(...)")
        raise _wrong(call, "the label of a layer", describe(value), cure)
    items = own_weights(value, call.frame, written, call.span)
    current = call.frame.state.current
    return LayerWeights(written, tuple((inner, current(name)) for inner, name in items.items()))


def own_weights(value: BoundBlock, frame: Frame, written: str, span: Span) -> dict[str, str]:
    """Returns the full names of the trained parameters of a layer, by their names inside of it.

    Raises `ProblemError` for a layer without any, and for one that was not applied.
    """
    proof, body = frame.state.proof, frame.state.body
    if proof is not None and proof.flags_if_proved is not None:
        raise NeedsInliningError(None)
    path = value.path
    if proof is not None and any(f"{path}." in f"{each}." for each in proof.contracts):
        raise UndecidableError(f"the weights of `{written}` are those of a block that is given")
    names = names_below(value, frame)
    found = {inner: name for inner, name in names.items() if body.parameters[name].kind == "param"}
    if not found:
        is_applied = bool(names) or is_known(value, frame)
        raise ProblemError(NoWeights(frame.location(span), written, is_applied))
    return found


def _wrong(call: BuiltinCall, wanted: str, found: str, cure: str | Help) -> ProblemError:
    return ProblemError(WrongKind(call.frame.location(call.span), wanted, found, cure))


# --- what is computed of weights -----------------------------------------------------------------


def combine_weights(
    frame: Frame, span: Span, operator: str, left: ElabValue, right: ElabValue
) -> LayerWeights:
    """Returns `left operator right`, at least one of which is weights, tensor by tensor."""
    of = left if isinstance(left, LayerWeights) else right
    assert isinstance(of, LayerWeights)
    if operator not in OPERATORS:
        cure = f"of weights there are {' '.join(OPERATORS)}, and functions of one element"
        found = f"`{operator}` of {describe(of)}"
        raise ProblemError(WrongKind(frame.location(span), "tensors or numbers", found, cure))
    sides = [_each(frame, span, side, of) for side in (left, right)]
    names = ("the first", "the second")
    results = [
        tensor_arithmetic.elementwise(frame, span, operator, a, b, names)
        for a, b in zip(*sides, strict=True)
    ]
    return of.changed(results)


def _each(frame: Frame, span: Span, side: ElabValue, of: LayerWeights) -> Sequence[ElabValue]:
    """Returns what a side of an operator is for each tensor of weights."""
    if isinstance(side, LayerWeights):
        require_like(frame, span, side, of)
        return side.tensors
    if is_number(side) or (is_tensor(side) and not side.type.rank):
        return [side] * len(of.items)
    wanted = f"a number, a scalar f32[] or weights like those of `{of.layer}`"
    cure = "each tensor has a shape of its own: reduce this one, as by `sum` or `mean`"
    raise ProblemError(WrongKind(frame.location(span), wanted, describe(side), cure))


def require_like(frame: Frame, span: Span, one: LayerWeights, other: LayerWeights) -> None:
    """Raise `ProblemError` unless two weights have the same names and shapes."""
    mine, others = dict(one.items), dict(other.items)
    for name in dict.fromkeys((*mine, *others)):
        a, b = mine.get(name), others.get(name)
        if a is None or b is None or not _is_like(frame, a.type, b.type):
            found, wanted = (str(each.type) if each else "" for each in (a, b))
            location = frame.location(span)
            raise ProblemError(UnlikeLayers(location, one.layer, other.layer, name, found, wanted))


def _is_like(frame: Frame, one: TensorType, other: TensorType) -> bool:
    return one.rank == other.rank and all(
        isinstance(equal(frame, a, b), Proved) for a, b in zip(one.shape, other.shape, strict=True)
    )


def on_weights(apply: Callable[[BuiltinCall], ElabValue]) -> Callable[[BuiltinCall], ElabValue]:
    """Returns a function of one element, of tensors or of weights: there tensor by tensor."""

    def applied(call: BuiltinCall) -> ElabValue:
        of = next((each for each in call.arguments if isinstance(each, LayerWeights)), None)
        if of is None:
            return apply(call)
        sides = [_each(call.frame, call.span, side, of) for side in call.arguments]
        results: list[Tensor] = []
        for given in zip(*sides, strict=True):
            one = BuiltinCall(call.frame, call.node, call.signature, given, call.named)
            result = apply(one)
            assert is_tensor(result)
            results.append(result)
        return of.changed(results)

    return applied


def sum_of_weights(apply: Callable[[BuiltinCall], ElabValue]) -> Callable[[BuiltinCall], ElabValue]:
    """Returns `sum`, which of weights is that of all elements of all tensors."""

    def applied(call: BuiltinCall) -> ElabValue:
        of = call.arguments[0] if call.arguments else None
        if not isinstance(of, LayerWeights):
            return apply(call)
        if len(call.arguments) > 1:
            raise call.fault("takes no axes of weights: it is the sum of all elements")
        frame, span = call.frame, call.span
        parts = [
            tensor_arithmetic.reduce_sum(frame, span, each, tuple(range(each.type.rank)))
            for each in of.tensors
        ]
        total = parts[0]
        for part in parts[1:]:
            names = ("the first", "the second")
            total = tensor_arithmetic.elementwise(frame, span, "+", total, part, names)
        return total

    return applied
